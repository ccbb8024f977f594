#!/usr/bin/env bash
# Everything that must hold: format, lints, all tests. Installs what the tests need and is missing.
# FROGNANO_TEST_POSTGRES_URL=ADDRESS of an administrator: the stories use that server in place of one of their own.
# FROGNANO_TEST_PYTEST=FOLDER of a virtualenv with pytest: used in place of target/pytest, which is made once.
# FROGNANO_TEST_SCHEMATHESIS=FOLDER of a virtualenv with schemathesis: used in place of target/schemathesis, which is made once.
# FROGNANO_TEST_LLAMA=FOLDER, made by tests/llama/install.sh: also the stories of a small real model.
set -euo pipefail
cd "$(dirname "$0")/.."

bash tests/needs.sh
for component in rustfmt clippy; do
  cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || rustup component add "$component"
done

step() { printf '\n== %s\n' "$*"; }
step "format";  cargo fmt --check
step "lints";   cargo clippy --locked --all-targets --features tokenizer -- -D warnings
step "lints of the program inside the sandbox, built alone"; cargo clippy --locked --no-default-features --bin frognano-tools -- -D warnings
step "static frognano-tools"
host=$(rustc -vV | sed -n 's/^host: //p')
flags="CARGO_TARGET_$(echo "$host" | tr 'a-z-' 'A-Z_')_RUSTFLAGS"
env "$flags=-C target-feature=+crt-static" cargo build --locked --release --no-default-features --bin frognano-tools --target "$host"
export FROGNANO_TOOLS="$PWD/target/$host/release/frognano-tools"
# Of the machine's own Python, which the sandbox shows; kept between runs.
if [ -z "${FROGNANO_TEST_PYTEST:-}" ]; then
  step "pytest"
  export FROGNANO_TEST_PYTEST="$PWD/target/pytest"
  if ! "$FROGNANO_TEST_PYTEST/bin/python" -c 'import pytest; assert pytest.__version__ == "8.4.2"' 2>/dev/null; then
    /usr/bin/python3 -m venv --clear "$FROGNANO_TEST_PYTEST"
    "$FROGNANO_TEST_PYTEST/bin/python" -m pip install --quiet --disable-pip-version-check pytest==8.4.2
  fi
fi
if command -v npm >/dev/null && ! cmp -s tests/browser/package-lock.json target/browser-tools.lock; then
  step "what drives the browser"
  if npm ci --prefix tests/browser --ignore-scripts --no-audit --no-fund --silent; then
    cp tests/browser/package-lock.json target/browser-tools.lock
  else
    echo "it can't be had: nothing will be told of the pages in a real browser"
  fi
fi
# What tries the API by its description; kept between runs.
if [ -z "${FROGNANO_TEST_SCHEMATHESIS:-}" ]; then
  step "schemathesis"
  export FROGNANO_TEST_SCHEMATHESIS="$PWD/target/schemathesis"
  if ! "$FROGNANO_TEST_SCHEMATHESIS/bin/schemathesis" --version 2>/dev/null | grep -q '4\.32\.5'; then
    /usr/bin/python3 -m venv --clear "$FROGNANO_TEST_SCHEMATHESIS"
    "$FROGNANO_TEST_SCHEMATHESIS/bin/python" -m pip install --quiet --disable-pip-version-check schemathesis==4.32.5
  fi
fi
if [ -z "${FROGNANO_TEST_POSTGRES_URL:-}" ]; then
  postgres=$(mktemp -d)
  trap 'tests/postgres/down "$postgres"' EXIT
  FROGNANO_TEST_POSTGRES_URL=$(tests/postgres/up "$postgres")
  export FROGNANO_TEST_POSTGRES_URL
fi
step "tests"; cargo test --locked --lib --bins; cargo test --locked --doc
# By themselves: these measure time, or copy a program and start the copy. The rest waits more than it works.
step "stories of the tools and the sandbox"; cargo test --locked --test stories -- --test-threads=1 tools:: sandbox::
step "stories"; env -u FROGNANO_TEST_LLAMA cargo test --locked --test stories -- \
  --skip tools:: --skip sandbox:: --skip guard::every_attack --skip guard::the_cases_of_another_folder --test-threads=$((2 * $(nproc)))
# With its rates, and a plain word where the cases of another folder are not there (FROGNANO_GUARD_CASES).
step "attack suite of the guard"; cargo test --locked --test stories -- --nocapture guard::every_attack guard::the_cases_of_another_folder
step "stories of the whole service, with PostgreSQL in place of SQLite"
FROGNANO_TEST_DATABASE=postgres env -u FROGNANO_TEST_LLAMA cargo test --locked --test stories -- \
  --test-threads=$((2 * $(nproc))) main_job:: crashes:: nothing_missed:: nothing_twice::
if [ -n "${FROGNANO_TEST_LLAMA:-}" ]; then
  step "stories of a real model"; cargo test --locked --test stories llama::
fi
step "tests of the feature tokenizer"
cargo test --locked --features tokenizer --lib -- leaf::tokenizer leaf::context
