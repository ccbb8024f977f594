#!/usr/bin/env bash
# The whole way on this machine: installs what is missing, builds, and runs `frognano-bot demo` with the arguments given here.
set -euo pipefail
cd "$(dirname "$0")/.."

bash deploy/install-needs.sh \
  "git=git=clones the repository and serves the demonstration forge" \
  "bwrap=bubblewrap=makes the sandbox" \
  "python3=python3=runs the demonstration project's tests" \
  "cc=build-essential=links the programs"
bash deploy/build.sh
exec target/release/frognano-bot demo "$@"
