#!/bin/sh
# Fetches Debian's newest Rust into target/rust, for the host and for the kernel. Only dev/scripts/rust.sh uses it: nothing is installed
# or removed, and no root is needed.
#
# It is rustc if that is new enough, otherwise rustc-web, which cannot be installed beside rustc.
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
place=${CARGO_TARGET_DIR:-$PWD/target}/rust
new=$place.new archive=$place.new/apt
minimum=$(dev/scripts/rust.sh --oldest)
rustup='Rust from https://rustup.rs needs no root, and removes nothing.'

die() {
    printf 'debian-rust: %s\n' "$*" >&2
    exit 1
}
if ! command -v apt-get || ! command -v dpkg-deb; then die "this is no Debian. $rustup"; fi >/dev/null
native=$(dpkg --print-architecture)

# apt TOOL ARGUMENTS...: this machine's archives, also for arm64. What is installed here is there, except for Rust.
apt() {
    tool=$1
    shift
    "$tool" -q -o APT::Architectures::="$native" -o APT::Architectures::=arm64 -o APT::Sandbox::User= \
        -o Dir::State="$archive" -o Dir::State::status="$archive/status" -o Dir::Cache="$archive" \
        -o Acquire::Languages=none "$@"
}

# candidate PACKAGE: prints the version that apt would install.
candidate() { apt apt-cache policy "$1" | sed -n 's/.*Candidate: //p'; }

rm -rf "$new"
mkdir -p "$archive/lists/partial" "$archive/archives/partial"
awk 'BEGIN { RS = ""; ORS = "\n\n" } !/^Package: (rust|cargo|clippy|libstd-rust)/' /var/lib/dpkg/status >"$archive/status"
apt apt-get update >"$archive/log" 2>&1 || die "Debian's archive cannot be read. $rustup
$(tail -n 5 "$archive/log")"
for flavour in '' -web none; do
    [ "$flavour" != none ] || die "Debian's Rust is older than $minimum here. $rustup"
    version=$(candidate "rustc$flavour")
    ! dpkg --compare-versions "${version:-0}" ge "$minimum" 2>/dev/null || break
done
# The two name the linter differently.
clippy=rust-clippy
[ -z "$flavour" ] || clippy=rust-web-clippy
echo "setup: fetching Debian's rustc$flavour $version, with cargo and lld, into $place; nothing is installed"
apt apt-get install -y --no-install-recommends --download-only \
    "rustc$flavour" "cargo$flavour" "rustfmt$flavour" "$clippy" lld >>"$archive/log" 2>&1 ||
    die "rustc$flavour cannot be fetched:
$(tail -n 5 "$archive/log")"
(cd "$archive/archives" && apt apt-get download "libstd-rust$flavour-dev:arm64") >>"$archive/log" 2>&1 ||
    die "the libraries of Rust for arm64 cannot be fetched:
$(tail -n 5 "$archive/log")"
for package in "$archive/archives"/*.deb; do dpkg-deb -x "$package" "$new"; done
rm -rf "$archive" "${new:?}/usr/share" "$place"
# All of it is there, or nothing.
mv "$new" "$place"
