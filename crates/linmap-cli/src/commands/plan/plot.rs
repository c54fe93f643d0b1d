//! A sweep as lines: a colour for each page size, solid for the first curve and dashed for the second.

use super::sweep::Swept;
use crate::size::human;
use linmap_plot::{Axis, Line, Lines};

/// Returns the plot.
pub(crate) fn of(swept: &Swept) -> Lines {
    let mut page_sizes: Vec<Option<u64>> = swept.rows.iter().map(|row| row.page_size).collect();
    page_sizes.dedup();
    let mut lines = Vec::new();
    for (color, page_size) in page_sizes.iter().enumerate() {
        for (number, column) in swept.plotted.iter().enumerate() {
            let rows = swept.rows.iter().filter(|row| row.page_size == *page_size);
            let name = swept.columns[column + 1].name;
            lines.push(Line {
                name: page_size.map_or_else(|| name.to_owned(), |size| format!("{}: {name}", human(size))),
                dashed: number % 2 == 1,
                color: if page_sizes.len() > 1 { color } else { number / 2 },
                points: rows.map(|row| (row.at as f64, row.values[*column] as f64)).collect(),
            });
        }
    }
    let (x, y) = swept.axes;
    Lines {
        title: swept.title.to_owned(),
        subtitle: swept.subtitle.clone(),
        x: Axis { label: x.name.to_owned(), base: 2.0, tick: Box::new(move |value| (x.shown)(value as u64)) },
        y: Axis { label: y.name.to_owned(), base: 2.0, tick: Box::new(move |value| (y.shown)(value as u64)) },
        lines,
    }
}
