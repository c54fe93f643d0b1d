//! Reports of the system, for people and for programs.

use core::fmt;
use core::ops::ControlFlow;

use kernel_plan::bootargs::Bbml2;
use kernel_plan::machine::Machine;
use kernel_plan::nodes::NodeMemory;
use linmap::cpu::Midr;
use linmap::layout::linear_range;
use linmap::policy::Mode;
use linmap::read::{Checks, MarkedRange};
use linmap::{Pa, Reason as SplitReason, Rodata, SplitCost, Stats, Va};

use crate::clock;
use crate::console::{self, say};
use crate::counters::Window;
use crate::ending::fail;
use crate::json::Text;
use crate::smp::team::{MayAbort, RefusedCpu};
use crate::system::{Repainted, System};
use crate::warning::warn;
use crate::{cpu, hidden, interrupts, parking};

/// Displays a number of bytes for people: whole, in the largest unit that keeps it so.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shift = (self.0.trailing_zeros() / 10 * 10).min(40);
        let unit = ["bytes", "KiB", "MiB", "GiB", "TiB"][shift as usize / 10];
        write!(f, "{} {unit}", self.0 >> shift)
    }
}

fn cpu_name(midr: u64) -> &'static str {
    Midr(midr).name().unwrap_or("unknown CPU")
}

/// Displays the reason for mode and policy.
struct Reason<'a>(&'a System<'a>);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let System { args, features, promise, decision, team, .. } = self.0;
        if args.bbml2 == Bbml2::First(0) {
            f.write_str("bbml2=off: no CPU is taken to never abort")?;
        } else {
            write!(f, "{} {promise}", cpu_name(features.midr))?;
        }
        if let (Mode::NotAll, Some(MayAbort { cpu, midr, promise })) = (decision.mode, team.may_abort) {
            if promise.never_aborts() {
                write!(f, ", but bbml2={} does not take CPU {cpu} for one that does so", args.bbml2)?;
            } else {
                write!(f, ", but CPU {cpu}, {}, {promise}", cpu_name(midr))?;
            }
        }
        write!(f, "; {}", decision.because)
    }
}

/// Prints the time from the firmware's call to the linear map, where `entered_at` is the count of the former.
pub(crate) fn map_is_live(entered_at: u64) {
    let (ticks, frequency) = (clock::now().saturating_sub(entered_at), clock::counter_frequency());
    say!("linmap: {{\"efi\":{{\"ticks\":{ticks},\"frequency\":{frequency}}}}}");
}

/// Prints a short account of the machine and the choices.
pub(crate) fn banner(system: &System<'_>) {
    let System { machine, features, decision, geometry, memory, args, .. } = system;
    say!("linmap {}", env!("CARGO_PKG_VERSION"));
    let ram: u64 = machine.ram.bytes();
    say!(
        "  machine    {}, {} of RAM, {} of {} CPUs in use",
        machine.model.escape_debug(),
        Size(ram),
        cpu::running().count(),
        machine.cpus.present
    );
    say!("  CPU        {} (MIDR {:#010x})", cpu_name(features.midr), features.midr);
    say!("  pages      {}, {} VA bits, {} levels", geometry.granule(), geometry.va_bits(), geometry.levels());
    say!(
        "  map        mode {}, policy {}, rodata={}, data={}",
        decision.mode.number(),
        decision.policy,
        args.rodata,
        args.data
    );
    say!("  because    {}", Reason(system));
    for RefusedCpu { cpu, midr, why } in &system.team.refused {
        let name = midr.map_or("unknown CPU", cpu_name);
        warn(format_args!("CPU {cpu} (MPIDR {:#x}, {name}) does not run: it {why}", cpu::mpidr(*cpu)));
    }
    let dropped = dropped_bytes(system);
    if dropped != 0 {
        warn(format_args!("{} of RAM are beyond the linear map's reach and left out", Size(dropped)));
    }
    if memory.layout.unaligned_bytes() != 0 {
        let lost = Size(memory.layout.unaligned_bytes());
        warn(format_args!("{lost} of RAM lost where ranges do not start or end at a page"));
    }
    if !machine.translation_services.is_empty() {
        say!("  ITS        {}, not used: no interrupt of a device is", machine.translation_services.len());
    }
    if let Some(crash) = &memory.crash {
        say!("  crash      {} at {:?}, page-mapped", Size(crash.end.0 - crash.start.0), crash.start);
    }
    let (set_aside, returned) = storage(system);
    say!(
        "  storage    {}K for tables set aside in the image, {}K given back",
        set_aside >> 10u32,
        returned >> 10u32
    );
    say!("");
}

/// Prints where interrupt translation services are, if the machine's description has them.
fn translation_services(machine: &Machine) {
    if machine.translation_services.is_empty() {
        return;
    }
    console::write(format_args!("linmap: {{\"translation_services\":["));
    for (i, registers) in machine.translation_services.iter().enumerate() {
        console::write(format_args!("{}\"{registers}\"", if i == 0 { "" } else { "," }));
    }
    say!("]}}");
}

/// Prints the ranges of memory that belong to nodes, if the machine's description has them.
fn nodes(machine: &Machine) {
    if machine.nodes.is_empty() {
        return;
    }
    console::write(format_args!("linmap: {{\"nodes\":["));
    for (i, NodeMemory { node, range, hot_pluggable }) in machine.nodes.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        console::write(format_args!(
            "{comma}{{\"node\":{node},\"range\":[\"{}\",\"{}\"],\"hot_pluggable\":{hot_pluggable}}}",
            range.start, range.end
        ));
    }
    say!("]}}");
}

/// Prints the same for programs, with every count.
pub(crate) fn document(system: &System<'_>) {
    let System { machine, features, decision, geometry, memory, args, costs, frames, .. } = system;
    say!(
        "linmap: {{\"schema\":\"linmap.boot/1\",\"machine\":\"{}\",\"described_by\":\"{}\",\"cpu\":{{\"midr\":\"{:#010x}\",\"name\":\"{}\"}},\
         \"cpus\":{},\"cpus_present\":{}}}",
        Text(&machine.model),
        machine.source,
        features.midr,
        cpu_name(features.midr),
        cpu::running().count(),
        machine.cpus.present
    );
    nodes(machine);
    translation_services(machine);
    refused(system);
    say!(
        "linmap: {{\"page_size\":{},\"va_bits\":{},\"levels\":{},\"mode\":{},\"policy\":\"{}\",\
         \"mode_reason\":\"{}\",\"rodata\":\"{}\",\"data\":\"{}\",\"text\":\"{}\"}}",
        geometry.page_size(),
        geometry.va_bits(),
        geometry.levels(),
        decision.mode.number(),
        decision.policy,
        Text(Reason(system)),
        args.rodata,
        args.data,
        hidden::text_alias(system)
    );
    console::write(format_args!("linmap: {{\"memory\":{{\"ram\":["));
    for (i, r) in memory.layout.ram().iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        console::write(format_args!("{comma}[\"{}\",\"{}\"]", r.start, r.end));
    }
    let alias = &memory.alias;
    console::write(format_args!("],\"image\":[\"{}\",\"{}\"],\"carve_outs\":[", alias.start, alias.end));
    if let Some(r) = &memory.crash {
        console::write(format_args!("[\"{}\",\"{}\"]", r.start, r.end));
    }
    let (set_aside, returned) = storage(system);
    say!(
        "],\"free_bytes\":{},\"static_bytes\":{set_aside},\"returned_bytes\":{returned}}}}}",
        frames.free_bytes()
    );
    linear(system, &system.stats());
    for (name, cost) in costs.steps() {
        window(name, cost, &[]);
    }
    window("image_map", &costs.image_map, &[]);
    window("create_all", &Window::sum(costs.steps().into_iter().map(|(_, cost)| cost)), &[]);
    if let Some(Repainted { window: whole, stopped, stored }) = &system.repainted {
        window("repaint", whole, &[("stopped_instructions", *stopped), ("root_entries", *stored)]);
    }
}

/// Prints the CPUs that do not run, and why.
fn refused(system: &System<'_>) {
    console::write(format_args!("linmap: {{\"refused\":["));
    for (i, RefusedCpu { cpu, midr, why }) in system.team.refused.iter().enumerate() {
        let (comma, mpidr) = (if i == 0 { "" } else { "," }, cpu::mpidr(*cpu));
        let name = midr.map_or("unknown CPU", cpu_name);
        console::write(format_args!(
            "{comma}{{\"cpu\":{cpu},\"mpidr\":\"{mpidr:#x}\",\"name\":\"{name}\",\"why\":\"{}\"}}",
            Text(why)
        ));
    }
    say!("]}}");
}

/// Prints the counts of a window, and more about it.
pub(crate) fn window(name: &str, window: &Window, more: &[(&str, Option<u64>)]) {
    let (instructions, uses) = (OrNull(window.instructions.map(u64::from)), window.uses);
    console::write(format_args!(
        "linmap: {{\"windows\":{{\"{name}\":{{\"instructions\":{instructions},\"tlbi\":{},\"dsb\":{},\"isb\":{}",
        uses.tlbi, uses.dsb, uses.isb
    ));
    for (name, number) in more {
        console::write(format_args!(",\"{name}\":{}", OrNull(*number)));
    }
    console::write(format_args!("}}}}"));
    if let Some(number) = window.number {
        console::write(format_args!(",\"order\":{{\"{name}\":{number}}}"));
    }
    say!("}}");
}

/// Prints the longest holds of locks, by operation, and the longest of all.
pub(crate) fn holds(holds: &[(&str, Option<u32>)]) {
    let number = |hold: Option<u32>| OrNull(hold.map(u64::from));
    let longest = holds.iter().filter_map(|(_, hold)| *hold).max();
    console::write(format_args!(
        "linmap: {{\"windows\":{{\"longest_hold\":{{\"instructions\":{}",
        number(longest)
    ));
    for (name, hold) in holds {
        console::write(format_args!(",\"{name}_instructions\":{}", number(*hold)));
    }
    say!("}}}}}}");
}

/// Displays a number, or `null`.
struct OrNull(Option<u64>);

impl fmt::Display for OrNull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(n) => n.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// Returns the bytes of RAM that the linear map or the CPU does not reach.
fn dropped_bytes(system: &System<'_>) -> u64 {
    system.memory.layout.dropped_bytes() + system.memory.beyond_bytes
}

/// Returns the bytes set aside in the image for tables, and how many of them were given back.
fn storage(system: &System<'_>) -> (u64, u64) {
    let page = system.geometry.page_size();
    let set_aside = system.image.static_bytes(page);
    (set_aside, set_aside - system.held_tables * page)
}

/// Prints the counts of the linear map.
fn linear(system: &System<'_>, stats: &Stats) {
    let g = system.geometry;
    let (start, last) = linear_range(g);
    console::write(format_args!(
        "linmap: {{\"linear\":{{\"start\":\"{start}\",\"end\":\"{:#x}\",\"bytes\":{},\"dropped_bytes\":{},\"leaves\":[",
        last.0 + 1,
        stats.bytes(g),
        dropped_bytes(system),
    ));
    for (i, size) in g.leaf_sizes().iter().filter(|s| stats.descriptors(**s) != 0).enumerate() {
        let comma = if i == 0 { "" } else { "," };
        console::write(format_args!(
            "{comma}{{\"size\":{},\"contiguous\":{},\"descriptors\":{}}}",
            1u64 << size.entry_shift,
            size.contiguous,
            stats.descriptors(*size)
        ));
    }
    say!(
        "],\"tables\":{},\"table_bytes\":{},\"tlb_entries\":{}}}}}",
        stats.tables,
        stats.table_bytes(g),
        stats.tlb_entries(g)
    );
}

/// Returns the number of tables outside the linear map: those of the upper half above it, the root included, and the
/// empty one of the lower half.
pub(crate) fn kept_tables(system: &System<'_>) -> u64 {
    let (_, last) = linear_range(system.geometry);
    system.space.on(&system.platform()).read(|reader| reader.count((Va(last.0 + 1), Va(u64::MAX)))).tables + 1
}

/// Returns true if every page that was taken is in use: none is lost, none is in use twice.
///
/// In use are the tables of the linear map, those of the rest of the upper half, the empty table of the lower half, the
/// tables of the 1:1 map, and the pages that CPUs were started with.
pub(crate) fn check_frames(system: &System<'_>) -> bool {
    let System { identity_tables, team, .. } = system;
    // Both have the root.
    let live = system.stats().tables + kept_tables(system) - 1;
    let (used, taken) = (live + identity_tables + team.pages, system.pages_in_use());
    if used != taken {
        say!("{taken} pages are taken, but {used} are in use, {live} of them in tables of the upper half");
    }
    used == taken
}

/// Checks the kernel's own map for what must never be in one: pages writable and executable, a writable alias of
/// read-only memory, a broken run, a table that is not RAM. Prints what it finds; returns true if it finds nothing.
pub(crate) fn check_map(system: &System<'_>) -> bool {
    /// The most findings that are printed.
    const MOST: u32 = 20;
    let System { memory, geometry, features, args, space, image, .. } = system;
    let is_ram = |pa: Pa| memory.layout.ram().iter().chain([&image.range()]).any(|r| r.contains(&pa));
    let checks = Checks {
        pa_bits: kernel_plan::choice::pa_bits(features, *geometry),
        hardware_updates: true,
        linear_offset: (args.rodata != Rodata::Off).then(|| memory.layout.offset()),
        is_ram: Some(&is_ram),
        ..Checks::default()
    };
    let mut findings = 0;
    let whole = space.on(&system.platform()).read(|reader| {
        reader.check(&checks, |finding| {
            findings += 1;
            say!("self-check: {finding}");
            if findings < MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    });
    let exposed = hidden::exposed(system);
    if exposed != 0 {
        findings += 1;
        say!(
            "self-check: {exposed} pages of the image can be accessed, though data={}, text={}",
            args.data,
            hidden::text_alias(system)
        );
    }
    let ok = whole.is_continue() && findings == 0;
    say!("linmap: {{\"tests\":{{\"self-check\":{{\"ok\":{ok},\"findings\":{findings}}}}}}}");
    ok
}

/// Counts what the tables hold, by a walk of all of the upper half.
pub(crate) fn walked(system: &System<'_>) -> Stats {
    let first = linear_range(system.geometry).0;
    system.space.on(&system.platform()).read(|reader| reader.count((first, Va(u64::MAX))))
}

/// Prints the linear map as it is in the tables. Returns true if that is what was counted when it was made.
pub(crate) fn dump(system: &System<'_>) -> bool {
    let (System { geometry, space, .. }, stats) = (system, system.stats());
    let region = MarkedRange::linear_map(*geometry);
    match space.on(&system.platform()).read(|reader| reader.dump(region, &mut console::Writer)) {
        Ok(walked) if walked == stats => true,
        Ok(walked) => {
            say!("the tables hold {walked:?}, but {stats:?} was counted");
            false
        }
        Err(fmt::Error) => fail(format_args!("the dump broke off")),
    }
}

/// Warns of unexpected interrupts.
pub(crate) fn unexpected_interrupts() {
    for cpu in 0..cpu::count() {
        let (count, last) = interrupts::unexpected(cpu);
        if count != 0 {
            warn(format_args!("CPU {cpu} had {count} unexpected interrupts, the last with INTID {last}"));
        }
    }
}

/// Prints the cost of splits by reason, if any had one, and what a collapse of the linear map would leave.
pub(crate) fn splits(system: &System<'_>) {
    let (space, g) = (system.space, system.geometry);
    let costs = || SplitReason::all().map(|reason| (reason, space.split_cost(reason)));
    let with_cost = || costs().filter(|(_, cost)| *cost != SplitCost::default());
    if with_cost().next().is_none() {
        return;
    }
    let (platform, range) = (system.platform(), linear_range(g));
    let now = space.on(&platform).read(|reader| reader.count(range)).tlb_entries(g);
    let collapsed = space.on(&platform).read(|reader| reader.count_collapsed(range)).tlb_entries(g);
    for (reason, SplitCost { splits, tlb_entries }) in with_cost() {
        say!("splits: {splits} leaves for {reason}, which took {tlb_entries} TLB entries more");
    }
    say!("splits: the linear map has {now} TLB entries, and {collapsed} after a collapse");
    console::write(format_args!(
        "linmap: {{\"splits\":{{\"tlb_entries\":{now},\"collapsed\":{collapsed},\"reasons\":{{"
    ));
    for (n, (reason, SplitCost { splits, tlb_entries })) in with_cost().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        console::write(format_args!(
            "{comma}\"{reason}\":{{\"splits\":{splits},\"tlb_entries\":{tlb_entries}}}"
        ));
    }
    say!("}}}}}}");
}

/// Prints how long CPUs were stopped, if any was.
pub(crate) fn parkings() {
    let stopped = parking::stopped();
    let (count, called_off, unanswered) = (stopped.count(), parking::called_off(), parking::unanswered());
    if count == 0 && called_off == 0 && unanswered == 0 {
        return;
    }
    let [half, most] = [50, 99].map(|percent| stopped.percentile(percent));
    let longest = stopped.longest();
    say!(
        "parking: CPUs were stopped {count} times: half of them below {half} ns, 99% below {most} ns, the longest {longest} ns"
    );
    if called_off != 0 {
        say!("parking: {called_off} were called off, as a CPU did not come");
    }
    if unanswered != 0 {
        say!("parking: {unanswered} were not begun, as a CPU did not answer");
    }
    say!(
        "linmap: {{\"parking\":{{\"parkings\":{},\"called_off\":{called_off},\"stopped\":{count},\
         \"unanswered\":{unanswered},\"longest_ns\":{longest},\"stopped_ns\":{stopped}}}}}",
        parking::asked() - u64::from(called_off)
    );
}
