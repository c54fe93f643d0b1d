#!/bin/sh
# Makes a Debian package of the command, statically linked, so that it runs on any release: for arm64, and for amd64, which reads
# core dumps and VMs: target/linmap_VERSION_arm64.deb and so on. Lintian looks at it, where that is installed.
#
#   dev/scripts/deb.sh [arm64|amd64...]    default: both
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)

# Its manual and completions come from the same program for this machine.
cargo build --quiet --release -p linmap-cli
linmap=$target/release/linmap

# package ARCHITECTURE MACHINE: as Debian and as Rust call it.
package() {
    dev/scripts/static.sh "$2"
    root=$target/deb/$1
    rm -rf "$root"
    doc=$root/usr/share/doc/linmap
    mkdir -p "$root/DEBIAN" "$root/usr/bin" "$doc" "$root/usr/share/man/man1" "$root/usr/share/lintian/overrides"
    cp "$target/$2-unknown-linux-musl/release/linmap" "$root/usr/bin/"
    "$linmap" man --directory "$root/usr/share/man/man1" >/dev/null
    gzip -9n "$root"/usr/share/man/man1/*
    for shell in bash:bash-completion/completions/linmap zsh:zsh/vendor-completions/_linmap fish:fish/vendor_completions.d/linmap.fish; do
        file=$root/usr/share/${shell#*:}
        mkdir -p "$(dirname "$file")"
        "$linmap" completions "${shell%%:*}" >"$file"
    done

    commit=$(git log -1 --format=%ct 2>/dev/null || echo 0)
    # The packager: DEBFULLNAME and DEBEMAIL, as for Debian's own tools, or git's user.
    who="${DEBFULLNAME:-$(git log -1 --format=%an)} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"
    cat >"$root/DEBIAN/control" <<END
Package: linmap
Version: $version
Architecture: $1
Maintainer: $who
Section: kernel
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Description: measures and checks the linear map of arm64 kernels
 linmap reads the page tables of a live machine, a virtual machine or a core
 dump. It shows in which leaves the kernel maps its memory, what that costs in
 tables and TLB entries, why it is so, and what would change it.
END
    {
        echo "linmap ($version) unstable; urgency=medium"
        printf '\n  * CHANGELOG.md.gz has the changes.\n\n -- %s  ' "$who"
        LC_ALL=C date -u -R -d "@$commit"
    } | gzip -9n >"$doc/changelog.gz"
    gzip -9nc CHANGELOG.md >"$doc/CHANGELOG.md.gz"
    # What the manual names.
    mkdir "$doc/docs"
    cp docs/commands.md docs/measure.md docs/tlb.md "$doc/docs/"
    {
        echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
        printf '\nFiles: *\nCopyright: %s linmap developers\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n' "$(date -u -d "@$commit" +%Y)"
        sed 's/^$/./; s/^/ /' LICENSE-MIT
        printf '\nLicense: Apache-2.0\n /usr/share/common-licenses/Apache-2.0 has its text.\n'
    } >"$doc/copyright"
    echo 'linmap: statically-linked-binary [usr/bin/linmap]' >"$root/usr/share/lintian/overrides/linmap"

    find "$root" -type d -exec chmod 755 {} +
    find "$root/usr/share" -type f -exec chmod 644 {} +
    chmod 755 "$root/usr/bin/linmap"
    package=$target/linmap_${version}_$1.deb
    SOURCE_DATE_EPOCH=$commit dpkg-deb --root-owner-group --build "$root" "$package"
    ! command -v lintian >/dev/null || lintian --fail-on error,warning "$package"
}

[ $# -gt 0 ] || set -- arm64 amd64
for architecture; do
    case $architecture in
    arm64) package arm64 aarch64 ;;
    amd64) package amd64 x86_64 ;;
    *) echo "$0: no architecture '$architecture'; arm64 and amd64 are known" >&2 && exit 1 ;;
    esac
done
