//! Sizes of the files and functions of a crate, and how its files depend on each other.

use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, Item, ItemFn, Signature, TraitItemFn};

use crate::production::{attributes, tests_only};
use crate::{Arrows, Error, Rooms, circles};

/// The figures of one crate, without its tests.
#[derive(Debug)]
pub struct Figures {
    /// Lines of each file, sorted; unit tests in it included.
    files: Vec<usize>,
    /// Lines of each function from its signature to its closing brace, sorted.
    functions: Vec<usize>,
    arrows: usize,
    against: Option<usize>,
    circles: Vec<usize>,
}

impl Figures {
    /// Measures a crate.
    ///
    /// # Errors
    ///
    /// If a file is no Rust, or the order of rooms does not fit the crate.
    pub fn of(arrows: &Arrows) -> Result<Self, Error> {
        let mut functions = Functions(Vec::new());
        for (path, text) in &arrows.texts {
            let file =
                syn::parse_file(text).map_err(|source| Error::Syntax { path: path.clone(), source })?;
            functions.visit_file(&file);
        }
        let rooms = Rooms::of(arrows)?;
        Ok(Figures {
            files: sorted(arrows.texts.values().map(|text| text.lines().count()).collect()),
            functions: sorted(functions.0),
            arrows: arrows.all.len(),
            against: (!rooms.is_empty())
                .then(|| rooms.iter().map(|rooms| rooms.against(&arrows.all).len()).sum()),
            circles: circles(&arrows.all).iter().map(Vec::len).collect(),
        })
    }

    /// The head of a table of figures.
    #[must_use]
    pub fn head() -> String {
        let sizes = "crate | files | lines | median | 95% | functions | median lines | 95%";
        format!(
            "| {sizes} | arrows | against | circles of files |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"
        )
    }

    /// The crate's row of that table.
    #[must_use]
    pub fn row(&self, name: &str) -> String {
        let [files, functions] = [&self.files, &self.functions].map(|lines| {
            let total: usize = lines.iter().sum();
            (lines.len(), total, percentile(lines, 50), percentile(lines, 95))
        });
        let against = self.against.map_or("-".into(), |count| count.to_string());
        let circles: Vec<_> = self.circles.iter().map(ToString::to_string).collect();
        let circles = if circles.is_empty() { "0".into() } else { circles.join(" + ") };
        let (count, lines, median, high) = files;
        let files = format!("{count} | {lines} | {median} | {high}");
        let functions = format!("{} | {} | {}", functions.0, functions.2, functions.3);
        format!("| {name} | {files} | {functions} | {} | {against} | {circles} |", self.arrows)
    }
}

fn sorted(mut lines: Vec<usize>) -> Vec<usize> {
    lines.sort_unstable();
    lines
}

/// The smallest of sorted values that at least `percent` of all do not exceed; 0 if there are none.
fn percentile(sorted: &[usize], percent: usize) -> usize {
    let rank = (sorted.len() * percent).div_ceil(100);
    rank.checked_sub(1).map_or(0, |index| sorted[index])
}

/// The lines of each function.
struct Functions(Vec<usize>);

impl Functions {
    fn add(&mut self, signature: &Signature, block: &Block) {
        self.0.push(block.brace_token.span.close().end().line + 1 - signature.fn_token.span.start().line);
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item(&mut self, item: &'ast Item) {
        if !tests_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !tests_only(&function.attrs) {
            self.add(&function.sig, &function.block);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        assert_eq!(percentile(&[], 95), 0);
        assert_eq!(percentile(&[7], 50), 7);
        assert_eq!(percentile(&[1, 2, 3, 4], 50), 2);
        let to_hundred: Vec<_> = (1..=100).collect();
        assert_eq!(percentile(&to_hundred, 95), 95);
    }
}
