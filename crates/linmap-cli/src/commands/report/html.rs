//! The report as one page of HTML, without anything from elsewhere: the plot, and the sections below it.

use super::sections::Section;

/// The styles of the page: numbers to the right, names to the left.
const STYLE: &str = "body{font-family:sans-serif;margin:2em;max-width:70em}table{border-collapse:collapse}\
    th,td{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}\
    th:first-child,td:first-child{text-align:left}.note{color:#555}";

/// Returns the page. `svg` is a whole SVG file.
pub(crate) fn of(sections: &[Section], svg: &str) -> String {
    let parts: String = sections.iter().map(section).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>linmap report</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>Pages and large leaves</h1>\n{svg}\n{parts}</body>\n</html>\n"
    )
}

fn section(section: &Section) -> String {
    let Section { title, says, header, rows, notes } = section;
    let row = |cells: &[String], tag: &str| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let mut text = format!("<h2>{}</h2>\n", escaped(title));
    text.extend(says.iter().map(|says| format!("<p>{}</p>\n", escaped(&capital(says)))));
    if !rows.is_empty() {
        let rows: String = rows.iter().map(|cells| row(cells, "td")).collect();
        text.push_str(&format!("<table>\n{}{rows}</table>\n", row(header, "th")));
    }
    text.extend(notes.iter().map(|note| format!("<p class=\"note\">{}</p>\n", escaped(note))));
    text
}

/// Returns a sentence with a capital letter.
fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// Returns text that stands for itself in HTML.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_files_stands_for_itself() {
        let section = Section {
            title: "<b>".to_owned(),
            says: vec!["a \"name\" & more".to_owned()],
            header: vec!["x<y".to_owned()],
            rows: vec![vec!["<script>".to_owned()]],
            notes: vec!["</p>".to_owned()],
        };
        let page = of(&[section], "<svg></svg>");
        for escaped in [
            "<h2>&lt;b&gt;</h2>",
            "<p>A &quot;name&quot; &amp; more</p>",
            "<th>x&lt;y</th>",
            "<td>&lt;script&gt;</td>",
            "&lt;/p&gt;",
        ] {
            assert!(page.contains(escaped), "{escaped}: {page}");
        }
        assert!(!page.contains("<script>") && page.contains("<svg></svg>"), "{page}");
    }
}
