#!/bin/sh
# Builds the plugin of `make counts` and prints its file, target/judge/linmap-lines-1.so. It is for QEMU 7.2 to 8.2. Exit status 77, and a
# line that says why, if the QEMU on the path does not load it.
#
#   dev/scripts/lines.sh            for qemu-system-aarch64
#   dev/scripts/lines.sh PROGRAM    for another QEMU
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
qemu=${1:-qemu-system-aarch64}

none() { echo "$1" >&2 && exit 77; }

version=$("$qemu" --version 2>/dev/null | sed -n '1s/.*version \([0-9]*\).*/\1/p') || true
case $version in
7 | 8) ;;
'') none "there is no $qemu" ;;
*) none "QEMU $version takes other plugins than QEMU 7.2, which this one is for" ;;
esac

# A folder of its own, as the plugin of `linmap judge` has the same name.
dev/scripts/rust.sh cargo build --quiet -p linmap-judge-plugin --release --target-dir "$target/lines" \
    --no-default-features --features lines >&2
plugin=$target/judge/linmap-lines-1.so
mkdir -p "$target/judge"
# Another may be loading it.
cp "$target/lines/release/liblinmap_judge_plugin.so" "$plugin.$$"
mv "$plugin.$$" "$plugin"

# A machine without anything loads it, and ends.
echo quit | "$qemu" -M none -nodefaults -display none -monitor stdio -plugin "file=$plugin,out=/dev/null" >/dev/null 2>&1 ||
    none "$qemu was built without plugins, or takes others"
echo "$plugin"
