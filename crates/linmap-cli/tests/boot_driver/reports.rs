//! The reports of a kernel, and the output for people, programs and the shell.

use snapbox::{assert_data_eq, str};

use crate::machine::{GOOD, assert_exit, boot, document, stderr, stdout};

#[test]
fn a_good_run_ends_in_a_summary() {
    let output = boot(GOOD, &[]);
    assert_exit(&output, 0);
    assert_data_eq!(stderr(&output), str![""]);
    assert_data_eq!(
        stdout(&output),
        str![[r#"
linmap 0.1.0 on AmpereOne
bye

Linear map: 12G, 4K granule, 48-bit addresses, rodata=full
Large leaves in mode 1 (live): boot CPU AmpereOne never aborts

 leaves                     descriptors   covered   share
──────────────────────────────────────────────────────────
 1G                                  11       11G   91.7%
 32M contiguous (16 x 2M)           496      992M    8.1%
 2M                                  15       30M    0.2%
 64K contiguous (16 x 4K)           512        2M   <0.1%
 total                            1,034       12G    100%

 cost                       this map    in pages    factor
───────────────────────────────────────────────────────────
 table pages                       4       6,158    1,539x
 table memory                    16K       24.1M    1,539x
 TLB entries to cover RAM        106   3,145,728   29,676x

Creation: 4,000 instructions, 0 TLBI, 2 DSB, 1 ISB
Tests: 1 passed

"#]]
    );
}

#[test]
fn a_good_run_as_a_document() {
    let output = boot(GOOD, &["--json"]);
    assert_exit(&output, 0);
    assert_eq!(stderr(&output), "linmap 0.1.0 on AmpereOne\nbye\n");
    let document = document(&output);
    assert_eq!(document["schema"], "linmap.boot/1");
    assert_eq!(document["ok"], true);
    assert_eq!(document["linear"]["tables"], 4);
    assert_eq!(document["linear"]["tlb_entries"], 106);
    assert!(document.get("error").is_none());
}

#[test]
fn a_map_of_pages_says_what_keeps_it_so() {
    let image = r#"
        echo 'linmap: {"page_size":4096,"va_bits":48,"mode":3,"mode_reason":"CPU 1 may abort"}'
        echo 'linmap: {"linear":{"leaves":[{"size":4096,"contiguous":false,"descriptors":3145728}]}}'
        echo 'linmap: {"windows":{"create":{"instructions":null,"tlbi":0,"dsb":2}},"finished":true,"ok":true}'
    "#;
    let output = boot(image, &[]);
    assert_exit(&output, 0);
    assert_data_eq!(
        stdout(&output),
        str![[r#"

Linear map: 4K granule, 48-bit addresses
Mapped with pages in mode 3, because: CPU 1 may abort

 leaves   descriptors   covered   share
────────────────────────────────────────
 4K         3,145,728       12G    100%

Creation: 0 TLBI, 2 DSB (--count counts instructions, too)

"#]]
    );
}

#[test]
fn what_changes_cost_is_a_table() {
    let image = r#"
        echo 'linmap: {"page_size":4096,"va_bits":48,"mode":1,"mode_reason":"why not"}'
        echo 'linmap: {"linear":{"leaves":[{"size":2097152,"contiguous":false,"descriptors":512}]}}'
        echo 'linmap: {"windows":{"create":{"instructions":4000,"tlbi":0,"dsb":2,"isb":1}}}'
        echo 'linmap: {"windows":{"protect_l1":{"instructions":2300,"tlbi":1,"dsb":3,"isb":1,"leaf_bytes":1073741824}}}'
        echo 'linmap: {"windows":{"other":{"instructions":null,"tlbi":1}},"tests":{"bench-restore":{"ok":true}}}'
        echo 'linmap: {"finished":true,"ok":true}'
    "#;
    let output = boot(image, &[]);
    assert_exit(&output, 0);
    assert_data_eq!(
        stdout(&output),
        str![[r#"

Linear map: 4K granule, 48-bit addresses
Large leaves in mode 1: why not

 leaves   descriptors   covered   share
────────────────────────────────────────
 2M               512        1G    100%

 change       leaf   instructions   TLBI   DSB   ISB
─────────────────────────────────────────────────────
 protect_l1     1G          2,300      1     3     1
 other                not counted      1

Creation: 4,000 instructions, 0 TLBI, 2 DSB, 1 ISB
Tests: 1 passed

"#]]
    );
}

#[test]
fn a_kernel_that_reports_nothing_is_not_silent() {
    let output = boot(r#"echo 'linmap: {"finished":true,"ok":true,"schema":"linmap.boot/9"}'"#, &[]);
    assert_exit(&output, 0);
    assert_eq!(stdout(&output), "\nThe kernel reported no linear map.\n");
}

#[test]
fn a_failed_test_is_a_finding() {
    let image = r#"
        echo 'linmap: {"tests":{"split":{"ok":false},"probe":{"ok":true}}}'
        echo 'linmap: {"finished":true,"ok":false}'
    "#;
    let output = boot(image, &[]);
    assert_exit(&output, 1);
    assert_data_eq!(
        stderr(&output),
        str![[r#"
error: failed: split

"#]]
    );
    let output = boot(image, &["--json"]);
    assert_exit(&output, 1);
    assert_eq!(
        (&document(&output)["ok"], &document(&output)["error"]),
        (&false.into(), &"failed: split".into())
    );
}

#[test]
fn what_a_test_says_of_its_failure_is_passed_on() {
    let image = r#"
        echo 'linmap: {"tests":{"a":{"ok":false},"b":{"ok":false,"why":"no room"}}}'
        echo 'linmap: {"finished":true,"ok":false}'
    "#;
    let output = boot(image, &["--json"]);
    assert_exit(&output, 1);
    assert_eq!(document(&output)["error"], "failed: a, b (no room)");
    let output = boot(r#"echo 'linmap: {"finished":true,"ok":false}'"#, &["--json"]);
    assert_exit(&output, 1);
    assert_eq!(document(&output)["error"], "the kernel finished, and says that not all was well");
}

#[test]
fn a_fault_is_an_error() {
    let image = r#"
        echo 'Unexpected fault'
        echo 'linmap: {"finished":false,"ok":false,"fault":"data abort at 0x0"}'
    "#;
    let output = boot(image, &[]);
    assert_exit(&output, 2);
    assert_eq!(stdout(&output), "Unexpected fault\n");
    assert_data_eq!(
        stderr(&output),
        str![[r#"
error: the kernel faulted: data abort at 0x0

"#]]
    );
    let output = boot(image, &["--json"]);
    assert_exit(&output, 2);
    assert_eq!(document(&output)["error"], "the kernel faulted: data abort at 0x0");
}

#[test]
fn a_guest_that_ends_early_is_an_error() {
    let output = boot("echo one; printf 'two\\r\\n\\n'", &[]);
    assert_exit(&output, 2);
    assert_data_eq!(
        stderr(&output),
        str![[r#"
error: the guest ended without finishing, last console line: `two`

"#]]
    );
}

#[test]
fn colors_are_a_choice() {
    let bold = "\u{1b}[1m";
    assert!(!stdout(&boot(GOOD, &[])).contains(bold));
    assert!(stdout(&boot(GOOD, &["--color", "always"])).contains(bold));
    assert!(!stdout(&boot(GOOD, &["--color", "never"])).contains(bold));
}
