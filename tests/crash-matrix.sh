#!/usr/bin/env bash
# Kills each part of the service at each stage of a run, lets it recover, and prints the table. Needs what tests/run.sh needs.
# FROGNANO_TEST_POSTGRES_URL=ADDRESS of an administrator: used in place of a server of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${FROGNANO_TEST_POSTGRES_URL:-}" ]; then
  postgres=$(mktemp -d)
  trap 'tests/postgres/down "$postgres"' EXIT
  FROGNANO_TEST_POSTGRES_URL=$(tests/postgres/up "$postgres")
  export FROGNANO_TEST_POSTGRES_URL
fi
cargo test --locked --test stories -- --ignored --exact --nocapture crash_matrix::the_whole_matrix
