#!/bin/bash
# Judges kernels whole: the image in its modes, page sizes and tasks, the examples, Debian's kernels, and Linux on linmap if
# `make test-linux-port` has built it. None has a breach or a suspect that is not in linux/judge.txt. Then it hides each TLBI and DSB of
# the image and of Linux 7.2 from the judge in turn, and compares what it notices with what docs/benchmarks/judge.json has.
#
#   dev/scripts/test-judge.sh [PART...] [--update]    image, examples, linux, sites; default: all; --update stores what is noticed
set -euo pipefail
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh

target=${CARGO_TARGET_DIR:-$PWD/target}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 judged=0
untested=()

qemu=$(dev/scripts/judge.sh --qemu) || { echo "NOT TESTED: linmap judge, as there is no QEMU 10" && exit 77; }

# judge NAME [OPTION...] -- QEMU ARGUMENTS: a kernel that has to be without a breach and a suspect.
judge() {
    local name=$1 start=$SECONDS
    shift
    judged=$((judged + 1))
    if "$target/release/linmap" judge --qemu "$qemu" --plugins "$target/judge" --quiet --strict --seconds 900 "$@" \
        -nic none -nographic </dev/null >"$work/out" 2>"$work/err"; then
        echo "ok      $name, $((SECONDS - start)) s: $(grep ' breaches, ' "$work/out")"
    else
        failed=$((failed + 1))
        echo "FAILED  $name, $((SECONDS - start)) s"
        cat "$work/out" "$work/err"
    fi
}

# The image with a command line, at each page size, on CPUs that may abort and on those that never do.
image() {
    local task page cpu
    for task in bench contend cpus crash early hidden hotplug interrupts kprobes late:500 local modes modules pagealloc \
        protection realm retype selftest stress:2000 together updates vmalloc80; do
        for page in 4k 16k 64k; do
            for cpu in max max,midr=0xc00fac30; do
                judge "image, $task, $page, $cpu" --symbols "$(symbols)" -- -M virt,mte=on -cpu "$cpu" -smp 4 -m 2G \
                    -kernel "$target/linmap.img" -append "pagesize=$page crashkernel=128M run=$task"
            done
        done
    done
    for line in split=park bbml2=off bbml2=boot-cpu rodata=on rodata=off root=stays text=hidden data=hidden data=ro va_bits=39 \
        va_bits=52; do
        judge "image, $line" --symbols "$(symbols)" -- -M virt,mte=on -cpu max,midr=0xc00fac30 -smp 4 -m 2G \
            -kernel "$target/linmap.img" -append "$line run=selftest"
    done
}

symbols() { echo "$target/$(dev/scripts/kernel-target.sh)/image/kernel"; }

examples() {
    dev/scripts/bare-metal.sh
    judge 'examples/bare-metal' -- -M virt -cpu max -smp 2 -m 512M -kernel "$target/bare-metal.elf"
    local compiler
    for compiler in gcc clang; do
        if [[ -e $target/c-library/bare-metal-$compiler.elf ]]; then
            # It promises that no CPU aborts.
            judge "the C example by $compiler" -- -M virt -cpu max,midr=0xc00fac30 -smp 2 -m 512M \
                -kernel "$target/c-library/bare-metal-$compiler.elf"
        else
            untested+=("the C example by $compiler, which \`make test\` builds")
        fi
    done
}

die() {
    echo "$0: $*" >&2
    exit 1
}

# kernel RELEASE: fetches Debian's newest kernel of it, if it is not there. `-16k` at its end is the page size.
kernel() {
    local package release=${1%-16k}
    [[ -e $target/linux/vmlinuz-$1 ]] && return
    lists
    package=$(kernel_package "$release" "arm64${1#"$release"}")
    [[ ! $package ]] || fetch "$package" 'vmlinuz*' "$target/linux/vmlinuz-$1"
}

# Fetches stress-ng and its libraries, of Debian 12.
# shellcheck disable=SC2030,SC2031 # the suites are this function's own
stress() (
    archive=$target/linux/apt-bookworm suites=bookworm
    # shellcheck source=dev/scripts/debian.sh
    . dev/scripts/debian.sh
    lists
    programs "$target/linux/stress" "lib(apparmor|bsd|c6|crypt|drm|egl|expat|ffi|gbm|gcc|gles|glvnd|jpeg|judy|kmod|lzma|md0|sctp|ssl|\
wayland|x11|xau|xcb|xdmcp|xxhash|zstd)[^ ]*|zlib1g" stress-ng=usr/bin/stress-ng
)

# Makes a first program that starts others, and with `stress=SECONDS` on the kernel's command line stress-ng.
prepare_linux() {
    [[ ! -e $work/initramfs ]] || return 0
    mkdir -p "$target/linux" "$work/root"/{bin,proc,dev,tmp}
    archive=$target/linux/apt
    # shellcheck source=dev/scripts/debian.sh
    . dev/scripts/debian.sh
    rm -f "$archive/fresh"
    [[ -e $target/linux/busybox ]] || { lists && fetch busybox-static/bookworm bin/busybox "$target/linux/busybox"; }
    [[ -e $target/linux/stress ]] || stress
    cp "$target/linux/busybox" "$target/linux/stress/bin/stress-ng" "$work/root/bin/"
    cp -r "$target/linux/stress/lib" "$work/root/lib"
    cat >"$work/root/init" <<'END'
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t devtmpfs dev /dev
for i in $(busybox seq 30); do busybox true; done
[ -z "$stress" ] || stress-ng --mmap 2 --fork 2 --vm 2 --vm-bytes 64M --mmap-bytes 64M --timeout "$stress" --temp-path /tmp
busybox poweroff -f
END
    chmod +x "$work/root/init"
    (cd "$work/root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs"
}

# machine KERNEL INITRAMFS [ARGUMENT...]: sets `machine` to QEMU's arguments for a Linux.
machine() {
    machine=(-M virt -cpu max -smp 2 -m 1G -kernel "$1" -initrd "$2"
        -append "console=ttyAMA0 quiet panic=-1 rdinit=/init nokaslr ${*:3}")
}

linux() {
    local release kind switch
    prepare_linux
    for release in 6.1 6.12 6.12-16k 7.2 7.2-16k 7.3 7.3-16k; do
        (kernel "$release") || true
        if [[ ! -e $target/linux/vmlinuz-$release ]]; then
            untested+=("Linux $release, which cannot be had from Debian's archive")
            continue
        fi
        machine "$target/linux/vmlinuz-$release" "$work/initramfs" stress=60
        judge "Linux $release" --allow linux/judge.txt -- "${machine[@]}"
        # It is known to be there, where pages are small.
        if [[ $release != *-16k ]] && grep '^allowed, and not found' "$work/out" | grep -q vmemmap_pud_populate; then
            failed=$((failed + 1))
            echo "FAILED  Linux $release: its breach in vmemmap_pud_populate was not found"
        fi
    done
    for kind in 4k 16k 64k; do
        for switch in on off; do
            if [[ -e $target/linux-port/$kind/arch/arm64/boot/Image ]]; then
                machine "$target/linux-port/$kind/arch/arm64/boot/Image" "$work/initramfs" linmap=$switch
                judge "Linux with linmap, $kind, $switch" --allow linux/judge.txt \
                    --symbols "$target/linux-port/$kind/vmlinux" -- "${machine[@]}"
            else
                untested+=("Linux with linmap, $kind, $switch: \`make test-linux-port ARGS=$kind\` builds it")
            fi
        done
    done
}

# Each TLBI and DSB, hidden in turn.
sites() {
    local common=(--qemu "$qemu" --plugins "$target/judge" -- -nic none -nographic)
    local bench=(cargo run --quiet --release -p bench -- sites)
    judged=$((judged + 1))
    "${bench[@]}" image "${update[@]}" -- --symbols "$(symbols)" "${common[@]}" -M virt -cpu max,midr=0xc00fac30 -smp 2 -m 1G \
        -kernel "$target/linmap.img" -append run=selftest 2>"$work/err" || { failed=$((failed + 1)) && cat "$work/err"; }
    prepare_linux
    (kernel 7.2) || true
    if [[ ! -e $target/linux/vmlinuz-7.2 ]]; then
        untested+=("the places of Linux 7.2, which cannot be had from Debian's archive")
        return
    fi
    judged=$((judged + 1))
    machine "$target/linux/vmlinuz-7.2" "$work/initramfs"
    "${bench[@]}" linux-7.2 "${update[@]}" -- "${common[@]}" "${machine[@]}" 2>"$work/err" ||
        { failed=$((failed + 1)) && cat "$work/err"; }
}

parts=() update=()
for argument; do
    case $argument in
    image | examples | linux | sites) parts+=("$argument") ;;
    --update) update=(--update) ;;
    *) die "no part '$argument'; --help lists them" ;;
    esac
done
[[ ${#parts[@]} -gt 0 ]] || parts=(image examples linux sites)
for part in "${parts[@]}"; do "$part"; done
for what in "${untested[@]}"; do echo "NOT TESTED: $what"; done
echo "$judged judged, $failed failed"
[[ $failed = 0 ]]
