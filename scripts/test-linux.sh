#!/bin/sh
# Reads the tables of Debian's kernels, booted under QEMU, from every kind of SOURCE.
#
#   scripts/test-linux.sh [ARGUMENTS of the test...]
#
# Kernels and busybox for arm64 are fetched from Debian's archive into target/linux, if they are not there yet, and
# are not installed. LINMAP_DEBIAN names a mirror; the default is that of this machine's apt. Linux 6.1 and 6.12 are
# required. Other releases come and go with Debian's suites: the available ones are tested, the others are listed.
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
linux=$target/linux
musl=aarch64-unknown-linux-musl
always='6.1 6.12'
others='6.17 6.18 7.0 7.2 7.3'

die() {
    printf 'test-linux: %s\n' "$*" >&2
    exit 1
}

archive=$linux/apt
# shellcheck source=scripts/debian.sh
. scripts/debian.sh

# kernel VERSION: fetches the newest kernel of that release from any suite, if one has it.
kernel() {
    [ ! -e "$linux/vmlinuz-$1" ] || return 0
    lists
    # Since Linux 7 Debian has the kernel itself in a package of its own.
    for kind in binary image; do
        package=$(apt apt-cache search --names-only "^linux-$kind-$1[.][^-]*(-[0-9]+)?-arm64\$" |
            cut -d' ' -f1 | sort -V | tail -n 1)
        [ -z "$package" ] || break
    done
    [ "$package" ] || return 0
    fetch "$package" 'vmlinuz*' "$linux/vmlinuz-$1"
}

mkdir -p "$linux"
rm -f "$archive/fresh"
for version in $always; do
    kernel "$version"
    [ -e "$linux/vmlinuz-$version" ] || die "Debian's archive has no Linux $version for arm64"
done
[ -e "$linux/busybox" ] || { lists && fetch busybox-static/bookworm bin/busybox "$linux/busybox"; }

# Without the network the others are missing, and are listed at the end.
for version in $others; do
    (kernel "$version") || true
done

has_musl() { [ -d "$(rustc --print target-libdir --target $musl 2>/dev/null)" ]; }
has_musl || { command -v rustup >/dev/null && timeout 120 rustup target add $musl; } || true
has_musl || die "the static command needs Rust for $musl: rustup target add $musl"
scripts/static.sh
cp "$target/$musl/release/linmap" "$linux/linmap"
cp "$target/linmap.img" "$linux/linmap.img"
rustc --edition 2024 -O -C strip=symbols --target $musl -C linker=rust-lld \
    -o "$linux/taker" linmap-cli/tests/linux/taker/main.rs
LINMAP_LINUX=$linux cargo test -p linmap-cli --test linux -- --test-threads=1 "$@"
for version in $others; do
    [ -e "$linux/vmlinuz-$version" ] ||
        echo "test-linux: NOT TESTED: Linux $version, which Debian's archive does not have"
done
