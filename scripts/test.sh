#!/bin/bash
# Runs the tests in groups and stops at the first group that fails.
#
#   scripts/test.sh [GROUP...]    library, model, c, kernel, command, image, docs; default: all
set -euo pipefail
cd "$(dirname "$0")/.."

group() {
    case $1 in
    library) cargo test -p linmap -p test-support -p house -p mutants --tests ;;
    model) cargo test -p linmap-model -p faults --features linmap-model/cli --tests ;;
    c) scripts/test-linux-apply.sh && scripts/test-c.sh ;; # the library for kernels in C
    kernel) cargo test -p kernel-plan -p kernel --lib && cargo test -p flatten && cargo test -p bench ;; # on the host
    command) cargo test -p linmap-plot -p linmap-tlb --tests && cargo test -p linmap-cli --tests ;;
    image) cargo test -p linmap-cli --test image ;; # boots in QEMU
    docs) cargo test -p book --tests && cargo test --workspace --exclude faults --exclude faulty-linmap --doc ;; # these two are other crates' sources
    *) echo "$0: no group '$1'; the groups are library, model, c, kernel, command, image and docs" && return 1 ;;
    esac
}

all=(library model c kernel command image docs)
[[ $# -gt 0 ]] || set -- "${all[@]}"
passed=0 times=()
for name; do
    echo "== $name"
    start=$SECONDS
    if ! group "$name"; then
        echo "== $name: FAILED after $((SECONDS - start)) s"
        echo "$passed passed, 1 failed"
        exit 1
    fi
    times+=("$name $((SECONDS - start)) s")
    passed=$((passed + 1))
done
echo
printf '%s\n' "${times[@]}"
echo "$passed passed, 0 failed"
