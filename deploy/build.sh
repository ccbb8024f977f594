#!/usr/bin/env bash
# Builds both programs into target/release: frognano-bot, and beside it frognano-tools, static, so that it runs in any sandbox.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v cargo >/dev/null 2>&1 || { echo "Rust is missing: install it from https://rustup.rs, then run this again" >&2; exit 1; }
host=$(rustc -vV | sed -n 's/^host: //p')
flags="CARGO_TARGET_$(echo "$host" | tr 'a-z-' 'A-Z_')_RUSTFLAGS"
cargo build --release --locked --bin frognano-bot
env "$flags=-C target-feature=+crt-static" cargo build --release --locked --no-default-features --bin frognano-tools --target "$host"
install -m 0755 "target/$host/release/frognano-tools" target/release/frognano-tools
