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

# apt TOOL ARGUMENTS...: runs an apt for arm64 that shares only mirrors and keys with this machine.
apt() {
    tool=$1
    shift
    "$tool" -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= \
        -o Dir::State="$linux/apt" -o Dir::State::status="$linux/apt/status" -o Dir::Cache="$linux/apt" \
        -o Dir::Etc::sourcelist="$linux/apt/list" -o Dir::Etc::sourceparts=- \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

# Reads the archive's lists, once in each run.
lists() {
    [ ! -e "$linux/apt/fresh" ] || return 0
    command -v dpkg-deb >/dev/null && command -v apt-get >/dev/null || die "apt-get and dpkg-deb are needed"
    mkdir -p "$linux/apt/lists/partial" "$linux/apt/archives/partial"
    : >"$linux/apt/status"
    mirrors >"$linux/apt/list"
    apt apt-get update >"$linux/apt/log" 2>&1 || die "Debian's archive cannot be read:
$(tail -n 5 "$linux/apt/log")"
    : >"$linux/apt/fresh"
}

# fetch PACKAGE FILE NAME: stores FILE, from any directory of PACKAGE, as NAME.
fetch() {
    echo "test-linux: fetching $1"
    rm -rf "$linux/new"
    mkdir "$linux/new"
    (cd "$linux/new" && apt apt-get download "$1") >"$linux/apt/log" 2>&1 || die "$1 cannot be fetched:
$(tail -n 5 "$linux/apt/log")"
    dpkg-deb --fsys-tarfile "$linux/new"/*.deb | tar -x -C "$linux/new" --wildcards "*/$2"
    file=$(find "$linux/new" -type f -path "*/$2" | head -n 1)
    [ "$file" ] || die "$1 has no $2"
    mv "$file" "$linux/$3"
    rm -rf "$linux/new"
}

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
    fetch "$package" 'vmlinuz*' "vmlinuz-$1"
}

# Prints the sources of the suites with kernels: this machine's mirrors, or Debian's own.
mirrors() {
    own=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null || true)
    main=$(echo "$own" | sed -n 's/^\([^ ]*\) bookworm$/\1/p' | head -n 1)
    security=$(echo "$own" | sed -n 's/^\([^ ]*\) bookworm-security$/\1/p' | head -n 1)
    main=${LINMAP_DEBIAN:-${main:-http://deb.debian.org/debian}}
    keys=
    [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ] ||
        keys='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
    for suite in bookworm trixie-backports sid; do
        echo "deb $keys ${main%/} $suite main"
    done
    echo "deb $keys ${security:-${main%/}-security} bookworm-security main"
}

mkdir -p "$linux"
rm -f "$linux/apt/fresh"
for version in $always; do
    kernel "$version"
    [ -e "$linux/vmlinuz-$version" ] || die "Debian's archive has no Linux $version for arm64"
done
[ -e "$linux/busybox" ] || { lists && fetch busybox-static/bookworm bin/busybox busybox; }

# Without the network the others are missing, and are listed at the end.
for version in $others; do
    (kernel "$version") || true
done

has_musl() { [ -d "$(rustc --print target-libdir --target $musl 2>/dev/null)" ]; }
has_musl || { command -v rustup >/dev/null && timeout 120 rustup target add $musl; } || true
has_musl || die "the static command needs Rust for $musl: rustup target add $musl"
scripts/static.sh
cp "$target/$musl/release/linmap" "$linux/linmap"
rustc --edition 2024 -O -C strip=symbols --target $musl -C linker=rust-lld \
    -o "$linux/taker" linmap-cli/tests/linux/taker/main.rs
LINMAP_LINUX=$linux cargo test -p linmap-cli --test linux -- --test-threads=1 "$@"
for version in $others; do
    [ -e "$linux/vmlinuz-$version" ] ||
        echo "test-linux: NOT TESTED: Linux $version, which Debian's archive does not have"
done
