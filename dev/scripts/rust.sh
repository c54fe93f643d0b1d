#!/bin/sh
# Runs a command with the Rust that builds linmap:
#
#   dev/scripts/rust.sh cargo test              for the host
#   dev/scripts/rust.sh --kernel cargo build    for the kernel: sets its target and linker too
#   dev/scripts/rust.sh --oldest                prints the oldest version that builds it
#
# The kernel's target is rustup's bare-metal one. Without rustup, Debian's arm64 Linux target is used, linked
# without start files and with mem.rs for memcpy and its like, which the bare-metal target has built in.
# LINMAP_KERNEL_TARGET chooses one of the two.
set -eu

kernel=
case ${1-} in
--kernel) kernel=yes && shift ;;
esac
minimum=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$(dirname "$0")/../../Cargo.toml")
case ${1-} in
--oldest) echo "$minimum" && exit ;;
'' | -*) echo "usage: dev/scripts/rust.sh [--kernel] COMMAND..." >&2 && exit 2 ;;
esac
targets=${LINMAP_KERNEL_TARGET:-aarch64-unknown-none-softfloat aarch64-unknown-linux-gnu}
scripts=$(cd "$(dirname "$0")" && pwd)
built=${CARGO_TARGET_DIR:-$scripts/../../target}
# What dev/scripts/debian-rust.sh has fetched.
fetched=$built/rust

# place DIRECTORY: looks for Rust in `bin` of it first, or on the caller's PATH.
place() {
    PATH=${1:+$1/bin:}$own
    [ "$1" = "$fetched/usr" ] || return 0
    # Libraries that this machine lacks. This directory is the last one.
    for libraries in "$fetched"/usr/lib/*-linux-gnu; do
        export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    done
}

# builds TARGET: succeeds if the Rust on PATH is new enough and has everything for the target.
builds() {
    release=$(rustc --version 2>/dev/null | cut -d' ' -f2)
    printf '%s\n' "$minimum" "${release:-0}" | sort -CV || return 1
    libraries=$(rustc --print target-libdir --target "$1" 2>/dev/null)
    [ -d "$libraries" ] || return 1
    command -v cargo >/dev/null || return 1
    case $1 in *-linux-*) command -v ld.lld >/dev/null ;; esac
}

# Cargo uses all CPUs. By make 4.4 it would share them with others that make has started, and one that waits for the lock of a
# build would keep its share. It looks for make in each of these.
unset MAKEFLAGS MFLAGS CARGO_MAKEFLAGS
# The Rust of the caller's PATH comes first. Debian's is in /usr/bin.
own=$PATH own_libraries=${LD_LIBRARY_PATH-}
for target in $targets; do
    unset LD_LIBRARY_PATH
    [ -z "$own_libraries" ] || export LD_LIBRARY_PATH="$own_libraries"
    for directory in '' "${CARGO_HOME:-${HOME-}/.cargo}" /usr "$fetched/usr"; do
        [ -z "$directory" ] || [ -x "$directory/bin/rustc" ] || continue
        place "$directory"
        builds "$target" || continue
        if [ "$kernel" ]; then
            export CARGO_BUILD_TARGET="$target"
            case $target in
            *-linux-*)
                # Outlined atomics ask the C library for the CPU's features. Turning them off causes a warning
                # for each crate, which only -A warnings silences; `make lint` still shows all others.
                # The prebuilt core names the function that unwinds, which nothing calls: a panic stops.
                bare='-C relocation-model=static -C target-feature=-outline-atomics -C link-arg=--defsym=rust_eh_personality=0 -A warnings'
                # By its contents, so that cargo links again when they change.
                mem=$built/mem-$(cksum <"$scripts/mem.rs" | cut -d' ' -f1).o
                if ! [ -e "$mem" ]; then
                    mkdir -p "$built"
                    # Without builtins: a loop that copies shall not become a call of itself.
                    printf '#![no_std]\n#![no_builtins]\n#[path = "%s"]\nmod mem;\n' "$scripts/mem.rs" |
                        rustc --edition 2024 --target "$target" --crate-name mem --crate-type lib --emit obj \
                            -C opt-level=2 -C no-vectorize-loops -C no-vectorize-slp -C panic=abort \
                            -C target-feature=+strict-align -o "$mem.$$" -
                    mv "$mem.$$" "$mem"
                fi
                export RUSTFLAGS="${RUSTFLAGS-} -C linker=ld.lld -C linker-flavor=ld.lld -C link-arg=$mem $bare"
                ;;
            esac
        fi
        # shellcheck disable=SC2093 # the loops end here on purpose
        exec "$@"
    done
done
wanted=$(echo "$targets" | sed 's/ / or /')
echo "$0: no complete Rust $minimum or newer for $wanted; 'make setup' brings one, and rustup (https://rustup.rs) has all targets" >&2
exit 1
