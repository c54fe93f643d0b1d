#!/bin/sh
# Builds the plugins of `linmap judge`: target/judge/linmap-judge-4.so for QEMU 10.0, -7.so for QEMU 11.1.
#
#   dev/scripts/judge.sh                   both
#   dev/scripts/judge.sh aarch64|x86_64    both, for packages of such machines: target/judge/aarch64 or x86_64, without symbols, and
#                                          checked to need nothing that Debian 12 lacks
#   dev/scripts/judge.sh --qemu            prints a QEMU that takes plugins: the installed one, or that of bookworm-backports, which
#                                          is downloaded to target/judge; exit status 77 if it cannot be had
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
out=$target/judge gnu=
mkdir -p "$out"

status=1
die() { echo "${0##*/}: $1" >&2 && exit "$status"; }

# plugin VERSION [FEATURES]
plugin() {
    dev/scripts/rust.sh cargo build --quiet -p linmap-judge-plugin --release ${gnu:+--target "$gnu"} ${2:+--features "$2"}
    cp "$target/${gnu:+$gnu/}release/liblinmap_judge_plugin.so" "$out/linmap-judge-$1.so"
}

plugins() {
    plugin 4
    plugin 7 api-7
}

# packaged MACHINE: as Rust calls it. A static target has no plugins, so they are linked with the machine's C library.
packaged() {
    gnu=$1-unknown-linux-gnu out=$out/$1
    dev/scripts/setup.sh "--$1"
    [ "$1" = "$(uname -m)" ] ||
        export "CARGO_TARGET_$(echo "$1" | tr '[:lower:]' '[:upper:]')_UNKNOWN_LINUX_GNU_LINKER=$1-linux-gnu-gcc"
    export CARGO_PROFILE_RELEASE_STRIP=symbols
    rm -rf "$out"
    mkdir "$out"
    plugins
    LINMAP_PLUGINS=$out/linmap-judge-4.so:$out/linmap-judge-7.so \
        dev/scripts/rust.sh cargo test --quiet -p linmap-judge-plugin --test symbols
}

# Returns true if a QEMU is 10.0 or newer.
takes_plugins() {
    "$1" --version 2>/dev/null | grep -Eq '^QEMU emulator version ([1-9][0-9])\.'
}

qemu() {
    installed=qemu-system-aarch64 fetched=$out/qemu-system-aarch64 status=77
    if takes_plugins "$installed"; then
        echo "$installed"
        return
    fi
    takes_plugins "$fetched" || fetch_qemu >&2
    takes_plugins "$fetched" || die "the QEMU of bookworm-backports does not run here"
    echo "$fetched"
}

fetch_qemu() {
    command -v dpkg >/dev/null || die 'dpkg is needed to fetch a QEMU'
    archive=$out/archive architecture=$(dpkg --print-architecture) suites=bookworm-backports
    . dev/scripts/debian.sh
    lists
    rm -rf "$out/qemu"
    for package in qemu-system-arm qemu-system-common qemu-system-data; do
        echo "${0##*/}: fetching $package"
        download "$package/bookworm-backports" "$archive/new"
        dpkg-deb -x "$archive/new"/*.deb "$out/qemu"
    done
    rm -rf "$archive"
    # Its modules are its own, not those of an installed QEMU.
    modules=$(find "$out/qemu/usr/lib" -type d -path "*-linux-gnu/qemu" | head -n 1)
    printf '#!/bin/sh\nQEMU_MODULE_DIR="%s" exec "%s" "$@"\n' \
        "$modules" "$out/qemu/usr/bin/qemu-system-aarch64" >"$fetched"
    chmod +x "$fetched"
}

case ${1-} in
'') plugins ;;
aarch64 | x86_64) packaged "$1" ;;
--qemu) qemu ;;
*) die "no option and no machine '$1'; --help lists them" ;;
esac
