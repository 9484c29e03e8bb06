//! What the console asks of the manager and of the log, over the control socket and by `warren logs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use warren_console::manager::{Connect, Manager, Start, Trouble, UnitPage};
use warren_console::questions::{Ask, Subject};
use warren_wire::control::{
    Cat, Clear, JobType, Jobs, Overview, OverviewAnswer, Status, Top, TopAnswer, Why,
};

use crate::answers::{self, LOG_LINES_MAX, LogOf, log_of, no_line};
use crate::args::Global;
use crate::client::{CallError, Client};
use crate::connection::{control_socket, find_machine};
use crate::output::{Style, clean};
use crate::render;

/// How long an answer may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// Lines of a log that are there at once.
const LOG_LINES: &str = "200";

/// Starts and stops that are read.
const STARTS: &str = "100";

/// Ends of starts and stops in the log, as the manager says them and systemd does.
const STARTED: &str = "39f53479d3a045ac8e11786248231fbf";
const START_FAILED: &str = "be02cf6855d2428ba40df7e9d022f03d";
const STOPPED: &str = "9d1aaa27d60140bd96365438aad20286";

/// Refusals that are read of one action.
const REFUSALS_MAX: usize = 20;

/// Makes connections to one manager.
#[derive(Debug)]
pub struct Link {
    socket: PathBuf,
    /// What leads `warren` to the same manager.
    flags: Vec<String>,
    root: PathBuf,
}

impl Link {
    /// To the manager that the flags name.
    pub(crate) fn new(global: &Global) -> anyhow::Result<Link> {
        let socket = control_socket(global)?;
        let (mut flags, mut root) = (Vec::new(), root_of(&socket));
        if let Some(name) = &global.machine {
            root = PathBuf::from(format!("/proc/{}/root", find_machine(name, global)?.pid));
            flags.extend(["--quiet".to_owned(), format!("--machine={name}")]);
        }
        if global.user {
            flags.push("--user".to_owned());
        }
        Ok(Link { socket, flags, root })
    }

    /// To the manager behind a control socket.
    pub fn to(socket: PathBuf) -> Link {
        let root = root_of(&socket);
        Link { socket, flags: Vec::new(), root }
    }

    fn logs(&self, unit: &str) -> Command {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("warren"));
        let mut command = Command::new(program);
        command.args(&self.flags).args(["logs", "--no-pager"]).arg(format!("--unit={unit}"));
        command
    }
}

impl Link {
    /// The last lines of a log that answer a question.
    fn read_log(&self, log: &LogOf, ask: Ask) -> Result<String, String> {
        let mut command = self.logs(&log.unit);
        command.arg("--lines").arg(LOG_LINES_MAX.to_string());
        command.args(log.since.iter().map(|since| format!("--since={since}")));
        command.args(log.grep.iter().map(|grep| format!("--grep={grep}")));
        let output = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout);
        match (text.trim().is_empty(), errors.trim()) {
            (false, _) => Ok(text.into_owned()),
            (true, "") => Ok(no_line(ask).to_owned()),
            (true, errors) => Err(clean(errors)),
        }
    }
}

/// The file system that a socket lies in: that of another process, proc(5), or ours.
fn root_of(socket: &Path) -> PathBuf {
    let parts: Vec<_> = socket.components().take(4).collect();
    let root: PathBuf = parts.iter().collect();
    let is_of_process = parts.len() == 4 && root.starts_with("/proc") && root.ends_with("root");
    if is_of_process { root } else { PathBuf::from("/") }
}

impl Connect for Link {
    fn connect(&self) -> Result<Box<dyn Manager>, Trouble> {
        let mut client = Client::connect_at_once(&self.socket).map_err(trouble)?;
        client.answers_within(ANSWERS_WITHIN).map_err(|e| trouble(CallError::Broken(e)))?;
        Ok(Box::new(Connection(client)))
    }

    fn follow_log(&self, unit: &str) -> Command {
        let mut command = self.logs(unit);
        command.args(["--follow", "--lines", LOG_LINES]);
        command
    }

    fn past_starts(&self, unit: &str) -> Result<Vec<Start>, String> {
        let mut command = self.logs(unit);
        command.args(["--json", "--reverse", "--lines", STARTS]);
        command.args([STARTED, START_FAILED, STOPPED].map(|id| format!("MESSAGE_ID={id}")));
        let output = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let starts: Vec<Start> = text.lines().filter_map(start).collect();
        let errors = String::from_utf8_lossy(&output.stderr);
        match starts.is_empty() && !errors.trim().is_empty() {
            true => Err(clean(errors.trim())),
            false => Ok(starts),
        }
    }

    fn answer(&self, ask: Ask, subject: &Subject) -> Result<String, String> {
        if let Some(log) = log_of(ask, subject) {
            return self.read_log(&log, ask);
        }
        let mut client = Client::connect_at_once(&self.socket).map_err(|e| e.to_string())?;
        client.answers_within(ANSWERS_WITHIN).map_err(|e| e.to_string())?;
        answers::answer(&mut client, &self.root, ask, subject, true).map_err(|e| e.to_string())
    }

    fn root(&self) -> PathBuf {
        self.root.clone()
    }
}

/// An entry of the log that tells of the end of a start or a stop.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    at: String,
    #[serde(rename = "MESSAGE_ID")]
    id: String,
    #[serde(rename = "JOB_RESULT", default)]
    result: String,
    #[serde(rename = "WARREN_TOOK_US")]
    took_us: Option<String>,
}

fn start(line: &str) -> Option<Start> {
    let entry: Entry = serde_json::from_str(line).ok()?;
    Some(Start {
        when: render::date(entry.at.parse().ok()?),
        took_us: entry.took_us.and_then(|took| took.parse().ok()),
        is_stop: entry.id == STOPPED,
        result: entry.result,
    })
}

struct Connection(Client);

impl Manager for Connection {
    fn top(&mut self) -> Result<TopAnswer, Trouble> {
        self.0.call(&Top {}).map_err(trouble)
    }

    fn overview(&mut self, changed_since_us: Option<u64>) -> Result<OverviewAnswer, Trouble> {
        self.0.call(&Overview { changed_since_us }).map_err(trouble)
    }

    fn page(&mut self, unit: &str) -> Result<UnitPage, Trouble> {
        let unit = Some(unit.to_owned());
        let status = self.0.call(&Status { unit: unit.clone(), pid: None }).map_err(trouble)?;
        let why = self.0.call(&Why { unit }).map_err(trouble)?;
        let style = Style::default();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now_us = now.unwrap_or_default().as_micros() as u64;
        let why = if why.units.is_empty() { String::new() } else { render::why(&why, style, None) };
        Ok(UnitPage {
            status: render::status(&status, now_us, style),
            why,
            processes: status.processes,
        })
    }

    fn files(&mut self, unit: &str) -> Result<String, Trouble> {
        let answer =
            self.0.call(&Cat { unit: Some(unit.to_owned()), pid: None }).map_err(trouble)?;
        let file = |file| render::file(file, true, Style::default());
        Ok(answer.files.iter().map(file).collect::<Vec<_>>().join("\n"))
    }

    fn jobs(&mut self, job: JobType, units: &[String]) -> Result<Vec<String>, Trouble> {
        let (units, job_type) = (units.to_vec(), Some(job));
        let jobs = Jobs { units, job_type, wait: Some(false), ..Jobs::default() };
        let mut refusals = Vec::new();
        let take = |row: warren_wire::control::JobsRow| {
            if row.error.is_some() && refusals.len() < REFUSALS_MAX {
                refusals.push(clean(row.message.as_deref().unwrap_or("it is refused")));
            }
        };
        self.0.call_more(&jobs, take).map_err(trouble)?;
        Ok(refusals)
    }

    fn clear(&mut self, unit: &str) -> Result<(), Trouble> {
        self.0.call(&Clear { unit: Some(unit.to_owned()) }).map(drop).map_err(trouble)
    }
}

fn trouble(error: CallError) -> Trouble {
    Trouble {
        text: error.to_string(),
        is_nobody: error.is_nobody(),
        is_refusal: matches!(error, CallError::Refused(..)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_another_process_leads_to_its_files() {
        let root = |socket: &str| root_of(Path::new(socket)).display().to_string();
        assert_eq!(root("/proc/17/root/run/warren/control"), "/proc/17/root");
        assert_eq!(["/run/warren/control", "/proc/17/cwd/x", "control"].map(root), ["/", "/", "/"]);
    }

    #[test]
    fn ends_of_starts_are_read_from_entries() {
        let entry = |more: &str| start(&format!(r#"{{"__REALTIME_TIMESTAMP":"1000000"{more}}}"#));
        let started = entry(&format!(
            r#","MESSAGE_ID":"{STARTED}","JOB_RESULT":"done","WARREN_TOOK_US":"1500""#
        ));
        let when = "1970-01-01 00:00:01 UTC".to_owned();
        let (result, took_us) = ("done".to_owned(), Some(1500));
        assert_eq!(
            started,
            Some(Start { when: when.clone(), took_us, is_stop: false, result: result.clone() })
        );
        let stopped = entry(&format!(r#","MESSAGE_ID":"{STOPPED}","JOB_RESULT":"done""#));
        assert_eq!(stopped, Some(Start { when, took_us: None, is_stop: true, result }));
        assert_eq!(entry(""), None);
    }
}
