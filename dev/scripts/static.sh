#!/bin/sh
# Builds the command for servers, statically linked and without symbols, with Rust's own linker:
# target/ARCHITECTURE-unknown-linux-musl/release/linmap.
#
#   dev/scripts/static.sh [aarch64|x86_64]    default: aarch64
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
case ${1-aarch64} in
aarch64 | x86_64) musl=${1-aarch64}-unknown-linux-musl ;;
*) echo "$0: no architecture '$1'; aarch64 and x86_64 are known" >&2 && exit 1 ;;
esac
has_musl() { [ -d "$(rustc --print target-libdir --target "$musl" 2>/dev/null)" ]; }
has_musl || { command -v rustup >/dev/null && timeout 120 rustup target add "$musl"; } || true
has_musl || { echo "$0: Rust for $musl is needed, which rustup has (https://rustup.rs): rustup target add $musl" >&2 && exit 1; }
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
export CARGO_PROFILE_RELEASE_STRIP=symbols
cargo build --release -p linmap-cli --target "$musl"
