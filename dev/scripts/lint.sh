#!/bin/sh
# Checks formatting, clippy, rustdoc, the house rules, links in documents, shell scripts and licences. A warning is an error.
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh

cargo fmt --all --check
# Random tests take their seeds from test-support, so that one variable repeats them.
if git grep -n 'use proptest::prelude' -- '*.rs' ':!dev/test-support'; then
    echo "$0: use 'test_support::prelude' instead, which prints seeds and repeats them" >&2
    exit 1
fi
# `1 << n` may be 32 bits wide where 64 are meant, unless literals without a type are refused. Tests may have them.
if git ls-files '*/src/lib.rs' '*/src/main.rs' ':!crates/linmap-model/faults/library' | xargs grep -L clippy::default_numeric_fallback | grep .; then
    echo "$0: deny 'clippy::default_numeric_fallback' in these, as the other crates do" >&2
    exit 1
fi
cargo clippy --all-targets --features linmap-model/cli -- -D warnings
cargo clippy -p kernel --lib --tests -- -D warnings
# Not in a plain build: tests that boot images, and the book as HTML.
cargo clippy -p linmap-cli --test image --test linux -- -D warnings
# The plugins, one for each version of QEMU.
cargo clippy -p linmap-judge-plugin -- -D warnings
cargo clippy -p linmap-judge-plugin --features api-7 -- -D warnings
cargo clippy -p linmap-judge-plugin --no-default-features --features lines -- -D warnings
cargo clippy -p book --features html --all-targets --test commands -- -D warnings
dev/scripts/rust.sh --kernel cargo clippy -p kernel -p bare-metal -p bugs -p tables --profile image -- -D warnings
dev/scripts/rust.sh --kernel cargo clippy -p linmap-c --lib --profile c-library --features object -- -D warnings
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
# The library's `arm64` is not on the host.
RUSTDOCFLAGS='-D warnings' dev/scripts/rust.sh --kernel cargo doc -p linmap --no-deps --quiet
dev/scripts/package.sh
# Every link in README.md, its siblings and the book leads somewhere.
cargo run --quiet -p book -- check

# The house rules: no circle of files and no arrow against the order of rooms, in any crate, and plain English in the
# paths that are listed here.
house() { cargo run --quiet -p house -- "$@"; }
house lint
house words crates image examples dev linux docs ./*.md .github Makefile .ci/run

# linux/test/init names the shell of the machine that it is for.
{ git grep -lE '^#!/bin/(ba)?sh' && echo linux/test/init; } | xargs shellcheck
# setup does not install this one, because no build needs it.
if cargo deny --version >/dev/null 2>&1; then cargo deny check --config dev/deny.toml licenses bans sources; fi
