//! One HTML page with several pictures, and a choice of the one to show. It needs neither scripts nor other files.

/// Returns the page of these pictures: their names, and SVG files.
pub(super) fn of(title: &str, pictures: &[(&str, String)]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n<style>\n\
         body{{font-family:sans-serif;margin:16px}}label{{margin-right:16px}}section{{display:none}}\n",
        escaped(title)
    );
    for number in 0..pictures.len() {
        page += &format!("#by{number}:checked~#picture{number}{{display:block}}\n");
    }
    page += "</style></head><body>\nColoured by\n";
    for (number, (name, _)) in pictures.iter().enumerate() {
        let checked = if number == 0 { " checked" } else { "" };
        page += &format!(
            "<input type=\"radio\" name=\"by\" id=\"by{number}\"{checked}><label for=\"by{number}\">{}</label>\n",
            escaped(name)
        );
    }
    for (number, (_, svg)) in pictures.iter().enumerate() {
        page += &format!("<section id=\"picture{number}\">{svg}</section>\n");
    }
    page + "</body></html>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_picture_has_its_button() {
        let svg = "<svg></svg>".to_owned();
        let page = of("a < b", &[("size", svg.clone()), ("owner", svg)]);
        assert!(page.contains("<title>a &lt; b</title>") && page.contains("id=\"by0\" checked"), "{page}");
        for number in 0..2 {
            assert!(page.contains(&format!("<section id=\"picture{number}\"><svg></svg>")), "{page}");
            assert!(
                page.contains(&format!("#by{number}:checked~#picture{number}{{display:block}}")),
                "{page}"
            );
        }
    }
}
