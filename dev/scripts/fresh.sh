#!/bin/bash
# Tries the random tests with seeds that are drawn anew, as far as the time goes; they come in another order each time. If a
# case fails, the exit code is 1, and the last lines have its LINMAP_SEED, which repeats it.
#
#   dev/scripts/fresh.sh [MINUTES]    default: 3
set -euo pipefail
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
end=$((SECONDS + 60 * ${1:-3}))
log=$(mktemp)
trap 'rm "$log"' EXIT

# Parts of `cargo tests`, which `make test` has built; of the tests that boot the image, the random ones.
parts=(--lib '--bin linmap' '--test maps' '--test threads' '--test live' '--test naive' '--test concurrent' '--test hostile' '--test export'
    '--test image stress')
failed=
while read -r part; do
    left=$((end - SECONDS))
    [[ $left -gt 0 ]] || break
    # shellcheck disable=SC2086 # several words
    LINMAP_SEED=fresh timeout "$left" cargo tests $part </dev/null 2>&1 | tee -a "$log" || [[ $? = 124 ]] || failed+=" $part"
done < <(shuf -e -- "${parts[@]}")
# Those as well that failed in a program that was then stopped.
cases=$(grep ' repeats this case$' "$log" || true)
[[ $failed$cases ]] || exit 0
printf '\n%s: FAILED with new seeds%s\n%s\n' "$0" "${failed:+ in$failed}" "$cases"
exit 1
