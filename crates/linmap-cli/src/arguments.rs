//! The command line. Wrong arguments are a result, too: with `--json` they end in a document like every other error.

use std::ffi::OsString;
use std::sync::LazyLock;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use git_version::git_version;
use serde_json::json;

use crate::commands::{
    boot, check, compare, diff, dump, image, judge, manual, picture, plan, report, stat, tlb, walk, watch,
};
use crate::progress;
use crate::source::is_address;
use crate::status::Status;
use crate::terminal::{self, Color};

/// Returns the version, and the commit if it was built from the repository.
fn version() -> &'static str {
    const COMMIT: &str = git_version!(
        args = ["--always", "--abbrev=12", "--exclude=*"],
        prefix = " (",
        suffix = ")",
        fallback = ""
    );
    static VERSION: LazyLock<String> = LazyLock::new(|| format!("{}{COMMIT}", env!("CARGO_PKG_VERSION")));
    &VERSION
}

/// Boot, measure and check the linear map of arm64 kernels.
///
/// Exit status: 0 fine, 1 findings, 2 error.
#[derive(Parser)]
#[command(name = "linmap", version = version(), arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Arguments {
    /// When to use colour; auto honours NO_COLOR
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    color: Color,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Boot(boot::Options),
    Image(image::Options),
    Dump(dump::Options),
    Stat(stat::Options),
    Watch(watch::Options),
    Check(check::Options),
    Walk(walk::Options),
    Diff(diff::Options),
    Compare(compare::Options),
    Map(picture::Options),
    Plan(plan::Options),
    Tlb(tlb::Options),
    Report(report::Options),
    Judge(judge::Options),
    Man(manual::ManOptions),
    Completions(manual::CompletionsOptions),
}

impl Arguments {
    /// Reads this process's command line.
    pub(crate) fn read() -> Result<Self, UsageError> {
        let line: Vec<OsString> = std::env::args_os().collect();
        Self::try_parse_from(&line).map_err(|error| UsageError { error, line })
    }

    /// Runs the command.
    pub(crate) fn run(&self) -> Status {
        self.color.apply();
        let status = self.run_command();
        progress::end();
        status
    }

    fn run_command(&self) -> Status {
        match &self.command {
            Command::Boot(options) => boot::run(options),
            Command::Image(options) => image::run(options),
            Command::Dump(options) => dump::run(options),
            Command::Stat(options) => stat::run(options),
            Command::Watch(options) => watch::run(options),
            Command::Check(options) => check::run(options),
            Command::Walk(options) => walk::run(options),
            Command::Compare(options) => compare::run(options),
            Command::Diff(options) => diff::run(options),
            Command::Map(options) => picture::run(options),
            Command::Plan(options) => plan::run(options),
            Command::Tlb(options) => tlb::run(options),
            Command::Report(options) => report::run(options),
            Command::Judge(options) => judge::run(options),
            Command::Man(options) => manual::man(options, Self::command()),
            Command::Completions(options) => manual::completions(options, Self::command()),
        }
    }
}

/// A command line that runs nothing: a mistake, or `--help` and `--version`.
pub(crate) struct UsageError {
    error: clap::Error,
    line: Vec<OsString>,
}

impl UsageError {
    /// Reports the reason, with `--json` as a document.
    pub(crate) fn report(&self) -> Status {
        if self.has("--color=never") || self.line.windows(2).any(|pair| pair == ["--color", "never"]) {
            Color::Never.apply();
        }
        if let Err(error) = terminal::print_clap(&self.error, self.tip().as_deref()) {
            terminal::error(format_args!("the output could not be written: {error}"));
            return Status::Error;
        }
        match self.error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return Status::Fine,
            _ if self.has("--json") => {
                let document = json!({ "schema": self.schema(), "ok": false, "error": self.reason() });
                // The run has failed, whether or not this is read.
                let _ = terminal::print_document(&document);
            }
            _ => {}
        }
        Status::Error
    }

    fn has(&self, argument: &str) -> bool {
        self.line.iter().skip(1).any(|given| given == argument)
    }

    /// Returns a hint if an address is missing, or there are too many.
    fn tip(&self) -> Option<String> {
        let is_walk = self.has("walk");
        match self.error.kind() {
            ErrorKind::MissingRequiredArgument if is_walk => Some(
                "an address is missing, or a symbol of VMCOREINFO: `linmap walk vmcore 0xffff000040000000`, \
                 `linmap walk vmcore _stext`"
                    .to_owned(),
            ),
            ErrorKind::UnknownArgument if !is_walk => {
                let address =
                    self.line.iter().skip(2).filter_map(|given| given.to_str()).find(|g| is_address(g))?;
                Some(format!(
                    "is `{address}` an address? `linmap walk SOURCE {address}` translates one, and `linmap dump \
                     SOURCE --range A-B` prints what lies from A to B"
                ))
            }
            _ => None,
        }
    }

    /// Returns the schema of the command that was meant, if it has documents.
    fn schema(&self) -> String {
        let commands = Arguments::command();
        let with_documents = commands
            .get_subcommands()
            .filter(|command| command.get_arguments().any(|arg| arg.get_id() == "json"));
        let meant = with_documents.map(clap::Command::get_name).find(|name| self.has(name));
        crate::commands::reading::schema(meant.unwrap_or("error"))
    }

    /// Returns the first paragraph of the message, on one line.
    fn reason(&self) -> String {
        let text = self.error.render().to_string();
        let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
        let reason = lines.collect::<Vec<_>>().join(" ");
        reason.strip_prefix("error: ").map_or(reason.clone(), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    /// Returns all that a user sees of an option, or an empty text if a command does not have it.
    fn option(command: &clap::Command, name: &str) -> String {
        let found = command.get_arguments().find(|arg| arg.get_long() == Some(name));
        found.map_or_else(String::new, |arg| {
            let values: Vec<String> =
                arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            format!(
                "{:?} {:?} {:?} {values:?} {:?}",
                arg.get_help().map(ToString::to_string),
                arg.get_long_help().map(ToString::to_string),
                arg.get_value_names(),
                arg.get_default_values()
            )
        })
    }

    /// Subcommands by options: one that reads a map has the same options as the others, and one that does not has none of
    /// those for maps. `tests/maps/options.rs` drives each.
    #[test]
    fn commands_that_read_a_map_have_the_same_options() {
        let mut all = Arguments::command();
        all.build();
        let reads_a_map = |command: &&clap::Command| {
            let names = |arg: &clap::Arg| {
                arg.get_value_names().is_some_and(|names| names[0] == "SOURCE" || names[0] == "A")
            };
            command.get_positionals().any(names)
        };
        let (maps, others): (Vec<_>, Vec<_>) = all.get_subcommands().partition(reads_a_map);
        let names: Vec<&str> = maps.iter().map(|command| command.get_name()).collect();
        assert_eq!(names, ["dump", "stat", "watch", "check", "walk", "diff", "compare", "map"]);
        for name in ["region", "range", "json", "csv", "max-pause", "resume", "color"] {
            let first = option(maps[0], name);
            assert!(!first.is_empty(), "{name}");
            for command in &maps {
                assert_eq!(option(command, name), first, "{} --{name}", command.get_name());
            }
        }
        for command in others {
            for name in ["region", "range", "csv", "max-pause", "resume"] {
                assert_eq!(option(command, name), "", "{} --{name}", command.get_name());
            }
        }
    }

    #[test]
    fn a_refusal_names_its_command_and_its_reason() {
        let line: Vec<OsString> = ["linmap", "boot", "--json", "extra"].map(Into::into).into();
        let error = Arguments::try_parse_from(&line).err().expect("an argument too many");
        let refused = UsageError { error, line };
        assert_eq!(refused.schema(), "linmap.boot/1");
        assert_eq!(refused.reason(), "unexpected argument 'extra' found");
        // The manual has no documents.
        let line: Vec<OsString> = ["linmap", "man", "--json"].map(Into::into).into();
        let error = Arguments::try_parse_from(&line).err().expect("an argument too many");
        assert_eq!(UsageError { error, line }.schema(), "linmap.error/1");
    }
}
