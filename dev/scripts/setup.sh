#!/bin/sh
# Installs the programs that this machine lacks to build and boot linmap, and nothing else.
#
#   dev/scripts/setup.sh             does nothing, and prints nothing, if nothing is missing
#   dev/scripts/setup.sh OPTION...   installs more as well, all in one go
#       --test    what only tests use: firmware, debuggers
#       --lint    rustfmt, clippy and shellcheck
#       --c       gcc and binutils for arm64, and clang
#       --linux   what builds Linux for arm64
#       --cycles  llvm-mca and llvm-objdump, of LLVM 19 if none newer is there
#       --aarch64, --x86_64
#                 what builds Linux programs for such machines, static ones as well: gcc, the C library, Rust's libraries
#
# It says first what it installs, which needs root, and stops where a package would have to go. Rust comes from rustup if that is
# installed and can fetch the kernel's target; otherwise dev/scripts/debian-rust.sh fetches it, without root.
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
PATH=$PATH:${CARGO_HOME:-${HOME-}/.cargo}/bin
tests='' lint='' c='' linux='' cycles='' machines=''
for option; do
    case $option in
    --test) tests=yes ;;
    --lint) lint=yes ;;
    --c) c=yes ;;
    --linux) linux=yes ;;
    --cycles) cycles=yes ;;
    --aarch64 | --x86_64) machines="$machines ${option#--}" ;;
    *) echo "dev/scripts/setup.sh: no option '$option'; --help lists them" >&2 && exit 2 ;;
    esac
done

has() { command -v "$1" >/dev/null 2>&1; }
rust() { dev/scripts/rust.sh "$@" >/dev/null 2>&1; }
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
    # The tests of crates/linmap-cli/tools.
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
if [ "$cycles" ]; then
    # Older ones have no model of Neoverse V2, and do not say so.
    new_llvm() {
        for llvm in 19 20 21 22 23 24 25 26 27 28 29; do ! has "llvm-mca-$llvm" || return 0; done
        llvm=$(llvm-mca --version 2>/dev/null | sed -n 's/.*LLVM version \([0-9]*\).*/\1/p')
        [ "${llvm:-0}" -ge 19 ]
    }
    new_llvm || missing="$missing llvm-19"
fi
for machine in $machines; do
    # Its own compiler is there already.
    [ "$machine" != "$(uname -m)" ] || continue
    case $machine in
    aarch64) gcc=gcc-aarch64-linux-gnu libc=libc6-dev-arm64-cross ;;
    x86_64) gcc=gcc-x86-64-linux-gnu libc=libc6-dev-amd64-cross ;;
    esac
    has "$machine-linux-gnu-gcc" || missing="$missing $gcc"
    [ -e "/usr/$machine-linux-gnu/include/stdio.h" ] || missing="$missing $libc"
done

rustup_kernel() {
    ! has rustup || timeout 120 rustup target add "${LINMAP_KERNEL_TARGET:-aarch64-unknown-none-softfloat}" || true
    rust true
}
# shellcheck disable=SC2016
rustup_linters() {
    ! beside_rustc '[ -x "$bin/rustup" ]' || timeout 120 rustup component add rustfmt clippy || true
    linters
}
# shellcheck disable=SC2016
has_target() { rust sh -c '[ -d "$(rustc --print target-libdir --target "$1")" ]' sh "$1"; }
rustup_target() {
    # shellcheck disable=SC2016
    ! beside_rustc '[ -x "$bin/rustup" ]' || timeout 120 rustup target add "$1" || true
    has_target "$1"
}
rust true || rustup_kernel || dev/scripts/debian-rust.sh
dev/scripts/rust.sh true
[ -z "$lint" ] || linters || rustup_linters || die "the Rust in use has no rustfmt and clippy"
for machine in $machines; do
    for target in "$machine-unknown-linux-gnu" "$machine-unknown-linux-musl"; do
        has_target "$target" || rustup_target "$target" ||
            die "the Rust in use has no libraries for $target, which rustup has (https://rustup.rs): rustup target add $target"
    done
done
! has apt-get || [ -e /etc/ssl/certs/ca-certificates.crt ] || missing="$missing ca-certificates"
[ "$missing" ] || exit 0

# The rest installs Debian's packages, as root.
has apt-get || die "missing Debian packages:$missing
    install their equivalents on this system"
install="apt-get install --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
    sudo=
elif has sudo && [ -t 0 ]; then
    sudo=sudo
elif has sudo && sudo -n true 2>/dev/null; then
    sudo='sudo -n'
else
    die "missing:$missing
Installing them needs root. As root, run:
    $install"
fi
as_root() { $sudo env DEBIAN_FRONTEND=noninteractive "$@"; }

# shellcheck disable=SC2086 # a list of words
simulated() { apt-get --simulate install --no-install-recommends $missing 2>/dev/null; }
echo "setup: installing$missing"
# The lists of packages may not be there.
simulated >/dev/null || as_root apt-get update
removed=$(simulated | sed -n 's/^Remv \([^ :]*\).*/\1/p')
[ -z "$removed" ] || die "apt would remove $(echo "$removed" | tr '\n' ' ')
If you agree, run as root:
    $install"
# It removes nothing, whatever newer lists say.
install="$install -y -q --no-remove -o DPkg::Lock::Timeout=120"
# The lists may be out of date. A command is a list of words.
# shellcheck disable=SC2086
as_root $install || { as_root apt-get update && as_root $install; }
