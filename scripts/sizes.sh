#!/bin/bash
# What the images for one page size take beside the one for all. RAM held is what is not free after booting
# with 1 GiB, and its ratio to the one for all at the same page size.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
fixed=$target/fixed
kernel=$(scripts/kernel-target.sh)/image/kernel

flatten() { cargo run --quiet -p flatten -- "$@"; }

# held IMAGE PAGESIZE: the bytes of RAM that are not free after a boot.
held() {
    "$target/release/linmap" boot --json --ram 1G --cpus 1 --page-size "$2" --image "$1" 2>/dev/null |
        awk '/"free_bytes"/ { print 2 ^ 30 - int($2); found = 1 } END { exit !found }'
}

# row NAME ELF IMAGE [PAGESIZE HELD ONE-FOR-ALL-HELD]...
row() {
    local name=$1 image=$3 text rodata data bss
    { read -r text _ && read -r rodata _ && read -r data bss; } < <(flatten --sizes "$2")
    shift 3
    printf '%-10s %9d %9d %6d %9d %9d' "$name" "$text" "$rodata" "$data" "$bss" "$(stat -c %s "$image")"
    while [[ $# -gt 0 ]]; do
        printf '  %4s %9d' "$1" "$2"
        [[ -z $3 ]] || awk -v a="$2" -v b="$3" 'BEGIN { printf "  %.3f", a / b }'
        shift 3
    done
    echo
}

printf '%-10s %9s %9s %6s %9s %9s  %s\n' image text rodata data bss file 'RAM held'
declare -A all
for size in 4k 16k 64k; do all[$size]=$(held "$target/linmap.img" $size); done
row one-for-all "$target/$kernel" "$target/linmap.img" \
    4k "${all[4k]}" '' 16k "${all[16k]}" '' 64k "${all[64k]}" ''
for size in 4k 16k 64k; do
    image=$fixed/fixed-$size.img
    row "fixed-$size" "$fixed/fixed-$size.elf" "$image" $size "$(held "$image" $size)" "${all[$size]}"
done
