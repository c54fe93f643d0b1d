#!/bin/bash
# Builds images for one page size: target/fixed/fixed-4k.img, -16k and -64k.
#
#   dev/scripts/fixed.sh [SIZE...]    default: 4k 16k 64k
set -euo pipefail
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
fixed=${CARGO_TARGET_DIR:-$PWD/target}/fixed # its own target directory keeps the ELF of linmap.img
elf=$fixed/$(dev/scripts/kernel-target.sh)/image/kernel

# What is debugged is linmap.img.
export CARGO_PROFILE_IMAGE_DEBUG=false
[[ $# -gt 0 ]] || set -- 4k 16k 64k
for size; do
    dev/scripts/rust.sh --kernel cargo build --quiet -p kernel --bin kernel --profile image \
        --features "fixed-$size" --target-dir "$fixed"
    cargo run --quiet -p flatten -- "$elf" "$fixed/fixed-$size.img"
    cp "$elf" "$fixed/fixed-$size.elf"
done
