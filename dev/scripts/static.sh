#!/bin/sh
# Builds the command for arm64 servers, statically linked and without symbols, with Rust's own linker:
# target/aarch64-unknown-linux-musl/release/linmap.
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
musl=aarch64-unknown-linux-musl
has_musl() { [ -d "$(rustc --print target-libdir --target $musl 2>/dev/null)" ]; }
has_musl || { command -v rustup >/dev/null && timeout 120 rustup target add $musl; } || true
has_musl || { echo "$0: Rust for $musl is needed, which rustup has (https://rustup.rs): rustup target add $musl" >&2 && exit 1; }
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CARGO_PROFILE_RELEASE_STRIP=symbols
cargo build --release -p linmap-cli --target $musl
