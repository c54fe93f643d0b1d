#!/bin/sh
# Builds the command for arm64 servers, statically linked and without symbols, with Rust's own linker:
# target/aarch64-unknown-linux-musl/release/linmap.
set -eu
cd "$(dirname "$0")/.."
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CARGO_PROFILE_RELEASE_STRIP=symbols
cargo build --release -p linmap-cli --target aarch64-unknown-linux-musl
