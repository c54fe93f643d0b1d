#!/bin/sh
# Makes a Debian package of the command, statically linked, so that it runs on any release: for arm64, and for amd64, which reads
# core dumps and VMs: target/linmap_VERSION_arm64.deb and so on. The plugins of `linmap judge` are in it, linked with the C library of
# Debian 12 or newer. Lintian looks at it, where that is installed.
#
#   dev/scripts/deb.sh [arm64|amd64...]    default: both
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
[ $# -gt 0 ] || set -- arm64 amd64

# machine ARCHITECTURE: prints Rust's name of what Debian calls so.
machine() {
    case $1 in
    arm64) echo aarch64 ;;
    amd64) echo x86_64 ;;
    *) echo "$0: no architecture '$1'; arm64 and amd64 are known" >&2 && exit 1 ;;
    esac
}
# What is missing comes first.
for architecture; do
    machine=$(machine "$architecture")
    dev/scripts/setup.sh "--$machine"
done

# Its manual and completions come from the same program for this machine.
cargo build --quiet --release -p linmap-cli
linmap=$target/release/linmap

# package ARCHITECTURE MACHINE: as Debian and as Rust call it.
package() {
    dev/scripts/static.sh "$2"
    dev/scripts/judge.sh "$2"
    root=$target/deb/$1
    rm -rf "$root"
    doc=$root/usr/share/doc/linmap
    mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/lib/linmap" "$doc" "$root/usr/share/man/man1" "$root/usr/share/lintian/overrides"
    cp "$target/$2-unknown-linux-musl/release/linmap" "$root/usr/bin/"
    cp "$target/judge/$2/linmap-judge-4.so" "$target/judge/$2/linmap-judge-7.so" "$root/usr/lib/linmap/"
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
Suggests: qemu-system-arm (>= 1:10.0)
Description: measures and checks the linear map of arm64 kernels
 linmap reads the page tables of a live machine, a virtual machine or a core
 dump. It shows in which leaves the kernel maps its memory, what that costs in
 tables and TLB entries, why it is so, and what would change it.
 .
 It also runs a kernel under QEMU 10.0 or newer, and judges each change of its
 page tables.
END
    {
        echo "linmap ($version) unstable; urgency=medium"
        printf '\n  * CHANGELOG.md.gz has the changes.\n\n -- %s  ' "$who"
        LC_ALL=C date -u -R -d "@$commit"
    } | gzip -9n >"$doc/changelog.gz"
    gzip -9nc CHANGELOG.md >"$doc/CHANGELOG.md.gz"
    # What the manual names, and how a kernel is judged.
    mkdir "$doc/docs"
    cp docs/commands.md docs/judge.md docs/measure.md docs/tlb.md "$doc/docs/"
    {
        echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
        printf '\nFiles: *\nCopyright: %s linmap developers\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n' "$(date -u -d "@$commit" +%Y)"
        sed 's/^$/./; s/^/ /' LICENSE-MIT
        printf '\nLicense: Apache-2.0\n /usr/share/common-licenses/Apache-2.0 has its text.\n'
    } >"$doc/copyright"
    {
        echo 'linmap: statically-linked-binary [usr/bin/linmap]'
        echo 'linmap: shared-library-lacks-prerequisites [usr/bin/linmap]'
        echo '# QEMU loads them, and depends on these itself.'
        echo 'linmap: undeclared-elf-prerequisites * [usr/lib/linmap/*]'
    } >"$root/usr/share/lintian/overrides/linmap"

    find "$root" -type d -exec chmod 755 {} +
    find "$root/usr/lib" "$root/usr/share" -type f -exec chmod 644 {} +
    chmod 755 "$root/usr/bin/linmap"
    [ "$2" != "$(uname -m)" ] || finds_plugins "$root/usr/bin/linmap"
    package=$target/linmap_${version}_$1.deb
    SOURCE_DATE_EPOCH=$commit dpkg-deb --root-owner-group --build "$root" "$package"
    ! command -v lintian >/dev/null || lintian --fail-on error,warning "$package"
    [ "$2" = "$(uname -m)" ] ||
        echo "deb: $1: the symbols of the plugins are checked, but nothing was run, as this machine is of another kind"
}

# finds_plugins COMMAND: fails unless it finds the plugin of each QEMU.
finds_plugins() {
    qemu=$target/deb/qemu
    for release in 10.0 11.1; do
        printf '#!/bin/sh\necho QEMU emulator version %s\n' "$release" >"$qemu"
        chmod +x "$qemu"
        "$1" judge --check --qemu "$qemu" >"$qemu.log" || { cat "$qemu.log" >&2 && exit 1; }
    done
}

for architecture; do package "$architecture" "$(machine "$architecture")"; done
