#!/bin/sh
# Tests linux/apply on a tree of a few lines that has every place to hook: what it puts in, and that it refuses all else and
# changes nothing then. Needs no network and no compiler.
set -eu
cd "$(dirname "$0")/../.."
. dev/scripts/help.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
count=0

die() {
    printf 'test-linux-apply: FAILED: %s\n' "$*" >&2
    exit 1
}

# body FUNCTION LINE...: a definition with these lines in its body.
body() {
    printf 'static int __init %s(void)\n{\n' "$1"
    shift
    printf '%s\n' "$@" '}'
}

# make_tree RELEASE: a tree of that release, with what the hooks look for.
make_tree() {
    rm -rf "$tree"
    mkdir -p "$tree/arch/arm64/mm" "$tree/arch/arm64/kernel" "$tree/arch/arm64/include/asm" "$tree/include/linux" "$tree/mm"
    printf 'VERSION = %s\nPATCHLEVEL = %s\nSUBLEVEL = 9\n' "${1%.*}" "${1#*.}" >"$tree/Makefile"
    echo '# the menu' >"$tree/Kconfig"
    case $1 in
    6.12) make_6_12 ;;
    *) make_7 "$1" ;;
    esac
    printf '\tFIX_PGD,\n' >"$tree/arch/arm64/include/asm/fixmap.h"
    rounds='start = round_down(start, stride);'
    [ "$1" != 6.12 ] || rounds='if ((end - start) > (MAX_DVM_OPS * PAGE_SIZE)) {'
    printf 'static inline void flush_tlb_kernel_range(unsigned long start, unsigned long end)\n{\n\t%s\n}\n' "$rounds" \
        >"$tree/arch/arm64/include/asm/tlbflush.h"
    {
        echo '#include <asm/trans_pgd.h>'
        body machine_kexec_post_load '	rc = trans_pgd_create_copy(&info, &trans_pgd,' \
            '				   _PAGE_OFFSET(vabits_actual), PAGE_END);'
    } >"$tree/arch/arm64/kernel/machine_kexec.c"
    {
        echo '#include <asm/trans_pgd.h>'
        body swsusp_arch_suspend '	flags = local_daif_save();'
    } >"$tree/arch/arm64/kernel/hibernate.c"
    printf '#ifdef CONFIG_X86\n#endif\n' | tee "$tree/mm/vmstat.c" >"$tree/include/linux/vm_event_item.h"
    rm -rf "$work/before"
    cp -R "$tree" "$work/before"
}

make_6_12() {
    echo 'source "kernel/Kconfig.hz"' >"$tree/arch/arm64/Kconfig"
    # shellcheck disable=SC2016 # make's variable
    echo 'obj-$(CONFIG_ARM64_MTE) += mteswap.o' >"$tree/arch/arm64/mm/Makefile"
    echo 'static inline bool arch_kfence_init_pool(void) { return true; }' >"$tree/arch/arm64/include/asm/kfence.h"
    {
        echo '#include <asm/virt.h>'
        body check_local_cpu_capabilities '	if (!system_capabilities_finalized())' '		return;'
        body __kpti_install_ng_mappings '		free_pages(alloc, order);'
        body setup_system_features '	kpti_install_ng_mappings();'
    } >"$tree/arch/arm64/kernel/cpufeature.c"
    {
        echo '#include <asm/kfence.h>'
        body update_mapping_prot '	__create_pgd_mapping(a);'
        body __map_memblock '	__create_pgd_mapping(b);'
        body map_mem '		flags |= NO_BLOCK_MAPPINGS;'
        body __remove_pgd_mapping '	unmap_hotplug_range(a);'
        body arch_add_memory '	__create_pgd_mapping(c);'
        body create_idmap '	return;'
    } >"$tree/arch/arm64/mm/mmu.c"
    {
        echo '#include <asm/kfence.h>'
        body __change_memory_common '	ret = apply_to_page_range(a);'
        body change_memory_common '	struct vm_struct *area;' '		for (i = 0; i < area->nr_pages; i++)' \
            '	return __change_memory_common(a);'
        body set_direct_map_invalid_noflush '	return apply_to_page_range(b);'
        body set_direct_map_default_noflush '	return apply_to_page_range(c);'
    } >"$tree/arch/arm64/mm/pageattr.c"
}

make_7() {
    bbml=bbml3 supports=cpu_supports_bbml3 line='	if (SYS_FIELD_GET(a))'
    [ "$1" = 7.3 ] || bbml=bbml2 supports=cpu_supports_bbml2_noabort line='	return true;'
    echo 'source "kernel/livepatch/Kconfig"' >"$tree/arch/arm64/Kconfig"
    # shellcheck disable=SC2016 # make's variable
    echo 'obj-$(CONFIG_ARM64_GCS) += gcs.o' >"$tree/arch/arm64/mm/Makefile"
    {
        echo '#include <asm/kfence.h>'
        body __kpti_install_ng_mappings '		free_pages(alloc, order);'
        body range_split_to_ptes '	lazy_mmu_mode_enable();'
        body linear_map_maybe_split_to_ptes "	if (linear_map_requires_$bbml && true)" '		return;'
        body linear_map_split_to_ptes '		smp_cond_load_acquire(a);' '		WRITE_ONCE(b);'
        body update_mapping_prot '	early_create_pgd_mapping(a);'
        body __map_memblock '	early_create_pgd_mapping(b);'
        body elsewhere '	early_create_pgd_mapping(c);'
        body map_mem '	__map_memblock();'
        body __remove_pgd_mapping '	unmap_hotplug_range(a);'
        body arch_add_memory '	ret = __create_pgd_mapping(d);'
        body can_unmap_without_split '	end =  __phys_to_virt(phys_end);' '	if (addr_splits_kernel_leaf(start))'
    } >"$tree/arch/arm64/mm/mmu.c"
    {
        echo '#include <asm/kfence.h>'
        body update_range_prot '	ret = split_kernel_leaf_mapping(a);'
        body __change_memory_common '	ret = update_range_prot(a);'
        body change_memory_common '		for (; numpages; idx++)' '	return __change_memory_common(a);'
    } >"$tree/arch/arm64/mm/pageattr.c"
    body "$supports" "$line" >"$tree/arch/arm64/kernel/cpufeature.c"
    # The test's declaration goes before a line that begins with the type.
    sed -i 's/^static int __init/bool/' "$tree/arch/arm64/kernel/cpufeature.c"
}

# applies ARGUMENTS...: linux/apply succeeds, and adds to each file what the hooks say, and nothing else.
applies() {
    linux/apply --object "$work/object" "$@" "$tree" >"$work/log" 2>&1 || die "$*: $(cat "$work/log")"
    release=$(sed -n 's/.* is Linux \([0-9.]*\) .*/\1/p' "$work/log")
    hooks=linux/$release/hooks
    case "$*" in *--test*) cat "$hooks" "$hooks-test" >"$work/hooks" ;; *) cp "$hooks" "$work/hooks" ;; esac
    files=$(sed -n 's/^file //p' "$work/hooks")
    for file in $files; do
        diff "$work/before/$file" "$tree/$file" >"$work/diff" || true
        ! grep -q '^<' "$work/diff" || die "$file has lost a line"
        awk -v file="$file" '/^file / { mine = $2 == file } mine && /^[+]/ { print substr($0, 2) }' "$work/hooks" |
            sort >"$work/wanted"
        sed -n 's/^> //p' "$work/diff" | sort | diff "$work/wanted" - >&2 || die "$file has not what its hooks add"
    done
    (cd "$tree" && find . -type f) | grep -v /mm/linmap/ | sort >"$work/after.list"
    (cd "$work/before" && find . -type f) | sort | diff - "$work/after.list" >&2 || die "files that nobody asked for"
    cmp -s "$work/object" "$tree/arch/arm64/mm/linmap/linmap.o_shipped" || die "the object is not there"
    added=$(sed -n 's/^obj-.*ARM64_LINMAP.*+= //p' "$tree/arch/arm64/mm/Makefile")
    [ -f "$tree/arch/arm64/mm/$added/Makefile" ] || die "the tree builds $added, which is not there"
    for file in linux/mm/* linux/"$release"/release.* crates/linmap-c/linmap.h; do
        put=$tree/arch/arm64/mm/linmap/${file##*/}
        case "$* $file" in
        *--test*) ;;
        */test*.[ch] | */module*)
            [ ! -e "$put" ] || die "$put is for tests only"
            continue
            ;;
        */Makefile | */Kconfig)
            sed '/^config ARM64_LINMAP_TEST/,$d; /LINMAP_TEST/d' "$file" >"$work/wanted"
            file=$work/wanted
            ;;
        esac
        cmp -s "$file" "$put" || die "$file is not there"
    done
    count=$((count + 1))
}

# in_body FILE FUNCTION TEXT: the text is in that function.
in_body() {
    awk -v name="$2" 'index($0, " " name "(") && !/^\t/ { on = 1 } on { print } /^}/ { on = 0 }' "$tree/$1" | grep -qF "$3" ||
        die "$1: $3 is not in $2"
}

# refuses TEXT ARGUMENTS...: linux/apply fails, says TEXT, and the tree is as it was.
refuses() {
    text=$1
    shift
    rm -rf "$work/before"
    cp -R "$tree" "$work/before"
    ! linux/apply "$@" >"$work/log" 2>&1 || die "$* has not been refused: $text"
    grep -qF -- "$text" "$work/log" || die "not \"$text\" but: $(cat "$work/log")"
    diff -r "$work/before" "$tree" >&2 || die "the tree has changed: $text"
    count=$((count + 1))
}

# without SCRIPT FILE TEXT: refused with the file as sed's script makes it.
without() {
    make_tree 7.2
    sed -i "$1" "$tree/$2"
    refuses "$3" --object "$work/object" "$tree"
}

echo 'an object' >"$work/object"
for release in 6.12 7.2 7.3; do
    make_tree "$release"
    applies
    in_body arch/arm64/mm/mmu.c __map_memblock linmap_add_region
    in_body arch/arm64/mm/mmu.c map_mem linmap_map_regions
    place=update_range_prot
    [ "$release" != 6.12 ] || place=set_direct_map_invalid_noflush
    in_body arch/arm64/mm/pageattr.c $place linmap_change_noflush
    refuses "has linmap already" --object "$work/object" "$tree"
    make_tree "$release"
    applies --test
done

# With --source there is no object, and the kernel's build is told where the source is.
make_tree 7.2
linux/apply --source --test "$tree" >"$work/log" 2>&1 || die "--source: $(cat "$work/log")"
directory=$tree/arch/arm64/mm/linmap
[ ! -e "$directory/linmap.o_shipped" ] || die "--source has an object"
grep -qx "	default \"$PWD\"" "$directory/Kconfig" || die "--source is not in Kconfig"
diff linux/mm/Kconfig "$directory/Kconfig" >"$work/diff" || true
[ "$(grep -c '^[<>]' "$work/diff")" = 2 ] || die "--source changes more of Kconfig: $(cat "$work/diff")"
count=$((count + 1))

# The path of this project may have characters that mean something to sed, to awk or to a shell. Some cannot be passed on.
elsewhere() {
    rm -rf "$work/projects"
    mkdir -p "$work/projects/$1/crates/linmap-c"
    cp -R linux "$work/projects/$1/linux"
    cp crates/linmap-c/linmap.h "$work/projects/$1/crates/linmap-c/"
    make_tree 7.2
}
for name in 'a b' 'a&b' 'a|b' 'a;b' "a*[b]" 'a=(b)'; do
    elsewhere "$name"
    "$work/projects/$name/linux/apply" --source "$tree" >"$work/log" 2>&1 || die "$name: $(cat "$work/log")"
    grep -qxF "	default \"$work/projects/$name\"" "$directory/Kconfig" || die "$name is not in Kconfig"
    count=$((count + 1))
done
# shellcheck disable=SC2016 # as it is
for name in 'a"b' "a'b" 'a\b' 'a\nb' 'a`b' 'a$b' 'a#b' 'a
b'; do
    elsewhere "$name"
    ! "$work/projects/$name/linux/apply" --source "$tree" >"$work/log" 2>&1 || die "$name has not been refused"
    grep -q 'that Kconfig, make or a shell would not take as it is' "$work/log" || die "$name: $(cat "$work/log")"
    diff -r "$work/before" "$tree" >&2 || die "the tree has changed: $name"
    # Without --source it goes nowhere.
    "$work/projects/$name/linux/apply" --object "$work/object" "$tree" >"$work/log" 2>&1 || die "$name: $(cat "$work/log")"
    count=$((count + 1))
done

# A log with what tests do on purpose, and one line of each other kind.
wrong() {
    printf '%s\n' "$@" >"$work/console"
    linux/test/wrong "$work/console" >"$work/log"
}
panic='Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000000'
wrong "$panic" 'Call trace:' ' vpanic+0x460' 'Starting crashdump kernel...' ||
    die "linux/test/wrong fails"
[ ! -s "$work/log" ] || die "on purpose, and reported: $(cat "$work/log")"
count=$((count + 1))
for line in 'WARNING: arch/arm64/kernel/machine_kexec.c:172' 'Call trace:' 'BUG: KFENCE: invalid read in memcpy+0x4' 'test: direct FAILED' \
    'Internal error: Oops: 96000004' 'Unable to handle kernel paging request' 'test: WRONG: x'; do
    wrong "$panic" 'Call trace:' "$line" 'Booting Linux'
    [ "$(cat "$work/log")" = "3: $line" ] || die "not reported: $line"
    count=$((count + 1))
done
wrong 'Call trace:' "$panic"
[ -s "$work/log" ] || die "a trace before the panic is not reported"

for release in 6.1 7.20; do
    make_tree "$release"
    refuses "is Linux $release; hooks are known for 6.12 7.2 7.3" --object "$work/object" "$tree"
done
# The last file of the hooks: all others fit.
without '/CONFIG_X86/d' mm/vmstat.c 'mm/vmstat.c: not found: before ^#ifdef CONFIG_X86$'
without 'p' mm/vmstat.c 'mm/vmstat.c: matches 2 times'
without '/livepatch/d' arch/arm64/Kconfig 'arch/arm64/Kconfig: not found'
without '/lazy_mmu/d' arch/arm64/mm/mmu.c 'not found: before ^	lazy_mmu_mode_enable in range_split_to_ptes'
without '/mapping(b)/p' arch/arm64/mm/mmu.c 'matches 2 times: before ^	early_create_pgd_mapping in __map_memblock'
without 's/ map_mem(/ map_memory(/' arch/arm64/mm/mmu.c 'map_mem is not defined exactly once'
without 's/ elsewhere(/ map_mem(/' arch/arm64/mm/mmu.c 'map_mem is not defined exactly once'

make_tree 7.2
rm "$tree/mm/vmstat.c"
refuses 'has no mm/vmstat.c' --object "$work/object" "$tree"
make_tree 7.2
refuses 'usage: linux/apply'
refuses 'usage: linux/apply' "$tree" "$tree"
refuses 'usage: linux/apply' --tests "$tree"
refuses 'usage: linux/apply' --help
refuses 'usage: linux/apply' --source --object "$work/object" "$tree"
refuses "no such file" --object "$work/none" "$tree"
refuses "is no source tree of Linux" --object "$work/object" "$work"
echo "test-linux-apply: $count passed"
