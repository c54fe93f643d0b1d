#!/bin/bash
# Boots the image with 8 CPUs that change the map at random, in every mode and at every page size. First the CPUs run
# in turns (--count), which is many times faster in QEMU; then one operation in 200 runs on CPUs in parallel. Each boot
# has another amount of RAM, drawn by the seed, from 1G to 512G; QEMU reserves none of it. Prints a line for each boot:
# page size, mode, RAM, operations, probes, wrong probes, leaks, seconds.
#
#   dev/scripts/soak.sh [OPERATIONS [SEED]]    default: 1000000 operations and a random seed
#
# SIZES="4k 16k" and MODES="1 2-park" select page sizes and modes, and RAM="40G" the RAM.
set -euo pipefail
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
operations=${1:-1000000} seed=${2:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "dev/scripts/soak.sh $operations $seed repeats this run"
target=${CARGO_TARGET_DIR:-$PWD/target}

# options MODE: prints the boot options of a mode.
options() {
    case $1 in
    1) ;;
    2-pages) echo --bbml2 off --split pages ;;
    2-park) echo --bbml2 off --split park ;;
    3-pages) echo --bbml2 4 --split pages ;;
    3-park) echo --bbml2 4 --split park ;;
    fixed) echo --rodata on ;;
    *) echo "$0: no mode '$1'; the modes are 1, 2-pages, 2-park, 3-pages, 3-park and fixed" >&2 && return 1 ;;
    esac
}

# sanitized: threads that change and read one map, under ThreadSanitizer.
sanitized() {
    local start=$SECONDS host log status=0
    host=$(rustc -vV | sed -n 's/^host: //p')
    if ! [ -e "$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library/std" ]; then
        echo "ThreadSanitizer: NOT TESTED: rustup has no nightly with rust-src"
        return
    fi
    log=$(mktemp)
    RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR=$target/thread-sanitizer \
        cargo +nightly test -q -Zbuild-std --target "$host" -p linmap --test threads -- \
        few_pages callers neither >"$log" 2>&1 || status=$?
    [[ $status = 0 ]] || tail -60 "$log"
    rm "$log"
    printf 'ThreadSanitizer  %s  %5d s\n' "$([[ $status = 0 ]] && echo ok || echo FAILED)" $((SECONDS - start))
    return $status
}

# number KEY: prints the number at KEY of the document on stdin.
number() { sed -n "s/^ *\"$1\": *\([0-9]*\),*$/\1/p" | head -1; }

# Of the RAM that boots have: each power of two is drawn as often as the next. A map of pages takes memory and time itself, so
# it has 32G at most.
RANDOM=$((seed % 32768))

# soak SIZE MODE HOW OPERATIONS RAM [OPTION...]
soak() {
    local size=$1 mode=$2 how=$3 count=$4 ram=$5 start=$SECONDS log status=0 document
    shift 5
    log=$(mktemp)
    document=$("$target/release/linmap" boot --json --image "$target/linmap.img" --ram "$ram" --cpus 8 --timeout 86400 \
        --page-size "$size" --run "stress:$count:$seed" "$@" 2>"$log") || status=$?
    printf '%-4s mode %-8s RAM %-5s %-9s %9s operations %10s probes  wrong %s  leaks %s  %5d s\n' "$size" "$mode" "$ram" "$how" \
        "$count" "$(number probes <<<"$document")" "$(number faults_wrong <<<"$document")" \
        "$(grep -c 'pages are taken, but' "$log" || true)" $((SECONDS - start))
    [[ $status = 0 ]] || tail -30 "$log"
    rm "$log"
    return $status
}

sanitized

# As many CPUs as there can be: each comes in, works, and maps and unmaps a page while all others do.
start=$SECONDS
"$target/release/linmap" boot --json --image "$target/linmap.img" --ram 1G --cpus 512 --count --run cpus >/dev/null
printf '512 CPUs work  %5d s\n' $((SECONDS - start))

for size in ${SIZES:-4k 16k 64k}; do
    for mode in ${MODES:-1 2-pages 2-park 3-pages 3-park fixed}; do
        read -ra more < <(options "$mode" && echo)
        # In this shell: a subshell would draw the same again.
        for how in 'in turns' 'at once'; do
            powers=9
            [[ $mode != *-pages ]] || powers=5
            power=$((1 << RANDOM % powers))
            ram=${RAM:-$((power + RANDOM % (power + 1)))G}
            case $how in
            'in turns') soak "$size" "$mode" "$how" "$operations" "$ram" --count "${more[@]}" ;;
            *) soak "$size" "$mode" "$how" $((operations / 200)) "$ram" "${more[@]}" ;;
            esac
        done
    done
done
