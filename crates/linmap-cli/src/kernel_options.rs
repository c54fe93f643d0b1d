//! The options that describe a kernel, shared by `boot`, `plan` and `tlb`: values of the kernel's own types.
//!
//! `linmap plan` hands these values to the kernel's code. `linmap boot` writes them on the guest's command line, by
//! [`boot_line`].

use clap::Args;
use clap::builder::{RangedU64ValueParser, TypedValueParser};
use kernel_plan::bootargs::{Bbml2, BootArgs, Reservation};
use linmap::layout::ImageAlias;
use linmap::policy::SplitFallback;
use linmap::{Granule, Rodata};

use crate::choices::{choice, one_of};
use crate::size::{Size, SizeError};

/// All options but the size of a page, which each command treats in its own way.
#[derive(Args, Clone, Debug)]
pub(crate) struct KernelOptions {
    /// Bits of a virtual address, 36 to 52
    #[arg(long, value_name = "BITS", help_heading = "Kernel", default_value_t = 48)]
    #[arg(value_parser = RangedU64ValueParser::<u32>::new().range(36..=52))]
    pub(crate) va_bits: u32,

    /// Memory that is kept read-only
    #[arg(long, value_name = "WHAT", help_heading = "Kernel", default_value = "full", value_parser = rodata())]
    pub(crate) rodata: Rodata,

    /// CPUs that may change block sizes without break-before-make: auto (those that are known never to abort), off
    /// (none), boot-cpu (only the one that boots), or a number of CPUs
    #[arg(long, value_name = "WHO", help_heading = "Kernel", default_value = "auto", value_parser = bbml2)]
    pub(crate) bbml2: Bbml2,

    /// The way to split blocks where live splits are impossible
    #[arg(long, value_name = "HOW", help_heading = "Kernel", default_value = "pages", value_parser = split())]
    pub(crate) split: SplitFallback,

    /// Memory to set aside for a crash kernel [default: none]
    #[arg(long, value_name = "SIZE[@OFFSET]", help_heading = "Kernel", value_parser = crash_kernel)]
    pub(crate) crashkernel: Option<Reservation>,
}

impl KernelOptions {
    /// Returns the boot arguments of a kernel with these options, this page size and these tasks.
    pub(crate) fn boot_arguments<'r>(&self, page_size: Granule, run: &'r str) -> BootArgs<'r> {
        BootArgs {
            page_size: Some(page_size),
            va_bits: Some(self.va_bits),
            rodata: self.rodata,
            data: ImageAlias::Writable,
            hides_text: false,
            bbml2: self.bbml2,
            split: self.split,
            root_stays: false,
            cpus: None,
            crashkernel: self.crashkernel,
            resets: false,
            run,
        }
    }
}

/// Writes boot arguments as text, which the kernel's own parser reads back as the same value.
pub(crate) fn boot_line(arguments: &BootArgs<'_>) -> String {
    let BootArgs {
        page_size,
        va_bits,
        rodata,
        data,
        hides_text,
        bbml2,
        split,
        root_stays,
        cpus,
        crashkernel,
        resets,
        run,
    } = arguments;
    let mut words = Vec::new();
    words.extend(page_size.map(|granule| format!("pagesize={}", granule.to_string().to_lowercase())));
    words.extend(va_bits.map(|bits| format!("va_bits={bits}")));
    words.push(format!("rodata={}", rodata_name(*rodata)));
    words.extend((*data != ImageAlias::Writable).then(|| format!("data={data}")));
    words.extend(hides_text.then(|| "text=hidden".to_owned()));
    words.push(format!("bbml2={bbml2}"));
    words.push(format!("split={}", split_name(*split)));
    words.extend(root_stays.then(|| "root=stays".to_owned()));
    words.extend(cpus.map(|cpus| format!("cpus={cpus}")));
    words.extend(crashkernel.map(|Reservation { size, at }| {
        let at = at.map(|at| format!("@{}", Size(at))).unwrap_or_default();
        format!("crashkernel={}{at}", Size(size))
    }));
    words.extend(resets.then(|| "end=reset".to_owned()));
    words.push(format!("run={run}"));
    words.join(" ")
}

/// Returns clap's parser of a page size.
pub(crate) fn page_size() -> impl TypedValueParser<Value = Granule> {
    let names = [(Granule::K4, "4k"), (Granule::K16, "16k"), (Granule::K64, "64k")];
    one_of(names.map(|(granule, name)| choice(granule, name, "")))
}

/// Returns the name of a choice, on both command lines and in documents.
pub(crate) const fn rodata_name(rodata: Rodata) -> &'static str {
    match rodata {
        Rodata::Full => "full",
        Rodata::On => "on",
        Rodata::Off => "off",
    }
}

/// The choices for the alias of the image's data.
const ALIASES: [ImageAlias; 3] = [ImageAlias::Writable, ImageAlias::ReadOnly, ImageAlias::Hidden];

/// Returns clap's parser of the alias of the image's data.
pub(crate) fn data() -> impl TypedValueParser<Value = ImageAlias> {
    let (name, help) = (["rw", "ro", "hidden"], ["Readable and writable", "Read-only", "Not mapped"]);
    one_of([0, 1, 2].map(|n| choice(ALIASES[n], name[n], help[n])))
}

/// Returns clap's parser of the alias of the image's code and constants.
pub(crate) fn text() -> impl TypedValueParser<Value = ImageAlias> {
    let (name, help) = (["ro", "hidden"], ["Read-only, as --rodata says", "Not mapped"]);
    one_of([0, 1].map(|n| choice(ALIASES[n + 1], name[n], help[n])))
}

fn rodata() -> impl TypedValueParser<Value = Rodata> {
    let help = |rodata| match rodata {
        Rodata::Full => "Read-only data, and its aliases in the linear map",
        Rodata::On => "Read-only data, but not its aliases",
        Rodata::Off => "Nothing",
    };
    one_of([Rodata::Full, Rodata::On, Rodata::Off].map(|rodata| {
        let (value, name) = choice(rodata, rodata_name(rodata), help(rodata));
        // The name of the same choice in newer releases of Linux.
        (value, if rodata == Rodata::On { name.alias("noalias") } else { name })
    }))
}

const fn split_name(split: SplitFallback) -> &'static str {
    match split {
        SplitFallback::Pages => "pages",
        SplitFallback::Park => "park",
    }
}

fn split() -> impl TypedValueParser<Value = SplitFallback> {
    let help = |split| match split {
        SplitFallback::Pages => "Map everything with pages from the start",
        SplitFallback::Park => "Park the other CPUs while blocks are split",
    };
    one_of(
        [SplitFallback::Pages, SplitFallback::Park]
            .map(|split| choice(split, split_name(split), help(split))),
    )
}

/// Reads the CPUs of `--bbml2`.
fn bbml2(who: &str) -> Result<Bbml2, String> {
    match who {
        "auto" => Ok(Bbml2::Auto),
        "off" => Ok(Bbml2::First(0)),
        "boot-cpu" => Ok(Bbml2::First(1)),
        count => match count.parse() {
            Ok(count) => Ok(Bbml2::First(count)),
            Err(_) => Err("auto, off, boot-cpu or a number of CPUs".to_owned()),
        },
    }
}

/// Reads `SIZE[@OFFSET]`.
fn crash_kernel(text: &str) -> Result<Reservation, String> {
    let bytes =
        |text: &str| text.parse().map(|Size(bytes)| bytes).map_err(|error: SizeError| error.to_string());
    let (size, at) = match text.split_once('@') {
        Some((size, at)) => (bytes(size)?, Some(bytes(at)?)),
        None => (bytes(text)?, None),
    };
    if size == 0 {
        return Err("a crash kernel needs memory; 256M is right, for example".to_owned());
    }
    Ok(Reservation { size, at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    proptest! {
        /// The kernel reads the line that is written for it as the same value, and ignores no word of it.
        #[test]
        fn the_kernel_reads_back_what_is_written(
            page_size in prop::option::of(prop::sample::select(Granule::ALL.to_vec())),
            va_bits in prop::option::of(36u32..=52),
            rodata in prop::sample::select(vec![Rodata::Full, Rodata::On, Rodata::Off]),
            data in prop::sample::select(ALIASES.to_vec()),
            hides_text: bool,
            bbml2 in prop::option::of(0u32..600),
            park: bool,
            root_stays: bool,
            resets: bool,
            cpus in prop::option::of(1u32..600),
            crashkernel in prop::option::of((1u64.., prop::option::of(any::<u64>()))),
            run in prop::sample::select(vec!["", "dump", "dump,selftest", "stress:1000:7"]),
        ) {
            let arguments = BootArgs {
                page_size,
                va_bits,
                rodata,
                data,
                hides_text,
                bbml2: bbml2.map_or(Bbml2::Auto, Bbml2::First),
                split: if park { SplitFallback::Park } else { SplitFallback::Pages },
                root_stays,
                cpus,
                crashkernel: crashkernel.map(|(size, at)| Reservation { size, at }),
                resets,
                run,
            };
            let line = boot_line(&arguments);
            let mut ignored = Vec::new();
            prop_assert_eq!(BootArgs::parse(&line, |word| ignored.push(word.to_string())), arguments, "{}", line);
            // `split=` means nothing where nothing is split.
            ignored.retain(|word| rodata == Rodata::Full || !word.contains("split="));
            prop_assert_eq!(ignored, Vec::<String>::new());
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for who in ["", "cpu", "-1", "4294967296"] {
            assert!(bbml2(who).is_err(), "{who}");
        }
        for area in ["", "0", "0@1G", "@1G", "1G@", "1GB", "1G@x"] {
            assert!(crash_kernel(area).is_err(), "{area}");
        }
        assert_eq!(crash_kernel("0.5G@0x80000000"), Ok(Reservation { size: 512 << 20, at: Some(2 << 30) }));
    }
}
