//! `cargo xtask bench hostile [SETS [ATTACK...]]`: what users without privileges and users of services can do to others.
//!
//! A nested machine of so many sets stands under one attack after the other. Beside each, and before all of them, root
//! starts services, connects to sockets for the first time and logs; the longest time of each counts, and the largest
//! memory and number of descriptors of each program. What was logged meanwhile must be in the log afterwards. Attacks
//! are in `attacks.py`, and descriptors that nobody can close come from testkit's stranger. Needs root, /dev/fuse and
//! a release build (`make build`).
//!
//! `--together MINUTES [SETS]` makes all attacks at once ([`together`]).

mod together;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use warren_cli::tour::layout::{service, socket_path};
use warren_testkit::{Sent, Stranger};

use super::Size;
use super::subject::{Place, Subject};

/// Sets when no number is given.
const SETS_DEFAULT: u32 = 1000;

/// Rounds of probes beside each attack.
const ROUNDS: u32 = 20;

/// Services that are named to one systemctl.
const STOPPED_AT_ONCE: usize = 100;

/// The log daemon has settled when it writes in less time, a tenth of so many times one after the other.
const SETTLED: Duration = Duration::from_millis(20);
const SETTLING_MAX: u32 = 500;

/// A probe that takes longer has failed.
const PROBE_MAX: Duration = Duration::from_secs(60);

/// Target: no probe takes longer by more than in quiet, or beside processes that only compute.
const LATER_MAX: Duration = Duration::from_millis(100);

/// Target: no program is larger than in quiet by more.
const GROWTH_MAX: u64 = 64 << 20;

/// Users who send what nobody can close, and how much each: no more than waits in a socket whose reader stands still.
const STRANGERS: [u32; 4] = [65_534, 65_533, 65_532, 65_531];
const UNCLOSABLE: usize = 8;

const SCRIPT: &str = include_str!("hostile/attacks.py");

/// One attack.
#[derive(Clone, Copy)]
enum How {
    /// A script beside the machine.
    Script,
    /// A service that root starts, and stops while it is measured.
    Unit,
    /// Descriptors that nobody can close, to that socket.
    Unclosable(&'static str),
}

/// All of them, in the order in which they are made.
const ATTACKS: [(&str, How); 12] = [
    ("notify-flood", How::Script),
    ("notify-unclosable", How::Unclosable("/run/systemd/notify")),
    ("log-flood", How::Script),
    ("log-unclosable", How::Unclosable("/run/systemd/journal/socket")),
    ("half-lines", How::Script),
    ("half-requests", How::Script),
    ("list-flood", How::Script),
    ("unknown-units", How::Script),
    ("connection-flood", How::Script),
    ("unit-deep-directories", How::Unit),
    ("unit-deep-groups", How::Unit),
    ("unit-exits", How::Unit),
];

/// As many processes of a user as ask in other attacks, which compute and touch nothing of ours.
const BUSY: &str = "busy-processes";

/// What is measured beside each.
const PROBES: [&str; 4] = ["start", "notify start", "log line", "first connection"];

/// Longest times, by probe.
type Longest = BTreeMap<&'static str, Duration>;

/// Memory in bytes and descriptors of each program, by its name.
type Sizes = BTreeMap<String, (u64, usize)>;

/// Measures, prints the table, writes `bench/results/hostile.json`.
pub fn run(args: &[&str]) -> Result<()> {
    let number = |text: &str| text.parse::<u32>().with_context(|| format!("{text} is no number"));
    let (sets, chosen) = match args {
        [] => (SETS_DEFAULT, &[][..]),
        ["--together", minutes] => return run_together(number(minutes)?, SETS_DEFAULT),
        ["--together", minutes, sets] => return run_together(number(minutes)?, number(sets)?),
        [sets, chosen @ ..] => (number(sets)?, chosen),
    };
    let is_known = |name: &&str| ATTACKS.iter().any(|(known, _)| known == name);
    if let Some(name) = chosen.iter().find(|name| !is_known(name)) {
        bail!("no attack {name}: {}", ATTACKS.map(|(name, _)| name).join(", "));
    }
    let needed = (ATTACKS.len() as u32 + 1) * ROUNDS;
    ensure!(
        sets > needed,
        "each probe of a socket needs one that was not used: more than {needed} sets"
    );
    let results = measured(sets, |bench| bench.all(chosen))?;
    match chosen {
        [] => super::write("hostile.json", &results),
        // A part is no record.
        _ => Ok(()),
    }
}

/// Writes `bench/results/hostile-together.json`.
fn run_together(minutes: u32, sets: u32) -> Result<()> {
    ensure!((1..=24 * 60).contains(&minutes), "so many minutes: 1 to 1440");
    ensure!(sets >= ROUNDS, "{ROUNDS} sets or more");
    let time = Duration::from_secs(u64::from(minutes) * 60);
    let results = measured(sets, |bench| bench.together(time))?;
    super::write("hostile-together.json", &results)
}

/// What is measured at a machine of so many sets, behind what it is.
fn measured(
    sets: u32,
    measure: impl FnOnce(&mut Bench<'_>) -> Result<Vec<Value>>,
) -> Result<Vec<Value>> {
    let programs = super::programs()?;
    let subject = Subject::boot(&Place::Nested, Size { sets, slices: false }, &programs)?;
    let measured = Bench::new(&subject, sets).and_then(|mut bench| measure(&mut bench));
    subject.down()?;
    let kind =
        if std::env::var_os("WARREN_PROGRAMS").is_some() { "WARREN_PROGRAMS" } else { "release" };
    let mut results = vec![json!({"sets": sets, "programs": kind})];
    results.extend(measured?);
    Ok(results)
}

struct Bench<'s> {
    subject: &'s Subject,
    /// How many there are.
    sets: u32,
    /// Connections to sockets of sets.
    used: u32,
    /// Lines that were logged.
    lines: u64,
    script: String,
}

impl Bench<'_> {
    fn new(subject: &Subject, sets: u32) -> Result<Bench<'_>> {
        let script = subject.units.with_file_name("attacks.py");
        fs::write(&script, SCRIPT)?;
        let script = script.display().to_string();
        for (name, text) in units(&script) {
            fs::write(subject.units.join(name), text)?;
        }
        subject.inside(&["systemctl", "daemon-reload"])?;
        subject.inside(&["systemctl", "start", "hostile-door.socket"])?;
        Ok(Bench { subject, sets, used: 0, lines: 0, script })
    }

    /// Those that were chosen, or all.
    fn all(&mut self, chosen: &[&str]) -> Result<Vec<Value>> {
        println!("  {:<24}{}", "longest of each, ms", PROBES.map(|p| format!("{p:>18}")).concat());
        let quiet = self.beside("quiet", None)?;
        let busy = self.beside(BUSY, Some(How::Script))?;
        let mut results = vec![row("quiet", &quiet, &quiet), row(BUSY, &busy, &quiet)];
        // Whoever keeps a machine's processors busy has others wait without any of our programs.
        let usual = PROBES.map(|probe| (probe, quiet.0[probe].max(busy.0[probe])));
        let usual = (usual.into_iter().collect(), quiet.1);
        let is_chosen = |name: &str| chosen.is_empty() || chosen.contains(&name);
        for (name, how) in ATTACKS.into_iter().filter(|(name, _)| is_chosen(name)) {
            let found = self.beside(name, Some(how)).with_context(|| name.to_owned())?;
            results.push(row(name, &found, &usual));
        }
        results.push(self.kept_lines()?);
        Ok(results)
    }

    /// Probes beside an attack.
    fn beside(&mut self, name: &'static str, how: Option<How>) -> Result<(Longest, Sizes)> {
        let attack = how.map(|how| self.begin(name, how)).transpose()?;
        let (mut longest, mut sizes) = (Longest::new(), Sizes::new());
        for round in 0..ROUNDS {
            self.probe(&format!("{name}-{round}"), &mut longest)?;
            if let (Some(How::Unit), 5) = (how, round) {
                self.subject.inside(&[
                    "systemctl",
                    "--no-block",
                    "stop",
                    &format!("hostile-{name}.service"),
                ])?;
            }
            self.measure(&mut sizes)?;
        }
        drop(attack);
        if let Some(How::Unit) = how {
            self.subject.inside(&["systemctl", "stop", &format!("hostile-{name}.service")])?;
        }
        print_row(name, &longest, &sizes);
        self.settle()?;
        Ok((longest, sizes))
    }

    /// Each probe once; instances of services have this name.
    fn probe(&mut self, name: &str, longest: &mut Longest) -> Result<()> {
        let services = [
            ("start", format!("hostile-plain@{name}.service")),
            ("notify start", format!("hostile-ready@{name}.service")),
        ];
        for (probe, unit) in services {
            note(longest, probe, || self.subject.inside(&["systemctl", "start", &unit]).map(drop))?;
            self.subject.inside(&["systemctl", "stop", &unit])?;
        }
        note(longest, "log line", || self.log())?;
        let set = self.unused_set()?;
        note(longest, "first connection", || self.connect(set))
    }

    /// Until manager and log daemon are done with what an attack has left: the next one is measured by itself.
    fn settle(&self) -> Result<()> {
        // It says that it is ready behind all that is in the socket.
        for verb in ["start", "stop"] {
            self.subject.inside(&["systemctl", verb, "hostile-ready@settled.service"])?;
        }
        let mut quick = 0;
        for _ in 0..SETTLING_MAX {
            let began = Instant::now();
            self.ask_to_write()?;
            quick = if began.elapsed() < SETTLED { quick + 1 } else { 0 };
            if quick == SETTLING_MAX / 10 {
                return Ok(());
            }
        }
        println!("  the log daemon is still busy");
        Ok(())
    }

    fn begin(&self, name: &str, how: How) -> Result<Attack> {
        match how {
            How::Script => Attack::begin(&self.script, name, self.subject.pid),
            How::Unit => {
                self.subject.inside(&["systemctl", "start", &format!("hostile-{name}.service")])?;
                Ok(Attack::Unit)
            }
            How::Unclosable(socket) => {
                let begin = |uid| {
                    // The queue is empty: who waits in it for a receiver that stands still waits for long.
                    self.settle()?;
                    let receiver = self.receiver(socket)?;
                    let sent = Sent { how: "datagram", count: UNCLOSABLE, uid, text: "STATUS=x\n" };
                    let stranger = Stranger::send(&self.subject.path(socket), receiver, sent);
                    stranger.context("no FUSE, no unshare(1) or no python3")
                };
                STRANGERS.into_iter().map(begin).collect::<Result<_>>().map(Attack::Strangers)
            }
        }
    }

    /// Who reads a socket.
    fn receiver(&self, socket: &str) -> Result<u32> {
        let name = if socket.contains("journal") { "warren-journald" } else { "warrend" };
        // Not a helper of it, which has its name until it has another program.
        let is_first = |pid: u32| {
            let parent = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let parent = parent.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim();
            fs::read_to_string(format!("/proc/{parent}/comm")).ok().map(|comm| comm.trim() != name)
        };
        let is_it = |(comm, pid): &(String, u32)| comm == name && is_first(*pid) == Some(true);
        let found = processes(self.subject.pid)?.into_iter().find(is_it);
        found.map(|(_, pid)| pid).with_context(|| format!("no {name} runs"))
    }

    /// A message, which is in a file when this returns.
    fn log(&mut self) -> Result<()> {
        self.lines += 1;
        let client = UnixDatagram::unbound()?;
        let message = format!("MESSAGE=probe\nHOSTILE_PROBE={}\n", self.lines);
        client.send_to(message.as_bytes(), self.subject.path("/run/systemd/journal/socket"))?;
        self.ask_to_write()
    }

    /// What was logged before is in a file when this returns.
    fn ask_to_write(&self) -> Result<()> {
        let path = self.subject.path("/run/systemd/journal/io.warrener.journal");
        let mut daemon = UnixStream::connect(path)?;
        daemon.set_read_timeout(Some(PROBE_MAX))?;
        daemon.write_all(b"{\"method\":\"io.warrener.Journal.Write\",\"parameters\":{}}\0")?;
        let mut answer = String::new();
        daemon.read_to_string(&mut answer)?;
        ensure!(answer == "{\"parameters\":{}}\0", "the log daemon: {answer}");
        Ok(())
    }

    /// A set whose service does not run.
    fn unused_set(&mut self) -> Result<u32> {
        let set = self.used % self.sets + 1;
        self.used += 1;
        if self.used > self.sets {
            self.subject.inside(&["systemctl", "stop", &service(set)])?;
        }
        Ok(set)
    }

    /// Stops the services that probes have started by connecting: each has a process and a stream to the log.
    fn stop_connected(&self) -> Result<()> {
        let services: Vec<String> = (1..=self.used.min(self.sets)).map(service).collect();
        for some in services.chunks(STOPPED_AT_ONCE) {
            let some = some.iter().map(String::as_str);
            let argv: Vec<&str> = ["systemctl", "stop"].into_iter().chain(some).collect();
            self.subject.inside(&argv)?;
        }
        Ok(())
    }

    /// The first connection to the socket of a set: its service answers.
    fn connect(&self, set: u32) -> Result<()> {
        let mut stream = UnixStream::connect(self.subject.path(&socket_path(set)))?;
        stream.set_read_timeout(Some(PROBE_MAX))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer == format!("ok {set}\n"), "the service answered {answer:?}");
        Ok(())
    }

    fn measure(&self, sizes: &mut Sizes) -> Result<()> {
        for (name, pid) in processes(self.subject.pid)? {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let kib = status.lines().find_map(|line| {
                line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok()
            });
            let fds = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
            let most = sizes.entry(name).or_default();
            *most = (most.0.max(kib.unwrap_or(0) * 1024), most.1.max(fds));
        }
        Ok(())
    }

    /// How many lines of root's probes are in the log, and whether each of them is there once.
    fn kept_lines(&self) -> Result<Value> {
        let reader = super::programs()?.join("warren-journalctl");
        let reader = reader.display().to_string();
        let options = ["-o", "json", "--output-fields=HOSTILE_PROBE", "MESSAGE=probe"];
        let text = self.subject.inside(&[&[reader.as_str()], &options[..]].concat())?;
        let numbers = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut numbers: Vec<u64> =
            numbers.filter_map(|entry| entry["HOSTILE_PROBE"].as_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        let is_whole = numbers.iter().copied().eq(1..=self.lines);
        println!("  of {} lines of root {} are in the log", self.lines, numbers.len());
        if !is_whole {
            let said = ["-o", "short-monotonic", "--no-pager", "_TRANSPORT=driver"];
            println!("{}", self.subject.inside(&[&[reader.as_str()], &said[..]].concat())?);
        }
        Ok(json!({"lines": self.lines, "in_the_log": numbers.len(), "each_once": is_whole}))
    }
}

/// An attack that is under way until it is dropped.
enum Attack {
    Script(Child, Option<ChildStdin>),
    Unit,
    Strangers(#[allow(dead_code, reason = "they end when they are dropped")] Vec<Stranger>),
}

impl Attack {
    fn begin(script: &str, name: &str, pid: i32) -> Result<Attack> {
        let mut child = Command::new("python3")
            .args([script, name, &format!("/proc/{pid}/root")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("python3")?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut said = String::new();
        BufReader::new(output.context("a pipe")?).read_line(&mut said)?;
        ensure!(said.starts_with("ready"), "{name} does not begin: {said:?}");
        Ok(Attack::Script(child, input))
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        if let Attack::Script(child, input) = self {
            drop(input.take());
            let _ = child.wait();
        }
    }
}

fn units(script: &str) -> Vec<(String, String)> {
    let stays = "exec sleep 1000";
    let ready = format!("/bin/sh -c 'systemd-notify --ready; {stays}'");
    let unit = |name: &str, text: String| (format!("hostile-{name}"), text);
    let attack = |name: &str, settings: &str| {
        let text = format!(
            "[Service]\nUser=nobody\n{settings}ExecStart=/usr/bin/python3 {script} {name}\nTimeoutStopSec=20\n"
        );
        unit(&format!("{name}.service"), text)
    };
    vec![
        unit("plain@.service", "[Service]\nExecStart=/bin/sleep 1000\n".to_owned()),
        unit(
            "ready@.service",
            format!("[Service]\nType=notify\nNotifyAccess=all\nExecStart={ready}\n"),
        ),
        unit("door.socket", "[Socket]\nListenStream=/run/hostile-door\nAccept=yes\n".to_owned()),
        unit("door@.service", "[Service]\nExecStart=/bin/cat\nStandardInput=socket\n".to_owned()),
        attack("unit-deep-directories", "RuntimeDirectory=hostile-deep\n"),
        attack("unit-deep-groups", "Delegate=yes\n"),
        attack("unit-exits", ""),
    ]
}

/// The programs of Warrener in a machine, and their processes.
fn processes(init: i32) -> Result<Vec<(String, u32)>> {
    let path = format!("/proc/{init}/task/{init}/children");
    let children = fs::read_to_string(&path).context(path)?;
    let pids = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    let name = |pid: u32| {
        let comm =
            fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("comm")).ok()?;
        let comm = comm.trim().to_owned();
        comm.starts_with("warren").then_some((comm, pid))
    };
    let own = u32::try_from(init).ok().and_then(name).into_iter();
    Ok(own.chain(pids.filter_map(name)).collect())
}

/// Does it and keeps how long it took, if that is the longest.
fn note(
    longest: &mut Longest,
    probe: &'static str,
    act: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let began = Instant::now();
    act().with_context(|| probe.to_owned())?;
    let most = longest.entry(probe).or_default();
    *most = began.elapsed().max(*most);
    Ok(())
}

fn print_row(name: &str, longest: &Longest, sizes: &Sizes) {
    let times = PROBES.map(|probe| {
        let ms = longest.get(probe).map_or(0.0, |time| time.as_secs_f64() * 1000.0);
        format!("{ms:>18.1}")
    });
    let sizes = sizes.iter().map(|(name, (bytes, fds))| format!("{name} {} MB {fds}", bytes >> 20));
    println!("  {name:<24}{}  {}", times.concat(), sizes.collect::<Vec<_>>().join(", "));
}

/// As JSON, and whether it is within the targets.
fn row(
    name: &str,
    (longest, sizes): &(Longest, Sizes),
    (quiet, small): &(Longest, Sizes),
) -> Value {
    let times: BTreeMap<&str, u64> =
        longest.iter().map(|(probe, time)| (*probe, time.as_micros() as u64)).collect();
    let programs: BTreeMap<&str, Value> = sizes
        .iter()
        .map(|(name, (bytes, fds))| (&**name, json!({"bytes": bytes, "descriptors": fds})))
        .collect();
    let is_soon = longest
        .iter()
        .all(|(probe, time)| quiet.get(probe).is_some_and(|quiet| *time <= *quiet + LATER_MAX));
    let is_small = sizes.iter().all(|(name, (bytes, _))| {
        small.get(name).is_none_or(|(quiet, _)| *bytes <= quiet + GROWTH_MAX)
    });
    json!({"attack": name, "longest_us": times, "programs": programs, "in_time": is_soon, "in_size": is_small})
}
