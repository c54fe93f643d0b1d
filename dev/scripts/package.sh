#!/bin/sh
# Packages the crates that are published, as `cargo publish --workspace` does, without the network.
#
#   dev/scripts/package.sh            seconds: part of `make lint`
#   dev/scripts/package.sh --build    builds each package, too, from nothing but what is in it
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
verify=--no-verify
published=$(grep -l '^publish = true' crates/*/Cargo.toml image/*/Cargo.toml)

# name MANIFEST: prints the name of a crate.
name() { sed -n '0,/^name = /s/^name = "\(.*\)"$/\1/p' "$1"; }

if [ "${1-}" = --build ]; then
    verify=
    # A package of the same version is the same to cargo: what it has of an earlier one goes, sources and what was built.
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/packages
    export CARGO_TARGET_DIR
    rm -rf "$CARGO_TARGET_DIR"
    for manifest in $published; do
        rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/"$(name "$manifest")"-[0-9]*
    done
fi

# Older ones look for each other's packages in the registry.
release=$(cargo --version | cut -d' ' -f2)
if ! printf '%s\n' 1.90 "$release" | sort -CV; then
    echo "$0: cargo $release cannot package crates that depend on each other, 1.90 and newer can: skipped"
    exit 0
fi

packages=
for manifest in $published; do
    crate=$(name "$manifest")
    packages="$packages -p $crate"
    files=$(cargo package -p "$crate" --list --allow-dirty --offline --quiet)
    for file in README.md LICENSE-MIT LICENSE-APACHE; do
        if ! echo "$files" | grep -qx "$file"; then
            echo "$0: the package of $crate has no $file; link it to the one above" >&2
            exit 1
        fi
    done
done
# shellcheck disable=SC2086 # lists of words
cargo package $packages $verify --allow-dirty --offline --quiet
