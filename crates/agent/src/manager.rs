//! The host's manager, by its control socket: rules are put into force, and what is wrong is asked for.
//!
//! - Owns: nothing; each question has a connection of its own.
//! - Runs on the thread of its caller.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use warren_hosts::apps::{Apps, Bounds, next_restarts};
use warren_hosts::host::Cause;
use warren_hosts::policy::Policy;
use warren_sys::socket::connect_stream_within;
use warren_sys::tell;
use warren_wire::control::{
    Call, Clear, FileText, JobType, Jobs, List, Overview, OverviewAnswer, ReloadConfiguration,
    Reply, Status, StatusAnswer, Texts, Totals, Why, WhyStep, write_request,
};
use warren_wire::frame;

use crate::rules;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// How long an answer may take. Jobs are waited for one batch after another, and each may take its own time.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often it is looked at whether jobs that are waited for are still wanted.
const WANTED_LOOKED_AT: Timespec = Timespec { tv_sec: 3, tv_nsec: 0 };

/// What is said when they are not.
const RECALLED: &str =
    "something else is assigned by now, so jobs that have not ended are not waited for";

/// How long a manager that is away is waited for, and how often it is looked for.
const BACK_WITHIN: Duration = Duration::from_secs(30);
const BACK_LOOKED_FOR: Duration = Duration::from_millis(200);

/// How long root causes are taken for those of as many failed units.
const CAUSES_STAY: Duration = Duration::from_secs(60);

/// Codes whose texts say no more than how the process ended: by a status, by a signal, with a dump of its memory.
const ENDS: [&str; 3] = ["WR-0040", "WR-0041", "WR-0042"];

/// Who writes lines about units into their logs.
const MANAGERS: [&str; 2] = ["warrend", "systemd"];

/// Words before the text of a line of a log: the date, the time, the host and who wrote it.
const HEAD_WORDS: usize = 5;

/// Units of one request: one of a user without privileges has 64 KiB at most.
const JOBS_AT_ONCE: usize = 200;

/// The manager of this host.
#[derive(Clone, Debug)]
pub struct Manager {
    socket: PathBuf,
    restarts: usize,
    /// Reports have the last line of a failed unit's log.
    tells_logs: bool,
}

/// How the manager is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Health {
    /// Units that are loaded.
    pub units: u32,
    /// Units that failed.
    pub failed: u32,
    /// Root causes.
    pub causes: Vec<Cause>,
    /// When they were asked for.
    asked: Instant,
}

/// What a change of rules asks for besides being put into force, as far as it is not done yet.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Todo {
    /// Units that no rule makes any more.
    stop: BTreeSet<String>,
    /// Units that run by settings of before.
    restart: BTreeSet<String>,
    /// Applications of which so many units may be restarted at once, with the units.
    bounded: Bounds,
    /// Those of them that are being restarted, with the time at which each came up before.
    at_work: BTreeMap<String, Option<u64>>,
    /// Units with another file than before.
    changed: BTreeSet<String>,
    /// Targets that want new units.
    start: BTreeSet<String>,
}

impl Todo {
    /// Both together: one was not done when the other came.
    pub fn and(mut self, other: Todo) -> Todo {
        self.stop.extend(other.stop);
        self.restart.extend(other.restart);
        for (app, (most, units)) in other.bounded {
            let bound = self.bounded.entry(app).or_default();
            bound.0 = most;
            bound.1.extend(units);
        }
        self.at_work.extend(other.at_work);
        self.changed.extend(other.changed);
        self.start.extend(other.start);
        self
    }

    /// Bounds how many units of an application are restarted at once, as a release says; `apps_of` says to which ones a
    /// unit belongs.
    pub fn bound(&mut self, policy: &Policy, apps_of: &BTreeMap<Box<str>, Apps>) {
        for unit in &self.restart {
            for (app, most) in
                apps_of.get(&**unit).into_iter().flat_map(|apps| policy.bounds_of(apps))
            {
                let bound = self.bounded.entry(app.to_owned()).or_insert((most, BTreeSet::new()));
                bound.1.insert(unit.clone());
            }
        }
    }
}

/// Why the manager did not do what it was asked to.
enum Unserved {
    /// It said no.
    Refused(String),
    /// It said nothing: it is not there, or ended before it answered.
    Away(String),
    /// Nobody waits for the answer any more.
    Recalled,
}

fn rules_only() -> ReloadConfiguration {
    ReloadConfiguration { rules_only: true, ..ReloadConfiguration::default() }
}

impl Manager {
    /// The manager at this socket. It restarts `restarts` units at once; with `tells_logs` reports have the last line of a
    /// failed unit's log.
    pub fn new(socket: &Path, restarts: u32, tells_logs: bool) -> Manager {
        Manager { socket: socket.to_owned(), restarts: restarts as usize, tells_logs }
    }

    /// The last line of a log; empty if reports are to have none.
    pub(crate) fn last_line(&self, log: &[String]) -> String {
        if self.tells_logs { last_own_line(log).to_owned() } else { String::new() }
    }

    fn connect(&self) -> Result<BufReader<UnixStream>, String> {
        let shown = self.socket.display();
        let wrong = |e: std::io::Error| format!("{shown}: {e}");
        let path = self.socket.to_str().ok_or_else(|| format!("{shown}: not UTF-8"))?;
        // The queue of a manager that stands still may be full.
        let stream =
            connect_stream_within(path, BACK_WITHIN).map_err(|e| format!("{shown}: {e}"))?;
        let stream = UnixStream::from(stream);
        stream.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(wrong)?;
        Ok(BufReader::new(stream))
    }

    /// Sends a call and hands over all answers, which are waited for as long as they `are_wanted`.
    fn ask<C: Call>(
        &self,
        call: &C,
        more: bool,
        are_wanted: &dyn Fn() -> bool,
        mut take: impl FnMut(C::Answer),
    ) -> Result<(), Unserved> {
        let mut stream = self.connect().map_err(Unserved::Away)?;
        let broken =
            |e: &dyn std::fmt::Display| Unserved::Away(format!("the manager did not answer: {e}"));
        stream.get_mut().write_all(&write_request(call, more)).map_err(|e| broken(&e))?;
        loop {
            wait_for_answer(&stream, are_wanted)?;
            let message = frame::read(&mut stream, ANSWER_BYTES_MAX).map_err(|e| broken(&e))?;
            match Reply::read(&message) {
                Ok(Reply::Answer { answer, continues: true }) => take(answer),
                Ok(Reply::Answer { answer, continues: false }) => {
                    take(answer);
                    return Ok(());
                }
                Ok(Reply::Refused { message, .. }) => return Err(Unserved::Refused(message)),
                Err(_) => return Err(broken(&"the answer means nothing")),
            }
        }
    }

    fn call<C: Call>(&self, call: &C) -> Result<C::Answer, String> {
        self.try_call(call).map_err(|why| match why {
            Unserved::Refused(why) | Unserved::Away(why) => why,
            Unserved::Recalled => RECALLED.to_owned(),
        })
    }

    fn try_call<C: Call>(&self, call: &C) -> Result<C::Answer, Unserved> {
        let mut last = C::Answer::default();
        self.ask(call, false, &|| true, |answer| last = answer)?;
        Ok(last)
    }

    /// The same for a call that may be made twice: a manager that was killed is back in a moment, and that is no fault of
    /// the rules.
    fn call_until_answered<C: Call>(&self, call: &C) -> Result<C::Answer, String> {
        let end = Instant::now() + BACK_WITHIN;
        loop {
            match self.try_call(call) {
                Err(Unserved::Away(_)) if Instant::now() < end => {
                    std::thread::park_timeout(BACK_LOOKED_FOR);
                }
                Err(Unserved::Refused(why) | Unserved::Away(why)) => return Err(why),
                Err(Unserved::Recalled) => return Err(RECALLED.to_owned()),
                Ok(answer) => return Ok(answer),
            }
        }
    }

    /// What the rules that lie on the disk ask for, without putting them into force.
    ///
    /// # Errors
    /// The rules have faults, or the manager does not answer.
    pub fn difference(&self) -> Result<Todo, String> {
        let reload = ReloadConfiguration { dry_run: true, texts: true, ..rules_only() };
        let answer = self.call_until_answered(&reload)?;
        let units =
            |list: Vec<String>| list.into_iter().filter(|name| !name.contains('/')).collect();
        // There are texts of 1,000 units at most. Of more, the same rules make those whose targets are not seen here.
        let added: BTreeSet<&str> = answer.added.iter().map(|name| &**name).collect();
        let new = answer.texts.iter().filter(|text| added.contains(&*text.path));
        Ok(Todo {
            start: new.flat_map(targets).collect(),
            stop: units(answer.removed),
            restart: units(answer.needs_restart),
            changed: units(answer.changed),
            ..Todo::default()
        })
    }

    /// Puts the rules into force that lie on the disk. No unit is started or stopped by that.
    ///
    /// # Errors
    /// The rules have faults, or the manager does not take them; nothing has changed then.
    pub fn reload(&self) -> Result<(), String> {
        self.call_until_answered(&rules_only()).map(|_| ())
    }

    /// Stops what is gone, restarts what changed, so many at a time, gives what changed and had failed another try, and
    /// starts the targets that want what is new. `keep` writes down what is left, so that an agent that goes on after
    /// another was killed restarts nothing twice. Jobs are waited for as long as that `is_wanted`: one may never end.
    ///
    /// # Errors
    /// The manager has gone away meanwhile, or it is wanted no more: `todo` has what is left.
    pub fn carry_out(
        &self,
        todo: &mut Todo,
        is_wanted: &dyn Fn() -> bool,
        mut keep: impl FnMut(&Todo),
    ) -> Result<(), String> {
        self.jobs(todo.stop.iter(), &JobType::Stop, is_wanted)?;
        todo.stop.clear();
        for (unit, since) in std::mem::take(&mut todo.at_work) {
            if self.active_since(&unit) == since {
                todo.restart.insert(unit);
            }
        }
        while !todo.restart.is_empty() {
            let some = next_restarts(&todo.restart, &todo.bounded, self.restarts.max(1));
            for unit in &some {
                todo.restart.remove(unit);
                todo.changed.remove(unit);
                todo.at_work.insert(unit.clone(), self.active_since(unit));
            }
            keep(todo);
            self.jobs(some.iter(), &JobType::TryRestart, is_wanted)?;
            todo.at_work.clear();
        }
        todo.bounded.clear();
        keep(todo);
        let failed = self.list(Texts(Vec::new()), "failed")?;
        let again: Vec<String> =
            failed.into_iter().filter(|unit| todo.changed.contains(unit)).collect();
        for unit in &again {
            // Limits of starts are those of the file that is gone.
            let _ = self.call(&Clear { unit: Some(unit.clone()) });
        }
        self.jobs(again.iter(), &JobType::Start, is_wanted)?;
        todo.changed.clear();
        if !todo.start.is_empty() {
            let targets = self.list(Texts(todo.start.iter().cloned().collect()), "active")?;
            self.jobs(targets.iter(), &JobType::Start, is_wanted)?;
            todo.start.clear();
        }
        keep(todo);
        Ok(())
    }

    /// When a unit came up the last time; none if it is not there.
    fn active_since(&self, unit: &str) -> Option<u64> {
        self.status(unit).ok()?.active_since
    }

    /// What there is to say of a unit.
    ///
    /// # Errors
    /// It is not there, or the manager does not answer.
    pub fn status(&self, unit: &str) -> Result<StatusAnswer, String> {
        self.call(&Status { unit: Some(unit.to_owned()), ..Status::default() })
    }

    /// A row for each unit, or for those that changed their state since a moment on the monotonic clock, in µs.
    ///
    /// # Errors
    /// It does not answer.
    pub fn overview(&self, changed_since_us: Option<u64>) -> Result<OverviewAnswer, String> {
        self.call(&Overview { changed_since_us })
    }

    /// Units in a state, of those whose names match one of these patterns, or of all.
    fn list(&self, patterns: Texts, state: &str) -> Result<Vec<String>, String> {
        let list = List { patterns, state: Texts(vec![state.to_owned()]), ..List::default() };
        let answer = self.call(&list)?;
        Ok(answer.units.into_iter().map(|row| row.name).collect())
    }

    /// Has units do a job. What becomes of each shows in the manager's health.
    ///
    /// # Errors
    /// The manager has gone away, or they are wanted no more: it is not known which of them have done it.
    fn jobs<'u>(
        &self,
        units: impl Iterator<Item = &'u String>,
        job_type: &JobType,
        are_wanted: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let units: Vec<String> = units.cloned().collect();
        for some in units.chunks(JOBS_AT_ONCE) {
            match self.job(some, job_type, are_wanted) {
                Ok(()) => {}
                Err(Unserved::Away(why)) => return Err(why),
                Err(Unserved::Recalled) => return Err(RECALLED.to_owned()),
                // One that this user may not touch must not keep the others from it.
                Err(Unserved::Refused(_)) => {
                    for unit in some {
                        match self.job(std::slice::from_ref(unit), job_type, are_wanted) {
                            Ok(()) => {}
                            Err(Unserved::Away(why)) => return Err(why),
                            Err(Unserved::Recalled) => return Err(RECALLED.to_owned()),
                            Err(Unserved::Refused(why)) => {
                                tell!("{unit}: no {}: {why}", job_type.as_str());
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn job(
        &self,
        units: &[String],
        job_type: &JobType,
        are_wanted: &dyn Fn() -> bool,
    ) -> Result<(), Unserved> {
        let (units, job_type) = (units.to_vec(), Some(job_type.clone()));
        self.ask(&Jobs { units, job_type, ..Jobs::default() }, true, are_wanted, |_| {})
    }

    /// Asks how the manager is. Root causes of thousands of failed units are much to ask for every few seconds: those of
    /// `before` stay for a while if no more and no fewer units have failed.
    ///
    /// # Errors
    /// It does not answer.
    pub fn health(&self, before: Option<&Health>) -> Result<Health, String> {
        let totals = self.call(&Totals::default())?;
        let (units, failed) = (u32::try_from(totals.loaded).unwrap_or(u32::MAX), totals.failed);
        let known =
            before.filter(|known| known.failed == failed && known.asked.elapsed() < CAUSES_STAY);
        if let Some(known) = known {
            return Ok(Health { units, ..known.clone() });
        }
        let causes = match failed {
            0 => Vec::new(),
            _ => {
                let why = self.call(&Why::default())?;
                causes(why.units.iter().filter_map(|unit| unit.path.last()), |log| {
                    self.last_line(log)
                })
            }
        };
        Ok(Health { units, failed, causes, asked: Instant::now() })
    }
}

/// Waits until there is something to read, and looks now and then whether that is still wanted.
fn wait_for_answer(
    stream: &BufReader<UnixStream>,
    are_wanted: &dyn Fn() -> bool,
) -> Result<(), Unserved> {
    let end = Instant::now() + PATIENCE;
    while stream.buffer().is_empty() {
        let mut fds = [PollFd::new(stream.get_ref(), PollFlags::IN)];
        match poll(&mut fds, Some(&WANTED_LOOKED_AT)) {
            Ok(0) if Instant::now() > end => {
                let seconds = PATIENCE.as_secs();
                return Err(Unserved::Away(format!("the manager did not answer in {seconds} s")));
            }
            Ok(0) if !are_wanted() => return Err(Unserved::Recalled),
            Ok(0) | Err(Errno::INTR) => {}
            // The read that follows says what is wrong.
            Ok(_) | Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Root causes put together by code and application.
fn causes<'s>(
    steps: impl Iterator<Item = &'s WhyStep>,
    last_line: impl Fn(&[String]) -> String,
) -> Vec<Cause> {
    let mut all: BTreeMap<(String, String), Cause> = BTreeMap::new();
    for step in steps {
        let (code, app) = (step.reason.code.to_string(), app(step));
        let since = step.since.unwrap_or_default();
        let cause = all.entry((code.clone(), app.clone())).or_insert_with(|| {
            let example = step.row.name.clone();
            let (why, log) = (why_words(step), last_line(&step.log));
            Cause { code, app, units: 0, example, why, log, since }
        });
        cause.units += 1;
        cause.since = cause.since.min(since);
    }
    let mut all: Vec<Cause> = all.into_values().collect();
    all.sort_by(|a, b| b.units.cmp(&a.units).then(a.cmp(b)));
    all
}

/// The last line that is not the manager's own, or the last of all, without when it was written and by whom.
fn last_own_line(log: &[String]) -> &str {
    let mut newest_first = log.iter().rev().map(|line| writer_and_text(line));
    let last = newest_first.clone().next().map(|(_, text)| text);
    let own = newest_first.find(|(writer, _)| !MANAGERS.contains(writer)).map(|(_, text)| text);
    own.or(last).unwrap_or_default()
}

/// Splits a line of a log: `Nov 30 12:14:23 web-1 shop[44]: no port` is `no port`, written by `shop`. A line of another
/// form has no writer.
fn writer_and_text(line: &str) -> (&str, &str) {
    let head_and_text = line.split_once(": ");
    let head_and_text =
        head_and_text.filter(|(head, _)| head.split_whitespace().count() == HEAD_WORDS);
    let Some((head, text)) = head_and_text else { return ("", line) };
    let writer = head.rsplit(' ').next().unwrap_or_default();
    (writer.split('[').next().unwrap_or_default(), text)
}

/// What happened to a unit, for people.
fn why_words(step: &WhyStep) -> String {
    let ended = step.ended.as_deref().map(without_number).filter(|ended| !ended.is_empty());
    if let Some(ended) = ended.as_ref().filter(|_| ENDS.contains(&step.reason.code.as_str())) {
        return ended.clone();
    }
    let fault = step.load_fault.as_ref().map(|fault| fault.message.clone());
    let said = [step.reason.text.clone()].into_iter().chain(fault.or(ended));
    said.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ")
}

/// `main process 44 exited with code 7`: the number is another one each time.
pub(crate) fn without_number(ended: &str) -> String {
    let rest = ended.strip_prefix("main process ").unwrap_or(ended);
    rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().to_owned()
}

fn app(step: &WhyStep) -> String {
    let target = step.made_by.iter().find_map(|origin| origin.target.as_ref());
    rules::app(&step.row.name, target.map(|target| &*target.name)).to_owned()
}

/// Units that a unit file says it is wanted or required by.
fn targets(text: &FileText) -> Vec<String> {
    let lines = text.after.iter().flat_map(|text| text.lines());
    let values = lines.filter_map(|line| {
        line.strip_prefix("WantedBy=")
            .or_else(|| line.strip_prefix("RequiredBy="))
            .or_else(|| line.strip_prefix("UpheldBy="))
    });
    values.flat_map(|value| value.split_ascii_whitespace().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use warren_hosts::apps::apps;
    use warren_wire::control::{ReasonAnswer, UnitRow};

    use super::*;

    #[test]
    fn restarts_are_bounded_by_container_and_by_group() {
        let units = ["a-1", "a-2", "b-1", "z"].map(|name| format!("{name}.service"));
        let mut todo = Todo { restart: units.clone().into_iter().collect(), ..Todo::default() };
        let groups: &[Arc<str>] = &["shop".into()];
        let of = |unit: &String| {
            let own = unit.split(['-', '.']).next().expect("a word");
            (unit.as_str().into(), apps(own, if own == "z" { &[] } else { groups }))
        };
        let bounds = [("*", 1), ("shop", 2)].map(|(app, most)| (app.to_owned(), most));
        let policy = Policy { max_unavailable_of: bounds.into(), ..Policy::default() };
        todo.bound(&policy, &units.iter().map(of).collect());
        let shown: Vec<String> = todo
            .bounded
            .iter()
            .map(|(app, (most, units))| format!("{app}<={most} of {}", units.len()))
            .collect();
        assert_eq!(shown, ["a<=1 of 2", "b<=1 of 1", "shop<=2 of 3", "z<=1 of 1"]);
        let next = next_restarts(&todo.restart, &todo.bounded, 9);
        assert_eq!(next, ["a-1.service", "b-1.service", "z.service"]);
    }

    /// The agent was killed, and the next one asks for the difference again without knowing the release's policy.
    #[test]
    fn bounds_of_restarts_that_are_left_stay() {
        let unit = "shop-a.service".to_owned();
        let left = Todo { restart: BTreeSet::from([unit.clone()]), ..Todo::default() };
        let of_shop = (1, BTreeSet::from([unit.clone()]));
        let left = Todo { bounded: BTreeMap::from([("shop".to_owned(), of_shop.clone())]), ..left };
        let same = Todo { restart: BTreeSet::from([unit]), ..Todo::default() };
        assert_eq!(left.and(same).bounded["shop"], of_shop);
    }

    #[test]
    fn what_was_not_done_is_done_with_what_came_after() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let one = Todo { stop: names(&["a"]), restart: names(&["b"]), ..Todo::default() };
        let two = Todo { restart: names(&["b", "c"]), start: names(&["t"]), ..Todo::default() };
        let both = one.and(two);
        assert_eq!(
            (both.stop, both.restart, both.start),
            (names(&["a"]), names(&["b", "c"]), names(&["t"]))
        );
    }

    #[test]
    fn a_cause_says_in_words_what_happened() {
        let step = |code: &str, name: &str, ended: Option<&str>, log: &[&str]| WhyStep {
            row: UnitRow { name: name.into(), ..UnitRow::default() },
            reason: ReasonAnswer {
                code: code.to_owned().into(),
                text: "it failed".into(),
                ..ReasonAnswer::default()
            },
            ended: ended.map(str::to_owned),
            log: log.iter().map(|line| (*line).to_owned()).collect(),
            ..WhyStep::default()
        };
        let ended = Some("main process 44 exited with code 7");
        let steps = [
            step("WR-0040", "shop@1.service", ended, &["a", "no port"]),
            step("WR-0040", "shop@2.service", None, &[]),
            step("WR-0043", "a.service", ended, &["late"]),
            step("WR-0040", "b.service", None, &[]),
        ];
        let words = |tells_logs| {
            let manager = Manager::new(Path::new("/x"), 1, tells_logs);
            let all = causes(steps.iter(), |log| manager.last_line(log));
            all.iter().map(Cause::words).collect::<Vec<_>>()
        };
        let expected = [
            "shop@1.service: exited with code 7 (WR-0040 of shop); its log ends with \"no port\"",
            "b.service: it failed (WR-0040 of b)",
            "a.service: it failed: exited with code 7 (WR-0043 of a); its log ends with \"late\"",
        ];
        assert_eq!(words(true), expected);
        assert!(words(false).iter().all(|words| !words.contains("its log")));
    }

    #[test]
    fn the_line_of_a_log_is_the_units_own() {
        let last = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            last_own_line(&lines).to_owned()
        };
        let own = "Nov  3 12:14:23 web-1 shop[44]: no port: 80";
        let managers = "Nov  3 12:14:24 web-1 warrend[4]: Failed to start shop.service.";
        assert_eq!(last(&[own, managers]), "no port: 80");
        assert_eq!(last(&[managers]), "Failed to start shop.service.");
        assert_eq!(last(&["raw: text", managers]), "raw: text");
        assert_eq!(last(&[]), "");
    }

    #[test]
    fn targets_that_want_a_new_unit_are_read_from_its_file() {
        let after = "[Service]\nExecStart=/bin/x\n[Install]\nWantedBy=a.target b.target\nRequiredBy=c.target\n";
        let text = FileText { path: "x.service".into(), before: None, after: Some(after.into()) };
        assert_eq!(targets(&text), ["a.target", "b.target", "c.target"]);
    }
}
