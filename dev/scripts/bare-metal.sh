#!/bin/sh
# Builds examples/bare-metal, examples/bugs and dev/guests/tables for the kernel's target: target/bare-metal.elf, bugs.elf and
# tables.elf, which QEMU starts with -kernel.
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
target=$(dev/scripts/kernel-target.sh)
# Its Rust also runs with the MMU off, where an access that is not aligned faults. Bare-metal targets never make one.
case $target in *-linux-*) export RUSTFLAGS="${RUSTFLAGS-} -C target-feature=+strict-align" ;; esac
dev/scripts/rust.sh --kernel cargo build -p bare-metal -p bugs -p tables --profile image
built=${CARGO_TARGET_DIR:-target}
for name in bare-metal bugs tables; do
    cp "$built/$target/image/$name" "$built/$name.elf"
done
