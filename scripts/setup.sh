#!/bin/sh
# Installs the programs that this machine lacks to build and boot linmap, and nothing else.
#
#   scripts/setup.sh           does nothing, and prints nothing, if nothing is missing
#   scripts/setup.sh --test    installs what only tests use as well: firmware, debuggers
#   scripts/setup.sh --lint    installs rustfmt, clippy and shellcheck as well
#   scripts/setup.sh --c       installs gcc and binutils for arm64, and clang, as well
#   scripts/setup.sh --linux   installs what builds Linux for arm64 as well
#
# Rust comes from rustup if that is installed and can fetch the kernel's target, otherwise from Debian.
set -eu
cd "$(dirname "$0")/.."
. scripts/help.sh
PATH=$PATH:${CARGO_HOME:-${HOME-}/.cargo}/bin
tests='' lint='' c='' linux=''
case ${1-} in
--test) tests=yes ;;
--lint) lint=yes ;;
--c) c=yes ;;
--linux) linux=yes ;;
'') ;;
*) echo "scripts/setup.sh: no option '$1'; --help lists them" >&2 && exit 2 ;;
esac

has() { command -v "$1" >/dev/null 2>&1; }
rust() { scripts/rust.sh "$@" >/dev/null 2>&1; }
# Looks next to the rustc in use, because the clippy of another Rust cannot read the builds of this one.
# shellcheck disable=SC2016 # for the inner shell
beside_rustc() { rust sh -c 'bin=$(dirname "$(command -v rustc)") && '"$1"; }
# shellcheck disable=SC2016
linters() { beside_rustc '"$bin/cargo-fmt" --version && "$bin/cargo-clippy" --version'; }
die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

missing=
has make || missing="$missing make"
has cc || missing="$missing gcc libc6-dev"
has qemu-system-aarch64 || missing="$missing qemu-system-arm"
if [ "$tests" ]; then
    # The tests of tools/.
    has gdb-multiarch || missing="$missing gdb-multiarch"
    has drgn || missing="$missing python3-drgn"
    # Firmware that the image starts from under QEMU.
    [ -e /usr/share/qemu-efi-aarch64/QEMU_EFI.fd ] || missing="$missing qemu-efi-aarch64"
    [ -e /usr/lib/u-boot/qemu_arm64/u-boot.bin ] || missing="$missing u-boot-qemu"
    # The test of secure boot.
    has sbsign || missing="$missing sbsigntool"
    has openssl || missing="$missing openssl"
fi
if [ "$lint" ]; then
    has shellcheck || missing="$missing shellcheck"
fi
if [ "$c" ]; then
    has aarch64-linux-gnu-gcc || missing="$missing gcc-aarch64-linux-gnu"
    has clang || missing="$missing clang"
fi

if [ "$linux" ]; then
    for pair in aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu flex:flex bison:bison bc:bc cpio:cpio xz:xz-utils; do
        has "${pair%%:*}" || missing="$missing ${pair#*:}"
    done
    [ -e /usr/include/libelf.h ] || missing="$missing libelf-dev"
    [ -e /usr/include/openssl/opensslv.h ] || missing="$missing libssl-dev"
    # Linux's own tests are programs.
    [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing="$missing libc6-dev-arm64-cross"
fi

if ! rust true; then
    ! has rustup || timeout 120 rustup target add "${LINMAP_KERNEL_TARGET:-aarch64-unknown-none-softfloat}" || true
    rust true || missing="$missing rustc-web cargo-web libstd-rust-web-dev:arm64 musl-dev:arm64 lld ca-certificates"
fi
if [ "$lint" ] && ! linters; then
    # shellcheck disable=SC2016
    ! beside_rustc '[ -x "$bin/rustup" ]' || timeout 120 rustup component add rustfmt clippy || true
    linters || missing="$missing rustfmt-web rust-web-clippy"
fi
[ "$missing" ] || exit 0

# The rest installs Debian's packages, as root.
has apt-get || die "missing Debian packages:$missing
    install their equivalents on this system; for Rust: https://rustup.rs"

minimum=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
install="apt-get install --no-install-recommends$missing"
# shellcheck disable=SC2086 # a list of words
simulated() { apt-get --simulate install --no-install-recommends $missing 2>/dev/null; }
# Succeeds if Debian's Rust is new enough, or is not needed.
new_enough() {
    case $missing in
    *rustc-web*)
        candidate=$(apt-cache policy rustc-web | sed -n 's/.*Candidate: //p')
        dpkg --compare-versions "$candidate" ge "$minimum" 2>/dev/null
        ;;
    esac
}

prepare=
case $missing in
*:arm64*)
    { dpkg --print-architecture && dpkg --print-foreign-architectures; } | grep -qx arm64 ||
        prepare='dpkg --add-architecture arm64 && '
    ;;
esac
if [ "$prepare" ] || ! simulated >/dev/null || ! new_enough; then
    prepare="${prepare}apt-get update"
fi

if [ "$(id -u)" = 0 ]; then
    sudo=
elif has sudo && [ -t 0 ]; then
    sudo=sudo
elif has sudo && sudo -n true 2>/dev/null; then
    sudo='sudo -n'
else
    die "missing:$missing
Installing them needs root. As root, run:
    ${prepare:+$prepare && }$install"
fi
as_root() { $sudo env DEBIAN_FRONTEND=noninteractive sh -c "$1"; }

echo "setup: installing$missing"
[ -z "$prepare" ] || as_root "$prepare"
new_enough || die "rustc-web is older than Rust $minimum here
    enable Debian's security archive, which has a newer one, or install Rust from https://rustup.rs"
# Only an older Rust of Debian's may be removed.
removed=$(simulated | sed -n 's/^Remv \([^ :]*\).*/\1/p' | grep -vxE 'rustc|cargo|rustfmt|rust-.*|libstd-rust-.*' || true)
[ -z "$removed" ] || die "apt would remove $(echo "$removed" | tr '\n' ' ')
If you agree, run as root:
    $install"
# The package lists may be out of date: update them once and try again.
install="$install -y -q -o DPkg::Lock::Timeout=120"
as_root "$install" || as_root "apt-get update && $install"

[ -z "$lint" ] || linters || die "rustfmt and clippy are still missing"
rust true || scripts/rust.sh true
