#!/bin/sh
# Builds Linux with linmap from Debian's source package, boots it under QEMU in many ways, and compares.
#
#   dev/scripts/test-linux-port.sh          4K pages, 48 bits
#   dev/scripts/test-linux-port.sh all      16K and 64K pages, 52 bits, a debug kernel, and one with more features too
#   dev/scripts/test-linux-port.sh KIND...  these: 4k 16k 64k 4k-52 debug more
#   dev/scripts/test-linux-port.sh 6.12 ... Linux 6.12 instead of 7.2
#   dev/scripts/test-linux-port.sh short .. a quarter of the boots and of the counts
#   dev/scripts/test-linux-port.sh counts .. no boots but those that count
#
# Counts of instructions are compared with docs/benchmarks/linux-port.json, and that with the book's page; --update before or
# after the kinds writes both.
#
# Everything is in target/linux-port: the source, which is fetched and unpacked once, and a build for each kind, which
# takes minutes the first time and seconds later. LINUX_PORT_JOBS says how many compilers run, 2 if it is not set.
#
# The exit code is 77 if there is no source to be had, and 75 if a signal ends the script before anything has failed.
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
port=$target/linux-port
release=7.2

die() {
    printf 'test-linux-port: %s\n' "$*" >&2
    exit 1
}

# There is no source to be had: not a failure of linmap. The exit code says so.
not_tested() {
    echo "test-linux-port: NOT TESTED: $*"
    exit 77
}

archive=$target/linux/apt
# shellcheck source=dev/scripts/debian.sh
. dev/scripts/debian.sh

# The files that the hooks change.
hooked() {
    echo Makefile
    echo Kconfig
    sed -n 's/^file //p' "linux/$release/hooks" "linux/$release/hooks-test"
}

# unpack_release RELEASE DIRECTORY TAR...: unpacks the source of a release, of which tar's arguments leave out what is not needed.
unpack_release() (
    rm -f "$archive/fresh"
    (lists) || not_tested "Debian's archive cannot be read"
    echo "test-linux-port: fetching linux-source-$1"
    package=$(apt apt-cache madison "linux-source-$1" | sed -n '1s/^[^|]*| *\([^ ]*\).*/\1/p')
    [ "$package" ] || not_tested "Debian's archive has no linux-source-$1"
    (download "linux-source-$1=$package" "$port/package") || not_tested "linux-source-$1 cannot be fetched"
    name=linux-source-$1 unpacked=$2
    rm -rf "$unpacked"
    mkdir -p "$unpacked"
    shift 2
    dpkg-deb --fsys-tarfile "$port/package"/*.deb | tar -xO --wildcards '*.tar.xz' | xz -dc |
        tar -x -C "$unpacked" --strip-components=1 --wildcards "$@" || die "$name cannot be unpacked"
    rm -rf "$port/package"
    echo "$package" >"$unpacked/complete"
)

# Unpacks the source, once. Of Linux's own tests, those of mm and what they include.
unpack() {
    [ ! -e "$port/source/complete" ] || [ ! -e "$port/source/tools/testing/selftests/mm" ] || return 0
    rm -rf "$port/original" "$port/headers"
    unpack_release "$release" "$port/source" --exclude='*/Documentation/translations' \
        --exclude='*/tools/testing/[!s]*' --exclude='*/tools/testing/selftests/[!km]*'
}

# The library's lists of CPUs are those of this Linux, and of the newest one, of which a few files are fetched for that.
compare_cpus() {
    newest=$(find linux -name '[0-9]*' -printf '%f\n' | sort -V | tail -n 1)
    sources=$port/source
    if [ "$release" != "$newest" ]; then
        cpus=$target/linux-port/cpus-$newest
        [ -e "$cpus/complete" ] || unpack_release "$newest" "$cpus" "linux-source-$newest/Makefile" \
            '*/arch/arm64/include/asm/cputype.h' '*/arch/arm64/kernel/cpufeature.c' '*/arch/arm64/kernel/cpu_errata.c' || true
        [ ! -e "$cpus/complete" ] || sources="$sources $cpus"
    fi
    for source in $sources; do
        if LINMAP_LINUX_SOURCE=$source cargo test --quiet -p linmap --test linux -- --ignored >"$port/cpus.log" 2>&1; then
            echo "passed: lists of CPUs: those of Linux $(cat "$source/complete")"
        else
            tail -n 25 "$port/cpus.log"
            fail "lists of CPUs are not those of Linux $(cat "$source/complete")"
        fi
    done
}

# Puts linmap into the source; the files that hooks change are kept as they were, too. Files that are as they were keep their
# times, so that little is built again.
patch_source() {
    # Nothing has changed a file that had no hooks so far.
    hooked | while read -r file; do
        [ -e "$port/original/$file" ] || {
            mkdir -p "$port/original/$(dirname "$file")"
            cp -p "$port/source/$file" "$port/original/$file"
        }
    done
    rm -rf "$port/patched"
    cp -Rp "$port/original" "$port/patched"
    linux/apply --test --source "$port/patched"
    (cd "$port/patched" && find . -type f) | while read -r file; do
        mkdir -p "$port/source/$(dirname "$file")"
        cmp -s "$port/patched/$file" "$port/source/$file" || cp "$port/patched/$file" "$port/source/$file"
    done
    (cd "$port/source/arch/arm64/mm/linmap" && find . -type f) | while read -r file; do
        [ -e "$port/patched/arch/arm64/mm/linmap/$file" ] || rm "$port/source/arch/arm64/mm/linmap/$file"
    done
}

kernel_make() {
    make -C "$port/source" O="$build" ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- KBUILD_BUILD_TIMESTAMP=1970-01-01 \
        KBUILD_BUILD_USER=linmap KBUILD_BUILD_HOST=linmap -j "${LINUX_PORT_JOBS:-2}" "$@"
}

# build KIND: sets $build, and builds the kernel and its initramfs there.
build() {
    build=$port/$1
    mkdir -p "$build"
    cp linux/test/config "$build/wanted"
    [ "$1" = 4k ] || cat "linux/test/config-$1" >>"$build/wanted"
    [ ! -e "linux/$release/config" ] || cat "linux/$release/config" >>"$build/wanted"
    if ! cmp -s "$build/wanted" "$build/configured" || ! [ -e "$build/.config" ]; then
        rm -f "$build/configured"
        kernel_make tinyconfig >"$build/log" 2>&1 || die "no configuration; see $build/log"
        cat "$build/wanted" >>"$build/.config"
        cp "$build/wanted" "$build/configured"
    fi
    # Our own options may be new.
    kernel_make olddefconfig >"$build/log" 2>&1 || die "no configuration; see $build/log"
    # The last line about an option counts.
    grep '^CONFIG' "$build/wanted" | tac | sort -t= -k1,1 -s -u | grep -v '=n$' | while read -r line; do
        grep -qx "$line" "$build/.config" || die "Linux does not take $line"
    done
    echo "test-linux-port: building Linux $(cat "$port/source/complete") for $1"
    kernel_make Image modules >"$build/log" 2>&1 || die "Linux is not built; the end of $build/log:
$(grep -v '^  ' "$build/log" | tail -n 12)"
    initramfs
}

# What programs include of this Linux: the same for every kind.
headers() {
    [ ! -e "$port/headers/complete" ] || return 0
    mkdir -p "$port/headers"
    build=$port/headers
    kernel_make headers >"$port/headers/log" 2>&1 || die "no headers; see $port/headers/log"
    : >"$port/headers/complete"
}

# Linux's own tests of mm that need nothing else of a kernel go into the initramfs, too.
own_tests() {
    # Those of other releases have not been tried.
    [ "$release" = 7.2 ] || return 0
    for file in capability.h libcap.a; do
        [ -e "$target/linux/sys/$file" ] || {
            mkdir -p "$target/linux/sys"
            lists && fetch libcap-dev/bookworm "$file" "$target/linux/sys/$file"
        }
    done
    mkdir -p "$build/root/mm"
    tests=$port/source/tools/testing/selftests
    # What they share; not every release has both.
    set -- "$tests/mm/vm_util.c"
    [ ! -e "$tests/mm/hugepage_settings.c" ] || set -- "$@" "$tests/mm/hugepage_settings.c"
    for name in map_populate mdwe_test memfd_secret mlock2-tests mrelease_test mremap_dontunmap; do
        aarch64-linux-gnu-gcc -O2 -static -w -D_GNU_SOURCE= -I "$tests" -I "$port/source/tools/include" \
            -isystem "$port/headers/usr/include" -isystem "$target/linux" -o "$build/root/mm/$name" \
            "$tests/mm/$name.c" "$@" "$target/linux/sys/libcap.a" -lpthread
    done
}

initramfs() {
    rm -rf "$build/root"
    mkdir -p "$build/root/bin"
    cp "$target/linux/busybox" "$build/root/bin/busybox"
    cp linux/test/init "$build/root/init"
    cp "$build"/arch/arm64/mm/linmap/module?.ko "$build/root/"
    # KFENCE's own test, where the kernel has it.
    [ ! -e "$build/mm/kfence/kfence_test.ko" ] || cp "$build/mm/kfence/kfence_test.ko" "$build/root/"
    own_tests
    aarch64-linux-gnu-gcc -Os -static -nostdlib -nostdinc -fno-stack-protector -fno-asynchronous-unwind-tables \
        -isystem "$(aarch64-linux-gnu-gcc -print-file-name=include)" -isystem "$port/headers/usr/include" \
        -include "$port/source/tools/include/nolibc/nolibc.h" -o "$build/root/program" linux/test/program.c
    (cd "$build/root" && find . | cpio -o -H newc --quiet | gzip -1) >"$build/initramfs"
    # With a kernel that this one starts.
    rm -rf "$build/with"
    mkdir -p "$build/with/next"
    cp "$build/arch/arm64/boot/Image" "$build/initramfs" "$build/with/next/"
    (cd "$build/with" && find . | cpio -o -H newc --quiet && cat "$build/initramfs") >"$build/initramfs-next"
}

# machine CPU MEMORY CPUS ARGUMENTS...: runs the kernel of $build, and prints what its console says. There is no ITS: a kernel
# that another one has started would go on using the first one's interrupt tables, which nobody but EFI keeps free. On a busy
# host CPUs stand still for long, which RCU would report. Each line is there at once, so that the host can wait for it.
machine() {
    cpu=$1$narrow memory=$2 cpus=$3
    shift 3
    # shellcheck disable=SC2086 # QEMU's own arguments are a list
    timeout --foreground "${LINUX_PORT_TIMEOUT:-600}" qemu-system-aarch64 -nic none -nodefaults -nographic -serial stdio \
        -M virt,gic-version=3,its=off -cpu "$cpu" -m "$memory" -smp "$cpus" ${QEMU_MORE-} -no-reboot \
        -kernel "$build/arch/arm64/boot/Image" -initrd "$build/${INITRAMFS:-initramfs}" \
        -append "console=ttyAMA0 panic=-1 rcupdate.rcu_cpu_stall_timeout=300 $*" </dev/null 2>&1 | sed -u 's/\r//g' || true
}

# boot NAME CPU MEMORY CPUS ARGUMENTS...: boots the kernel of $build; its console goes to $build/NAME.log. The end of the first
# process is a panic on purpose, of which kernels may print more. Where $AGAIN is set it boots again, with these tests.
boot() {
    name=$1
    shift
    log=$build/$name.log
    machine "$@" >"$log"
    [ -z "${AGAIN-}" ] || machine "$@" "tests=$AGAIN" >>"$log"
    if ! grep -q 'test: all done' "$log"; then
        tail -n 25 "$log"
        fail "$name did not end"
    elif ! linux/test/wrong "$log" >"$log.wrong"; then
        fail "$name: nobody has judged $log"
    elif [ -s "$log.wrong" ]; then
        cat "$log.wrong"
        fail "$name: see $log"
    else
        echo "passed: $name: $(grep -c 'test: .* passed' "$log") tests"
    fi
}

# says NAME TEXT: the console of the boot NAME has shown this.
says() { grep -q "$2" "$build/$1.log" || fail "$1 should say: $2"; }

fail() {
    printf 'FAILED: %s\n' "$*"
    failed=yes
}

# same NAME [sizes]: compares what NAME and NAME-off print between marks: tables, or results of Linux's own tests. They are the
# same, line by line, but for what is meant to differ: with `sizes`, also sizes of leaves where this release has only pages.
same() {
    for log in "$1" "$1-off"; do
        linux/test/plain "$build/$log.log" >"$build/$log.plain"
        [ ! -e "linux/$release/plain" ] || {
            mv "$build/$log.plain" "$build/$log.full"
            "linux/$release/plain" ${2:+"$2"} <"$build/$log.full" >"$build/$log.plain"
        }
    done
    if [ ! -s "$build/$1.plain" ]; then
        fail "$1 has nothing to compare"
    elif diff "$build/$1-off.plain" "$build/$1.plain" >"$build/$1.diff"; then
        echo "passed: $1: $(wc -l <"$build/$1.plain") lines as without linmap"
    else
        head -n 20 "$build/$1.diff"
        fail "$1 is not as without linmap; see $build/$1.diff"
    fi
}

# QEMU's CPU as one that Linux trusts with live splits, and as it is.
trusted=max,pauth-impdef=on,midr=0xc00fac30
plain=max,pauth-impdef=on
all=on,direct,trace,guard,kprobes,vmalloc,restored,modules,program-secretmem,program-bpf,stress,collapse,stress,meminfo,dump-after
# KFENCE's pool is there, and no page of it changes before the dump.
still='nokaslr kfence.sample_interval=100000000'

# both NAME CPU MEMORY CPUS TESTS ARGUMENTS...: the tables after TESTS, with linmap and without, are compared. Everything else
# runs after that where linmap is on.
both() {
    what=$1 model=$2 memory=$3 cpus=$4 first=$5
    shift 5
    # shellcheck disable=SC2086 # a list
    boot "$what" "$model" "$memory" "$cpus" $still "tests=$first,$all" "$@"
    # shellcheck disable=SC2086
    boot "$what-off" "$model" "$memory" "$cpus" $still "tests=$first,direct" linmap=off "$@"
    if [ "$model" = "$plain" ]; then same "$what"; else same "$what" sizes; fi
}

# Every way of booting a kernel, or some of them.
boots() {
    # All else is that of 4k.
    [ "$kind" != more ] || {
        boots_hotplug
        boots_hibernate
        return 0
    }
    # With 52 bits of small pages linmap turns itself off where the CPU has them. All other boots are on one that has not.
    [ "$kind" != 4k-52 ] || {
        boot lpa2 "$trusted" 1536M 4 "tests=unfit,direct,kprobes,vmalloc,modules,program-secretmem"
        says lpa2 'linmap: off at 52 bits, since the root does not fit'
        narrow=,lpa2=off
    }
    boots_compared
    boots_random
    [ ! -e "$build/root/kfence_test.ko" ] || boots_kfence
    [ "$kind" != debug ] || {
        boots_root
        boot failing "$trusted" 1536M 4 tests=failing,on,direct,modules,stress,collapse
        boot debug-pagealloc "$trusted" 1536M 4 debug_pagealloc=on "tests=$all"
        boots_virtio_mem
        boot hotplug-pagealloc "$trusted" 2G 4 debug_pagealloc=on mem=1G linmap_test.ram=1G@2G \
            "tests=on,add-low,add-high,remove-low,remove-high,whole,add-high,online,remove-high"
    }
    [ -z "$short" ] || return 0
    boots_next
    [ ! -e "$build/root/mm" ] || boots_mm
    # Where it is not Linux that knows the CPUs: one may abort under KASLR, and one that comes late.
    [ ! -e "linux/$release/release.c" ] || {
        boot kaslr-withheld "$trusted" 1536M 4 linmap_test.withheld=2 "tests=$all"
        boot late "$trusted" 1536M 4 maxcpus=2 linmap_test.withheld=3 "tests=late,$all"
    }
}

# In these KFENCE is still, and tables are compared.
boots_compared() {
    while read -r way cpu arguments; do
        case $short$way in shortlarge | shortwithheld | shortkpti-pages) ;; short*) continue ;; esac
        eval "model=\$$cpu"
        # shellcheck disable=SC2086 # a list
        both "$way" "$model" 1536M 4 dump $arguments
    done <<EOF
large trusted
pages plain
withheld trusted linmap_test.withheld=2
kpti trusted kpti=1
kpti-pages plain kpti=1
rodata-on plain rodata=on
EOF
}

# In these it changes pages, and addresses are random.
boots_random() {
    boot kaslr "$trusted" 1536M 4 "tests=$all"
    # As many banks of memory as linmap takes, and more.
    boot many-banks "$trusted" 1536M 4 linmap_test.holes=240 "tests=$all"
    boot too-many-banks "$trusted" 1536M 4 linmap_test.holes=300 tests=unfit,direct,kprobes,vmalloc,modules
    says too-many-banks 'linmap: off at 48 bits, since memory has too many banks'
    [ -z "$short" ] || return 0
    boot kaslr-pages "$plain" 1536M 4 "tests=$all"
    boot kaslr-kpti "$trusted" 1536M 4 kpti=1 "tests=$all"
    boot kaslr-off "$trusted" 1536M 4 linmap=off "tests=$all"
    boot one-cpu "$trusted" 512M 1 "tests=$all"
    boot kfence-late "$trusted" 1536M 4 kfence.sample_interval=0 "tests=direct,kfence-late,$all"
}

# Kernels that start kernels: the tables of the first with the second in memory, then those of the second.
boots_next() {
    for way in trusted plain; do
        eval "model=\$$way"
        INITRAMFS=initramfs-next both "crash-$way" "$model" 1536M 4 crash,dump crashkernel=192M
        INITRAMFS=initramfs-next both "kexec-$way" "$model" 1536M 4 direct,kexec,dump
    done
}

# Memory comes and goes. Half of it is not known to Linux at first.
boots_hotplug() {
    halves=add-low,dump,add-high,dump,online,remove-low,dump,remove-high,dump
    for way in trusted plain; do
        eval "model=\$$way"
        for whose in '' -off; do
            # shellcheck disable=SC2086 # a list
            boot "hotplug-$way$whose" "$model" 2G 4 $still mem=1G linmap_test.ram=1G@2G ${whose:+linmap=off} \
                "tests=$halves,whole,device,dump,on,$all"
        done
        if [ "$way" = plain ]; then same "hotplug-$way"; else same "hotplug-$way" sizes; fi
    done
    boot hotplug-kaslr "$trusted" 2G 4 mem=1G linmap_test.ram=1G@2G "tests=on,$halves,whole,collapse,device"
}

# Memory comes that needs an entry of the root which nothing had so far.
boots_root() {
    QEMU_MORE="-object memory-backend-ram,id=ram,size=516G,reserve=off -machine memory-backend=ram" \
        boot root "$trusted" 516G 4 nokaslr mem=1G linmap_test.ram=1G@0x8040000000 \
        tests=on,add-low,add-high,online,remove-low,remove-high,whole,direct
}

# A virtual device brings memory and takes it back, block by block.
boots_virtio_mem() {
    rm -f "$build"/monitor.*
    mkfifo "$build/monitor.in" "$build/monitor.out"
    log=$build/virtio-mem.log
    : >"$log"
    {
        until grep -q 'test: the host may' "$log" || [ -e "$build/monitor.end" ]; do sleep 1; done
        [ -e "$build/monitor.end" ] || echo 'qom-set more requested-size 0' >"$build/monitor.in"
    } &
    QEMU_MORE="-chardev pipe,id=monitor,path=$build/monitor -mon chardev=monitor -object memory-backend-ram,id=ram,size=2G
        -device virtio-mem-pci,id=more,memdev=ram,requested-size=1G" \
        boot virtio-mem "$trusted" 1G,maxmem=4G 4 memhp_default_state=online_movable "tests=on,virtio-mem,$all"
    : >"$build/monitor.end"
    wait $!
}

# Suspends to disk and goes on in the next boot, which copies the tables of its linear map to put back all memory.
boots_hibernate() {
    truncate -s 1G "$build/disk"
    for way in 'large trusted nokaslr' 'pages plain nokaslr' 'kaslr trusted kpti=1' 'off trusted linmap=off'; do
        # shellcheck disable=SC2086 # words
        set -- $way
        eval "model=\$$2"
        AGAIN=resume QEMU_MORE="-drive if=none,id=disk,format=raw,file=$build/disk -device virtio-blk-device,drive=disk" \
            boot "hibernate-$1" "$model" 768M 4 "$3" kfence.sample_interval=100000000 \
            "tests=on,modules,stress,take-out,hibernate,put-back,$all"
    done
    rm "$build/disk"
}

# Linux's own tests of mm: results are compared.
boots_mm() {
    boot mm "$trusted" 1536M 4 tests=mm,on,direct
    boot mm-off "$trusted" 1536M 4 linmap=off tests=mm,direct
    same mm
    grep -q '^ok ' "$build/mm.plain" || fail "mm: no test has passed"
}

# KFENCE's own test, before and after leaves of the linear map are collapsed. It leaves the first guard valid; `guard` does not.
boots_kfence() {
    boot kfence "$trusted" 1536M 4 tests=on,kfence,collapse,guard,kfence
    boot kfence-pages "$plain" 1536M 4 tests=on,kfence
}

# count NAME CPU CPUS ARGUMENTS...: what NAME counts, without and with linmap, goes to $build/counted.
count() {
    what=$1 model=$2 cpus=$3
    shift 3
    for whose in linux:off linmap:on; do
        # shellcheck disable=SC2086 # a list
        QEMU_MORE="-icount shift=0 -object memory-backend-ram,id=ram,size=64G,reserve=off -machine memory-backend=ram" \
            boot "counts-$what-${whose%:*}" "$model" 64G "$cpus" $still "linmap=${whose#*:}" "$@"
        # Where all is pages there is nothing larger.
        sed -n "s,.*test: count \([^ ]*\) \([0-9]*\)\$,$what/\1/${whose%:*}_instructions \2,p" "$log" |
            { grep -v '^pages/invalid-of-[br]' || true; } >>"$build/counted"
    done
}

# Exact counts of instructions, compared with what is stored.
counts() {
    {
        printf 'linux %s\nqemu %s\n' "$(cat "$port/source/complete")" "$(qemu-system-aarch64 --version | head -n 1)"
        printf 'gcc %s\nrustc %s\n' "$(aarch64-linux-gnu-gcc --version | head -n 1)" "$(rustc --version)"
    } >"$build/counted"
    count large "$trusted" 1 tests=counts
    [ "$short" ] || {
        count pages "$plain" 1 tests=counts
        count parked "$trusted" 2 linmap_test.withheld=1
    }
    cargo run --quiet -p bench -- linux-port "$prefix$kind" "$build/counted" ${update:+"$update"} || failed=yes
}

failed=
# Who stops this script learns whether anything had failed.
trap '[ -z "$failed" ] || exit 1; exit 75' TERM
update=
kinds=
prefix=
short=
only_counts=
for argument; do
    case $argument in
    --update) update=--update ;;
    short) short=short ;;
    counts) only_counts=yes ;;
    7.2) ;;
    *.*)
        [ -e "linux/$argument/hooks" ] || die "no hooks for Linux $argument"
        release=$argument port=$target/linux-port/$argument prefix=$argument-
        ;;
    all) kinds='4k 16k 64k 4k-52 debug more' ;;
    *)
        [ "$argument" = 4k ] || [ -e "linux/test/config-$argument" ] || die "no such kind: $argument; --help lists them"
        kinds="$kinds $argument"
        ;;
    esac
done
mkdir -p "$port" "$target/linux"
unpack
[ -e "$target/linux/busybox" ] || { lists && fetch busybox-static/bookworm bin/busybox "$target/linux/busybox"; }
compare_cpus
patch_source
headers
for kind in ${kinds:-4k}; do
    build "$kind"
    narrow=
    [ "$only_counts" ] || boots
    # With 52 bits the map is that of 48.
    case $kind in debug | more | 4k-52) ;; *) counts ;; esac
done
[ -z "$failed" ] || exit 1
