#!/bin/sh
# Builds linmap for kernels in C: linmap.o, liblinmap.a and linmap.h.
#
#   dev/scripts/c-library.sh                         for arm64: target/c-library
#   dev/scripts/c-library.sh --host                  for this machine, to try it out and to test: target/c-library/host
#   dev/scripts/c-library.sh [--host] --features F   with features of linmap-c, for example "locks-64 fixed-4k"
#
# The object has no debug information and no unwind tables, and exports linmap_* alone. It needs memcpy, memset and the
# functions that linmap.h lists.
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
out=$target/c-library rust='dev/scripts/rust.sh --kernel' objcopy=aarch64-linux-gnu-objcopy features=object
if [ "${1-}" = --host ]; then
    out=$out/host rust=dev/scripts/rust.sh objcopy=objcopy
    shift
else
    # Without floating point, and with no unaligned access: a table may be made before the MMU is on.
    export LINMAP_KERNEL_TARGET=aarch64-unknown-none-softfloat
    # With frame records, by which a kernel's stack traces go on to its own callers.
    export CARGO_TARGET_AARCH64_UNKNOWN_NONE_SOFTFLOAT_RUSTFLAGS=-Cforce-frame-pointers=yes
fi
[ "${1-}" != --features ] || features="object $2"

# Cargo makes it once for each choice, so it stays.
raw=$target/c-build/$(echo "$objcopy $features" | tr ' ' _).o
mkdir -p "$out" "$target/c-build"
$rust cargo rustc --quiet -p linmap-c --lib --crate-type staticlib --profile c-library --features "$features" \
    --target-dir "$target/c-build" -- --emit=obj="$raw"
"$objcopy" --remove-section='.eh_frame*' --remove-section='.rela.eh_frame*' --remove-section='.comment' \
    --remove-section='.debug*' --remove-section='.rela.debug*' \
    --wildcard --keep-global-symbol='linmap_*' "$raw" "$out/linmap.o"
rm -f "$out/liblinmap.a"
"${objcopy%objcopy}ar" rcsD "$out/liblinmap.a" "$out/linmap.o"
cp crates/linmap-c/linmap.h "$out"
