//! Options that take one of a few names, for values of other crates. The help lists each name with a line of text.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Command};

/// A value and its name on the command line.
pub(crate) type Choice<T> = (T, PossibleValue);

/// Returns a choice of this name; `help` is its line in `--help`.
pub(crate) fn choice<T>(value: T, name: &'static str, help: &'static str) -> Choice<T> {
    let name = PossibleValue::new(name);
    (value, if help.is_empty() { name } else { name.help(help) })
}

/// Returns clap's parser for one of these choices.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(
    choices: impl IntoIterator<Item = Choice<T>>,
) -> impl TypedValueParser<Value = T> {
    let choices: Vec<Choice<T>> = choices.into_iter().collect();
    let names = PossibleValuesParser::new(choices.iter().map(|(_, name)| name.clone()));
    names.try_map(move |text| {
        // The parser of names has accepted it, in upper case where the option allows that.
        let chosen = choices.iter().find(|(_, name)| name.matches(&text, true));
        chosen.map(|(value, _)| value.clone()).ok_or("not one of the names")
    })
}

/// A parser of texts that are these names, with which a shell completes, or others. The help lists them in its own way.
#[derive(Clone)]
pub(crate) struct Offering {
    pub(crate) names: fn() -> Vec<&'static str>,
    pub(crate) parse: fn(&str) -> Result<String, String>,
}

impl TypedValueParser for Offering {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let parse = self.parse;
        StringValueParser::new().try_map(move |text| parse(&text)).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}
