//! `linmap man` and `linmap completions`: manual pages and shell completions, made from the definition that parses
//! the command line.
//!
//! - `sections`: examples, exit status, environment and files.

mod sections;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::status::Status;
use crate::terminal;

/// Print the manual page, or write all of them into a directory
///
/// `linmap man | man -l -` reads it; `linmap man --directory ~/.local/share/man/man1` installs the pages of all
/// commands.
#[derive(Args)]
pub(crate) struct ManOptions {
    /// Directory for linmap.1, linmap-stat.1 and the others
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Print a completion script
///
/// For bash: `linmap completions bash > ~/.local/share/bash-completion/completions/linmap`.
#[derive(Args)]
pub(crate) struct CompletionsOptions {
    /// Shell that will use it
    shell: Shell,
}

/// Prints or writes the manual of `command`.
pub(crate) fn man(options: &ManOptions, command: Command) -> Status {
    let result = match &options.directory {
        Some(directory) => write_pages(command, directory),
        None => terminal::stream(|mut out| {
            Man::new(command).render(&mut out)?;
            out.write_all(sections::of("").as_bytes())
        }),
    };
    ended(result, options.directory.as_deref())
}

/// Prints the script of `command`.
pub(crate) fn completions(options: &CompletionsOptions, mut command: Command) -> Status {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, "linmap", &mut script);
    ended(terminal::stream(|out| out.write_all(&script)), None)
}

fn ended(result: io::Result<()>, directory: Option<&Path>) -> Status {
    match (result, directory) {
        (Ok(()), _) => return Status::Fine,
        (Err(error), Some(directory)) => {
            terminal::error(format_args!(
                "the pages could not be written to `{}`: {error}",
                directory.display()
            ));
        }
        (Err(error), None) => terminal::error(format_args!("the output could not be written: {error}")),
    }
    Status::Error
}

fn write_pages(command: Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let command = command.disable_help_subcommand(true);
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    clap_mangen::generate_to(command, directory)?;
    let append = |page: &str, name: &str| {
        let mut file = fs::File::options().append(true).open(directory.join(page))?;
        io::Write::write_all(&mut file, sections::of(name).as_bytes())
    };
    append("linmap.1", "")?;
    names.iter().try_for_each(|name| append(&format!("linmap-{name}.1"), name))
}
