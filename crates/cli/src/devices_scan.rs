//! `warren devices scan`: reads devices and images and shows what is on them. What that is, is the
//! device crate's business.
//!
//! A read of a dead disk may not end even when its process is killed, and a process is not over while
//! a thread of it reads. So one process reads ([`read_here`]) and another one shows what the first found
//! and ends; nothing that its caller waits for is held by the first.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use warren_device::index::Policy;
use warren_device::lvm::host;
use warren_device::readers::Readers;
use warren_device::report;
use warren_device::scan::Scan;
use warren_sys::progress::during;

use crate::args::Global;
use crate::output::print;

/// Ends the report of the process that reads; a byte of what came of it follows. No name of a file has
/// it, and what is printed of a disk neither.
const END: u8 = 0;

/// All paths were read.
const ALL: u8 = b'a';

/// Some could not be read.
const SOME: u8 = b's';

/// Some did not answer, and the process may have to wait for them.
const HELD: u8 = b'h';

/// Has each path read by another process and shows what it found; 1 when one could not be read.
///
/// # Errors
/// The other process cannot be started, or ended without an answer.
pub fn scan(paths: &[String], global: &Global) -> Result<i32> {
    let mut reader = Command::new("/proc/self/exe");
    reader
        .arg0("warren")
        .args(["devices", "read-here"])
        .args(global.json.then_some("--json"))
        .arg("--")
        .args(paths);
    reader.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut reader = reader.spawn().context("starting the process that reads")?;
    let mut said = BufReader::new(reader.stdout.take().context("its output is a pipe")?);
    let (mut text, mut result) = (Vec::new(), [0]);
    let what = format!("Reading {} devices and images", paths.len());
    during(&what, global.quiet, || said.read_until(END, &mut text))?;
    if text.pop() != Some(END) || said.read(&mut result)? == 0 {
        bail!("the scanning process failed: {}", last_words(&mut reader));
    }
    if result != [HELD] {
        reader.wait()?;
    }
    print(&String::from_utf8_lossy(&text));
    Ok(i32::from(result != [ALL]))
}

/// Of a process that said too little, what it complained of.
fn last_words(reader: &mut Child) -> String {
    let mut words = String::new();
    let read = reader.stderr.take().map(|mut errors| errors.read_to_string(&mut words));
    match (read, words.trim_end()) {
        (Some(Ok(_)), "") | (None | Some(Err(_)), _) => "it gave no reason".to_owned(),
        (Some(Ok(_)), words) => words.to_owned(),
    }
}

/// Reads each path, several at a time, and says what it found to the process that started this one.
///
/// # Errors
/// The answers of the disks cannot be waited for.
pub fn read_here(paths: &[String], json: bool) -> Result<i32> {
    let nodes: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let found = Readers::new()?.read_all(&nodes)?;
    let scans: Vec<(String, std::io::Result<Scan>)> = paths.iter().cloned().zip(found).collect();
    let failures = || scans.iter().filter_map(|(_, result)| result.as_ref().err());
    let is_held = failures().any(|error| error.kind() == std::io::ErrorKind::TimedOut);
    let result = match failures().next() {
        None => ALL,
        Some(_) if is_held => HELD,
        Some(_) => SOME,
    };
    let report = report::of_scans(&scans, policy(&scans));
    let text = if json { report.json_lines() } else { report.text() };
    print(&format!("{text}{}{}", char::from(END), char::from(result)));
    Ok(0)
}

/// Whether a group belongs to another host can be told when this one's name is known; lvm2 is asked
/// for it only when a group names a host.
fn policy(scans: &[(String, std::io::Result<Scan>)]) -> Policy {
    let found = scans.iter().filter_map(|(_, scan)| scan.as_ref().ok());
    let is_owned = found.flat_map(Scan::texts_read).any(|(_, group)| !group.system_id.is_empty());
    let system_ids = is_owned.then(host::system_id).flatten().into_iter().collect();
    Policy { system_ids, ..Policy::default() }
}
