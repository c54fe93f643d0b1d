//! Generated blocks of a document: finds them, and selects the part of a text that goes into one.

const BEGIN: &str = "<!-- figures: ";
const CLOSE: &str = " -->";
const END: &str = "<!-- figures end -->";

/// Returns the document with each block replaced by what `generate` returns; `None` leaves a block as it is.
pub(crate) fn generated(
    text: &str,
    mut generate: impl FnMut(&str) -> Result<Option<String>, String>,
) -> Result<String, String> {
    let mut result = String::new();
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        result.push_str(line);
        let Some(what) = line.trim_end().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(CLOSE)) else {
            continue;
        };
        let mut old = String::new();
        loop {
            match lines.next() {
                Some(line) if line.trim_end() == END => break,
                Some(line) => old.push_str(line),
                None => return Err(format!("\"{what}\" has no end: `{END}`")),
            }
        }
        let new = generate(what).map_err(|e| format!("\"{what}\": {e}"))?;
        result.push_str(&new.unwrap_or(old));
        result.push_str(END);
        result.push('\n');
    }
    Ok(result)
}

/// Selects paragraphs of a text (`3`, `2-4`, or `3-` to the end), or its first and last lines (`8 ... 6`).
pub(super) fn part(text: &str, part: &str) -> Result<String, String> {
    let wrong = || format!("\"{part}\" is not a part such as 3, 2-4 or 8 ... 6");
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(wrong);
    if let Some((first, last)) = part.split_once("...") {
        let (first, last) = (number(first)?, number(last)?);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        if lines.len() <= first + last {
            return Ok(text.to_owned());
        }
        let ends = [&lines[..first], &["  ..."], &lines[lines.len() - last..]].concat();
        return Ok(ends.join("\n"));
    }
    let paragraphs: Vec<&str> = text.trim_end().split("\n\n").collect();
    let (first, last) = match part.split_once('-') {
        Some((first, "")) => (number(first)?, paragraphs.len()),
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(part)?, number(part)?),
    };
    let some = paragraphs
        .get(first - 1..last)
        .filter(|some| !some.is_empty())
        .ok_or_else(|| format!("there are {} paragraphs; {part} was asked for", paragraphs.len()))?;
    Ok(some.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "a\n<!-- figures: one -->\nold\n<!-- figures end -->\nb\n<!-- figures: two -->\nkept\n\
                            <!-- figures end -->\n";

    #[test]
    fn blocks_are_replaced_and_nothing_else() {
        let one = |what: &str| Ok((what == "one").then(|| "new\nlines\n".to_owned()));
        let new = generated(DOCUMENT, one).expect("a document");
        assert_eq!(new, DOCUMENT.replace("old\n", "new\nlines\n"));
        assert_eq!(generated(&new, one), Ok(new.clone()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let fails = |_: &str| Err("why".to_owned());
        assert_eq!(generated(DOCUMENT, fails), Err("\"one\": why".to_owned()));
        let open = DOCUMENT.strip_suffix("<!-- figures end -->\n").expect("an end");
        assert!(generated(open, |_| Ok(None)).is_err_and(|e| e.contains("\"two\" has no end")));
    }

    #[test]
    fn parts_are_paragraphs_or_ends() {
        let text = "1\n\n2\n2\n\n3\n\n4\n";
        assert_eq!(part(text, "2").as_deref(), Ok("2\n2"));
        assert_eq!(part(text, "3-4").as_deref(), Ok("3\n\n4"));
        assert_eq!(part(text, "1 ... 1").as_deref(), Ok("1\n  ...\n4"));
        assert_eq!(part(text, "3-").as_deref(), Ok("3\n\n4"));
        for wrong in ["0", "5", "x", "3-2", "..."] {
            assert!(part(text, wrong).is_err(), "{wrong}");
        }
    }
}
