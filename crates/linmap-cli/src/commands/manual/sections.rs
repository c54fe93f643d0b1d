//! The sections of a manual page that the command line does not give: examples, exit status, environment, files.

/// Examples of each command.
const EXAMPLES: [(&str, &[&str]); 10] = [
    (
        "stat",
        &[
            "sudo linmap stat",
            "linmap stat qemu:/run/vm.sock",
            "linmap stat fleet/*.json --csv",
            "linmap stat vmcore --json",
            "linmap stat vmcore --who --symbols System.map",
        ],
    ),
    (
        "watch",
        &[
            "linmap watch qemu:/run/vm.sock --interval 30",
            "sudo linmap watch --openmetrics /var/lib/node_exporter/linmap.prom > /dev/null",
        ],
    ),
    (
        "map",
        &[
            "linmap map vmcore --svg map.svg --by owner",
            "sudo linmap map --html map.html",
            "linmap map vmcore --by owner --csv",
        ],
    ),
    ("dump", &["sudo linmap dump --json > monday.json", "linmap dump vmcore --region modules --csv"]),
    (
        "check",
        &[
            "linmap check vmcore",
            "linmap check vmcore --region modules --csv",
            "linmap check gdb:localhost:1234 --max-pause 200ms",
        ],
    ),
    ("walk", &["linmap walk vmcore _stext", "linmap walk qemu:/run/vm.sock 0xffff000040000000"]),
    ("diff", &["linmap diff monday.json tuesday.json --region linear"]),
    ("compare", &["linmap compare fleet/*.json"]),
    ("boot", &["linmap boot --cpus 4 --run selftest", "linmap boot --page-size 64k --ram 300G"]),
    ("plan", &["linmap plan --ram 256G", "linmap plan --sweep ram --svg ram.svg"]),
];

/// Returns the sections of the page of a command, or of the whole program for an empty name, as roff.
pub(super) fn of(command: &str) -> String {
    let examples: Vec<&str> = EXAMPLES
        .iter()
        .filter(|known| known.0 == command || command.is_empty())
        .flat_map(|known| known.1)
        .copied()
        .collect();
    let mut text = String::new();
    if !examples.is_empty() {
        text += ".SH EXAMPLES\n.nf\n";
        examples.iter().for_each(|line| text += &format!("{}\n", escaped(line)));
        text += ".fi\n";
    }
    text += ".SH \"EXIT STATUS\"\n";
    text += &entry("0", "Everything was done without findings.");
    text += &entry("1", "There are findings, differences or failed tests.");
    text += &entry("2", "The command failed; with --json the document has the reason as error.");
    text += ".SH ENVIRONMENT\n";
    text +=
        &entry("NO_COLOR", "If it is set and not empty, output has no colours unless --color asks for them.");
    text += &entry(
        "TERM",
        "If it is dumb, nothing is drawn anew: watch prints lines, and there is no line of progress.",
    );
    text += &entry("LC_ALL, LC_CTYPE, LANG", "A locale other than UTF-8 gets tables in ASCII.");
    text += &entry(
        "TMPDIR",
        "The directory for the socket of a gdbstub that is started for a moment, and for unpacked cores.",
    );
    text += ".SH FILES\n";
    text += &entry("/proc/kcore", "The memory of this machine, read if no SOURCE is named; needs root.");
    text
}

fn entry(name: &str, text: &str) -> String {
    format!(".TP\n\\fB{}\\fR\n{}\n", escaped(name), escaped(text))
}

/// Returns text as roff. No line begins with a control character.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_roff() {
        let page = of("stat");
        for part in [
            ".SH EXAMPLES\n.nf\nsudo linmap stat\n",
            "fleet/*.json \\-\\-csv",
            ".SH \"EXIT STATUS\"\n",
            ".SH FILES\n",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!of("completions").contains("EXAMPLES") && of("").contains("linmap plan \\-\\-ram 256G"));
        let wrong = |line: &&str| {
            line.starts_with('.') && !line.starts_with(".SH ") && ![".nf", ".fi", ".TP"].contains(line)
        };
        assert_eq!(page.lines().find(wrong), None);
    }
}
