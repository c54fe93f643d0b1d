//! The TLB model compared with measurements on hardware: the table of docs/tlb.md.

use serde_json::Value;

use crate::report;

/// RAM and footprint of each run. RAM gives the number of 512M pieces that the footprint is spread over.
const SIZES: [(&str, &str); 3] = [("16G", "4G"), ("64G", "8G"), ("256G", "32G")];
/// The workloads that published measurements resemble.
const WORKLOADS: &str = "ramdisk-sequential,hash-service";

/// Returns the table; `linmap` runs the command and returns its output.
pub(super) fn table(linmap: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let run = |(ram, footprint): (&str, &str)| -> Result<Value, String> {
        let text = linmap(&format!("tlb --ram {ram} --footprint {footprint} --workload {WORKLOADS} --json"))?;
        serde_json::from_str(&text).map_err(|e| e.to_string())
    };
    let runs = SIZES.into_iter().map(run).collect::<Result<Vec<_>, _>>()?;
    let rows = (0..WORKLOADS.split(',').count()).map(|workload| row(&runs, workload));
    let rows = rows.collect::<Option<Vec<_>>>().ok_or("a document of `linmap tlb` without figures")?;
    let core = runs.first().and_then(|run| run["core"]["name"]["value"].as_str()).unwrap_or_default();
    let sizes = SIZES.map(|(ram, footprint)| format!("{ram}, {footprint}"));
    let modelled = format!("{core}, L1 misses: {}", sizes[0]);
    let header = ["", "measured", &modelled, &sizes[1], &sizes[2], "walks, all three"];
    Ok(report::table(&header, &rows))
}

/// Returns the row of a workload: its change from pages to large leaves, measured and modelled at each size.
fn row(runs: &[Value], workload: usize) -> Option<Vec<String>> {
    let of = |run: &Value| run["workloads"][workload].clone();
    let published = &of(runs.first()?)["published"];
    let text = |key: &str| published[key].as_str();
    let mut row = vec![
        of(&runs[0])["name"].as_str()?.to_owned(),
        format!("{:.1}% {} ({})", published["percent"].as_f64()?, text("what")?, text("source")?),
    ];
    let change = |run: &Value, key: &str| of(run)["change_percent"][key]["mean"].as_f64();
    for run in runs {
        row.push(format!("{:.1}%", change(run, "l1_misses")?));
    }
    let walks = runs.iter().map(|run| change(run, "walks")).collect::<Option<Vec<_>>>()?;
    let least = walks.into_iter().fold(f64::NEG_INFINITY, f64::max);
    row.push(if least < -99.9f64 { "below -99.9%".to_owned() } else { format!("{least:.1}% or less") });
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_the_documents_say() {
        let document = |_: &str| {
            let change =
                |l1: f64| serde_json::json!({ "l1_misses": { "mean": l1 }, "walks": { "mean": -99.95 } });
            let published = serde_json::json!({ "percent": -75.9, "what": "misses", "source": "fio" });
            let workload =
                |l1| serde_json::json!({ "name": "w", "published": published, "change_percent": change(l1) });
            let core = serde_json::json!({ "name": { "value": "N1" } });
            Ok(serde_json::json!({ "core": core, "workloads": [workload(-51.04), workload(-25.0)] })
                .to_string())
        };
        let text = table(document).expect("a table");
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[0].contains("N1, L1 misses: 16G, 4G"), "{text}");
        assert!(rows[2].contains("-75.9% misses (fio)") && rows[2].contains("-51.0%"), "{text}");
        assert!(rows[3].contains("-25.0%") && rows[3].contains("below -99.9%"), "{text}");
        assert!(table(|_| Ok("{}".to_owned())).is_err());
    }
}
