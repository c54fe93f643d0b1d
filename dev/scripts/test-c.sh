#!/bin/bash
# Tests linmap for kernels in C: the header, the object, the example and the tests in C under sanitizers, and the
# bare-metal example by each compiler under QEMU.
set -euo pipefail
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
out=${CARGO_TARGET_DIR:-$PWD/target}/c-library
host=crates/linmap-c/examples/host
dev/scripts/setup.sh --c

sanitized() {
    gcc -std=c11 -Wall -Wextra -Werror -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all \
        -I"$out/host" -I"$host" "$1" "$host/kernel.c" "$out/host/linmap.o" -o "$out/host/$2" "${@:3}"
    "$out/host/$2"
}
# One lock, then 64.
for features in '' locks-64; do
    dev/scripts/c-library.sh --host --features "$features"
    sanitized "$host/main.c" example ${features:+-DLINMAP_LOCKS_64}
    for test in errors context adopted; do
        sanitized crates/linmap-c/tests/c/$test.c $test ${features:+-DLINMAP_LOCKS_64}
    done
done

# Debian's Rust does not have the target of the object.
if ! LINMAP_KERNEL_TARGET=aarch64-unknown-none-softfloat dev/scripts/rust.sh true 2>"$out/log"; then
    echo "$0: NOT TESTED: the object for arm64 and the bare-metal example, which need rustup's aarch64-unknown-none-softfloat"
    exit 0
fi
dev/scripts/c-library.sh
LINMAP_OBJECT=$out/linmap.o cargo test -p linmap-c -- --include-ignored
dev/scripts/c-bare-metal.sh
for compiler in gcc clang; do
    qemu-system-aarch64 -M virt -cpu max -m 512M -nic none -nographic -kernel "$out/bare-metal-$compiler.elf" |
        tee "$out/$compiler.log"
    tail -n 1 "$out/$compiler.log" | grep -q '^passed' || { echo "$0: the kernel built by $compiler has failed" >&2 && exit 1; }
done
