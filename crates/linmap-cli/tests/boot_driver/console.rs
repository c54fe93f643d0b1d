//! Untrusted consoles.

use snapbox::{assert_data_eq, str};

use crate::machine::{assert_exit, boot, document, stderr, stdout};

#[test]
fn malformed_documents_spoil_the_run() {
    let image = r#"
        echo 'linmap: {"a":'
        echo 'linmap: [1]'
        echo 'linmap: {"finished":true,"ok":true}'
    "#;
    let output = boot(image, &["--json"]);
    assert_exit(&output, 2);
    let document = document(&output);
    assert_eq!(document["ok"], false);
    assert_data_eq!(
        document["error"].as_str().unwrap_or_default(),
        str![[
            r#"malformed `linmap: ` lines on the console: 2; the first: `{"a":`: not JSON: EOF while parsing a value at line 1 column 5"#
        ]]
    );
}

#[test]
fn endless_lines_are_passed_on() {
    let image = r#"
        printf 'linmap: '
        head -c 100000 /dev/zero | tr '\0' x
        echo
        echo 'linmap: {"finished":true,"ok":true}'
    "#;
    let output = boot(image, &[]);
    assert_exit(&output, 2);
    assert_eq!(output.stdout.len(), "linmap: \n".len() + 100_000);
    assert_data_eq!(
        stderr(&output),
        str![[r#"
error: malformed `linmap: ` lines on the console: 1; the first: a line longer than 64K, passed on as text

"#]]
    );
}

#[test]
fn binary_garbage_is_made_fit_to_be_shown() {
    let image = r#"
        head -c 300000 /dev/urandom
        printf '\n\033[2J\377\nlinmap: {"finished":true,"ok":true,"mode_reason":"\\u001b[2J"}\r\n'
    "#;
    let output = boot(image, &[]);
    assert_exit(&output, 0);
    let shown = stdout(&output);
    assert!(shown.contains("\n^[[2J\u{fffd}\n"));
    assert!(shown.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
}
