//! A manager that makes a unit of each file of rules, and writes down what it is told to do.
//!
//! A file whose text has `fault` in it is refused as rules are; a unit whose text has `bad` in it fails when it is
//! started; one whose text has `loops` in it ends and is started again each time that the manager is asked. A unit whose
//! text has `container.name == "shop"` in it is one of that container.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use warren_wire::call::Received;
use warren_wire::control::{
    ActiveState, ErrorName, FileText, JobType, JobsRow, ListAnswer, Method, OverviewAnswer,
    OverviewRow, ReasonAnswer, ReloadAnswer, Request, RestartAnswer, RestartBefore, RuleOrigin,
    RuleTarget, StatusAnswer, TotalsAnswer, UnitRow, WhyAnswer, WhyStep, WhyUnit, write_answer,
    write_error,
};
use warren_wire::frame;

const REQUEST_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, Default)]
pub struct Unit {
    /// What it is said to be.
    text: String,
    /// What it was started as.
    running: Option<String>,
    has_failed: bool,
    starts: u64,
    /// How often it was started again by itself.
    restarts: u32,
}

#[derive(Debug, Default)]
struct State {
    units: BTreeMap<String, Unit>,
    /// `restart a.service`
    jobs: Vec<String>,
    reloads: u32,
    /// Jobs take so long.
    slowness: std::time::Duration,
    /// So many requests are not answered, as if the manager had been killed.
    unanswered: u32,
    restarted_at_once: Vec<usize>,
}

/// The manager.
#[derive(Clone)]
pub struct Recorder {
    state: Arc<Mutex<State>>,
    rules: PathBuf,
}

impl Recorder {
    pub fn new(socket: &Path, state_directory: &Path) -> Recorder {
        let listener = UnixListener::bind(socket).expect("a socket");
        let recorder = Recorder { state: Arc::default(), rules: state_directory.join("current") };
        let server = recorder.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || server.serve(stream));
            }
        });
        recorder
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Names and texts of units that run.
    pub fn running(&self) -> String {
        let state = self.state();
        let all =
            state.units.iter().filter_map(|(name, unit)| Some((name, unit.running.as_ref()?)));
        all.map(|(name, text)| format!("{name}={} ", text.trim()))
            .collect::<String>()
            .trim()
            .to_owned()
    }

    /// What it was told to do since it was asked last.
    pub fn take_jobs(&self) -> Vec<String> {
        std::mem::take(&mut self.state().jobs)
    }

    /// How often each unit was started.
    pub fn starts(&self) -> Vec<u64> {
        self.state().units.values().map(|unit| unit.starts).collect()
    }

    /// How many units each order to restart named.
    pub fn restarted_at_once(&self) -> Vec<usize> {
        self.state().restarted_at_once.clone()
    }

    pub fn reloads(&self) -> u32 {
        self.state().reloads
    }

    pub fn slow_down(&self, time: std::time::Duration) {
        self.state().slowness = time;
    }

    pub fn leave_unanswered(&self, requests: u32) {
        self.state().unanswered = requests;
    }

    fn serve(&self, stream: UnixStream) {
        let mut writer = stream.try_clone().expect("a descriptor");
        let mut reader = BufReader::new(stream);
        while let Ok(message) = frame::read(&mut reader, REQUEST_BYTES_MAX) {
            let received = Received::read(&message).expect("JSON");
            let is_asked_to_act =
                !["Totals", "Why", "Overview"].iter().any(|name| received.method.ends_with(name));
            if is_asked_to_act && self.state().unanswered > 0 {
                self.state().unanswered -= 1;
                return;
            }
            let name = received.method.rsplit('.').next().unwrap_or_default();
            let method = Method::ALL.iter().find(|method| method.name() == name).expect("a method");
            let answer = match Request::read(*method, received.parameters) {
                Ok(request) => self.answer(request),
                Err(why) => panic!("{}: {why:?}", received.method),
            };
            if writer.write_all(&answer).is_err() {
                return;
            }
        }
    }

    /// Units by the rules that lie there.
    fn found(&self) -> Result<BTreeMap<String, String>, String> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(&self.rules).expect("rules").flatten() {
            let text = std::fs::read_to_string(entry.path()).expect("text");
            let text = text.strip_prefix("// ").unwrap_or(&text).to_owned();
            if text.contains("fault") {
                return Err("the rules have faults".to_owned());
            }
            let name = entry.file_name().to_string_lossy().replace(".conf", ".service");
            found.insert(name, text);
        }
        Ok(found)
    }

    fn answer(&self, request: Request) -> Vec<u8> {
        match request {
            Request::ReloadConfiguration(request) => {
                assert!(request.rules_only && !request.full);
                match self.reload(request.dry_run) {
                    Ok(answer) => write_answer(&answer, false),
                    Err(why) => write_error(&ErrorName::Refused, &why),
                }
            }
            Request::Jobs(request) => {
                let job = request.job_type.expect("a type");
                if job == JobType::TryRestart {
                    self.state().restarted_at_once.push(request.units.len());
                }
                request.units.iter().for_each(|unit| self.job(unit, &job));
                write_answer(&JobsRow::default(), false)
            }
            Request::Clear(request) => {
                let unit = request.unit.expect("a unit");
                self.state().units.entry(unit).and_modify(|unit| unit.has_failed = false);
                write_answer(&warren_wire::control::Done::default(), false)
            }
            Request::Status(request) => {
                let unit = self.state().units.get(&request.unit.expect("a unit")).cloned();
                match unit {
                    Some(unit) => write_answer(&status(&unit), false),
                    None => write_error(&ErrorName::NoSuchUnit, "there is no such unit"),
                }
            }
            Request::List(request) => {
                write_answer(&self.list(&request.patterns.0, &request.state.0), false)
            }
            Request::Totals(_) => {
                let state = self.state();
                let failed = state.units.values().filter(|unit| unit.has_failed).count() as u32;
                let loaded =
                    state.units.values().filter(|unit| !unit.text.is_empty()).count() as u64;
                write_answer(&TotalsAnswer { loaded, failed, ..TotalsAnswer::default() }, false)
            }
            Request::Overview(_) => write_answer(&self.overview(), false),
            Request::Why(_) => write_answer(&self.why(), false),
            other => panic!("{other:?}"),
        }
    }

    fn overview(&self) -> OverviewAnswer {
        let mut state = self.state();
        let row = |(name, unit): (&String, &mut Unit)| {
            let loops = unit.running.as_ref().is_some_and(|text| text.contains("loops"));
            unit.restarts += u32::from(loops);
            OverviewRow {
                name: name.clone(),
                active: ActiveState::Active,
                sub: "running".to_owned(),
                since_us: Some(warren_sys::time::realtime_ns() / 1000),
                restarts: unit.restarts,
                ..OverviewRow::default()
            }
        };
        let rows = state.units.iter_mut().map(row).collect();
        OverviewAnswer { rows, ..OverviewAnswer::default() }
    }

    /// Each unit that has failed is its own root cause.
    fn why(&self) -> WhyAnswer {
        let state = self.state();
        let failed = state.units.iter().filter(|(_, unit)| unit.has_failed);
        let step = |(name, unit): (&String, &Unit)| {
            let made_by = container(&unit.text).map(|target| {
                let name = format!("Container '{target}'");
                let target = Some(RuleTarget { name, ..RuleTarget::default() });
                RuleOrigin { target, ..RuleOrigin::default() }
            });
            let row = UnitRow { name: name.clone(), ..UnitRow::default() };
            let reason = ReasonAnswer {
                code: serde_json::from_str("\"WR-0040\"").expect("a code"),
                text: "it failed".to_owned(),
                ..ReasonAnswer::default()
            };
            let log = vec!["no port".to_owned()];
            let (since, made_by) = (Some(1), made_by.into_iter().collect());
            let step = WhyStep { row, reason, since, log, made_by, ..WhyStep::default() };
            WhyUnit { path: vec![step], ..WhyUnit::default() }
        };
        WhyAnswer { units: failed.map(step).collect(), ..WhyAnswer::default() }
    }

    fn reload(&self, dry_run: bool) -> Result<ReloadAnswer, String> {
        let found = self.found()?;
        let mut state = self.state();
        let mut answer = ReloadAnswer::default();
        for (name, text) in &found {
            match state.units.get(name).filter(|unit| !unit.text.is_empty()) {
                None => {
                    answer.added.push(name.clone());
                    let after = Some("[Install]\nWantedBy=up.target\n".to_owned());
                    answer.texts.push(FileText { path: name.clone(), before: None, after });
                }
                Some(unit) if unit.text != *text => {
                    answer.changed.push(name.clone());
                    answer.needs_restart.extend(unit.running.is_some().then(|| name.clone()));
                }
                Some(_) => {}
            }
        }
        let is_gone =
            |(name, unit): &(&String, &Unit)| !unit.text.is_empty() && !found.contains_key(*name);
        answer.removed.extend(state.units.iter().filter(is_gone).map(|(name, _)| name.clone()));
        if !dry_run {
            state.reloads += 1;
            for (name, text) in found.iter() {
                state.units.entry(name.clone()).or_default().text.clone_from(text);
            }
            for (_, unit) in state.units.iter_mut().filter(|(name, _)| !found.contains_key(*name)) {
                unit.text.clear();
            }
        }
        Ok(answer)
    }

    fn job(&self, name: &str, job: &JobType) {
        let mut state = self.state();
        state.jobs.push(format!("{} {name}", job.as_str()));
        let slowness = state.slowness;
        if name == "up.target" {
            let is_down = |unit: &&mut Unit| {
                unit.running.is_none() && !unit.has_failed && !unit.text.is_empty()
            };
            let waiting = state.units.values_mut().filter(is_down);
            waiting.for_each(start);
        } else if let Some(unit) = state.units.get_mut(name) {
            match job {
                JobType::Stop => unit.running = None,
                JobType::TryRestart if unit.running.is_none() => {}
                _ => start(unit),
            }
        }
        drop(state);
        std::thread::park_timeout(slowness);
    }

    fn list(&self, patterns: &[String], wanted: &[String]) -> ListAnswer {
        let state = self.state();
        let mut rows: Vec<(&str, ActiveState)> = vec![("up.target", ActiveState::Active)];
        rows.extend(state.units.iter().map(|(name, unit)| {
            let active = match (&unit.running, unit.has_failed) {
                (_, true) => ActiveState::Failed,
                (Some(_), _) => ActiveState::Active,
                _ => ActiveState::Inactive,
            };
            (&**name, active)
        }));
        let fits = |(name, active): &(&str, ActiveState)| {
            (patterns.is_empty() || patterns.iter().any(|pattern| pattern == name))
                && wanted.iter().any(|state| state == active.as_str())
        };
        let row = |(name, active): (&str, ActiveState)| UnitRow {
            name: name.to_owned(),
            active,
            ..UnitRow::default()
        };
        ListAnswer { units: rows.into_iter().filter(fits).map(row).collect() }
    }
}

/// The container that a rule is for.
fn container(text: &str) -> Option<&str> {
    text.split("container.name == \"").nth(1)?.split('"').next()
}

fn status(unit: &Unit) -> StatusAnswer {
    let before = RestartBefore {
        reason: ReasonAnswer { code: "WR-0040".to_owned().into(), ..ReasonAnswer::default() },
        ended: Some(format!("main process {} exited with code 7", 1000 + unit.restarts)),
        at: None,
    };
    let restart = RestartAnswer { before: Some(before), ..RestartAnswer::default() };
    StatusAnswer {
        active_since: Some(unit.starts),
        restart: Some(restart),
        log: vec!["no port".to_owned()],
        ..StatusAnswer::default()
    }
}

fn start(unit: &mut Unit) {
    unit.starts += 1;
    unit.restarts = 0;
    unit.has_failed = unit.text.contains("bad");
    unit.running = (!unit.has_failed).then(|| unit.text.clone());
}
