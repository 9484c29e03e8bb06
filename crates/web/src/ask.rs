//! What is asked of the manager when a person opens it: a unit, timers, sessions, charts, plans; and what is done to units.
//!
//! - Owns: answers of the last second, so that many clients cost the manager one question.
//! - Must not: write to a client, or leave in an answer what this client may not see.
//! - Runs on the thread of the client; one question at a time, and one chart beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warren_cli::answers;
use warren_cli::client::{CallError, Client};
use warren_cli::fleet::changes;
use warren_cli::output::{Style, clean};
use warren_cli::render;
use warren_console::manager::Connect;
use warren_console::questions::{Ask, Subject};
use warren_trace::analysis::Analysis;
use warren_trace::export::html;
use warren_wire::control::{
    Cat, JobType, List, Record, Records, ReloadConfiguration, Status, StatusAnswer, Texts, Timers,
    UnitRow, Why,
};

use crate::query::{Recorded, Verb};

/// An answer is shown again for so long.
const FRESH: Duration = Duration::from_secs(1);

/// How long the manager may take. A plan evaluates all rules.
const PATIENCE: Duration = Duration::from_secs(3);
const PLAN_PATIENCE: Duration = Duration::from_secs(60);

/// Answers that are kept.
const KEPT_MAX: usize = 64;

/// Timers that are shown.
const TIMERS_MAX: usize = 5_000;

/// Users whose sessions are shown.
const USERS_MAX: usize = 100;

/// Longest text of a plan, and of a unit's files, bytes.
const TEXT_BYTES_MAX: usize = 2 << 20;

/// Processes that are shown of a unit.
const PROCESSES_MAX: usize = 500;

/// The user database is read up to here, bytes.
const PASSWD_BYTES_MAX: u64 = 1 << 20;

/// An answer, or why there is none.
pub type Answer = Result<Arc<Value>, String>;

/// Who asks.
pub struct Asker {
    control: PathBuf,
    connect: Arc<dyn Connect>,
    kept: Mutex<Kept>,
    /// The last plan. One is made at a time, beside the other questions.
    plan: Mutex<Option<(Instant, Answer)>>,
    /// One chart is made at a time: that of 40,000 units takes seconds and memory.
    chart: Mutex<()>,
}

#[derive(Default)]
struct Kept {
    answers: BTreeMap<String, (Instant, Answer)>,
    /// The manager did not answer at that time: others need not wait for it as well.
    silent: Option<(Instant, String)>,
}

impl Asker {
    /// Asks at this socket, and acts by these connections.
    pub fn new(control: PathBuf, connect: Arc<dyn Connect>) -> Asker {
        Asker {
            control,
            connect,
            kept: Mutex::default(),
            plan: Mutex::default(),
            chart: Mutex::default(),
        }
    }

    /// A unit's state and why; without the lines of logs unless this client may read them.
    pub fn unit(&self, name: &str, may_read: bool) -> Answer {
        self.kept(&format!("unit {may_read} {name}"), |client| {
            let unit = Some(name.to_owned());
            let mut status = client.call(&Status { unit: unit.clone(), pid: None })?;
            let mut why = client.call(&Why { unit })?;
            // The page has the whole log beside it.
            status.log.clear();
            (status.log_withheld, why.log_withheld) = (false, None);
            if !may_read {
                why.units
                    .iter_mut()
                    .flat_map(|unit| &mut unit.path)
                    .for_each(|step| step.log.clear());
            }
            let why = match why.units.is_empty() {
                true => String::new(),
                false => render::why(&why, Style::default(), None),
            };
            Ok(of_unit(&status, &why))
        })
    }

    /// A unit's files with their texts.
    pub fn files(&self, name: &str) -> Answer {
        self.kept(&format!("files {name}"), |client| {
            let answer = client.call(&Cat { unit: Some(name.to_owned()), pid: None })?;
            let file = |file| render::file(file, true, Style::default());
            let text = answer.files.iter().map(file).collect::<Vec<_>>().join("\n");
            Ok(json!({"text": bounded(&text)}))
        })
    }

    /// All timers, those that elapse next first.
    pub fn timers(&self) -> Answer {
        self.kept("timers", |client| {
            let mut answer = client.call(&Timers {})?;
            answer.timers.sort_by_key(|timer| timer.next_us.unwrap_or(u64::MAX));
            let total = answer.timers.len();
            answer.timers.truncate(TIMERS_MAX);
            Ok(json!({"now_us": answer.now_us, "total": total, "timers": answer.timers}))
        })
    }

    /// Users with a session or a manager of their own; `slices` has the slice of each of these units.
    pub fn sessions(&self, slices: &BTreeMap<String, String>) -> Answer {
        self.kept("sessions", |client| {
            let patterns = Texts(vec!["session-*.scope".to_owned(), "user@*.service".to_owned()]);
            let rows = client.call(&List { patterns, ..List::default() })?.units;
            let users = by_user(&rows, slices);
            let total = users.len();
            let names = names(&read_passwd(Path::new("/etc/passwd")));
            let mut out = Vec::new();
            for (uid, rows) in users.into_iter().take(USERS_MAX) {
                let slice = Some(format!("user-{uid}.slice"));
                let usage = match client.call(&Status { unit: slice, pid: None }) {
                    Err(CallError::Refused(..)) => StatusAnswer::default(),
                    other => other?,
                };
                let row = |row: &&UnitRow| json!([row.name, clean(&row.description), row.active.as_str(), row.sub]);
                out.push(json!({
                    "uid": uid, "name": names.get(&uid), "memory": usage.memory, "cpu_ns": usage.cpu_ns,
                    "tasks": usage.tasks, "units": rows.iter().map(row).collect::<Vec<_>>(),
                }));
            }
            Ok(json!({"total": total, "users": out}))
        })
    }

    /// Recordings that are kept, the newest first.
    pub fn records(&self) -> Answer {
        self.kept("records", |client| {
            let mut answer = client.call(&Records {})?;
            answer.records.reverse();
            Ok(json!(answer))
        })
    }

    /// What rules would change: the plan, and the unit files line by line.
    pub fn plan(&self) -> Answer {
        let mut last = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, answer)) = &*last
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let asked = connect(&self.control, PLAN_PATIENCE).and_then(|mut client| {
            let (rules_only, dry_run, texts) = (true, true, true);
            client.call(&ReloadConfiguration {
                rules_only,
                dry_run,
                texts,
                ..ReloadConfiguration::default()
            })
        });
        let answer = asked.map(|answer| {
            let plan = changes::plan(&answer, true, false, Style::default());
            let diff = changes::diff(&answer, &[], Style::default());
            let counts = [answer.added.len(), answer.changed.len(), answer.removed.len()];
            Arc::new(json!({"plan": bounded(&plan), "diff": bounded(&diff), "counts": counts}))
        });
        let answer = answer.map_err(|error| clean(&error.to_string()));
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// The chart of a recording, as a page of its own.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub fn chart(&self, of: &Recorded) -> Result<String, String> {
        let _one = self.chart.lock().unwrap_or_else(PoisonError::into_inner);
        let record = match of {
            Recorded::Named(name) => Record { name: Some(name.clone()), ..Record::default() },
            Recorded::Last(seconds) => {
                let now_us = warren_sys::time::monotonic_ns() / 1000;
                let since_us = Some(now_us.saturating_sub(seconds * 1_000_000));
                Record { since_us, subject: Some("live".to_owned()), ..Record::default() }
            }
        };
        let mut client =
            connect(&self.control, PATIENCE).map_err(|error| clean(&error.to_string()))?;
        let answer = client.call(&record).map_err(|error| clean(&error.to_string()))?;
        let bytes =
            warren_trace::base64::decode(&answer.data).ok_or("the answer is not a recording")?;
        let read = warren_trace::record::read(&bytes).map_err(|error| error.to_string())?;
        if read.0.events.is_empty() {
            return Err("Nothing was recorded in that time.".to_owned());
        }
        Ok(html::html(&Analysis::of_file(&read)))
    }

    /// Answers a question, but one that the log answers; without the lines of logs unless this client may read them.
    pub fn question(&self, ask: Ask, subject: &Subject, may_read: bool) -> Answer {
        let _one =
            (ask == Ask::Boot).then(|| self.chart.lock().unwrap_or_else(PoisonError::into_inner));
        let root = self.connect.root();
        self.kept(&format!("question {may_read} {ask:?} {subject:?}"), |client| {
            let text = answers::answer(client, &root, ask, subject, may_read)?;
            Ok(json!({"text": bounded(&text)}))
        })
    }

    /// Does something with units; what came of it, for people.
    ///
    /// # Errors
    /// Why nothing was done.
    pub fn act(&self, verb: Verb, units: &[String]) -> Result<Value, String> {
        let mut manager = self.connect.connect().map_err(|trouble| trouble.text)?;
        let job = match verb {
            Verb::Start => JobType::Start,
            Verb::Stop => JobType::Stop,
            Verb::Restart => JobType::Restart,
            Verb::Clear => {
                let mut refusals = Vec::new();
                for unit in units {
                    match manager.clear(unit) {
                        Err(trouble) if trouble.is_refusal => refusals.push(trouble.text),
                        other => other.map_err(|trouble| trouble.text)?,
                    }
                }
                return Ok(json!({"asked": units.len(), "refusals": refusals}));
            }
        };
        let refusals = manager.jobs(job, units).map_err(|trouble| trouble.text)?;
        Ok(json!({"asked": units.len(), "refusals": refusals}))
    }

    fn kept(&self, key: &str, ask: impl FnOnce(&mut Client) -> Result<Value, CallError>) -> Answer {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, answer)) = kept.answers.get(key)
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        if let Some((at, why)) = &kept.silent
            && at.elapsed() < FRESH
        {
            return Err(why.clone());
        }
        let asked = connect(&self.control, PATIENCE).and_then(|mut client| ask(&mut client));
        let now = Instant::now();
        kept.silent = asked
            .as_ref()
            .err()
            .filter(|error| is_silence(error))
            .map(|e| (now, clean(&e.to_string())));
        let answer = asked.map(Arc::new).map_err(|error| clean(&error.to_string()));
        kept.answers.retain(|_, (at, _)| at.elapsed() < FRESH);
        if kept.answers.len() < KEPT_MAX {
            kept.answers.insert(key.to_owned(), (now, answer.clone()));
        }
        answer
    }
}

fn is_silence(error: &CallError) -> bool {
    !matches!(error, CallError::Refused(..))
}

fn connect(control: &Path, patience: Duration) -> Result<Client, CallError> {
    let mut client = Client::connect_at_once(control)?;
    client.answers_within(patience).map_err(CallError::Broken)?;
    Ok(client)
}

fn bounded(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!(
        "{}\n[the rest is left out: it is longer than {} MiB]\n",
        &text[..end],
        TEXT_BYTES_MAX >> 20
    )
}

fn of_unit(status: &StatusAnswer, why: &str) -> Value {
    let now_us = warren_sys::time::realtime_ns() / 1000;
    let processes = status.processes.iter().take(PROCESSES_MAX);
    let related = |units: &[warren_wire::control::RelatedUnit]| {
        units.iter().map(|unit| json!([unit.name, unit.active.as_str()])).collect::<Vec<_>>()
    };
    json!({
        "name": status.row.name, "description": clean(&status.row.description),
        "active": status.row.active.as_str(), "sub": status.row.sub, "load": status.row.load.as_str(),
        "reason": clean(&status.reason.text), "cure": clean(&status.reason.cure), "code": status.reason.code.as_str(),
        "since_us": status.since, "restarts": status.restarts,
        "memory": status.memory, "cpu_ns": status.cpu_ns, "tasks": status.tasks, "main_pid": status.main_pid,
        "processes": processes.map(|row| json!([row.pid, clean(&row.command)])).collect::<Vec<_>>(),
        "triggers": related(&status.triggers), "triggered_by": related(&status.triggered_by),
        "status": render::status(status, now_us, Style::default()), "why": why,
    })
}

/// Sessions and managers by the number of their user.
fn by_user<'a>(
    rows: &'a [UnitRow],
    slices: &BTreeMap<String, String>,
) -> BTreeMap<u32, Vec<&'a UnitRow>> {
    let mut users = BTreeMap::<u32, Vec<&UnitRow>>::new();
    for row in rows {
        let of_slice = || {
            let slice = slices.get(&row.name)?.strip_prefix("user-")?;
            slice.strip_suffix(".slice")?.parse().ok()
        };
        let of_name = row
            .name
            .strip_prefix("user@")
            .and_then(|name| name.strip_suffix(".service")?.parse().ok());
        if let Some(uid) = of_name.or_else(of_slice) {
            users.entry(uid).or_default().push(row);
        }
    }
    users
}

/// The user database, passwd(5); what cannot be read names nobody.
fn read_passwd(path: &Path) -> String {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map(|file| file.take(PASSWD_BYTES_MAX));
    let _ = file.and_then(|mut file| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn names(passwd: &str) -> BTreeMap<u32, String> {
    let line = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        Some((fields.nth(1)?.parse().ok()?, clean(name)))
    };
    passwd.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_belong_to_the_user_of_their_slice() {
        let row = |name: &str| UnitRow { name: name.to_owned(), ..UnitRow::default() };
        let rows = [
            row("session-3.scope"),
            row("session-c1.scope"),
            row("user@1000.service"),
            row("user@x.service"),
        ];
        let slices = [("session-3.scope", "user-1000.slice"), ("session-c1.scope", "system.slice")];
        let slices = slices.map(|(unit, slice)| (unit.to_owned(), slice.to_owned())).into();
        let users = by_user(&rows, &slices);
        let of = |uid: u32| users[&uid].iter().map(|row| row.name.as_str()).collect::<Vec<_>>();
        assert_eq!((users.len(), of(1000)), (1, vec!["session-3.scope", "user@1000.service"]));
    }

    #[test]
    fn users_have_names() {
        let names = names(
            "root:x:0:0:root:/root:/bin/sh\nbad\nanna:x:1000:1000::/home/anna:/bin/sh\nx:y:z\n",
        );
        assert_eq!(names, [(0, "root".to_owned()), (1000, "anna".to_owned())].into());
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let long = "ä".repeat(TEXT_BYTES_MAX);
        let cut = bounded(&long);
        assert!(cut.len() < TEXT_BYTES_MAX + 100 && cut.ends_with("MiB]\n"));
        assert_eq!(bounded("short"), "short");
    }
}
