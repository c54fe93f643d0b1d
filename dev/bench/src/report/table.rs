//! Markdown tables with columns aligned in the source: the first to the left, the others to the right.

/// Returns the table, which ends in a line break.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|cell| escaped(cell)).collect();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&header]).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(2)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let rule = widths.iter().enumerate().map(|(column, width)| match column {
        0 => "-".repeat(*width),
        _ => "-".repeat(width - 1) + ":",
    });
    let mut text = line(&header, &widths) + &line(&rule.collect::<Vec<_>>(), &widths);
    rows.iter().for_each(|row| text.push_str(&line(row, &widths)));
    text
}

/// Returns one line. Missing cells are empty.
fn line(cells: &[String], widths: &[usize]) -> String {
    let mut text = "|".to_owned();
    for (column, &width) in widths.iter().enumerate() {
        let cell = cells.get(column).map_or("", String::as_str);
        match column {
            0 => text += &format!(" {cell:<width$} |"),
            _ => text += &format!(" {cell:>width$} |"),
        }
    }
    text + "\n"
}

/// Escapes characters that would end a cell.
fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}

/// Writes a number with commas: `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i != 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["a|b", "1"], ["c", "1,000"]].map(|row| row.map(str::to_owned).to_vec());
        let expected = "\
| name | count |
| ---- | ----: |
| a\\|b |     1 |
| c    | 1,000 |
";
        assert_eq!(table(&["name", "count"], &rows), expected);
    }

    #[test]
    fn a_short_row_is_filled() {
        let rows = [vec!["a".to_owned()]];
        assert_eq!(table(&["x", "y"], &rows), "| x  |  y |\n| -- | -: |\n| a  |    |\n");
    }

    #[test]
    fn thousands_stand_apart() {
        let texts = [0, 999, 1_000, 123_456, 1_234_567].map(thousands);
        assert_eq!(texts, ["0", "999", "1,000", "123,456", "1,234,567"]);
    }
}
