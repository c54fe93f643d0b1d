#!/bin/sh
# Formatting, clippy, rustdoc, shell scripts, licences: a warning is an error.
set -eu
cd "$(dirname "$0")/.."

cargo fmt --all --check
# Random cases have seeds that one variable repeats.
if git grep -n 'use proptest::prelude' -- '*.rs' ':!test-support'; then
    echo "$0: 'use test_support::prelude' instead, for seeds that are printed and can be repeated" >&2
    exit 1
fi
cargo clippy --all-targets --features linmap-model/cli -- -D warnings
cargo clippy -p kernel-plan -p kernel --lib --tests -- -D warnings
cargo clippy -p linmap-cli --test image -- -D warnings
scripts/rust.sh --kernel cargo clippy -p kernel -p bare-metal --profile image -- -D warnings
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
# The library's `arm64` is not on the host.
RUSTDOCFLAGS='-D warnings' scripts/rust.sh --kernel cargo doc -p linmap --no-deps --quiet
scripts/package.sh

# These two are not needed to build anything, so setup does not install them.
if command -v shellcheck >/dev/null; then shellcheck scripts/*.sh .ci/run; fi
if cargo deny --version >/dev/null 2>&1; then cargo deny check licenses bans sources; fi
