#!/bin/sh
# Checks that the oldest Rust that Cargo.toml names, `rust-version`, accepts all crates.
#
# Ends with 77 if rustup cannot fetch it.
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
PATH=$PATH:${CARGO_HOME:-${HOME-}/.cargo}/bin
oldest=$(dev/scripts/rust.sh --oldest)
kernel=aarch64-unknown-none-softfloat

rustup toolchain install "$oldest" --profile minimal --target "$kernel" >/dev/null 2>&1 ||
    { echo "$0: NOT TESTED: rustup cannot fetch Rust $oldest" && exit 77; }
# Its builds are of no use to another Rust.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/oldest-rust"
rustup run "$oldest" cargo check --quiet --workspace --exclude kernel --exclude bare-metal --exclude bugs --exclude tables --exclude faulty-linmap --all-targets
rustup run "$oldest" cargo check --quiet -p kernel -p bare-metal -p bugs -p tables --target "$kernel"
echo "$0: Rust $oldest accepts all crates"
