//! `cargo xtask bench web [SETS]`: what warren-web takes, at 8,000 sets with slices: 40,000 units.
//!
//! A nested manager over the layout of the tour, all sockets up; clients keep the streams of open pages over the Unix
//! socket, with the strip of slices, a table of 100 units and the last minutes in sight. Measured while no page is open,
//! with one and with ten, and with one while units are restarted. Needs root and a release build (`make build`).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warren_cli::output::span_us;

use super::exporter::cpu_of;
use super::subject::{Place, Subject};
use super::{Size, programs, write};

/// Sets of units, with slices, when no number is given.
const SETS_DEFAULT: u32 = 8_000;

/// Seconds of each measurement.
const SECONDS: u64 = 20;

/// Until the first pictures are taken.
const SETTLES: Duration = Duration::from_secs(5);

/// Pages that are open at once.
const MANY: usize = 10;

/// Units that are restarted in each second of the last measurement.
const RESTARTS: usize = 20;

/// CPU time of the daemon in a second with one page open, in rest (SPECIFICATION.md).
const CPU_MAX: Duration = Duration::from_millis(100);

/// What a page has in sight.
const SIGHT: &str = "/api/events?table=units&rows=100&cells=slices&series=1";

/// The daemon, until the bench ends.
struct Web {
    child: Child,
    socket: PathBuf,
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.socket);
    }
}

/// An open page: a client that takes what comes, and counts it.
struct Page {
    stream: UnixStream,
    bytes: Arc<AtomicU64>,
    first: Duration,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Page {
    /// Opens it and waits for the first picture.
    fn open(socket: &Path) -> Result<Page> {
        let began = Instant::now();
        let mut stream = UnixStream::connect(socket)?;
        write!(stream, "GET {SIGHT} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        while !line.starts_with("data: ") {
            line.clear();
            ensure!(reader.read_line(&mut line)? > 0, "the page is refused");
        }
        let first = began.elapsed();
        ensure!(line.contains("\"loaded\":true"), "the manager does not answer: {line}");
        let bytes = Arc::new(AtomicU64::new(line.len() as u64));
        let counted = bytes.clone();
        std::thread::spawn(move || {
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                counted.fetch_add(line.len() as u64, Ordering::Relaxed);
                line.clear();
            }
        });
        Ok(Page { stream, bytes, first })
    }
}

/// Measures and writes `bench/results/web.json`.
pub fn run(args: &[&str]) -> Result<()> {
    let sets = match args {
        [] => SETS_DEFAULT,
        [number, ..] => number.parse().with_context(|| format!("{number} sets"))?,
    };
    let programs = programs()?;
    let subject = Subject::boot(&Place::Nested, Size { sets, slices: true }, &programs)?;
    let measured = measure(&subject, &programs);
    subject.down()?;
    let row = measured?;
    write("web.json", std::slice::from_ref(&row))?;
    let took = Duration::from_micros(row["one"]["web_cpu_us"].as_u64().context("a time")?);
    ensure!(took <= CPU_MAX, "a second with one page takes more than {CPU_MAX:?}");
    Ok(())
}

fn start(subject: &Subject, programs: &Path) -> Result<Web> {
    let socket = std::env::temp_dir().join(format!("warren-web-{}", std::process::id()));
    let _ = fs::remove_file(&socket);
    let mut command = Command::new(programs.join("warren-web"));
    command.arg("--listen").arg(&socket).arg("--control").arg(subject.path("/run/warren/control"));
    let child = command.stderr(Stdio::null()).spawn();
    let child = child.context("warren-web: build first: make build")?;
    while UnixStream::connect(&socket).is_err() {
        subject.manager_lives_for(Duration::from_millis(10))?;
    }
    Ok(Web { child, socket })
}

fn measure(subject: &Subject, programs: &Path) -> Result<Value> {
    let web = start(subject, programs)?;
    let none = second(subject, &web, &[], |_| Ok(()))?;
    let page = Page::open(&web.socket)?;
    let first_us = page.first.as_micros() as u64;
    subject.manager_lives_for(SETTLES)?;
    let pages = [page];
    let one = second(subject, &web, &pages, |_| Ok(()))?;
    let restarts = |at: u64| {
        let unit = |n: usize| format!("test-nginx-{}.socket", at as usize * RESTARTS + n);
        let units: Vec<String> = (0..RESTARTS).map(unit).collect();
        let control = subject.path("/run/warren/control");
        let mut warren = Command::new(programs.join("warren"));
        warren.arg("--socket").arg(control).args(["--no-block", "--quiet", "restart"]).args(units);
        warren.stdout(Stdio::null()).stderr(Stdio::null());
        warren.status().map(drop).context("warren restart")
    };
    let changing = second(subject, &web, &pages, restarts)?;
    let mut pages = Vec::from(pages);
    while pages.len() < MANY {
        pages.push(Page::open(&web.socket)?);
    }
    subject.manager_lives_for(SETTLES)?;
    let many = second(subject, &web, &pages, |_| Ok(()))?;
    let status = fs::read_to_string(format!("/proc/{}/status", web.child.id()))?;
    let resident = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.trim().to_owned()
    };
    println!(
        "the first picture of a page after {}; memory {}, at most {}",
        span_us(first_us),
        resident("VmRSS:"),
        resident("VmHWM:")
    );
    drop(pages);
    Ok(json!({
        "none": none, "one": one, "changing": changing, "many": many, "pages": MANY,
        "first_picture_us": first_us, "resident": resident("VmRSS:"), "most": resident("VmHWM:"),
    }))
}

/// What a second takes; `each` is called at the begin of each.
fn second(
    subject: &Subject,
    web: &Web,
    pages: &[Page],
    each: impl Fn(u64) -> Result<()>,
) -> Result<Value> {
    let bytes = || pages.iter().map(|page| page.bytes.load(Ordering::Relaxed)).sum::<u64>();
    let (own, manager, sent) = (cpu_of(web.child.id())?, subject.cpu()?, bytes());
    for at in 0..SECONDS {
        each(at)?;
        subject.manager_lives_for(Duration::from_secs(1))?;
    }
    let of = |now: Duration, before: Duration| (now - before).as_micros() as u64 / SECONDS;
    let (own, manager) = (of(cpu_of(web.child.id())?, own), of(subject.cpu()?, manager));
    let sent = (bytes() - sent) / SECONDS;
    println!(
        "{} pages: each second {} of CPU, {sent} bytes; the manager {}",
        pages.len(),
        span_us(own),
        span_us(manager)
    );
    Ok(json!({"web_cpu_us": own, "manager_cpu_us": manager, "bytes": sent}))
}
