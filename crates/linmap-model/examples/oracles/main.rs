//! Runs of the library, judged by other programs: casemate's checker and herd7.
//!
//! `make oracles`, or `cargo run -p linmap-model --example oracles [DIRECTORY]`, where the traces and tests are then kept.
//!
//! Each run is judged as it is, and then without one DSB, TLBI or ISB of an operation at a time. `linmap-model` says
//! whether that is wrong; the others must agree where they can see it. `LINMAP_CASEMATE` and `LINMAP_HERD` name the oracles
//! if they are not on the search path. Neither is needed: the runs are made and exported all the same, as `cargo test`
//! does, and the column of a missing oracle has `-`.

mod scenes;
mod stage;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use linmap_model::export::{Inexpressible, Question, casemate, herd};
use linmap_model::{Breach, Event, Machine, Setup};

use scenes::{FALSE_ALARMS, SCENES, Scene, Sees};
use tools::{Oracle, Verdict};

const CASEMATE: &str = "casemate is not installed: build casemate-check as its README says (https://github.com/rems-project/casemate),
  and set LINMAP_CASEMATE to its path";
const HERD: &str = "herd7 is not installed: `opam install herdtools7`, or Debian's package herdtools7 (trixie has none, forky has),
  and set LINMAP_HERD to its path";

/// The oracles, and where their files go.
struct Oracles {
    casemate: Option<Oracle>,
    herd: Option<Oracle>,
    directory: PathBuf,
    logs: usize,
    /// The logs in which `linmap-model` finds a breach.
    wrong: usize,
    mistakes: usize,
}

fn main() -> ExitCode {
    let named = std::env::args_os().nth(1).map(PathBuf::from);
    let kept = named.is_some();
    let scratch = || std::env::temp_dir().join(format!("linmap-oracles-{}", std::process::id()));
    let directory = named.unwrap_or_else(scratch);
    let (casemate, herd) = (tools::casemate(), tools::herd());
    let missing = [(casemate.is_none(), CASEMATE), (herd.is_none(), HERD)];
    missing.iter().filter(|m| m.0).for_each(|m| println!("{}", m.1));
    if let Err(error) = std::fs::create_dir_all(&directory) {
        eprintln!("{}: {error}", directory.display());
        return ExitCode::from(2);
    }
    let mut oracles = Oracles::new(casemate, herd, directory);
    println!("{:<34} {:<24} {:<12} {:<14} casemate", "run", "without", "linmap-model", "herd7");
    SCENES.iter().for_each(|scene| oracles.judge(scene));
    if !kept {
        // Nothing depends on it.
        _ = std::fs::remove_dir_all(&oracles.directory);
    }
    println!("\nFalse alarms of casemate:");
    FALSE_ALARMS.iter().for_each(|alarm| println!("- {}: {}", alarm.text, alarm.reason));
    println!(
        "\n{} logs, {} of them wrong, {} verdicts other than expected",
        oracles.logs, oracles.wrong, oracles.mistakes
    );
    if oracles.mistakes == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Oracles {
    const fn new(casemate: Option<Oracle>, herd: Option<Oracle>, directory: PathBuf) -> Self {
        Self { casemate, herd, directory, logs: 0, wrong: 0, mistakes: 0 }
    }

    /// A right run, and the same without each of its steps.
    fn judge(&mut self, scene: &Scene) {
        let (setup, events) = stage::run(&scene.machine, scene.policy, scene.run);
        let question =
            Question { operation: Some(scene.operation), va: None, publication: scene.publication };
        let name = scene.name.replace([' ', ','], "-");
        let (trace, test) = (casemate(&setup, &events), herd(&setup, &events, &question));
        let asks = [self.casemate(&name, trace), self.herd(&name, test)];
        self.prints([scene.name, "", "right"], asks, [casemate_expects(scene), Verdict::Right]);
        for n in steps(&events, scene.operation) {
            let mut shorter = events.clone();
            let removed = shorter.remove(n);
            self.judge_shorter(scene, &setup, (&events, &shorter), (n, &removed), question);
        }
    }

    /// A run without one of its steps. Casemate is asked where it can see what is missing; herd7 about the address that
    /// suffers, if the step has to do with that.
    fn judge_shorter(
        &mut self,
        scene: &Scene,
        setup: &Setup,
        (right, shorter): (&[Event], &[Event]),
        (n, removed): (usize, &Event),
        question: Question,
    ) {
        let name = format!("{}-{n}", scene.name.replace([' ', ','], "-"));
        let breach = breach(setup, shorter);
        let va = breach.as_ref().and_then(|b| b.va).map(|va| va.0);
        let named = Question { va, ..question };
        let question = if herd(setup, right, &named).is_ok() { named } else { question };
        let (before, test) = (herd(setup, right, &question), herd(setup, shorter, &question));
        let sees = scene.casemate == Sees::Reuse && !matches!(removed, Event::Isb { .. });
        let casemate = sees.then(|| self.casemate(&name, casemate(setup, shorter))).flatten();
        let asked = before != test && scene.herd_sees(breach.as_ref().map(|b| b.rule), removed);
        let herd = asked.then(|| self.herd(&name, test)).flatten();
        let wrong = if breach.is_some() { Verdict::Wrong(String::new()) } else { Verdict::Right };
        self.wrong += usize::from(breach.is_some());
        let text = removed.to_string();
        let without = format!("{n}: {}", text.split_once("  ").map_or(text.as_str(), |t| t.1));
        let ours = breach.map_or_else(|| "right".to_owned(), |b| format!("{:?}", b.rule));
        self.prints(["", &without, &ours], [casemate, herd], [wrong.clone(), wrong]);
    }

    /// A line of the table.
    fn prints(
        &mut self,
        [run, without, ours]: [&str; 3],
        found: [Option<Verdict>; 2],
        expected: [Verdict; 2],
    ) {
        let mut cells = Vec::new();
        for (found, expected) in found.iter().zip(&expected) {
            let agrees = agrees(found.as_ref(), expected);
            self.mistakes += usize::from(!agrees);
            let said = found.as_ref().map_or_else(|| "-".to_owned(), words);
            cells.push(if agrees { said } else { format!("{said}, EXPECTED {}", words(expected)) });
        }
        self.logs += 1;
        println!("{run:<34} {without:<24.24} {ours:<12} {:<14} {}", cells[1], cells[0]);
    }

    fn casemate(&self, name: &str, trace: Result<String, Inexpressible>) -> Option<Verdict> {
        verdict(self.casemate.as_ref(), &self.directory, name, trace)
    }

    fn herd(&self, name: &str, test: Result<String, Inexpressible>) -> Option<Verdict> {
        verdict(self.herd.as_ref(), &self.directory, name, test)
    }
}

/// The numbers of the barriers and TLBIs of an operation, of those after the first load of a root.
fn steps(events: &[Event], operation: usize) -> Vec<usize> {
    let loaded = events.iter().position(|e| matches!(e, Event::Msr { .. })).unwrap_or(0);
    let begins = (loaded..events.len()).filter(|&n| matches!(events[n], Event::Begin { .. }));
    let Some(begin) = begins.clone().nth(operation) else { return Vec::new() };
    let done = (begin..events.len()).find(|&n| matches!(events[n], Event::Done { .. })).unwrap_or(begin);
    let step = |n: &usize| matches!(events[*n], Event::Dsb { .. } | Event::Tlbi { .. } | Event::Isb { .. });
    (begin..done).filter(step).collect()
}

/// The rule that a log breaks, by `linmap-model`.
fn breach(setup: &Setup, events: &[Event]) -> Option<Box<Breach>> {
    let mut machine = Machine::new(setup).expect("the machine of the right run");
    let judged = events.iter().try_for_each(|event| machine.step(event.clone()));
    judged.and_then(|()| machine.finish()).err()
}

/// The verdict of an oracle on a text; nothing if it is not installed, and there is a text.
fn verdict(
    oracle: Option<&Oracle>,
    directory: &Path,
    name: &str,
    text: Result<String, Inexpressible>,
) -> Option<Verdict> {
    let text = match text {
        Ok(text) => text,
        Err(why) => return Some(Verdict::Inexpressible(why.to_string())),
    };
    let oracle = oracle?;
    let file = directory.join(format!("{name}.{}", oracle.extension));
    Some(match std::fs::write(&file, text) {
        Ok(()) => oracle.judges(&file),
        Err(error) => Verdict::Fails(format!("{}: {error}", file.display())),
    })
}

/// The verdict of casemate on a right run.
fn casemate_expects(scene: &Scene) -> Verdict {
    match scene.casemate {
        Sees::Refused => Verdict::Inexpressible(String::new()),
        Sees::FalseAlarm(alarm) => Verdict::Wrong(alarm.text.to_owned()),
        Sees::Reuse | Sees::Nothing => Verdict::Right,
    }
}

/// Returns true if a verdict is of the kind that was expected, and in those words if there are any. An oracle that was not
/// asked disagrees with nothing but that the log cannot be expressed: it was.
fn agrees(found: Option<&Verdict>, expected: &Verdict) -> bool {
    match (found, expected) {
        (None, expected) => !matches!(expected, Verdict::Inexpressible(_)),
        (Some(Verdict::Right), Verdict::Right)
        | (Some(Verdict::Inexpressible(_)), Verdict::Inexpressible(_)) => true,
        (Some(Verdict::Wrong(found)), Verdict::Wrong(expected)) => expected.is_empty() || found == expected,
        _ => false,
    }
}

fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Right => "right".to_owned(),
        Verdict::Wrong(alarm) => format!("wrong: {alarm}"),
        Verdict::Inexpressible(why) => format!("not expressible: {why}"),
        Verdict::Fails(why) => format!("FAILS: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every run is right and is exported or refused as its scene says. Each has a step without which it is wrong.
    #[test]
    fn runs_are_exported_without_oracles() {
        let mut oracles = Oracles::new(None, None, PathBuf::new());
        let mut harmless = Vec::new();
        for scene in SCENES {
            let wrong = oracles.wrong;
            oracles.judge(scene);
            assert_eq!(oracles.mistakes, 0, "{}", scene.name);
            if oracles.wrong == wrong {
                harmless.push(scene.name);
            }
        }
        assert_eq!(harmless, [""; 0]);
        assert!(oracles.logs > 100 && oracles.wrong > 60, "{} logs, {} wrong", oracles.logs, oracles.wrong);
    }

    /// Each false alarm has a run that shows it.
    #[test]
    fn false_alarms_have_runs() {
        for alarm in FALSE_ALARMS {
            assert!(SCENES.iter().any(|scene| scene.casemate == Sees::FalseAlarm(alarm)), "{}", alarm.text);
        }
    }

    #[test]
    fn verdicts_agree_in_kind_and_words() {
        let wrong = |text: &str| Verdict::Wrong(text.to_owned());
        let (refused, fails) = (Verdict::Inexpressible("16K".into()), Verdict::Fails("no file".into()));
        assert!(agrees(Some(&Verdict::Right), &Verdict::Right));
        assert!(agrees(Some(&wrong("BBM")), &wrong("")) && agrees(Some(&wrong("BBM")), &wrong("BBM")));
        assert!(agrees(Some(&refused), &Verdict::Inexpressible(String::new())));
        assert!(agrees(None, &Verdict::Right) && agrees(None, &wrong("BBM")));

        assert!(
            !agrees(Some(&wrong("other")), &wrong("BBM")) && !agrees(Some(&wrong("BBM")), &Verdict::Right)
        );
        assert!(!agrees(Some(&Verdict::Right), &wrong("")) && !agrees(Some(&Verdict::Right), &refused));
        assert!(
            !agrees(None, &refused)
                && !agrees(Some(&fails), &Verdict::Right)
                && !agrees(Some(&fails), &fails)
        );
    }
}
