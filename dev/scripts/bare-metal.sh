#!/bin/sh
# Builds examples/bare-metal for the kernel's target: target/bare-metal.elf, which QEMU starts with -kernel.
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
target=$(dev/scripts/kernel-target.sh)
# Its Rust also runs with the MMU off, where an access that is not aligned faults. Bare-metal targets never make one.
case $target in *-linux-*) export RUSTFLAGS="${RUSTFLAGS-} -C target-feature=+strict-align" ;; esac
dev/scripts/rust.sh --kernel cargo build -p bare-metal --profile image
built=${CARGO_TARGET_DIR:-target}
cp "$built/$target/image/bare-metal" "$built/bare-metal.elf"
