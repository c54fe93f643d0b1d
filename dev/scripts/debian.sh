#!/bin/sh
# Fetches files from Debian's archive, without installing them. To be sourced, with `archive` set to a directory for what apt
# needs, and `die` defined. LINMAP_DEBIAN names a mirror; the default is that of this machine's apt. `architecture` is arm64 unless
# it is set, and `suites` are those with kernels.

: "${archive:?}" "${architecture:=arm64}" "${suites:=bookworm trixie-backports sid}"

# apt TOOL ARGUMENTS...: runs an apt that shares only mirrors and keys with this machine.
apt() {
    tool=$1
    shift
    "$tool" -q -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o APT::Sandbox::User= \
        -o Dir::State="$archive" -o Dir::State::status="$archive/status" -o Dir::Cache="$archive" \
        -o Dir::Etc::sourcelist="$archive/list" -o Dir::Etc::sourceparts=- \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

# Reads the archive's lists, once in each run.
lists() {
    [ ! -e "$archive/fresh" ] || return 0
    if ! command -v dpkg-deb || ! command -v apt-get; then die "apt-get and dpkg-deb are needed"; fi >/dev/null
    mkdir -p "$archive/lists/partial" "$archive/archives/partial"
    : >"$archive/status"
    mirrors >"$archive/list"
    apt apt-get update >"$archive/log" 2>&1 || die "Debian's archive cannot be read:
$(tail -n 5 "$archive/log")"
    : >"$archive/fresh"
}

# download PACKAGE DIRECTORY: stores the package in a new directory.
download() {
    rm -rf "$2"
    mkdir -p "$2"
    (cd "$2" && apt apt-get download "$1") >"$archive/log" 2>&1 || die "$1 cannot be fetched:
$(tail -n 5 "$archive/log")"
}

# fetch PACKAGE FILE PLACE [FILE PLACE]...: stores each FILE, from any directory of PACKAGE, at its PLACE.
fetch() {
    echo "${0##*/}: fetching $1"
    download "$1" "$archive/new"
    dpkg-deb -x "$archive/new"/*.deb "$archive/new"
    shift
    while [ $# -gt 0 ]; do
        file=$(find "$archive/new" -type f -path "*/$1" | head -n 1)
        [ "$file" ] || die "the package has no $1"
        mv "$file" "$2"
        shift 2
    done
    rm -rf "$archive/new"
}

# programs DIRECTORY PATTERN PROGRAM...: stores programs and the libraries that they need, in bin and lib of a new directory. PATTERN matches
# the packages, of all on which those of the programs depend: `NAME=PATH` names the package of a program, and where it is there.
programs() {
    new=$1.new pattern=$2 output=$1
    shift 2
    rm -rf "$archive/root" "$new"
    mkdir -p "$archive/root" "$new/bin" "$new/lib"
    packages=$(for program; do printf '%s ' "${program%%=*}"; done)
    echo "${0##*/}: fetching $packages"
    # shellcheck disable=SC2086 # a list of words
    for package in $(apt apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances $packages | grep -Ex "$pattern" | sort -u) $packages; do
        download "$package" "$archive/new"
        dpkg-deb --fsys-tarfile "$archive/new"/*.deb | tar -x -C "$archive/root"
    done
    for program; do cp "$archive/root/${program#*=}" "$new/bin"; done
    # By the names that programs ask for, which are links but for those of libc.
    for libraries in "$archive/root/usr/lib/aarch64-linux-gnu" "$archive/root/lib/aarch64-linux-gnu"; do
        [ ! -d "$libraries" ] || find "$libraries" -maxdepth 1 -name '*.so.*' ! -name '*.so.*.*.*' -exec cp -L -t "$new/lib" '{}' +
    done
    rm -rf "$archive/new" "$archive/root"
    mv "$new" "$output"
}

# kernel_package RELEASE FLAVOUR: prints the newest package that has a kernel of a release, if a suite has one. Since Linux 7 Debian has
# the kernel itself in a package of its own.
kernel_package() {
    for kind in binary image; do
        package=$(apt apt-cache search --names-only "^linux-$kind-$1[.][^-]*(-[0-9]+)?-$2\$" |
            cut -d' ' -f1 | sort -V | tail -n 1)
        [ -z "$package" ] || break
    done
    echo "$package"
}

# Prints the sources of the suites: this machine's mirrors, or Debian's own.
mirrors() {
    # shellcheck disable=SC2016  # apt expands these
    own=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null || true)
    main=$(echo "$own" | sed -n 's/^\([^ ]*\) bookworm$/\1/p' | head -n 1)
    security=$(echo "$own" | sed -n 's/^\([^ ]*\) bookworm-security$/\1/p' | head -n 1)
    main=${LINMAP_DEBIAN:-${main:-http://deb.debian.org/debian}}
    keys=
    [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ] ||
        keys='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
    for suite in $suites; do
        echo "deb $keys ${main%/} $suite main"
    done
    echo "deb $keys ${security:-${main%/}-security} bookworm-security main"
}
