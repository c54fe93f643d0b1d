//! This machine: `/proc/kcore`, which shows the running kernel as a core.
//!
//! Its segments are kernel addresses. Those of the linear map have their physical address, by which tables are read;
//! those of vmalloc, modules and vmemmap have -1 instead. The kernel cannot be stopped: each table is read in one
//! piece, but two tables can be of different moments.

mod error;

use std::fs::{self, File};
use std::io;

pub(crate) use error::LiveError;

use super::bytes::Bytes;
use super::core::Core;
use super::error::Problem;
use super::memory::{Memory, Piece, Pieces};
use super::opened::Place;
use super::regime::Regime;
use super::{Cpu, Kernel, Request, Tables};

const PATH: &str = "/proc/kcore";

/// Reads the tables of the running kernel.
pub(super) fn open(request: Request<'_>) -> Result<Tables, Problem> {
    if !cfg!(all(target_arch = "aarch64", target_endian = "little")) {
        return Err(LiveError::Machine(std::env::consts::ARCH).into());
    }
    let file = File::open(PATH).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LiveError::None,
        _ => LiveError::Open(error),
    })?;
    // Segments begin and end at kernel addresses, and the file has no size.
    let bytes = Bytes::of(file, u64::MAX);
    let core = Core::read_headers(&bytes)?;
    if core.pieces.is_empty() {
        return Err(LiveError::NoLinearMap.into());
    }
    let info = core.info.ok_or(LiveError::NoVmcoreInfo)?;
    let ram: Vec<_> = core.pieces.iter().map(Piece::range).collect();
    let memory = Memory::new(ram, Box::new(Pieces::new(bytes, core.pieces)));
    let regime = Regime::of_vmcoreinfo(&info, memory.from())?;
    let command_line = fs::read_to_string("/proc/cmdline").ok().map(|line| line.trim().to_owned());
    let kernel = Kernel { info: Some(info), command_line };
    let tables = Tables::read(Place { name: PATH.to_owned(), regime, memory }, kernel, request)?;
    Ok(Tables { cpu: Cpu { midrs: midrs(), ..Cpu::default() }, ..tables })
}

/// Returns MIDR_EL1 of each CPU that is online.
fn midrs() -> Vec<u64> {
    let cpus = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let midr = |cpu: fs::DirEntry| {
        let text = fs::read_to_string(cpu.path().join("regs/identification/midr_el1")).ok()?;
        u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
    };
    cpus.filter_map(midr).collect()
}
