//! The rows of the table: what is done, how long it took, what it cost the manager.

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use warren_cli::client::Client;
use warren_cli::output::{bytes, span_us};
use warren_cli::tour::layout::{mount_path, service, socket_path};
use warren_wire::control::{
    ActiveState, JobResult, Jobs, List, ReloadConfiguration, Status, Texts,
};

use super::Size;
use super::subject::Subject;

/// Repetitions of what is quick; the median counts.
const RUNS: u32 = 5;

/// Repetitions of what is done to one unit, which takes a millisecond.
const UNIT_RUNS: u32 = 15;

/// Up to so many sets a peer is measured in every row.
const PEER_SETS_WHOLE_MAX: u32 = 1000;

/// How often the manager is killed.
const KILLS: u32 = 3;

/// A manager that ran for so long is started again at once (warren-init, `--healthy`).
const HEALTHY: Duration = Duration::from_millis(10_500);

/// So many services run together at most.
const SERVICES_MAX: u32 = 10_000;

/// Mounts that are started together.
const MOUNTS: u32 = 500;

/// Sets whose mounts are entered or left alone before that.
const SETS_BEFORE_MOUNTS: u32 = 2 * UNIT_RUNS + 10;

/// Prints and returns a row.
pub fn print_row(
    name: &str,
    wall: Option<Duration>,
    cpu: Option<Duration>,
    scope: Option<Duration>,
) -> Value {
    let text =
        |time: Option<Duration>| time.map_or_else(String::new, |t| span_us(t.as_micros() as u64));
    let load = load();
    let (wall_text, cpu_text, scope_text) = (text(wall), text(cpu), text(scope));
    println!("  {name:<34} {wall_text:>12} {cpu_text:>12} {scope_text:>12}   load {load}");
    let us = |time: Option<Duration>| time.map(|t| t.as_micros() as u64);
    json!({"name": name, "wall_us": us(wall), "cpu_us": us(cpu), "scope_cpu_us": us(scope),
        "load": load})
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

/// Everything between boot and power-off.
pub fn all(subject: &Subject, size: Size) -> Result<Vec<Value>> {
    println!("  {:<34} {:>12} {:>12} {:>12}", "", "wall", "manager CPU", "its cgroup");
    let (cpu, scope) = (subject.cpu()?, subject.scope_cpu()?);
    let mut rows = vec![print_row("boot to ready", Some(subject.boot), Some(cpu), Some(scope))];
    let systemctl = |args: &[&str]| subject.inside(&[&["systemctl"], args].concat()).map(|_| ());
    rows.push(resources(subject, "after boot")?);
    // A peer's reload at this size takes the minutes that five of them take elsewhere.
    let brief = !subject.is_ours() && size.sets > PEER_SETS_WHOLE_MAX;
    let runs = if brief { 1 } else { RUNS };
    rows.push(row(subject, "list-units --all", RUNS, |_| systemctl(&["list-units", "--all"]))?);
    if !brief {
        // systemd's cost grows with the square of the number of files.
        let runs = if subject.is_ours() { RUNS } else { 1 };
        rows.push(row(subject, "list-unit-files", runs, |_| systemctl(&["list-unit-files"]))?);
    }
    rows.push(row(subject, "show one service", RUNS, |i| systemctl(&["show", &service(i + 1)]))?);
    let reload = || {
        systemctl(&["daemon-reload"])?;
        // Clients give up waiting for a peer; who answers again has come back.
        if brief { systemctl(&["show", "--property=Version"]) } else { Ok(()) }
    };
    rows.push(row(subject, "reload, nothing changed", runs, |_| reload())?);
    rows.push(row(subject, "reload, one file changed", runs, |i| {
        edit(subject, i)?;
        reload()
    })?);
    if subject.is_ours() {
        rows.push(row(subject, "reload, every file read", RUNS, |_| full_reload(subject))?);
    }
    rows.extend(one_service(subject)?);
    if brief {
        return Ok(rows);
    }
    rows.extend(mounts(subject, size)?);
    rows.extend(all_services(subject, size)?);
    Ok(rows)
}

/// What is done to one service, socket or automount at a time.
fn one_service(subject: &Subject) -> Result<Vec<Value>> {
    let systemctl = |verb: &str, set| subject.inside(&["systemctl", verb, &service(set)]);
    let verb = |name: &str, verb: &str| {
        row(subject, name, UNIT_RUNS, |i| systemctl(verb, i + 1).map(|_| ()))
    };
    let connect = |i| connect(subject, UNIT_RUNS + 1 + i);
    let enter = |i| enter(subject, UNIT_RUNS + 1 + i);
    Ok(vec![
        verb("start one service", "start")?,
        verb("restart one service", "restart")?,
        verb("stop one service", "stop")?,
        timed_row(subject, "fork, exec, accept alone", UNIT_RUNS, |_| alone(subject))?,
        row(subject, "first connection to a socket", UNIT_RUNS, connect)?,
        timed_row(subject, "first access through automount", UNIT_RUNS, enter)?,
    ])
}

/// All services at once, and the manager killed while they run; at a size at which there cannot be so many processes,
/// those whose number begins with a one.
fn all_services(subject: &Subject, size: Size) -> Result<Vec<Value>> {
    let is_all = size.sets <= SERVICES_MAX;
    let pattern = if is_all { "test-nginx-*.service" } else { "test-nginx-1*.service" };
    let count = (1..=size.sets).filter(|set| set.to_string().starts_with('1')).count();
    let which = if is_all { "all".to_owned() } else { count.to_string() };
    let systemctl = |args: &[&str]| subject.inside(&[&["systemctl"], args].concat()).map(|_| ());
    let start = |_| systemctl(&["start", "--all", pattern]);
    let mut rows = vec![row(subject, &format!("start {which} services"), 1, start)?];
    rows.push(resources(subject, &format!("{which} services running"))?);
    if subject.is_ours() {
        rows.push(timed_row(subject, "manager killed, answers again", KILLS, |_| killed(subject))?);
    }
    rows.push(row(subject, &format!("stop {which} services"), 1, |_| {
        systemctl(&["stop", pattern])
    })?);
    if subject.is_ours() {
        let warren = |verb| move |_| warren(subject, verb, pattern);
        rows.push(row(subject, &format!("start {which} services, warren"), 1, warren("start"))?);
        rows.push(row(subject, &format!("stop {which} services, warren"), 1, warren("stop"))?);
    }
    Ok(rows)
}

/// What `warren start PATTERN` and the like ask.
fn warren(subject: &Subject, verb: &str, pattern: &str) -> Result<()> {
    let mut client = Client::connect(&subject.path("/run/warren/control"))?;
    let patterns = Texts(vec![pattern.to_owned()]);
    let listed = client.call(&List { patterns, ..List::default() })?;
    let units: Vec<String> = listed.units.into_iter().map(|row| row.name).collect();
    let jobs = Jobs { units, job_type: Some(verb.into()), ..Jobs::default() };
    let mut others = Vec::new();
    client.call_more(&jobs, |row| {
        others.extend((row.result != Some(JobResult::Done)).then_some(row));
    })?;
    ensure!(!jobs.units.is_empty(), "{verb} of {pattern}: there is no such unit");
    let Some(first) = others.first() else { return Ok(()) };
    let unit = first.unit.as_deref().unwrap_or_default();
    let status =
        subject.inside(&["sh", "-c", &format!("systemctl status --no-pager {unit}; true")])?;
    bail!(
        "{verb} of {pattern}: {} of {} failed: {first:?}\n{status}",
        others.len(),
        jobs.units.len()
    )
}

/// Runs it several times; the median of wall and CPU. The number passed is the run's.
fn row(
    subject: &Subject,
    name: &str,
    runs: u32,
    work: impl Fn(u32) -> Result<()>,
) -> Result<Value> {
    timed_row(subject, name, runs, |run| {
        let began = Instant::now();
        work(run)?;
        Ok(began.elapsed())
    })
}

/// The same for work that knows itself how long it took.
fn timed_row(
    subject: &Subject,
    name: &str,
    runs: u32,
    work: impl Fn(u32) -> Result<Duration>,
) -> Result<Value> {
    let (mut walls, mut cpus, mut scopes) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..runs {
        let (cpu, scope) = (subject.cpu()?, subject.scope_cpu()?);
        walls.push(work(run).with_context(|| name.to_owned())?);
        cpus.push(subject.cpu()?.saturating_sub(cpu));
        scopes.push(subject.scope_cpu()?.saturating_sub(scope));
    }
    Ok(print_row(name, median(walls), median(cpus), median(scopes)))
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

fn resources(subject: &Subject, when: &str) -> Result<Value> {
    let (resident, fds) = subject.resources()?;
    println!("  {:<34} {:>12} {fds:>8} fds", format!("memory, {when}"), bytes(resident));
    Ok(json!({"name": format!("memory, {when}"), "resident_bytes": resident, "fds": fds}))
}

fn full_reload(subject: &Subject) -> Result<()> {
    let mut client = Client::connect(&subject.path("/run/warren/control"))?;
    client.call(&ReloadConfiguration { full: true, ..Default::default() })?;
    Ok(())
}

/// SIGKILL to the manager; it answers again when it knows of the service that was started first. Not
/// before it has lived so long that its end is no crash loop, in which init waits longer each time.
fn killed(subject: &Subject) -> Result<Duration> {
    subject.manager_lives_for(HEALTHY)?;
    subject.kill_manager()?;
    let began = Instant::now();
    let end = Instant::now() + Duration::from_secs(60);
    let status = Status { unit: Some(service(1)), pid: None };
    loop {
        let answer = Client::connect(&subject.path("/run/warren/control"))
            .and_then(|mut client| client.call(&status));
        match answer {
            Ok(answer) => {
                ensure!(
                    answer.row.active == ActiveState::Active,
                    "the service was lost: {answer:?}"
                );
                return Ok(began.elapsed());
            }
            Err(error) => ensure!(Instant::now() < end, "no answer: {error:#}"),
        }
        std::thread::yield_now();
    }
}

fn edit(subject: &Subject, run: u32) -> Result<()> {
    let path = subject.units.join(service(9));
    let text = fs::read_to_string(&path)?;
    // A changed comment would be no change to a manager that compares.
    let changed = |line: &str| match line.strip_prefix("Description=") {
        Some(_) => format!("Description=Edited {run}\n"),
        None => format!("{line}\n"),
    };
    fs::write(&path, text.lines().map(changed).collect::<String>()).map_err(Into::into)
}

fn connect(subject: &Subject, set: u32) -> Result<()> {
    let mut stream = UnixStream::connect(subject.path(&socket_path(set)))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer == format!("ok {set}\n"), "the service answered {answer:?}");
    Ok(())
}

/// How long the access took, the start of the program that makes it aside.
fn enter(subject: &Subject, set: u32) -> Result<Duration> {
    timed_by_echo(subject, &["--stat", &mount_path(set)])
}

/// A first connection to the service without a manager.
fn alone(subject: &Subject) -> Result<Duration> {
    timed_by_echo(subject, &["--alone", "7"])
}

fn timed_by_echo(subject: &Subject, arguments: &[&str]) -> Result<Duration> {
    let echo = subject.echo.display().to_string();
    let said = subject.inside(&[&[echo.as_str()], arguments].concat())?;
    let us = said.split(' ').next().and_then(|word| word.parse().ok());
    us.map(Duration::from_micros).with_context(|| format!("{arguments:?}: {said:?}"))
}

/// Mounts that no automount has mounted yet, started and stopped together: first where hardly
/// anything else is mounted, then where all others are.
fn mounts(subject: &Subject, size: Size) -> Result<Vec<Value>> {
    let first = SETS_BEFORE_MOUNTS + 1;
    let last = size.sets.min(MOUNTS + SETS_BEFORE_MOUNTS);
    let names: Vec<String> = (first..=last).map(|set| format!("test-{set}.mount")).collect();
    let call = |verb: &str| {
        let command: Vec<&str> =
            ["systemctl", verb].into_iter().chain(names.iter().map(String::as_str)).collect();
        subject.inside(&command).map(|_| ())
    };
    let all =
        |verb: &str| subject.inside(&["systemctl", verb, "--all", "test-[0-9]*.mount"]).map(|_| ());
    let count = names.len();
    let mut rows = vec![
        row(subject, &format!("start {count} mounts"), 1, |_| call("start"))?,
        row(subject, &format!("stop {count} mounts"), 1, |_| call("stop"))?,
    ];
    if subject.is_ours() && size.sets == size.wanted() {
        let sets = size.sets;
        rows.extend([
            row(subject, "start all mounts", 1, |_| all("start"))?,
            row(subject, &format!("stop {count} mounts of {sets}"), 1, |_| call("stop"))?,
            row(
                subject,
                &format!("start {count} mounts beside {}", sets - last + first - 1),
                1,
                |_| call("start"),
            )?,
            row(subject, "stop all mounts", 1, |_| all("stop"))?,
        ]);
    }
    Ok(rows)
}
