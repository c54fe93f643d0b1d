//! The places of each kernel that were noticed: rows as they are stored and compared.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

/// The percentage points by which a share may fall: several CPUs run, and no two runs are alike.
const TOLERANCE: f64 = 2.0;

/// The outcome for a place that was hidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// There was a breach.
    Breach,
    /// There was a suspect.
    Suspect,
    /// Nothing was noticed, and nothing had needed it.
    Idle,
    /// Nothing was noticed.
    Silent,
}

impl Verdict {
    const ALL: [(Self, &str); 4] = [
        (Self::Breach, "breach"),
        (Self::Suspect, "suspect"),
        (Self::Idle, "idle"),
        (Self::Silent, "silent"),
    ];
}

/// The places of one instruction in one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) function: String,
    pub(crate) what: String,
    /// The number of places by verdict.
    counts: [u64; 4],
}

impl Row {
    pub(crate) fn new((function, what): (String, String)) -> Self {
        Self { function, what, counts: [0; 4] }
    }

    /// Adds a place.
    pub(crate) const fn count(&mut self, verdict: Verdict) {
        self.counts[verdict as usize] += 1;
    }

    pub(crate) const fn of(&self, verdict: Verdict) -> u64 {
        self.counts[verdict as usize]
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.function, self.what)
    }
}

/// The rows of all kernels.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Kept(pub(crate) BTreeMap<String, Vec<Row>>);

impl Kept {
    /// Reads the text of the file.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let row = |row: &Value| -> Option<Row> {
            let text = |name: &str| Some(row[name].as_str()?.to_owned());
            let mut counts = [0u64; 4];
            for (verdict, name) in Verdict::ALL {
                counts[verdict as usize] = row[name].as_u64()?;
            }
            Some(Row { function: text("function")?, what: text("what")?, counts })
        };
        let kernels = document.as_object().ok_or("expected an object")?.iter();
        let rows = kernels.map(|(name, rows)| {
            Some((name.clone(), rows.as_array()?.iter().map(row).collect::<Option<_>>()?))
        });
        rows.collect::<Option<_>>().map(Self).ok_or_else(|| "a row is not as it should be".to_owned())
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> String {
        let row = |row: &Row| {
            let mut value = json!({ "function": row.function, "what": row.what });
            for (verdict, name) in Verdict::ALL {
                value[name] = row.of(verdict).into();
            }
            value
        };
        let kernels: BTreeMap<&String, Vec<Value>> =
            self.0.iter().map(|(name, rows)| (name, rows.iter().map(row).collect())).collect();
        format!("{:#}\n", json!(kernels))
    }
}

/// Returns the number of places by verdict.
fn sums(rows: &[Row]) -> [u64; 4] {
    Verdict::ALL.map(|(verdict, _)| rows.iter().map(|row| row.of(verdict)).sum())
}

/// Returns the shares of the places that something needed, in percent: noticed as a breach, and as that or a suspect.
fn noticed(rows: &[Row]) -> [f64; 2] {
    let [breach, suspect, _, silent] = sums(rows);
    let all = (breach + suspect + silent).max(1) as f64;
    [breach, breach + suspect].map(|n| n as f64 * 100.0_f64 / all)
}

/// Returns the numbers and shares as a sentence.
pub(crate) fn shares(rows: &[Row]) -> String {
    let [breach, suspect, idle, silent] = sums(rows);
    let [breaches, all] = noticed(rows);
    format!(
        "{} places. Nothing needed {idle} of them. Of the other {}, {breach} are noticed as a breach ({breaches:.0}%), \
         {suspect} as a suspect, and {silent} are not noticed: {all:.0}% are noticed",
        breach + suspect + idle + silent,
        breach + suspect + silent,
    )
}

/// Returns the rows with more places than before that are not noticed, or that are a suspect alone.
pub(crate) fn worse<'a>(before: &[Row], now: &'a [Row]) -> Vec<&'a Row> {
    let same = |row: &&Row, other: &Row| (&row.function, &row.what) == (&other.function, &other.what);
    let fell = |row: &&Row| {
        let before = before.iter().find(|other| same(other, row));
        before.is_some_and(|before| {
            let [silent, suspect] = [Verdict::Silent, Verdict::Suspect].map(|v| (before.of(v), row.of(v)));
            silent.1 > silent.0 || suspect.1 + silent.1 > suspect.0 + silent.0
        })
    };
    now.iter().filter(fell).collect()
}

/// Compares the shares.
///
/// # Errors
///
/// One has fallen.
pub(crate) fn compare(before: &[Row], now: &[Row]) -> Result<(), String> {
    let fell = noticed(before).iter().zip(noticed(now)).any(|(before, now)| now < before - TOLERANCE);
    if fell {
        return Err(format!("less is noticed than is stored: {}", shares(before)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, counts: [u64; 4]) -> Row {
        Row { function: "f".to_owned(), what: what.to_owned(), counts }
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let kept = Kept([("image".to_owned(), vec![row("dsb ish", [1, 2, 3, 4])])].into());
        assert_eq!(Kept::read(&kept.text()), Ok(kept));
        assert!(Kept::read("[]").is_err() && Kept::read(r#"{"a":[{}]}"#).is_err());
    }

    #[test]
    fn a_share_that_falls_fails() {
        let before = [row("dsb ish", [90, 5, 7, 5])];
        assert_eq!(compare(&before, &[row("dsb ish", [89, 5, 0, 6])]), Ok(()));
        assert!(compare(&before, &[row("dsb ish", [87, 8, 7, 5])]).is_err());
        assert!(compare(&before, &[row("dsb ish", [90, 0, 7, 10])]).is_err());
        // What nothing needs is not missed.
        assert_eq!(compare(&before, &[row("dsb ish", [90, 5, 50, 5])]), Ok(()));
    }

    #[test]
    fn rows_that_fell_are_named() {
        let before = [row("dsb ish", [2, 0, 0, 0]), row("tlbi vae1is", [0, 1, 0, 1])];
        let now =
            [row("dsb ish", [1, 1, 0, 0]), row("tlbi vae1is", [1, 0, 0, 1]), row("dsb sy", [0, 0, 0, 1])];
        let worse: Vec<String> = worse(&before, &now).iter().map(ToString::to_string).collect();
        assert_eq!(worse, ["f, dsb ish"]);
    }

    #[test]
    fn shares_are_of_what_something_needed() {
        let text = shares(&[row("dsb ish", [3, 1, 6, 0])]);
        assert_eq!(
            text,
            "10 places. Nothing needed 6 of them. Of the other 4, 3 are noticed as a breach (75%), 1 as a suspect, and 0 are \
             not noticed: 100% are noticed"
        );
    }
}
