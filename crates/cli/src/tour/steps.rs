//! What the tour shows, a line for each step.

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::layout::{mount_path, service, socket_path};
use super::nested::Nested;
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
    let answer = nested.call("ReloadConfiguration", json!({}))?;
    reloaded("reload, nothing changed", &answer);
    let answer = nested.call("ReloadConfiguration", json!({"full": true}))?;
    reloaded("reload, every file looked at", &answer);
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
    let totals = nested.call("Totals", json!({}))?;
    let us = |key: &str| totals[key].as_u64().unwrap_or(0);
    let count = totals["loaded"].as_u64().unwrap_or(0);
    let active = totals["by_state"]["active"].as_u64().unwrap_or(0);
    line(&format!("{count} units loaded"), &span_us(us("load_us")), "");
    line(&format!("{active} units up"), &span_us(us("startup_us")), "from the manager's start");
    let failed = totals["failed"].as_u64().unwrap_or(0);
    if failed > 0 {
        line(&format!("{failed} units failed"), "", &first_failure(nested).unwrap_or_default());
    }
    Ok(())
}

/// One failed unit and why, for the case that something is missing on this machine.
fn first_failure(nested: &Nested) -> Option<String> {
    let list = nested.call("List", json!({"state": "failed"})).ok()?;
    let unit = list["units"][0]["name"].as_str()?.to_owned();
    let status = nested.call("Status", json!({"unit": unit})).ok()?;
    let said = status["status_text"].as_str().or(status["reason"]["text"].as_str());
    Some(format!("{unit}: {}", said.unwrap_or("no reason known")))
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
    let status = nested.call("Status", json!({"unit": format!("{name}.automount")}))?;
    let said = status["status_text"].as_str().unwrap_or("the automount unit is not up");
    ensure!(status["active"] == "active", "{said}");
    let output = Command::new("/proc/self/exe")
        .args(["--machine", &nested.machine.pid.to_string(), "enter"])
        .arg(echo)
        .args(["--stat", path])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    let us = text.split(' ').next().and_then(|n| n.parse().ok()).context("no answer")?;
    let mount = format!("{name}.mount");
    let status = nested.call("Status", json!({"unit": mount}))?;
    ensure!(status["active"] == "active", "{mount} is {}", status["active"]);
    line("an automount entered for the first time", &span_us(us), &format!("{path}, by {mount}"));
    Ok(())
}

fn edit(nested: &Nested, units: &Path, set: u32) -> Result<()> {
    let path = units.join(service(set));
    let text = fs::read_to_string(&path)?;
    fs::write(&path, text.replace("Description=Set", "Description=Edited set"))?;
    let answer = nested.call("ReloadConfiguration", json!({}))?;
    reloaded("a unit file edited, reload", &answer);
    let status = nested.call("Status", json!({"unit": service(set)}))?;
    let description = status["description"].as_str().unwrap_or_default();
    ensure!(description.starts_with("Edited"), "the edit did not arrive: {description:?}");
    Ok(())
}

pub(super) fn reloaded(what: &str, answer: &serde_json::Value) {
    let count = |key: &str| answer[key].as_array().map_or(0, Vec::len);
    let us = |key: &str| answer[key].as_u64().unwrap_or(0);
    let delta = format!(
        "{} added, {} changed, {} removed; {} of the loop",
        count("added"),
        count("changed"),
        count("removed"),
        span_us(us("loop_us"))
    );
    line(what, &span_us(us("took_us")), &delta);
}

pub(super) fn restart(nested: &Nested, service: &str) -> Result<()> {
    let began = Instant::now();
    let answer = nested.call("Job", json!({"unit": service, "type": "restart"}))?;
    let us = began.elapsed().as_micros() as u64;
    ensure!(answer["result"] == "done", "the restart ended with {}", answer["result"]);
    line("a service restarted", &span_us(us), service);
    Ok(())
}

pub(super) fn memory(nested: &Nested) -> Result<()> {
    let totals = nested.call("Totals", json!({}))?;
    let resident = totals["resident_bytes"].as_u64().unwrap_or(0);
    let units = totals["loaded"].as_u64().unwrap_or(0);
    let each = resident.checked_div(units).unwrap_or(0);
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
    nested.call("Leave", json!({"how": "poweroff"}))?;
    let status = nested.wait()?;
    let us = began.elapsed().as_micros() as u64;
    line("everything stopped", &span_us(us), &format!("machine {name} left nothing behind"));
    ensure!(status.success(), "the nested manager ended with {status}");
    Ok(())
}
