//! Atomics, DMB and lines of memory of single operations, as a plugin of QEMU counts them.
//!
//! The image marks its windows and numbers them in their order; the plugin writes its counts in the same order.

use serde_json::Value;

use super::boots::{Boot, Map, PageSize};
use super::counted::Figures;
use crate::report::{table, thousands};

/// The windows of single operations.
const OPERATIONS: [&str; 25] = [
    "protect_page",
    "protect_run",
    "protect_l2",
    "protect_l1",
    "map_page",
    "unmap_page",
    "collapse_l2",
    "page_out",
    "page_flush",
    "page_back",
    "pages_out",
    "pages_flush",
    "pages_back",
    "set_memory_ro",
    "set_memory_rw",
    "module_load",
    "module_unload",
    "module_load_beside",
    "module_unload_beside",
    "trim",
    "remake_page",
    "remake_pages",
    "hot_add",
    "hot_remove",
    "create",
];

/// The counts of the plugin.
const COUNTED: [&str; 5] = ["atomics", "dmb", "code_lines", "data_lines", "shared_lines"];

/// The options of the boot in which it does. Two other CPUs change pages of their own between the windows.
pub(crate) const OPTIONS: &str = "--page-size 4k --ram 64G --cpus 3 --run traffic,bench,micro,pagealloc";

/// The boot whose operations these are: it has their instructions, barriers and TLBIs.
const BOOT: Boot = Boot { map: Map::Large, fixed: false, page_size: PageSize::K4, gib: 64 };

/// True if the plugin counts this figure.
pub(crate) fn is_of_plugin(figure: &str) -> bool {
    figure.rsplit('/').next().is_some_and(|what| COUNTED.contains(&what))
}

/// Returns the figures of single operations: `document` is that of the boot, and `plugin` what the plugin has written.
pub(crate) fn figures(document: &Value, plugin: &Value) -> Result<Figures, String> {
    let windows = plugin["windows"].as_array().ok_or("the plugin has written no \"windows\"")?;
    let mut figures = Figures::new();
    for name in OPERATIONS {
        let number = document["order"][name].as_u64().ok_or_else(|| format!("{name} has no number"))?;
        let window = (number as usize).checked_sub(1).and_then(|n| windows.get(n));
        let window = window.ok_or_else(|| {
            format!("{name} is window {number}, and the plugin has counted {}", windows.len())
        })?;
        for what in COUNTED {
            let count = window[what].as_u64().ok_or_else(|| format!("{name} has no {what}"))?;
            figures.insert(format!("{BOOT}/{name}/{what}"), count);
        }
    }
    Ok(figures)
}

/// Returns a table of all single operations; what hardware charges most for comes first.
pub(crate) fn text(figures: &Figures) -> String {
    let columns = [
        ("DSB", "dsb"),
        ("TLBI", "tlbi"),
        ("ISB", "isb"),
        ("atomics", "atomics"),
        ("DMB", "dmb"),
        ("lines of code", "code_lines"),
        ("of data", "data_lines"),
        ("written by others", "shared_lines"),
        ("instructions", "instructions"),
    ];
    let row = |name: &str| {
        let count = |what: &str| figures.get(&format!("{BOOT}/{name}/{what}")).copied();
        let cells = columns.map(|(_, what)| count(what).map_or_else(String::new, thousands));
        [vec![name.to_owned()], cells.to_vec()].concat()
    };
    let boot = BOOT.to_string();
    let header: Vec<&str> = [boot.as_str()].into_iter().chain(columns.map(|(title, _)| title)).collect();
    table(&header, &OPERATIONS.map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Documents in which each operation is the window before the one that is named before it.
    fn documents() -> (Value, Value) {
        let count = OPERATIONS.len();
        let order = OPERATIONS.iter().enumerate().map(|(n, name)| ((*name).to_owned(), (count - n).into()));
        let window = |n: usize| json!({"atomics": n, "dmb": 1, "code_lines": 10 * n, "data_lines": 20, "shared_lines": 2});
        let windows: Vec<Value> = (1..=count).map(window).collect();
        let order: serde_json::Map<String, Value> = order.collect();
        (json!({"order": order}), json!({"windows": windows}))
    }

    #[test]
    fn windows_are_matched_by_their_numbers() {
        let (document, plugin) = documents();
        let figures = figures(&document, &plugin).unwrap();
        let count = OPERATIONS.len() as u64;
        assert_eq!(figures["4k/64G/large/protect_page/atomics"], count);
        assert_eq!(figures["4k/64G/large/protect_run/code_lines"], 10 * (count - 1));
        assert_eq!(figures["4k/64G/large/create/atomics"], 1);
        assert_eq!(figures.len(), OPERATIONS.len() * COUNTED.len());
        assert!(figures.keys().all(|figure| is_of_plugin(figure)));
    }

    #[test]
    fn an_error_says_what_is_missing() {
        let (mut document, mut plugin) = documents();
        plugin["windows"].as_array_mut().unwrap().pop();
        assert!(figures(&document, &plugin).unwrap_err().contains("protect_page is window 25"));
        document["order"]["protect_page"] = 0.into();
        assert!(figures(&document, &plugin).unwrap_err().contains("is window 0"));
        document["order"]["protect_page"] = Value::Null;
        assert!(figures(&document, &plugin).unwrap_err().contains("has no number"));
        assert!(figures(&document, &json!({})).unwrap_err().contains("windows"));
    }

    #[test]
    fn the_table_has_barriers_first_and_instructions_last() {
        let counts = [("dsb", 2), ("tlbi", 1), ("shared_lines", 5), ("instructions", 1234)];
        let figures = counts.map(|(what, n)| (format!("{BOOT}/protect_page/{what}"), n)).into();
        let text = text(&figures);
        let row = text.lines().find(|line| line.contains("protect_page")).expect("a row");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[1..11], ["protect_page", "2", "1", "", "", "", "", "", "5", "1,234"], "{text}");
    }
}
