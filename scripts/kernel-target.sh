#!/bin/sh
# Prints the target that the kernel is built for.
exec "$(dirname "$0")/rust.sh" --kernel printenv CARGO_BUILD_TARGET
