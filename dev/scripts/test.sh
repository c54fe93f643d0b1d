#!/bin/bash
# Runs the tests in groups; after a failure none begins. Those of the host and the documents run beside the others, since each program
# of them leaves a CPU idle at its end; what the others print comes when they have ended.
#
# What could not be tested is named at the end, and in target/untested.
#
#   dev/scripts/test.sh [GROUP...]    host, c, image, docs; default: all
set -euo pipefail
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh

# `cargo tests` is in .cargo/config.toml.
group() {
    case $1 in
    host) cargo tests --tests && cargo test --quiet -p house ;;
    c) dev/scripts/test-linux-apply.sh && dev/scripts/test-c.sh ;; # the library for kernels in C
    image) CARGO_PROFILE_IMAGE_OPT_LEVEL=1 CARGO_PROFILE_IMAGE_LTO=off dev/scripts/fixed.sh 16k && dev/scripts/bare-metal.sh && judge && cargo tests --test image --test commands ;; # boots in QEMU
    # The library of `faults` is the model, whose examples are tested as its own.
    docs) cargo tests --doc --exclude faults ;;
    esac
}

# Without a QEMU that takes plugins the tests of `linmap judge` say that they test nothing, and so do the last lines.
judge() {
    local status=0
    dev/scripts/judge.sh --qemu || status=$?
    [[ $status = 0 || $status = 77 ]] || return "$status"
    [[ $status = 0 ]] || echo 'linmap judge, as there is no QEMU 10' >>"$work/untested"
}

# run GROUP...: runs groups one after the other, and notes what each took.
run() {
    local name start
    for name; do
        echo "== $name"
        start=$SECONDS
        if ! group "$name"; then
            echo "== $name: FAILED after $((SECONDS - start)) s"
            return 1
        fi
        echo "$name $((SECONDS - start)) s" >>"$work/times"
    done
}

[[ $# -gt 0 ]] || set -- host c image docs
host=() others=()
for name; do
    case $name in
    host | docs) host+=("$name") ;;
    c | image) others+=("$name") ;;
    *) echo "$0: no group '$name'; the groups are host, c, image and docs" && exit 1 ;;
    esac
done

work=$(mktemp -d)
touch "$work/times" "$work/others" "$work/untested"
beside=
# A group of processes of its own, so that all of it can be stopped.
trap '[[ -z $beside ]] || kill -- "-$beside" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

failed=0
if [[ ${host[*]} && ${others[*]} ]]; then
    set -m
    run "${others[@]}" >"$work/others" 2>&1 &
    beside=$!
    set +m
    run "${host[@]}" || failed=1
    if [[ $failed = 0 ]]; then
        wait "$beside" || failed=1
        beside=
    fi
    cat "$work/others"
else
    run "$@" || failed=1
fi

echo
cat "$work/times"
sed 's/^/NOT TESTED: /' "$work/untested" | tee "${CARGO_TARGET_DIR:-target}/untested"
echo "$(wc -l <"$work/times") passed, $failed failed"
exit "$failed"
