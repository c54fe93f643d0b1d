#!/bin/sh
# Prints the Rust target of the kernel.
exec "$(dirname "$0")/rust.sh" --kernel printenv CARGO_BUILD_TARGET
