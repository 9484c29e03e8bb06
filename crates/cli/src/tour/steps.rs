//! What the tour shows, a line for each step.

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use warren_wire::control::{
    ActiveState, Job, JobResult, JobType, Leave, LeaveHow, List, ReloadAnswer, ReloadConfiguration,
    Status, StatusAnswer, Texts, Totals,
};

use super::layout::{mount_path, service, socket_path};
use crate::nest::started::Nested;
use crate::output::{bytes, span_us};

/// Longest wait for the answer of a service.
const ANSWER_WAIT: Duration = Duration::from_secs(20);

/// Prints a step: what, how long, and a remark.
pub(super) fn line(what: &str, figure: &str, remark: &str) {
    println!("  {what:<44} {figure:>12}   {remark}");
}

/// Shows everything but the stop.
pub fn show(nested: &mut Nested, units: &Path, sets: u32, echo: &Path) -> Result<()> {
    for complaint in nested.complaints() {
        println!("  ({})", complaint.trim_start_matches("warren: "));
    }
    loaded(nested)?;
    connection(nested, &socket_path(1), "1", &service(1))?;
    let set = sets.min(2);
    or_say("an automount entered for the first time", automount(nested, &trap(set), echo));
    edit(nested, units, sets.min(3))?;
    let answer = nested.call(&ReloadConfiguration::default())?;
    reloaded("reload, nothing changed", &answer);
    let answer = nested.call(&ReloadConfiguration { full: true, ..Default::default() })?;
    reloaded("reload, every file read", &answer);
    restart(nested, &service(1))?;
    memory(nested)
}

/// An automount: its unit's name without the suffix, and its place.
pub(super) struct Trap {
    pub name: String,
    pub path: String,
}

fn trap(set: u32) -> Trap {
    Trap { name: format!("test-{set}"), path: mount_path(set) }
}

/// A step that needs more than every machine has: said in words when it fails.
pub(super) fn or_say(what: &str, step: Result<()>) {
    if let Err(error) = step {
        line(what, "not here", &format!("{error:#}").replace('\n', " "));
    }
}

pub(super) fn loaded(nested: &Nested) -> Result<()> {
    let totals = nested.call(&Totals {})?;
    let active = totals.by_state.get(ActiveState::Active.as_str()).copied().unwrap_or(0);
    line(&format!("{} units loaded", totals.loaded), &span_us(totals.load_us), "");
    line(&format!("{active} units up"), &span_us(totals.startup_us), "from the manager's start");
    if totals.failed > 0 {
        line(
            &format!("{} units failed", totals.failed),
            "",
            &first_failure(nested).unwrap_or_default(),
        );
    }
    Ok(())
}

/// One failed unit and why, for the case that something is missing on this machine.
fn first_failure(nested: &Nested) -> Option<String> {
    let failed = Texts(vec![ActiveState::Failed.to_string()]);
    let list = nested.call(&List { state: failed, ..List::default() }).ok()?;
    let unit = list.units.into_iter().next()?.name;
    let status = status(nested, &unit).ok()?;
    let said = [status.status_text, status.reason.text].into_iter().find(|text| !text.is_empty());
    Some(format!("{unit}: {}", said.as_deref().unwrap_or("reason unknown")))
}

fn status(nested: &Nested, unit: &str) -> Result<StatusAnswer> {
    nested.call(&Status { unit: Some(unit.to_owned()), pid: None })
}

fn ask(nested: &Nested, socket: &str) -> Result<(u64, String)> {
    let path = nested.path(socket);
    let began = Instant::now();
    let mut stream = UnixStream::connect(&path).with_context(|| format!("{}", path.display()))?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok((began.elapsed().as_micros() as u64, answer.trim().to_owned()))
}

/// The service answers with the word that it was started with.
pub(super) fn connection(nested: &Nested, socket: &str, word: &str, service: &str) -> Result<()> {
    let (first_us, answer) = ask(nested, socket)?;
    ensure!(answer == format!("ok {word}"), "the service answered {answer:?}");
    line(
        "a socket's first connection answered",
        &span_us(first_us),
        &format!("\"{answer}\" from {service}"),
    );
    let (second_us, _) = ask(nested, socket)?;
    line("the second connection", &span_us(second_us), "the service is up now");
    Ok(())
}

/// From a process inside: the kernel lets only its own pid namespace trigger an automount.
pub(super) fn automount(nested: &Nested, trap: &Trap, echo: &Path) -> Result<()> {
    let Trap { name, path } = trap;
    let unit = status(nested, &format!("{name}.automount"))?;
    let said = Some(unit.status_text.as_str()).filter(|text| !text.is_empty());
    let said = said.unwrap_or("the automount unit is not up");
    ensure!(unit.row.active == ActiveState::Active, "{said}");
    let output = Command::new("/proc/self/exe")
        .args(["--machine", &nested.machine.pid.to_string(), "enter"])
        .arg(echo)
        .args(["--stat", path])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    let us = text.split(' ').next().and_then(|n| n.parse().ok()).context("no answer")?;
    let mount = format!("{name}.mount");
    let active = status(nested, &mount)?.row.active;
    ensure!(active == ActiveState::Active, "{mount} is {active}");
    line("an automount entered for the first time", &span_us(us), &format!("{path}, by {mount}"));
    Ok(())
}

fn edit(nested: &Nested, units: &Path, set: u32) -> Result<()> {
    let path = units.join(service(set));
    let text = fs::read_to_string(&path)?;
    fs::write(&path, text.replace("Description=Set", "Description=Edited set"))?;
    let answer = nested.call(&ReloadConfiguration::default())?;
    reloaded("a unit file edited, reload", &answer);
    let description = status(nested, &service(set))?.row.description;
    ensure!(description.starts_with("Edited"), "the edit did not arrive: {description:?}");
    Ok(())
}

pub(super) fn reloaded(what: &str, answer: &ReloadAnswer) {
    let delta = format!(
        "{} added, {} changed, {} removed; {} of the loop",
        answer.added.len(),
        answer.changed.len(),
        answer.removed.len(),
        span_us(answer.loop_us)
    );
    line(what, &span_us(answer.took_us), &delta);
}

pub(super) fn restart(nested: &Nested, service: &str) -> Result<()> {
    let began = Instant::now();
    let (unit, job_type) = (Some(service.to_owned()), Some(JobType::Restart));
    let result = nested.call(&Job { unit, job_type, ..Job::default() })?.result.unwrap_or_default();
    let us = began.elapsed().as_micros() as u64;
    ensure!(result == JobResult::Done, "the restart ended with {result}");
    line("a service restarted", &span_us(us), service);
    Ok(())
}

pub(super) fn memory(nested: &Nested) -> Result<()> {
    let totals = nested.call(&Totals {})?;
    let resident = totals.resident_bytes;
    let each = resident.checked_div(totals.loaded).unwrap_or(0);
    line(
        "memory of the manager for each unit",
        &bytes(each),
        &format!("{} in all", bytes(resident)),
    );
    Ok(())
}

/// Stops everything, and makes sure that it ended well.
pub fn stop(nested: Nested) -> Result<()> {
    let name = nested.machine.name.clone();
    let began = Instant::now();
    nested.call(&Leave { how: Some(LeaveHow::Poweroff), ..Leave::default() })?;
    let status = nested.wait()?;
    let us = began.elapsed().as_micros() as u64;
    line("everything stopped", &span_us(us), &format!("machine {name} left nothing behind"));
    ensure!(status.success(), "the nested manager ended with {status}");
    Ok(())
}
