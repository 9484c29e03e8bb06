//! A written unit is run once, as it is, in a nested manager: did it do what the command did?
//!
//! The machine has the host's directories with memory over them, so that nothing that a trial writes is left, and what
//! the first run made is not there yet. [`super::verdict`] compares. What must not be here: a word that a unit works
//! of which no trial was whole.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use warren_sys::mount::inside::{Make, place_below};
use warren_sys::process;
use warren_sys::progress::Progress;
use warren_unit::UnitName;
use warren_wire::control::{ActiveState, Job, JobResult, JobType, Status, StatusAnswer};

use super::listening;
use super::needs::writable;
use super::observe::Observed;
use super::verdict::{
    Did, Difference, Expected, Fate, Part, differences, in_the_way, parts, repeated, with_only,
    without, words,
};
use crate::client::{CallError, Client};
use crate::nest::started::{Nested, Start};

/// Between two looks at a unit. What it writes and where it listens, no event tells of.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Time until the machine is up.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Trials while settings are looked for that are in the way.
const TRIALS_MAX: u32 = 60;

/// How much later than the kernel's clock of files the system's may be.
const CLOCK_COARSENESS_NS: i128 = 20_000_000;

/// What the machine has of its own, and what is not to be seen of the host's.
const OWN_SOCKETS: [&str; 4] = ["/run/systemd", "/run/warren", "/dev", "/proc"];

/// Paths that are shown to the machine, and that are hidden from it; of more the first.
const PATHS_MAX: usize = 500;

/// Lines of a program's output that are shown.
const LINES_MAX: usize = 5;

/// What trials of a unit have in common.
pub(super) struct Trials<'t> {
    name: &'t UnitName,
    seen: &'t Observed,
    scratch: &'t Path,
    made: u32,
}

/// How long a trial goes on.
#[derive(Clone, Copy)]
struct Patience {
    /// At most.
    whole: Duration,
    /// At least, when all that is expected is there; nothing: to the end.
    enough: Option<Duration>,
}

/// What became of trying a unit.
pub(super) enum Tried {
    /// It did what the command did.
    Works(Success),
    /// It does so without some of its settings; the text is without them.
    Without {
        /// The unit as it was tried in the end.
        text: String,
        /// Settings that are left out.
        names: Vec<&'static str>,
        /// What was different with them.
        differences: Vec<Difference>,
        /// The last lines that it printed then.
        printed: Vec<String>,
        /// The trial without.
        success: Success,
    },
    /// It does not.
    Fails {
        /// What is different.
        differences: Vec<Difference>,
        /// Why no setting is named.
        why: String,
        /// The last lines that it printed.
        printed: Vec<String>,
    },
}

/// A trial that was as it should be.
pub(super) struct Success {
    /// What was looked for and was there.
    pub expected: Expected,
    /// What not even the unit without its sandbox did again.
    pub once_only: Vec<Difference>,
    /// Protection that was not in force in the trial.
    pub not_in_force: Vec<String>,
}

impl<'t> Trials<'t> {
    /// `scratch` is a directory for files of the machines.
    pub fn new(name: &'t UnitName, seen: &'t Observed, scratch: &'t Path) -> Trials<'t> {
        Trials { name, seen, scratch, made: 0 }
    }

    /// Tries a unit for so long. If it does not do what the command did, finds out which of its settings are in the way.
    ///
    /// # Errors
    /// It cannot be tried.
    pub fn try_unit(&mut self, text: &str, time: Duration, quiet: bool) -> Result<Tried> {
        // A machine of another user has that user alone, and no cgroups: too little of the unit would be in force.
        ensure!(process::own_ids().0 == 0, "only root can try a unit");
        let whole = Patience { whole: time, enough: None };
        let expected = Expected::of(self.seen);
        let parts = parts(text);
        let all: Vec<usize> = (0..parts.len()).collect();
        let first = self.run(&with_only(text, &parts, &all), &expected, whole)?;
        let different = differences(&expected, &first);
        if different.is_empty() {
            return Ok(Tried::Works(success(expected, first, Vec::new())));
        }
        let bare = self.run(&with_only(text, &parts, &[]), &expected, whole)?;
        let repeated = repeated(&expected, &bare);
        if !differences(&repeated, &bare).is_empty() {
            let why = "It does not do so without its sandbox either: it needs something that the trial's machine does not \
                 have, or it does not do the same twice.";
            let printed = if bare.printed.is_empty() { first.printed } else { bare.printed };
            return Ok(Tried::Fails { differences: different, why: why.to_owned(), printed });
        }
        let in_sandbox = differences(&repeated, &first);
        let once_only = minus(&different, &in_sandbox);
        if in_sandbox.is_empty() {
            return Ok(Tried::Works(success(repeated, first, once_only)));
        }
        let found = self.search(text, &parts, &repeated, &[&first, &bare], time, quiet)?;
        let Some(found) = found else {
            let why =
                format!("Which setting is in its way did not come out in {TRIALS_MAX} trials.");
            return Ok(Tried::Fails { differences: in_sandbox, why, printed: first.printed });
        };
        let changed = without(text, &parts, &found, &words(&in_sandbox));
        let kept: Vec<usize> = all.into_iter().filter(|number| !found.contains(number)).collect();
        let last = self.run(&with_only(text, &parts, &kept), &repeated, whole)?;
        let names: Vec<&'static str> =
            found.iter().filter_map(|number| Some(parts.get(*number)?.name)).collect();
        let left = differences(&repeated, &last);
        if !left.is_empty() {
            let why = format!(
                "In its way are {}, but without them it is not right for the whole time either.",
                names.join(", ")
            );
            return Ok(Tried::Fails { differences: left, why, printed: last.printed });
        }
        let success = success(repeated, last, once_only);
        let printed = first.printed;
        Ok(Tried::Without { text: changed, names, differences: in_sandbox, printed, success })
    }

    /// Settings that are in the way; nothing if that takes too many trials.
    fn search(
        &mut self,
        text: &str,
        parts: &[Part],
        expected: &Expected,
        [first, bare]: &[&Did; 2],
        time: Duration,
        quiet: bool,
    ) -> Result<Option<Vec<usize>>> {
        let patience = patience(first, bare, time);
        let mut progress = Progress::begin(quiet);
        let begun = self.made;
        let mut works = |kept: &[usize]| -> Result<bool, Option<anyhow::Error>> {
            let made = self.made - begun;
            progress.tell(|| format!("Looking for the settings that are in its way: trial {made}"));
            if made >= TRIALS_MAX {
                return Err(None);
            }
            let did = self.run(&with_only(text, parts, kept), expected, patience).map_err(Some)?;
            Ok(differences(expected, &did).is_empty())
        };
        match in_the_way(parts.len(), &mut works) {
            Ok(found) => Ok(Some(found)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// One trial, in a machine of its own.
    fn run(&mut self, text: &str, expected: &Expected, patience: Patience) -> Result<Did> {
        self.made += 1;
        let units = self.scratch.join("units");
        // Not with those above it: after a signal the directory is gone, and is to stay so.
        match fs::create_dir(&units) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
        fs::write(units.join(self.name.as_str()), text)?;
        let name = format!("try-{}-{}", std::process::id(), self.made);
        let machine = Nested::start(&Start {
            program: Path::new("/proc/self/exe"),
            name: &name,
            arguments: self.arguments(&units),
            scratch: self.scratch,
            ready_within: READY_WITHIN,
        })
        .context("the machine for the trial did not come up")?;
        let did = Trial::new(self, &machine, expected, patience).and_then(Trial::run);
        machine.kill();
        did
    }

    /// What the machine shows of the host, beside the unit.
    fn arguments(&self, units: &Path) -> Vec<OsString> {
        let mut out: Vec<OsString> = ["--ephemeral".into(), "--units".into(), units.into()].into();
        let shown = shown(self.seen).into_iter().filter(|path| path.exists());
        out.extend(shown.take(PATHS_MAX).flat_map(|path| ["--bind".into(), path.into()]));
        let hidden = hidden(self.seen, &writable(self.seen).shared).into_iter();
        out.extend(hidden.take(PATHS_MAX).flat_map(|path| ["--without".into(), path.into()]));
        out
    }
}

fn success(expected: Expected, did: Did, once_only: Vec<Difference>) -> Success {
    Success { expected, once_only, not_in_force: did.not_in_force }
}

/// How long trials go on that look for settings: by what is known of one that fails and one that works.
fn patience(fails: &Did, works: &Did, time: Duration) -> Patience {
    const AT_LEAST: Duration = Duration::from_millis(500);
    let whole = (works.after * 3 + AT_LEAST * 2).min(time);
    let enough = match fails.fate {
        Fate::Failed(_) | Fate::EndedWell => (fails.after * 2 + AT_LEAST).min(time),
        Fate::Up | Fate::NotYetUp => Duration::ZERO,
    };
    Patience { whole: whole.max(enough), enough: Some(enough) }
}

fn minus(all: &[Difference], others: &[Difference]) -> Vec<Difference> {
    all.iter().filter(|one| !others.contains(one)).cloned().collect()
}

/// Sockets and files below `/run` that the program used and did not make: the machine has a `/run` of its own, and a
/// socket of the host takes no connection through the memory over its directory.
fn shown(seen: &Observed) -> BTreeSet<PathBuf> {
    let is_others = |path: &&PathBuf| {
        !OWN_SOCKETS.iter().any(|own| path.starts_with(own))
            && !seen.made.iter().any(|made| path.starts_with(made))
    };
    let files = seen.read.iter().filter(|path| path.starts_with("/run") && path.is_file());
    seen.connected.iter().chain(files).filter(is_others).cloned().collect()
}

/// What the first run made, without what is below another of these. What the unit names (`ReadWritePaths=`) stays: it has
/// to be there.
fn hidden(seen: &Observed, named: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = Vec::new();
    let holds_named = |path: &&PathBuf| named.iter().any(|named| named.starts_with(path));
    for path in seen.made.iter().filter(|path| !holds_named(path)) {
        if !out.iter().any(|above| path.starts_with(above)) {
            out.push(path.clone());
        }
    }
    out
}

/// A unit that is started in a machine.
struct Trial<'m> {
    unit: &'m UnitName,
    seen: &'m Observed,
    expected: &'m Expected,
    patience: Patience,
    machine: &'m Nested,
    /// Its root directory.
    root: OwnedFd,
    /// Its first process.
    init: OwnedFd,
    begun: Instant,
    /// The same in ns since 1970.
    begun_ns: i128,
    did: Did,
}

impl<'m> Trial<'m> {
    fn new(
        trials: &Trials<'m>,
        machine: &'m Nested,
        expected: &'m Expected,
        patience: Patience,
    ) -> Result<Trial<'m>> {
        let root = fs::File::open(machine.path("/"))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Trial {
            unit: trials.name,
            seen: trials.seen,
            expected,
            patience,
            machine,
            root: root.into(),
            init: process::pidfd_open(machine.machine.pid)?,
            begun: Instant::now(),
            begun_ns: now.as_nanos() as i128,
            did: Did {
                fate: Fate::NotYetUp,
                listening: BTreeSet::new(),
                files: BTreeSet::new(),
                after: Duration::ZERO,
                printed: Vec::new(),
                not_in_force: Vec::new(),
            },
        })
    }

    /// Starts the unit and looks until it is seen how it fares.
    fn run(mut self) -> Result<Did> {
        let is_started = self.start()?;
        let mut status = self.status()?;
        self.look(&status);
        while is_started && self.did.fate == Fate::Up && !self.is_enough() {
            let left = self.patience.whole.saturating_sub(self.begun.elapsed());
            let is_gone = process::ends_within(&self.init, LOOK_EVERY.min(left));
            ensure!(!is_gone, "the machine of the trial ended");
            status = self.status()?;
            self.look(&status);
        }
        self.did.printed = printed(&status);
        let of_machine = self.machine.complaints();
        let of_machine =
            of_machine.iter().map(|line| line.trim_start_matches("warren: ").to_owned());
        self.did.not_in_force = of_machine.chain(not_in_force(self.unit, &status.log)).collect();
        Ok(self.did)
    }

    /// Whether its job was over in time.
    fn start(&self) -> Result<bool> {
        let mut client = Client::connect(&self.machine.machine.control)?;
        client.answers_within(self.patience.whole)?;
        let (unit, job_type) = (Some(self.unit.to_string()), Some(JobType::Start));
        match client.call(&Job { unit, job_type, ..Job::default() }) {
            Ok(answer) => {
                let result = answer.result.unwrap_or_default();
                // Of one that failed the unit's state says more.
                let is_known = matches!(result, JobResult::Done | JobResult::Failed);
                ensure!(is_known, "the start of the unit came to nothing: {result}");
                Ok(true)
            }
            Err(CallError::Broken(e)) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn status(&self) -> Result<StatusAnswer> {
        self.machine.call(&Status { unit: Some(self.unit.to_string()), pid: None })
    }

    /// Takes in what is to be seen now.
    fn look(&mut self, status: &StatusAnswer) {
        let was_whole = self.is_whole();
        self.did.fate = fate(status);
        // Without cgroups only the main process is known.
        let processes = status.processes.iter().map(|one| one.pid).chain(status.main_pid);
        let processes: Vec<i32> = processes.filter_map(|pid| i32::try_from(pid).ok()).collect();
        let own = self.machine.path("/proc");
        self.did.listening.extend(listening::of(&own, &processes, &self.seen.ports));
        let new = self.expected.files.iter().filter(|path| self.is_written(path)).cloned();
        let new: Vec<PathBuf> = new.collect();
        self.did.files.extend(new);
        if !was_whole || self.did.fate != Fate::Up {
            self.did.after = self.begun.elapsed();
        }
    }

    /// All that is expected is there.
    fn is_whole(&self) -> bool {
        differences(self.expected, &self.did).is_empty()
    }

    /// Nothing more is to be seen.
    fn is_enough(&self) -> bool {
        let passed = self.begun.elapsed();
        let early = self.patience.enough.is_some_and(|enough| passed >= enough && self.is_whole());
        passed >= self.patience.whole || early
    }

    /// Whether a file of the machine was written since the unit was started.
    fn is_written(&self, path: &Path) -> bool {
        let Some(path) = path.to_str() else { return false };
        let Ok(found) = place_below(self.root.as_fd(), path, Make::Nothing) else { return false };
        let Ok(metadata) = fs::File::from(found).metadata() else { return false };
        let changed_ns =
            i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
        metadata.is_file() && changed_ns + CLOCK_COARSENESS_NS >= self.begun_ns
    }
}

fn fate(status: &StatusAnswer) -> Fate {
    match &status.row.active {
        ActiveState::Active | ActiveState::Reloading => Fate::Up,
        ActiveState::Failed => Fate::Failed(why(status)),
        ActiveState::Inactive if status.result == "success" => Fate::EndedWell,
        ActiveState::Inactive => Fate::Failed(why(status)),
        _ => Fate::NotYetUp,
    }
}

/// How a unit failed, in words.
fn why(status: &StatusAnswer) -> String {
    let said = [status.ended.as_deref(), Some(status.reason.text.as_str()), Some(&status.result)];
    let said = said.into_iter().flatten().find(|text| !text.is_empty()).unwrap_or("it fails");
    without_number(said)
}

/// The words without the number of a process, which says nothing once it is gone.
fn without_number(words: &str) -> String {
    let is_number = |word: &&str| word.bytes().all(|b| b.is_ascii_digit());
    let words: Vec<&str> = words.split(' ').collect();
    let follows = |at: usize| at > 0 && words.get(at - 1) == Some(&"process");
    let kept = words.iter().enumerate().filter(|(at, word)| !(follows(*at) && is_number(word)));
    let kept: Vec<&str> = kept.map(|(_, word)| *word).collect();
    let text = kept.join(" ");
    if text.starts_with("main process") { format!("the {text}") } else { text }
}

/// What the manager says of a unit's protection that is not in force, in its log.
fn not_in_force(unit: &UnitName, log: &[String]) -> Vec<String> {
    let name = format!("{unit}: ");
    let said = |line: &String| {
        let (_, said) = line.split_once(&name)?;
        let is_missing = said.contains("is not applied") || said.contains("started WITHOUT");
        is_missing.then(|| said.to_owned())
    };
    log.iter().filter_map(said).collect()
}

/// The last lines of a unit's log.
fn printed(status: &StatusAnswer) -> Vec<String> {
    let from = status.log.len().saturating_sub(LINES_MAX);
    status.log.iter().skip(from).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(all: &[&str]) -> BTreeSet<PathBuf> {
        all.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn what_the_first_run_made_is_hidden_but_for_what_the_unit_names() {
        let made =
            paths(&["/srv/app", "/srv/app/data", "/srv/app/data/x", "/srv/other", "/srv/other/y"]);
        let seen = Observed { made, ..Observed::default() };
        let shown = |named: &[&str]| {
            let hidden = hidden(&seen, &paths(named));
            hidden.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&[]), "/srv/app /srv/other");
        assert_eq!(shown(&["/srv/app"]), "/srv/app/data /srv/other");
        assert_eq!(shown(&["/srv/app/data", "/srv/other"]), "/srv/app/data/x /srv/other/y");
    }

    #[test]
    fn sockets_of_others_are_shown_and_its_own_and_the_machines_are_not() {
        let seen = Observed {
            connected: paths(&[
                "/run/db/socket",
                "/run/systemd/notify",
                "/dev/log",
                "/srv/s",
                "/run/own/x",
            ]),
            made: paths(&["/run/own"]),
            ..Observed::default()
        };
        let all: Vec<String> = shown(&seen).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(all, ["/run/db/socket", "/srv/s"]);
    }

    #[test]
    fn protection_that_is_not_in_force_is_read_from_the_log() {
        let log = [
            "Nov 30 09:32:51 try-1 warrend[4]: app.service: IPAddressDeny= is not applied: no cgroups",
            "Nov 30 09:32:51 try-1 warrend[4]: app.service: started WITHOUT the protection of X Y",
            "Nov 30 09:32:51 try-1 warrend[4]: other.service: MemoryMax= is not applied: none",
            "Nov 30 09:32:51 try-1 sh[9]: all is not applied",
        ]
        .map(str::to_owned);
        let unit = UnitName::parse("app.service").expect("a name");
        let expected =
            ["IPAddressDeny= is not applied: no cgroups", "started WITHOUT the protection of X Y"];
        assert_eq!(not_in_force(&unit, &log), expected);
    }

    #[test]
    fn a_failure_is_told_without_the_number_of_a_process() {
        let check = |words: &str, expected: &str| assert_eq!(without_number(words), expected);
        check("main process 39 exited with code 7", "the main process exited with code 7");
        check("7 of 8 lost", "7 of 8 lost");
        check("", "");
    }

    #[test]
    fn who_looks_for_settings_waits_as_long_as_a_failure_took() {
        let did = |fate, after_ms| Did {
            fate,
            listening: BTreeSet::new(),
            files: BTreeSet::new(),
            after: Duration::from_millis(after_ms),
            printed: Vec::new(),
            not_in_force: Vec::new(),
        };
        let failed = |ms| did(Fate::Failed(String::new()), ms);
        let time = Duration::from_secs(10);
        let check = |fails: &Did, works_ms, whole_ms, enough_ms| {
            let patience = patience(fails, &did(Fate::Up, works_ms), time);
            let ms = |time: Duration| time.as_millis();
            let enough = patience.enough.map(ms);
            assert_eq!((ms(patience.whole), enough), (whole_ms, Some(enough_ms)));
        };
        check(&failed(100), 100, 1300, 700);
        check(&failed(3000), 100, 6500, 6500);
        check(&failed(9000), 9000, 10_000, 10_000);
        check(&did(Fate::Up, 0), 200, 1600, 0);
    }
}
