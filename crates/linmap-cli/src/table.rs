//! Tables for people: text to the left, numbers to the right, no borders but a rule below the header. In a table that
//! is wider than the terminal, cells have several lines.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Row, Table, TableStyle};

use crate::terminal;

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Returns a table with this header and these rows, ending in a line break.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(row(header.iter().map(|name| (*name).to_owned())));
    for cells in rows {
        table.add_row(row(cells));
    }
    fitted(table)
}

/// Returns a table as text, for the terminal behind stdout.
pub(crate) fn fitted(table: Table) -> String {
    finished(table, terminal::width())
}

/// Returns a table as text, no wider than so many columns if possible.
fn finished(mut table: Table, width: Option<u16>) -> String {
    let mut lines = lines(&table);
    let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    if let Some(width) = width.filter(|width| usize::from(*width) < widest) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        lines = self::lines(&table);
    }
    lines.join("\n") + "\n"
}

fn lines(table: &Table) -> Vec<String> {
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn row(cells: impl IntoIterator<Item = String>) -> Row {
    let aligned = cells.into_iter().enumerate().map(|(column, text)| {
        let alignment = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(alignment)
    });
    Row::from(aligned.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_into_the_terminal() {
        let table = || {
            let mut table = Table::new();
            table.load_style(STYLE).set_header(row(["what it costs", "this map"].map(str::to_owned)));
            table.add_row(row(["TLB entries to cover all RAM", "65,536"].map(str::to_owned)));
            table
        };
        assert_eq!(finished(table(), None), finished(table(), Some(80)));
        let narrow = finished(table(), Some(30));
        assert!(narrow.lines().all(|line| line.chars().count() <= 30), "{narrow}");
        assert!(narrow.contains("65,536\n"), "numbers are whole: {narrow}");
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let rows = [["a", "1"], ["long", "1,000"]].map(|row| row.map(str::to_owned).to_vec());
        let expected = " name   count\n──────────────\n a          1\n long   1,000\n";
        assert_eq!(table(&["name", "count"], rows), expected);
    }
}
