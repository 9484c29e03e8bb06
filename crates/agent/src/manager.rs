//! The host's manager, by its control socket: rules are put into force, and what is wrong is asked for.
//!
//! - Owns: nothing; each question has a connection of its own.
//! - Runs on the thread of its caller.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use warren_hosts::host::Cause;
use warren_wire::control::{
    Call, FileText, JobType, Jobs, ReloadAnswer, ReloadConfiguration, Reply, Totals, Why, WhyStep,
    write_request,
};
use warren_wire::frame;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// How long an answer may take. Jobs are waited for one batch after another, and each may take its own time.
const PATIENCE: Duration = Duration::from_secs(600);

/// The manager of this host.
#[derive(Clone, Debug)]
pub struct Manager {
    socket: PathBuf,
    restarts: usize,
}

/// How the manager is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Units that are loaded.
    pub units: u32,
    /// Units that failed.
    pub failed: u32,
    /// Root causes.
    pub causes: Vec<Cause>,
}

impl Manager {
    /// The manager at this socket; `restarts` units are restarted at once.
    pub fn new(socket: &Path, restarts: u32) -> Manager {
        Manager { socket: socket.to_owned(), restarts: restarts as usize }
    }

    fn connect(&self) -> Result<BufReader<UnixStream>, String> {
        let wrong = |e: std::io::Error| format!("{}: {e}", self.socket.display());
        let stream = UnixStream::connect(&self.socket).map_err(wrong)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(wrong)?;
        Ok(BufReader::new(stream))
    }

    /// Sends a call and hands over all answers.
    fn ask<C: Call>(
        &self,
        call: &C,
        more: bool,
        mut take: impl FnMut(C::Answer),
    ) -> Result<(), String> {
        let mut stream = self.connect()?;
        let broken = |e: &dyn std::fmt::Display| format!("the manager did not answer: {e}");
        stream.get_mut().write_all(&write_request(call, more)).map_err(|e| broken(&e))?;
        loop {
            let message = frame::read(&mut stream, ANSWER_BYTES_MAX).map_err(|e| broken(&e))?;
            match Reply::read(&message) {
                Ok(Reply::Answer { answer, continues: true }) => take(answer),
                Ok(Reply::Answer { answer, continues: false }) => {
                    take(answer);
                    return Ok(());
                }
                Ok(Reply::Refused { message, .. }) => return Err(message),
                Err(_) => return Err(broken(&"the answer means nothing")),
            }
        }
    }

    fn call<C: Call>(&self, call: &C) -> Result<C::Answer, String> {
        let mut last = C::Answer::default();
        self.ask(call, false, |answer| last = answer)?;
        Ok(last)
    }

    /// Puts the rules into force that lie on the disk: what is gone is stopped, what changed is restarted, so many at a
    /// time, and the targets are started that want what is new.
    ///
    /// # Errors
    /// The rules have faults, or the manager does not take them; nothing has changed then.
    pub fn apply(&self) -> Result<ReloadAnswer, String> {
        let answer = self.call(&ReloadConfiguration {
            rules_only: true,
            texts: true,
            ..ReloadConfiguration::default()
        })?;
        let units = |list: &[String]| -> Vec<String> {
            list.iter().filter(|name| !name.contains('/')).cloned().collect()
        };
        self.jobs(units(&answer.removed), JobType::Stop, usize::MAX);
        self.jobs(units(&answer.needs_restart), JobType::TryRestart, self.restarts);
        let added: BTreeSet<&str> = answer.added.iter().map(|name| &**name).collect();
        let new = answer.texts.iter().filter(|text| added.contains(&*text.path));
        let targets: BTreeSet<String> = new.flat_map(targets).collect();
        let active = self.active(&targets);
        self.jobs(active, JobType::Start, usize::MAX);
        Ok(answer)
    }

    /// Those of these units that are up.
    fn active(&self, names: &BTreeSet<String>) -> Vec<String> {
        if names.is_empty() {
            return Vec::new();
        }
        use warren_wire::control::{List, Texts};
        let list = List {
            patterns: Texts(names.iter().cloned().collect()),
            state: Texts(vec!["active".to_owned()]),
            ..List::default()
        };
        let answer = self.call(&list).unwrap_or_default();
        answer.units.into_iter().map(|row| row.name).collect()
    }

    /// Has units do a job, so many at a time. What becomes of each shows in the manager's health.
    fn jobs(&self, units: Vec<String>, job_type: JobType, at_once: usize) {
        for some in units.chunks(at_once.clamp(1, 1000)) {
            let jobs = Jobs { units: some.to_vec(), job_type: Some(job_type.clone()), ..Jobs::default() };
            if let Err(why) = self.ask(&jobs, true, |_| {}) {
                warren_sys::tell!("a job of {} units: {why}", some.len());
            }
        }
    }

    /// Asks how the manager is.
    ///
    /// # Errors
    /// It does not answer.
    pub fn health(&self) -> Result<Health, String> {
        let totals = self.call(&Totals::default())?;
        let mut health = Health {
            units: u32::try_from(totals.loaded).unwrap_or(u32::MAX),
            failed: totals.failed,
            causes: Vec::new(),
        };
        if totals.failed > 0 {
            let why = self.call(&Why::default())?;
            let roots = why.units.iter().filter_map(|unit| unit.path.last());
            health.causes = causes(roots);
        }
        Ok(health)
    }
}

/// Root causes put together by code and application.
fn causes<'s>(steps: impl Iterator<Item = &'s WhyStep>) -> Vec<Cause> {
    let mut all: BTreeMap<(String, String), Cause> = BTreeMap::new();
    for step in steps {
        let (code, app) = (step.reason.code.to_string(), app(step));
        let since = step.since.unwrap_or_default();
        let cause = all.entry((code.clone(), app.clone())).or_insert_with(|| {
            let example = step.row.name.clone();
            Cause { code, app, units: 0, example, since }
        });
        cause.units += 1;
        cause.since = cause.since.min(since);
    }
    let mut all: Vec<Cause> = all.into_values().collect();
    all.sort_by(|a, b| b.units.cmp(&a.units).then(a.cmp(b)));
    all
}

/// What a rule made the unit for; else its template, or itself.
fn app(step: &WhyStep) -> String {
    let target = step.made_by.iter().find_map(|origin| origin.target.as_ref());
    let unit = &step.row.name;
    match (target, unit.split_once('@')) {
        (Some(target), _) => target.name.clone(),
        (None, Some((template, _))) => template.to_owned(),
        (None, None) => unit.rsplit_once('.').map_or(unit.clone(), |(name, _)| name.to_owned()),
    }
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
    use super::*;

    #[test]
    fn targets_that_want_a_new_unit_are_read_from_its_file() {
        let after = "[Service]\nExecStart=/bin/x\n[Install]\nWantedBy=a.target b.target\nRequiredBy=c.target\n";
        let text = FileText { path: "x.service".into(), before: None, after: Some(after.into()) };
        assert_eq!(targets(&text), ["a.target", "b.target", "c.target"]);
    }
}
