#!/bin/sh
# Reads the tables of real kernels: Debian's, booted under QEMU, by every SOURCE that there is.
#
#   scripts/test-linux.sh [ARGUMENTS of the test...]
#
# Debian's archive is asked for what is not in target/linux yet: two kernels and busybox, for arm64. Nothing of
# that is installed. LINMAP_DEBIAN names another mirror than this machine's apt has.
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
linux=$target/linux
musl=aarch64-unknown-linux-musl

die() {
    printf 'test-linux: %s\n' "$*" >&2
    exit 1
}

# An apt of its own, for arm64, which knows nothing of this machine but its mirrors and keys.
apt() {
    tool=$1
    shift
    "$tool" -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= \
        -o Dir::State="$linux/apt" -o Dir::State::status="$linux/apt/status" -o Dir::Cache="$linux/apt" \
        -o Dir::Etc::sourcelist="$linux/apt/list" -o Dir::Etc::sourceparts=- "$@"
}

# fetch PACKAGE FILE NAME: the file that the package has, where PACKAGE may stand for the one it depends on.
fetch() {
    [ ! -e "$linux/$3" ] || return 0
    if [ ! -e "$linux/apt/fresh" ]; then
        command -v dpkg-deb >/dev/null && command -v apt-get >/dev/null || die "apt-get and dpkg-deb are needed"
        mkdir -p "$linux/apt/lists/partial" "$linux/apt/archives/partial"
        : >"$linux/apt/status"
        mirrors >"$linux/apt/list"
        apt apt-get update >"$linux/apt/log" 2>&1 || die "Debian's archive can not be read:
$(tail -n 5 "$linux/apt/log")"
        : >"$linux/apt/fresh"
    fi
    package=$1
    case $package in
    linux-image-*) package=$(apt apt-cache depends "$1" | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1) ;;
    esac
    [ "$package" ] || die "Debian's archive has no $1 for arm64"
    echo "test-linux: fetching $package"
    rm -rf "$linux/new"
    mkdir "$linux/new"
    (cd "$linux/new" && apt apt-get download "$package") >"$linux/apt/log" 2>&1 || die "$package can not be fetched:
$(tail -n 5 "$linux/apt/log")"
    dpkg-deb -x "$linux/new"/*.deb "$linux/new/root"
    # shellcheck disable=SC2086 # a pattern
    mv "$linux/new/root/"$2 "$linux/$3"
    rm -rf "$linux/new"
}

# The mirrors of bookworm that this machine's apt uses, or Debian's own.
mirrors() {
    own=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null || true)
    main=$(echo "$own" | sed -n 's/^\([^ ]*\) bookworm$/\1/p' | head -n 1)
    security=$(echo "$own" | sed -n 's/^\([^ ]*\) bookworm-security$/\1/p' | head -n 1)
    main=${LINMAP_DEBIAN:-${main:-http://deb.debian.org/debian}}
    keys=
    [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ] ||
        keys='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
    echo "deb $keys ${main%/} bookworm main"
    echo "deb $keys ${security:-${main%/}-security} bookworm-security main"
}

mkdir -p "$linux"
rm -f "$linux/apt/fresh"
fetch linux-image-arm64 'boot/vmlinuz-6.1.*' vmlinuz-6.1
fetch linux-image-6.12-arm64 'boot/vmlinuz-6.12.*' vmlinuz-6.12
fetch busybox-static bin/busybox busybox

has_musl() { [ -d "$(rustc --print target-libdir --target $musl 2>/dev/null)" ]; }
has_musl || { command -v rustup >/dev/null && timeout 120 rustup target add $musl; } || true
has_musl || die "the static command wants Rust for $musl: rustup target add $musl"
scripts/static.sh
cp "$target/$musl/release/linmap" "$linux/linmap"
LINMAP_LINUX=$linux cargo test -p linmap-cli --test linux -- --test-threads=1 "$@"
