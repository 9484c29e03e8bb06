//! `warren-devices scan PATH... [--json]`: reads devices or image files, no daemon needed, and
//! prints what is on them and which groups are complete. It changes nothing.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use warren_device::file::DeviceFile;
use warren_device::index::Policy;
use warren_device::read::Scratch;
use warren_device::report;
use warren_device::scan::{Known, Scan, scan};

const HELP: &str = "\
Usage: warren-devices scan [--json] PATH...

Reads block devices or image files and prints what is on them and which groups are complete.
Only the bytes on them are asked, not the running system.

Exit status: 0, or 1 when a path could not be read, or 2 for a wrong command line.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["--help" | "-h"] | ["scan", "--help" | "-h"] => print(HELP, ExitCode::SUCCESS),
        ["scan", ref rest @ ..] => match parse(rest) {
            Some((paths, json)) => scan_paths(&paths, json),
            None => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprint!("{HELP}");
    ExitCode::from(2)
}

/// Paths and whether JSON is wanted; `None` for options that do not exist and for no path at all.
fn parse<'a>(words: &[&'a str]) -> Option<(Vec<&'a str>, bool)> {
    let split = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let (options, mut paths): (Vec<&str>, Vec<&str>) =
        words[..split].iter().partition(|word| word.starts_with('-'));
    paths.extend(words.get(split + 1..).unwrap_or_default());
    let known = options.iter().all(|option| *option == "--json");
    (known && !paths.is_empty()).then_some((paths, !options.is_empty()))
}

fn scan_paths(paths: &[&str], json: bool) -> ExitCode {
    let (mut scratch, mut known) = (Scratch::default(), Known::default());
    let scans: Vec<(String, std::io::Result<Scan>)> = paths
        .iter()
        .map(|path| ((*path).to_owned(), scan_path(path, &mut scratch, &mut known)))
        .collect();
    let failed = scans.iter().any(|(_, result)| result.is_err());
    let report = report::of_scans(&scans, Policy::default());
    let text = if json { report.json_lines() } else { report.text() };
    print(&text, if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn scan_path(path: &str, scratch: &mut Scratch, known: &mut Known) -> std::io::Result<Scan> {
    let file = DeviceFile::open(Path::new(path))?;
    let found = scan(&file, scratch, &mut |key| known.contains(key));
    let found = found.map_err(|error| std::io::Error::from_raw_os_error(error.errno))?;
    known.learn(&found);
    Ok(found)
}

/// A reader that went away is no fault of ours.
fn print(text: &str, code: ExitCode) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::from(1),
        _ => code,
    }
}
