//! `linmap image`: writes the image where firmware of machines starts it by itself.
//!
//! - `failure`: the reasons why it cannot.  `arguments`: the boot arguments.  `files`: the files that firmware looks for.
//! - `fat`, `gpt`: a file system with these files; a disk with this file system.

mod arguments;
mod failure;
mod fat;
mod files;
mod gpt;

use std::fs::File;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::commands::boot::image;
use crate::distinct::distinct;
use crate::progress;
use crate::size::{Size, SizeError};
use crate::status::Status;
use crate::terminal;
use crate::whole_file::replace;
use failure::Failure;
use files::Files;

/// Write a medium that machines with UEFI firmware boot the image from
///
/// With --esp into the directory where the EFI system partition is mounted, such as that of a USB stick; with --disk
/// into a file that is a whole disk, for `dd` and for virtual machines. Firmware starts EFI/BOOT/BOOTAA64.EFI without
/// a menu; the boot arguments are in linmap/cmdline.txt, and may be edited there.
///
/// Exit status: 0 written, 2 not.
#[derive(Args)]
#[command(group = ArgGroup::new("media").args(["esp", "disk"]).required(true).multiple(true))]
pub(crate) struct Options {
    /// Directory to write the files into
    #[arg(long, value_name = "DIR")]
    esp: Option<PathBuf>,

    /// File to write a whole disk into: a GPT with one EFI system partition
    #[arg(long, value_name = "FILE")]
    disk: Option<PathBuf>,

    /// Bytes of the disk, or with K, M, G
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = disk_size, requires = "disk")]
    size: Size,

    /// Boot arguments, such as `run=measure pagesize=64k`; docs/commands.md lists them
    #[arg(long, value_name = "ARGS", default_value = "run=dump", allow_hyphen_values = true)]
    args: String,

    /// Image to write [default: the one that `make image` built]
    #[arg(long, value_name = "PATH")]
    image: Option<PathBuf>,
}

/// The smallest disk: with FAT32, as removable media have, and the image.
const LEAST: Size = Size(40 << 20);
/// The largest, for which FAT32 is made for.
const MOST: Size = Size(32 << 30);

fn disk_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
    if !(LEAST..=MOST).contains(&size) || !size.0.is_multiple_of(1 << 20) {
        return Err(format!("a disk has a multiple of 1M, from {LEAST} to {MOST}"));
    }
    Ok(size)
}

/// Writes what is asked for.
pub(crate) fn run(options: &Options) -> Status {
    progress::begin("writing the medium");
    match write(options) {
        Ok(()) => Status::Fine,
        Err(failure) => {
            terminal::error(failure);
            Status::Error
        }
    }
}

fn write(options: &Options) -> Result<(), Failure> {
    let wrong = arguments::wrong(&options.args);
    if !wrong.is_empty() {
        return Err(Failure::Ignored(wrong));
    }
    let image = image::find(options.image.as_deref())?;
    distinct(&[options.disk.as_deref()], &[&image])?;
    let content = std::fs::read(&image).map_err(|error| Failure::Unreadable(image.clone(), error))?;
    let files = Files::new(&content, &options.args).ok_or_else(|| Failure::NotEfi(image.clone()))??;
    if let Some(directory) = &options.esp {
        files.write_into(directory).map_err(|(path, error)| Failure::Unwritable(path, error))?;
        done(&format!("{} and {} in {}", files::APPLICATION, files::ARGUMENTS, directory.display()))?;
    }
    if let Some(path) = &options.disk {
        let disk = disk(&files, options.size).map_err(|error| Failure::Unwritable(path.clone(), error))?;
        let write = |file: &mut File| gpt::write(file, &disk, options.size.0).and_then(|()| file.sync_all());
        replace(path, write).map_err(|error| Failure::Unwritable(path.clone(), error))?;
        done(&format!("{}: a disk of {} with an EFI system partition", path.display(), options.size))?;
    }
    Ok(())
}

/// Returns the partition for a disk.
fn disk(files: &Files<'_>, size: Size) -> std::io::Result<gpt::Partition> {
    let bytes = gpt::partition_bytes(size.0);
    Ok(gpt::Partition::new(fat::with(files, bytes)?))
}

fn done(text: &str) -> Result<(), Failure> {
    terminal::print(&format!("wrote {text}\n")).map_err(Failure::Output)
}
