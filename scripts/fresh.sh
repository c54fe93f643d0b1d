#!/bin/bash
# Tries the random tests with seeds that are drawn anew, as far as the time goes. The groups of tests come in another order
# each time. If a case fails, the exit code is 1 and the last lines have its LINMAP_SEED, which repeats it.
#
#   scripts/fresh.sh [MINUTES]    default: 3
set -euo pipefail
cd "$(dirname "$0")/.."
end=$((SECONDS + 60 * ${1:-3}))
log=$(mktemp)
trap 'rm "$log"' EXIT

# tests GROUP: tests as they are built for `make test`; of those that boot the image, the random ones.
tests() {
    case $1 in
    stress) echo cargo test -p linmap-cli --test image stress ;;
    *) echo scripts/test.sh "$1" ;;
    esac
}

failed=
for group in $(shuf -e library model kernel command stress); do
    left=$((end - SECONDS))
    [[ $left -gt 0 ]] || break
    # shellcheck disable=SC2046 # several words
    LINMAP_SEED=fresh timeout "$left" $(tests "$group") 2>&1 | tee -a "$log" || [[ $? = 124 ]] || failed+=" $group"
done
# Those as well that failed in a program that was then stopped.
cases=$(grep ' repeats this case$' "$log" || true)
[[ $failed$cases ]] || exit 0
printf '\n%s: FAILED with new seeds%s\n%s\n' "$0" "${failed:+ in$failed}" "$cases"
exit 1
