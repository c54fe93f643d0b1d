#!/bin/sh
# Builds crates/linmap-c/examples/bare-metal with each C compiler there is: target/c-library/bare-metal-gcc.elf and -clang.elf.
#
#   dev/scripts/c-bare-metal.sh [COMPILER...]    default: gcc clang
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
out=${CARGO_TARGET_DIR:-$PWD/target}/c-library
from=crates/linmap-c/examples/bare-metal
# It runs with the MMU off, too, where an access that is not aligned faults.
flags='-std=gnu11 -O2 -Wall -Wextra -Werror -ffreestanding -fno-builtin -fno-pic -fno-stack-protector -mgeneral-regs-only'
[ $# -gt 0 ] || set -- gcc clang
for compiler; do
    case $compiler in
    gcc) cc='aarch64-linux-gnu-gcc -mstrict-align -fno-tree-loop-distribute-patterns' ;;
    clang) cc='clang --target=aarch64-none-elf -mno-unaligned-access' ;;
    *) echo "$0: no compiler '$compiler'; the compilers are gcc and clang" >&2 && exit 1 ;;
    esac
    objects=
    for file in start.S main.c kernel.c; do
        # shellcheck disable=SC2086 # lists of words
        $cc $flags -I"$out" -c "$from/$file" -o "$out/$compiler-${file%.*}.o"
        objects="$objects $out/$compiler-${file%.*}.o"
    done
    # shellcheck disable=SC2086
    aarch64-linux-gnu-ld -nostdlib --no-warn-rwx-segments -T "$from/link.ld" $objects "$out/linmap.o" \
        -o "$out/bare-metal-$compiler.elf"
done
