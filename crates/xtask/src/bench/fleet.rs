//! `cargo xtask bench fleet`: the figures of SPECIFICATION.md's table of fleet configuration.
//!
//! Configurations are made up here: hosts and rules that match none of them, and hosts that each
//! get twenty services, once small ones and once such as people write; the hosts are in 16 files that are included together. Our engine and the
//! installed icinga2 load the same files one after the other in one run, with 1, 2, 4 and 8 threads
//! (icinga2 loads the largest case once); one thread and two are compared in turn; edits are measured
//! by the example `change`. What is not installed (icinga2, strace, valgrind, GNU time) is said to be
//! NOT RUN.
//!
//! Arguments: `HOSTS RULES` of the first case; default: 10000 1000, for which icinga2 takes minutes.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::command::{cargo, root};

/// Hosts and rules of the case whose rules match.
const SERVICES: (usize, usize) = (5000, 20);

/// Hosts and rules of the case that icinga2 loads with each number of threads.
const THREADED: (usize, usize) = (2000, 500);

/// In how many files the hosts are.
const FILES: usize = 16;

const THREADS: [usize; 4] = [1, 2, 4, 8];

/// How often one thread and two are compared; even.
const PAIRS: usize = 10;

/// Where Debian has the program itself; the command is a wrapper that wants its user.
const ICINGA: &str = "/usr/lib/x86_64-linux-gnu/icinga2/sbin/icinga2";

/// What GNU time is to print: wall, user and system seconds, KB at most, voluntary switches.
const FORMAT: &str = "%e %U %S %M %w";

/// What hosts and rules of a case say.
#[derive(Clone, Copy, PartialEq)]
enum Text {
    /// Rules that match nothing, by namespaces and a pattern.
    NoMatch,
    /// Services of little more than a name.
    Small,
    /// Eight attributes of a host; of a service a template of four, two texts and a sum; filters of
    /// four kinds. The targets were set with such a configuration.
    Usual,
}

/// A made-up configuration.
struct Case {
    name: &'static str,
    directory: PathBuf,
    /// What is made, and must be made by both.
    objects: usize,
}

/// Measures, prints the table, writes `bench/results/fleet.json`.
pub fn run(args: &[&str]) -> Result<()> {
    let sizes: Vec<usize> =
        args.iter().map(|word| word.parse().context("HOSTS RULES")).collect::<Result<_>>()?;
    let (hosts, rules) = match sizes[..] {
        [] => (10_000, 1_000),
        [hosts, rules] => (hosts, rules),
        _ => anyhow::bail!("usage: bench fleet [HOSTS RULES]"),
    };
    build()?;
    let scratch = std::env::temp_dir().join(format!("warren-bench-fleet-{}", std::process::id()));
    let measured = measure(&scratch, (hosts, rules));
    let removed = fs::remove_dir_all(&scratch);
    let results = measured?;
    removed.context("removing the scratch directory")?;
    super::write("fleet.json", &results)
}

fn build() -> Result<()> {
    ensure!(Path::new("/usr/bin/time").exists(), "NOT RUN: GNU time is not installed");
    cargo(&["build", "--locked", "--release", "--package", "warren-fleet", "--examples"])
}

/// CPU seconds and largest memory, MB, of our engine alone over so many hosts and rules that match none.
pub fn own(scratch: &Path, size: (usize, usize)) -> Result<(f64, f64)> {
    build()?;
    let case = Case::write(scratch, "growth", size, Text::NoMatch)?;
    let mut command = timed(&case.directory);
    command.arg(Case::program()).arg(case.file()).args(["indexed", "1"]);
    let [_, user, system, kb, _] = figures(&case, command, "warrener")?;
    Ok((user + system, kb / 1000.0))
}

fn measure(scratch: &Path, none: (usize, usize)) -> Result<Vec<Value>> {
    let cases = [
        Case::write(scratch, "no match", none, Text::NoMatch)?,
        Case::write(scratch, "no match, fewer", THREADED, Text::NoMatch)?,
        Case::write(scratch, "services", SERVICES, Text::Small)?,
        Case::write(scratch, "usual services", SERVICES, Text::Usual)?,
    ];
    let mut results = Vec::new();
    for case in &cases {
        println!("\n{}: {} objects", case.name, case.objects);
        for threads in THREADS {
            results.push(case.own(threads, "indexed")?);
        }
        results.push(case.own(1, "scan")?);
        results.extend(case.futexes()?);
        if case.name.ends_with("services") {
            results.push(case.threads()?);
            results.extend(case.instructions()?);
        }
        let is_largest = case.name == "no match";
        for threads in THREADS.into_iter().take(if is_largest { 1 } else { THREADS.len() }) {
            results.extend(case.icinga(threads, scratch)?);
        }
    }
    results.push(edits()?);
    Ok(results)
}

impl Case {
    fn write(
        scratch: &Path,
        name: &'static str,
        (hosts, rules): (usize, usize),
        text: Text,
    ) -> Result<Case> {
        let directory = scratch.join(name);
        fs::create_dir_all(&directory)?;
        let mut files = vec![String::new(); FILES];
        for n in 0..hosts {
            text.host(n, &mut files[n * FILES / hosts])?;
        }
        for (n, text) in files.iter().enumerate() {
            fs::write(directory.join(format!("hosts-{n:02}.conf")), text)?;
        }
        let mut main = String::from(HEAD);
        for n in 0..rules {
            text.rule(n, &mut main)?;
        }
        fs::write(directory.join("main.conf"), main)?;
        let objects = hosts + if text == Text::NoMatch { 0 } else { hosts * rules };
        Ok(Case { name, directory, objects })
    }

    fn file(&self) -> PathBuf {
        self.directory.join("main.conf")
    }

    fn program() -> PathBuf {
        root().join("target/release/examples/bench")
    }

    fn own(&self, threads: usize, matching: &str) -> Result<Value> {
        let mut command = timed(&self.directory);
        command.arg(Case::program()).arg(self.file()).args([matching, &threads.to_string()]);
        let name = format!("warrener, {matching}");
        row(self, command, (&name, threads))
    }

    /// CPU of two threads over that of one, in turn: a machine that slows down slows both.
    fn threads(&self) -> Result<Value> {
        let mut ratios = Vec::new();
        for _ in 0..PAIRS {
            let mut cpu = [0.0; 2];
            for (threads, cpu) in [1, 2].into_iter().zip(&mut cpu) {
                let mut command = timed(&self.directory);
                command.arg(Case::program()).arg(self.file());
                command.args(["indexed", &threads.to_string()]);
                let [_, user, system, ..] = figures(self, command, "warrener")?;
                *cpu = user + system;
            }
            ratios.push(cpu[1] / cpu[0]);
        }
        ratios.sort_by(f64::total_cmp);
        let median = f64::midpoint(ratios[PAIRS / 2 - 1], ratios[PAIRS / 2]);
        println!(
            "  CPU of 2 threads over that of 1: {median:.3}, median of {PAIRS} pairs from {:.3} to {:.3}",
            ratios[0],
            ratios[PAIRS - 1]
        );
        Ok(json!({"case": self.name, "cpu_of_2_threads_over_1": ratios}))
    }

    /// Instructions with one thread and with two, which no load of the machine changes.
    fn instructions(&self) -> Result<Option<Value>> {
        let mut counts = Vec::new();
        for threads in ["1", "2"] {
            let file = self.directory.join("instructions");
            let mut command = Command::new("valgrind");
            command.arg("--tool=callgrind");
            command.arg(format!("--callgrind-out-file={}", file.display()));
            command.arg(Case::program()).arg(self.file()).args(["indexed", threads]);
            let Ok(output) = command.output() else {
                println!("  NOT RUN: instructions are counted by valgrind");
                return Ok(None);
            };
            ensure!(output.status.success(), "valgrind ended with {}", output.status);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let count = text.lines().find_map(|line| line.split_once("Collected : "));
            let count = count.and_then(|(_, count)| count.trim().parse::<u64>().ok());
            counts.push(count.context("valgrind counts nothing")?);
        }
        println!(
            "  million instructions with 1 and 2 threads: {} and {}",
            counts[0] / 1_000_000,
            counts[1] / 1_000_000
        );
        Ok(Some(json!({"case": self.name, "instructions_1_and_2_threads": counts})))
    }

    /// futex(2) calls with one thread and with four, where strace can count them.
    fn futexes(&self) -> Result<Option<Value>> {
        let mut counts = Vec::new();
        for threads in ["1", "4"] {
            let file = self.directory.join("futexes");
            let mut command = Command::new("strace");
            command.args(["-f", "-c", "-e", "trace=futex", "-o"]).arg(&file);
            command.arg(Case::program()).arg(self.file()).args(["indexed", threads]);
            let Ok(status) = command.stdout(Stdio::null()).status() else {
                println!("  NOT RUN: futex calls need strace");
                return Ok(None);
            };
            ensure!(status.success(), "strace ended with {status}");
            let text = fs::read_to_string(&file)?;
            let line = text.lines().find(|line| line.trim_end().ends_with("futex"));
            let calls = line.and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
            counts.push(calls.unwrap_or(0));
        }
        println!("  futex calls with 1 and 4 threads: {} and {}", counts[0], counts[1]);
        Ok(Some(json!({"case": self.name, "futex_calls_1_and_4_threads": counts})))
    }

    fn icinga(&self, threads: usize, scratch: &Path) -> Result<Option<Value>> {
        if !Path::new(ICINGA).exists() {
            println!("  NOT RUN: icinga2 is not installed");
            return Ok(None);
        }
        let state = scratch.join("icinga");
        let mut command = timed(&self.directory);
        command.arg(ICINGA).args(["daemon", "-C", "-c"]).arg(self.file());
        command.env("ICINGA2_USER", "root").env("ICINGA2_GROUP", "root");
        command.args(["-D", &format!("Configuration.Concurrency={threads}")]);
        command.args(["-D", "Configuration.RunAsUser=root", "-D", "Configuration.RunAsGroup=root"]);
        for (name, below) in [
            ("CacheDir", "cache"),
            ("DataDir", "data"),
            ("LogDir", "log"),
            ("InitRunDir", "run"),
            ("SpoolDir", "spool"),
            ("ObjectsPath", "cache/objects"),
            ("VarsPath", "cache/vars"),
        ] {
            let path = state.join(below);
            let directory = if below.contains('/') { path.parent() } else { Some(&*path) };
            directory.map_or(Ok(()), fs::create_dir_all)?;
            command.args(["-D", &format!("Configuration.{name}={}", path.display())]);
        }
        row(self, command, ("icinga2", threads)).map(Some)
    }
}

impl Text {
    fn host(self, n: usize, out: &mut String) -> std::fmt::Result {
        let (rank, role) = (n % 50, n % 8);
        let name = format!("fra-web-{n:05}");
        if self != Text::Usual {
            let vars = format!("vars.rank = {rank}; vars.role = \"r{role}\"");
            return writeln!(out, "object Host \"{name}\" {{ import \"base\"; {vars} }}");
        }
        let (site, port) = (n / 8 % 8, 8000 + n % 100);
        writeln!(out, "object Host \"{name}\" {{")?;
        writeln!(out, "  import \"usual\"\n  address = \"10.0.{}.{}\"", n >> 8, n & 255)?;
        writeln!(
            out,
            "  vars.role = \"r{role}\"\n  vars.site = \"s{site}\"\n  vars.rank = {rank}"
        )?;
        writeln!(out, "  vars.os = \"Linux\"\n  vars.http[\"port\"] = {port}")?;
        writeln!(out, "  vars.tags = [ \"r{role}\", \"s{site}\", \"rank{rank}\" ]\n}}")
    }

    fn rule(self, n: usize, out: &mut String) -> std::fmt::Result {
        let filter = match (self, n % 4) {
            (Text::NoMatch, _) => format!(
                "match(Fleet.Site.Names.pattern + \"{n}\", host.name) && host.vars.rank == Fleet.Limits.Wanted"
            ),
            (Text::Small, _) => "host.vars.role".to_owned(),
            (Text::Usual, 0) => "host.vars.os == \"Linux\"".to_owned(),
            (Text::Usual, 1) => {
                "match(\"*-*-*\", host.name)\n  ignore where host.vars.rank > 100".to_owned()
            }
            (Text::Usual, 2) => {
                let roles: Vec<_> = (0..8).map(|role| format!("\"r{role}\"")).collect();
                format!("host.vars.role in [ {} ]", roles.join(", "))
            }
            (Text::Usual, _) => "host.address && host.vars.site in host.vars.tags".to_owned(),
        };
        let body = match self {
            Text::Usual => format!(
                "import \"usual\"\n  vars.port = host.vars.http.port + {n}\n  vars.label = \"chk-\" + host.name + \"-{n}\"\n  display_name = \"Check {n} on \" + host.name\n "
            ),
            _ => format!("import \"base\"; vars.n = {n}; vars.of = host.name;"),
        };
        writeln!(out, "apply Service \"s{n}\" {{ {body} assign where {filter} }}")
    }
}

/// Namespaces as the report of 2023 has them, and what both cases need. A namespace inside another
/// one's braces would be one of all files, and read as nothing here; whoever sees something else
/// than what is meant refuses the configuration.
const HEAD: &str = "\
namespace Fleet { }
namespace Fleet.Site { }
namespace Fleet.Site.Names { pattern = \"fra-*-zz\" }
namespace Fleet.Limits { Wanted = 99 }
if (typeof(Fleet.Site) != Namespace || Fleet.Site.Names.pattern != \"fra-*-zz\") {
  throw \"Fleet.Site.Names.pattern is not there\"
}
if (Fleet.Limits.Wanted != 99) { throw \"Fleet.Limits.Wanted is not there\" }
if (!match(Fleet.Site.Names.pattern + \"7\", \"fra-web-zz7\")) { throw \"the pattern fits nothing\" }
object CheckCommand \"dummy\" { command = [ \"/bin/true\" ] }
template Host \"base\" { check_command = \"dummy\" }
template Service \"base\" { check_command = \"dummy\" }
template Host \"usual\" { check_command = \"dummy\"; check_interval = 1m }
template Service \"usual\" { check_command = \"dummy\"; check_interval = 5m; retry_interval = 30s; max_check_attempts = 3 }
include \"hosts-*.conf\"
";

/// GNU time, which writes its figures beside the configuration.
fn timed(directory: &Path) -> Command {
    let mut command = Command::new("/usr/bin/time");
    command.args(["-f", FORMAT, "-o"]).arg(directory.join("time"));
    command
}

/// Hosts and services of `10000 Host` (ours) and `Instantiated 10000 Hosts.`
fn made(output: &str) -> usize {
    let number = |pair: &[&str]| {
        let of_type = pair[1].trim_end_matches('.').trim_end_matches('s');
        let is_counted = ["Host", "Service"].contains(&of_type);
        if is_counted { pair[0].parse().unwrap_or(0) } else { 0 }
    };
    let words = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).map(number).sum::<usize>()
    };
    output.lines().map(words).sum()
}

/// Wall, user and system seconds, KB at most and voluntary switches of a load that makes what it is
/// to make.
fn figures(case: &Case, mut command: Command, who: &str) -> Result<[f64; 5]> {
    let output = command.output().with_context(|| who.to_owned())?;
    ensure!(
        output.status.success(),
        "{who} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
    let made = made(&String::from_utf8_lossy(&output.stdout));
    ensure!(made == case.objects, "{who} made {made} objects of {}", case.objects);
    let text = fs::read_to_string(case.directory.join("time"))?;
    let figures: Vec<f64> =
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().context("GNU time")?;
    figures.try_into().map_err(|_| anyhow::anyhow!("GNU time printed {text:?}"))
}

fn row(case: &Case, command: Command, (who, threads): (&str, usize)) -> Result<Value> {
    let [wall, user, system, kb, switches] = figures(case, command, who)?;
    println!(
        "  {who:<20} {threads} threads: {:8.2} CPU s, {wall:8.2} s, {:6.0} MB, {switches:6.0} voluntary switches",
        user + system,
        kb / 1024.0
    );
    Ok(json!({
        "who": who, "case": case.name, "threads": threads, "cpu_s": user + system, "wall_s": wall,
        "kb": kb, "voluntary_switches": switches,
    }))
}

/// One attribute of one container of 5,000.
fn edits() -> Result<Value> {
    let output = Command::new(root().join("target/release/examples/change")).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "the example change: {text}");
    print!("\nedits:\n{text}");
    Ok(json!({"edits": text.lines().collect::<Vec<_>>()}))
}
