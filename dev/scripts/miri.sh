#!/bin/bash
# Runs tests of the library under Miri, which finds what the rules of Rust forbid: races of threads, accesses beyond what a
# pointer may reach. Those of one thread and those of several run side by side, about five minutes on two idle cores.
#
#   dev/scripts/miri.sh
#
# Miri is that of rustup's nightly; LINMAP_NIGHTLY names another toolchain. Ends with 77 if there is none and none can be
# fetched, and with 75 if it is told to stop and nothing had failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
PATH=$PATH:${CARGO_HOME:-${HOME-}/.cargo}/bin
nightly=${LINMAP_NIGHTLY:-nightly}

has_miri() { cargo "+$nightly" miri --version >/dev/null 2>&1; }
if ! has_miri; then
    timeout 300 rustup toolchain install "$nightly" --profile minimal --component miri,rust-src >/dev/null 2>&1 || true
    has_miri || { echo "$0: NOT TESTED: no Miri, and rustup cannot fetch one" && exit 77; }
fi

# Tests that are small enough: one makes every call of the library. A property is tried once.
maps=(no_lock_for_pages::no_call)
units=(share::marks platform::entry_update platform::host)
export PROPTEST_CASES=1 CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/miri-tests

# miri SEEDS CARGO-OPTION... -- FILTER...
miri() {
    local seeds=$1
    shift
    # Seeds of test-support come from the system.
    MIRIFLAGS="-Zmiri-disable-isolation $seeds" cargo "+$nightly" miri test -q -p linmap "$@"
}

# seconds WHAT COMMAND...: runs the command and says how long it took.
seconds() {
    local what=$1 start=$SECONDS status=0
    shift
    "$@" || status=$?
    [[ $status = 0 ]] && echo "miri: $what: ok, $((SECONDS - start)) s" || echo "miri: $what: FAILED"
    return "$status"
}

threads='' alone=''
trap 'kill $threads $alone 2>/dev/null; exit 75' TERM
# Built once before the two, which would wait for each other.
seconds build miri '' --lib --test maps --test threads --no-run

# The threads of a test take turns in another way with each seed.
seconds 'several threads' miri -Zmiri-many-seeds=0..4 --test threads -- few_pages:: &
threads=$!
one_thread() {
    seconds 'one thread, units' miri '' --lib -- "${units[@]}"
    seconds 'one thread, maps' miri '' --test maps -- "${maps[@]}"
}
one_thread &
alone=$!
for _ in 1 2; do
    wait -n || { kill "$threads" "$alone" 2>/dev/null || true; exit 1; }
done
