//! Tables for people: names to the left, numbers to the right, no borders but a rule below the header.

use comfy_table::{Cell, CellAlignment, LineStyle, Row, Table, TableStyle};

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// The table with this header and these rows, ending in a line break.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(row(header.iter().map(|name| (*name).to_owned())));
    for cells in rows {
        table.add_row(row(cells));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
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
    fn numbers_stand_to_the_right() {
        let rows = [["a", "1"], ["long", "1,000"]].map(|row| row.map(str::to_owned).to_vec());
        let expected = " name   count\n──────────────\n a          1\n long   1,000\n";
        assert_eq!(table(&["name", "count"], rows), expected);
    }
}
