#!/bin/bash
# Runs the tests in groups and stops at the first group that fails.
#
#   scripts/test.sh [GROUP...]    host, c, image, docs; default: all
set -euo pipefail
cd "$(dirname "$0")/.."

# `cargo tests` is in .cargo/config.toml.
group() {
    case $1 in
    # Many of these wait.
    host) RUST_TEST_THREADS=$((2 * $(nproc))) cargo tests --tests && cargo test --quiet -p house ;;
    c) scripts/test-linux-apply.sh && scripts/test-c.sh ;; # the library for kernels in C
    image) cargo tests --test image ;;                     # boots in QEMU
    # The library of `faults` is the model, whose examples are tested as its own.
    docs) cargo tests --doc --exclude faults ;;
    *) echo "$0: no group '$1'; the groups are host, c, image and docs" && return 1 ;;
    esac
}

[[ $# -gt 0 ]] || set -- host c image docs
passed=0 times=()
for name; do
    echo "== $name"
    start=$SECONDS
    if ! group "$name"; then
        echo "== $name: FAILED after $((SECONDS - start)) s"
        echo "$passed passed, 1 failed"
        exit 1
    fi
    times+=("$name $((SECONDS - start)) s")
    passed=$((passed + 1))
done
echo
printf '%s\n' "${times[@]}"
echo "$passed passed, 0 failed"
