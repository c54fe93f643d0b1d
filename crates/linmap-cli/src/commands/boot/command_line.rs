//! Pure: the command line of QEMU, and on it the one of the kernel.

use std::ffi::OsString;
use std::path::Path;

use kernel_plan::bootargs::BootArgs;
use linmap::layout::ImageAlias;

use super::options::Options;
use crate::kernel_options::boot_line;

/// Returns everything after the name of the program.
pub(crate) fn arguments(options: &Options, image: &Path) -> Vec<OsString> {
    let mut line = Line::default();
    line.option("-M", machine(options.machine.as_deref()));
    if !options.machine.as_deref().is_some_and(|extra| sets(extra, "accel")) {
        line.option("-accel", "tcg");
    }
    line.option("-cpu", &options.cpu);
    line.option("-smp", options.cpus.to_string());
    line.option("-m", options.ram.to_string());
    // Not reserved: RAM may be larger than the host's, as long as the kernel touches little of it.
    line.option("-object", format!("memory-backend-ram,id=mem,size={},reserve=off", options.ram));
    if options.count {
        line.option("-icount", "shift=0,sleep=off");
    }
    line.flag("-nodefaults");
    line.option("-display", "none");
    line.option("-serial", "stdio");
    line.option("-monitor", "none");
    line.flag("-no-reboot");
    line.option("-kernel", image);
    line.option("-append", kernel_arguments(options));
    line.0
}

/// Returns the kernel's command line. The user's text comes last, so that it wins.
fn kernel_arguments(options: &Options) -> String {
    let run = options.run.join(",");
    let (data, hides_text) = (options.data, options.text == ImageAlias::Hidden);
    let args = options.kernel.boot_arguments(options.page_size, &run);
    let line = boot_line(&BootArgs { data, hides_text, ..args });
    std::iter::once(line).chain(options.append.clone()).collect::<Vec<_>>().join(" ")
}

/// Returns the machine, with a GICv3 unless `extra` has another: a GICv2 has 8 CPUs at most.
fn machine(extra: Option<&str>) -> String {
    let extra = extra.unwrap_or_default().trim_matches(',');
    let mut machine = String::from("virt,memory-backend=mem");
    if !sets(extra, "gic-version") {
        machine.push_str(",gic-version=3");
    }
    if !extra.is_empty() {
        machine.push(',');
        machine.push_str(extra);
    }
    machine
}

/// Returns true if `key` is among the properties `a=b,c=d`.
fn sets(properties: &str, key: &str) -> bool {
    properties.split(',').any(|property| property.split('=').next() == Some(key))
}

/// Returns the command in a form that can be pasted into a shell.
pub(crate) fn shown(program: &std::ffi::OsStr, arguments: &[OsString]) -> String {
    let words = std::iter::once(program).chain(arguments.iter().map(OsString::as_os_str));
    words.map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_=,./:@+".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn flag(&mut self, name: &str) {
        self.0.push(name.into());
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.flag(name);
        self.0.push(value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(line: &str) -> Result<Options, clap::Error> {
        Command::try_parse_from(line.split('|').filter(|word| !word.is_empty())).map(|it| it.options)
    }

    fn built(line: &str) -> String {
        let options = parsed(&format!("boot|{line}")).unwrap_or_else(|error| panic!("{error}"));
        shown("qemu".as_ref(), &arguments(&options, Path::new("linmap.img")))
    }

    #[test]
    fn defaults() {
        assert_eq!(
            built(""),
            "qemu -M virt,memory-backend=mem,gic-version=3 -accel tcg -cpu max,midr=0xc00fac30 -smp 4 -m 12G \
             -object memory-backend-ram,id=mem,size=12G,reserve=off -nodefaults -display none -serial stdio \
             -monitor none -no-reboot -kernel linmap.img \
             -append 'pagesize=4k va_bits=48 rodata=full bbml2=auto split=pages run=dump'"
        );
    }

    #[test]
    fn every_kernel_option_is_passed_and_the_appended_text_comes_last() {
        let line = "--page-size|64K|--va-bits|52|--rodata|noalias|--bbml2|boot-cpu|--split|park\
                    |--crashkernel|256m@0x80000000|--run|dump,selftest|--append|pagesize=8k -x";
        let expected = "-append 'pagesize=64k va_bits=52 rodata=on bbml2=boot-cpu split=park \
                        crashkernel=256M@2G run=dump,selftest pagesize=8k -x'";
        let built = built(line);
        assert!(built.ends_with(expected), "{built}");
    }

    #[test]
    fn so_many_cpus_may_claim() {
        assert!(built("--bbml2|3").contains(" bbml2=3 split=pages "));
        assert!(built("--bbml2|off").contains(" bbml2=off split=pages "));
    }

    #[test]
    fn counting_takes_exact_instruction_counts() {
        assert!(built("--count").contains(" -icount shift=0,sleep=off "));
        assert!(!built("").contains("icount"));
    }

    #[test]
    fn machine_properties_replace_the_defaults() {
        let built = built("--machine|virtualization=on,gic-version=2,accel=kvm|--ram|1536M|--cpus|8");
        assert!(
            built.contains("-M virt,memory-backend=mem,virtualization=on,gic-version=2,accel=kvm "),
            "{built}"
        );
        assert!(!built.contains("gic-version=3") && !built.contains("tcg"), "{built}");
        assert!(built.contains("-smp 8 -m 1536M -object memory-backend-ram,id=mem,size=1536M,"), "{built}");
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        let wrong = [
            ("--ram|12GB", "such as 12G"),
            ("--ram|4K", "multiples of 8K"),
            ("--ram|0", "multiples of 8K"),
            ("--ram|4M", "need 8M of RAM"),
            ("--cpus|0", "1..=512"),
            ("--page-size|8k", "4k, 16k, 64k"),
            ("--va-bits|53", "36..=52"),
            ("--bbml2|cpu", "auto, off, boot-cpu or a number of CPUs"),
            ("--crashkernel|@1G", "SIZE[@OFFSET]"),
            ("--run|dump,bogus", "there is no task bogus; there are bench, contend, cpus, crash, dump, "),
            ("--run|dump rodata=off", "there is no task dump rodata=off; "),
            ("--run|stress:5:x", "stress takes two numbers"),
            ("--timeout|0", "1.."),
        ];
        for (line, hint) in wrong {
            let error =
                parsed(&format!("boot|{line}")).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(hint), "{line}: {error}");
        }
    }

    #[test]
    fn shell_words_are_quoted_where_they_must_be() {
        assert_eq!(
            shown("a b".as_ref(), &["it's".into(), "".into(), "x=1,y".into()]),
            r"'a b' 'it'\''s' '' x=1,y"
        );
    }
}
