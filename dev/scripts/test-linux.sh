#!/bin/sh
# Reads the tables of Debian's kernels, booted under QEMU, from every kind of SOURCE.
#
#   dev/scripts/test-linux.sh [ARGUMENTS of the test...]
#
# Kernels for arm64 with 4K and 16K pages, some of their modules, busybox, kexec and makedumpfile are fetched from Debian's
# archive into target/linux, if they are not there yet, and are not installed. LINMAP_DEBIAN names a mirror; the default is
# that of this machine's apt. Linux 6.1 and 6.12 are required. Other releases come and go with Debian's suites: the
# available ones are tested, the others are listed.
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
linux=$target/linux
musl=aarch64-unknown-linux-musl
always='6.1 6.12 6.12-16k'
others='6.17 6.18 7.0 7.2 7.2-16k 7.3'
with_modules='6.12 6.12-16k 7.2'

die() {
    printf 'test-linux: %s\n' "$*" >&2
    exit 1
}

archive=$linux/apt
# shellcheck source=dev/scripts/debian.sh
. dev/scripts/debian.sh

# kernel VERSION: fetches the newest kernel of that release from any suite, if one has it; `-16k` at its end is the page size.
# Of the releases in `with_modules`, some modules of the same build are fetched as well.
kernel() {
    release=${1%-16k}
    flavour=arm64${1#"$release"}
    case " $with_modules " in *" $1 "*) modules=$linux/modules-$1 ;; *) modules= ;; esac
    if [ -e "$linux/vmlinuz-$1" ] && [ -e "${modules:-$linux}" ]; then return 0; fi
    lists
    package=$(kernel_package "$release" "$flavour")
    [ "$package" ] || return 0
    set -- "$package" 'vmlinuz*' "$linux/vmlinuz-$1"
    case $package in
    linux-binary-*) fetch "$@" && set -- "linux-modules-${package#linux-binary-}" ;;
    *) [ "$modules" ] || fetch "$@" ;;
    esac
    [ -z "$modules" ] || modules_of "$modules" "$@"
}

# modules_of DIRECTORY PACKAGE [FILE PLACE]...: stores modules that need no others, and more files of their package.
modules_of() {
    new=$1.new
    rm -rf "$new"
    mkdir -p "$new"
    directory=$1
    shift
    fetch "$@" block/loop.ko.xz "$new/loop.ko.xz" net/dummy.ko.xz "$new/dummy.ko.xz" \
        block/virtio_blk.ko.xz "$new/virtio_blk.ko.xz"
    xz -d "$new"/*.xz
    mv "$new" "$directory"
}

# Fetches kexec and makedumpfile, which a crash takes, and the libraries that they need.
crash_tools() {
    [ ! -e "$linux/crash" ] || return 0
    lists
    programs "$linux/crash" 'lib(c6|bz2|dw|elf|lz|xen|zstd)[^ ]*|zlib1g' makedumpfile=usr/bin/makedumpfile kexec-tools=usr/sbin/kexec
}

mkdir -p "$linux"
rm -f "$archive/fresh"
for version in $always; do
    kernel "$version"
    [ -e "$linux/vmlinuz-$version" ] || die "Debian's archive has no Linux $version for arm64"
done
[ -e "$linux/busybox" ] || { lists && fetch busybox-static/bookworm bin/busybox "$linux/busybox"; }
crash_tools

# Without the network the others are missing, and are listed at the end.
for version in $others; do
    (kernel "$version") || true
done

dev/scripts/static.sh
cp "$target/$musl/release/linmap" "$linux/linmap"
cp "$target/linmap.img" "$linux/linmap.img"
rustc --edition 2024 -O -C strip=symbols --target $musl -C linker=rust-lld \
    -o "$linux/taker" crates/linmap-cli/tests/linux/taker/main.rs
LINMAP_LINUX=$linux cargo test -p linmap-cli --test linux -- --test-threads=1 "$@"
for version in $others; do
    [ -e "$linux/vmlinuz-$version" ] ||
        echo "test-linux: NOT TESTED: Linux $version, which Debian's archive does not have"
done
