//! The loop during a shutdown: its stages, its console, its last steps.

use crate::base::clock::now;
use crate::base::console;
use crate::base::console::Console;
use crate::base::host::{ends_container, owns_machine};
use crate::base::inherited;
use crate::base::power_action;
use crate::base::say::{say, style_arguments};
use crate::base::token;
use crate::base::token::NOBODY;
use crate::daemon::{Daemon, Leaving};
use crate::last_steps::programs::Programs;
use crate::last_steps::progress::to_be_written;
use crate::last_steps::report::Done as LastDone;
use crate::last_steps::{LastSteps, Step};
use crate::recording::jobs::JobsBefore;
use crate::recording::recorder::event;
use crate::shutdown::critical_path;
use crate::shutdown::stages::{
    CONSOLE, Ending, GRACE_MIN, LAST_STEPS_EFFECT, LAST_SYNC_EFFECT, SPARED, SYNC_EFFECT, Stage,
    TOLD_APART, WALL_EFFECT, is_start, say_dated,
};
use crate::shutdown::waits;
use crate::shutdown::words;
use crate::shutdown::words::AskedBy;
use crate::spawn::helpers::Passed;
use crate::spawn::tools::TOOL;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use warren_bus::Backend;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::model::job::{JobMode, JobType};
use warren_core::model::time::Monotonic;
use warren_core::persist::run_state::Restored;
use warren_core::protocol::event::{Done, Event};
use warren_core::protocol::request::{Asker, Request};
use warren_core::protocol::trace_event::Happening;
use warren_init::protocol::control::PowerAction;
use warren_init::protocol::exec::{CgroupPlace, ExecSpec, StdOutput};
use warren_sys::epoll::Interest;
use warren_unit::{LoadState, Scope, UnitName};

impl Daemon {
    /// Begins the end, or changes what follows it.
    pub(crate) fn begin_end(&mut self, action: PowerAction, by: AskedBy) {
        self.begin_end_saying(action, by, "");
    }

    /// The same, with what its asker wants people to be told.
    pub(crate) fn begin_end_saying(&mut self, action: PowerAction, by: AskedBy, message: &str) {
        self.forget_plan();
        if let Some(why) = self.cannot_overtake(action) {
            return say!("{why}");
        }
        self.core.set_ending(power_action::code(action));
        let is_first = self.stages.shutdown.under_way.is_none();
        let before = self.ending(&[]).action.replace(action);
        self.tell_what_follows(action, by, message);
        if let Some(before) = before {
            if before == PowerAction::SoftReboot && action != before {
                self.go_back_to_units();
            }
            // What files describe leads to what was to follow before.
            let by_files = !self.core.totals().stopping;
            if action != before && (before == PowerAction::SoftReboot || by_files) {
                self.event_loop.events.push_back(Event::StopEverything { soft: false });
            }
            return;
        }
        crate::base::readiness::tell("STOPPING=1\nSTATUS=Stopping all units.");
        self.sync_file_systems();
        if !is_first || !self.end_by_files(action, by) {
            let soft = action == PowerAction::SoftReboot;
            self.event_loop.events.push_back(Event::StopEverything { soft });
        }
    }

    /// Begins the end that files describe, as `systemctl poweroff` does (systemd(1), "SIGNALS"): units that
    /// belong to it are started, and what nothing is to stop is ended by the last steps. False if there is no file
    /// for it. Where they do not come to what is to follow, [`Daemon::go_on_ending`] does.
    fn end_by_files(&mut self, action: PowerAction, by: AskedBy) -> bool {
        let graph = self.core.graph();
        let is_there = |unit: &UnitId| graph.definition(*unit).load_state == LoadState::Loaded;
        let name =
            power_action::target(action).map(|name| UnitName::parse(name).expect("a valid name"));
        let Some(unit) = name.and_then(|name| graph.lookup(&name)).filter(is_there) else {
            return false;
        };
        let asker = if let AskedBy::Client(asker) = by { asker } else { Asker::default() };
        let (job_type, mode) = (JobType::Start, JobMode::ReplaceIrreversibly);
        let request = Request::Enqueue { unit, job_type, mode, reload_if_possible: false };
        self.event_loop.events.push_back(Event::Request { client: NOBODY, asker, request });
        true
    }

    /// Why this cannot follow an end that is under way; none if it can, or if none is.
    pub(crate) fn cannot_overtake(&self, action: PowerAction) -> Option<&'static str> {
        let is_past = self
            .stages
            .shutdown
            .under_way
            .as_ref()
            .is_some_and(|ending| ending.is_past_soft_reboot);
        (is_past && action == PowerAction::SoftReboot)
            .then_some("The shutdown has already begun to unmount file systems: it cannot become a soft reboot.")
    }

    /// Says what follows, if people were told something else or nothing.
    fn tell_what_follows(&mut self, action: PowerAction, by: AskedBy, message: &str) {
        let Some(ending) = &mut self.stages.shutdown.under_way else { return };
        let (text, by) = (power_action::text(action), by.text(self.core.graph()));
        match ending.told.replace(action) {
            Some(before) if before == action => {}
            Some(before) => {
                let before = power_action::name(before);
                self.say_dated(&format!("The {before} was changed: {text}{by}."));
            }
            None if message.is_empty() => {
                self.say_dated(&format!("The system is shutting down: {text}{by}."));
            }
            None => self.tell_all(&format!("The system is shutting down ({text}): {message}")),
        }
    }

    /// What outlasts a soft reboot is to be stopped as well, and the last steps are to be taken when it
    /// is down.
    fn go_back_to_units(&mut self) {
        if let Some(ending) = &mut self.stages.shutdown.under_way {
            ending.stage = Stage::Units;
            ending.asked = now().monotonic;
        }
        // In this very turn it was about to follow.
        self.event_loop.leaving.take_if(|leaving| matches!(leaving, Leaving::Power(_)));
    }

    /// Units that are up stay so: their processes are ended with all others by the last steps.
    pub(crate) fn end_without_stopping(&mut self, action: PowerAction, by: AskedBy) {
        self.forget_plan();
        self.core.set_ending(power_action::code(action));
        let ending = self.ending(&[]);
        ending.is_past_soft_reboot = true;
        let before = ending.action.replace(action);
        self.tell_what_follows(action, by, "");
        if before == Some(PowerAction::SoftReboot) {
            // Its last steps leave more than those of this end.
            self.go_back_to_units();
        }
        self.event_loop.events.push_back(Event::GiveUp);
    }

    /// The end that is under way, or one that begins now, with what is not recorded yet.
    fn ending(&mut self, untold: &[Happening]) -> &mut Ending {
        let ending = match self.stages.shutdown.under_way.take() {
            Some(ending) => ending,
            None => self.new_ending(untold),
        };
        self.stages.shutdown.under_way.insert(ending)
    }

    fn new_ending(&mut self, untold: &[Happening]) -> Ending {
        // The last words count from the moment from which the recording does.
        let began = now();
        let (view, untold) = (self.core.view(), untold.iter().map(event).collect::<Vec<_>>());
        // A stop that is under way becomes that of the end without a word.
        let mut jobs = JobsBefore::new(began.monotonic);
        jobs.follow(&untold);
        jobs.take_present(view.jobs());
        let jobs = jobs.events();
        self.recording.recorder.boot_given_up(began, self.core.graph());
        self.recording.recorder.shutdown_began(began, &jobs);
        crate::base::say::set_ending(true);
        Ending::new(None, self.options.scope, began)
    }

    /// The end that the last incarnation had begun, whether or not it knew what follows: files that
    /// describe an end name that when all else is over.
    pub(crate) fn take_up_ending(&mut self, restored: &Restored) {
        let action = restored.manager.and_then(|manager| power_action::from_code(manager.ending));
        if action.is_none() && self.recording.recorder.shutdown_since().is_none() {
            return;
        }
        crate::base::say::set_ending(true);
        // Unless what the last incarnation recorded is there.
        let jobs = restored.runs.values().filter_map(|run| run.job.as_deref());
        let mut before = JobsBefore::new(self.stages.startup.began.monotonic);
        before.take_present(jobs);
        let jobs = before.events();
        self.recording.recorder.shutdown_began(self.stages.startup.began, &jobs);
        let mut ending = Ending::new(action, self.options.scope, now());
        if let Some(since) = self.recording.recorder.shutdown_since() {
            ending.go_on_since(since, &self.recording.recorder.shutdown_so_far());
        }
        self.stages.shutdown.under_way = Some(ending);
    }

    /// A line with the date and the time of day, for who reads it after the machine is up again.
    pub(crate) fn say_dated(&self, text: &str) {
        say_dated(text);
    }

    /// Takes note of what the machine says happened. A start of `shutdown.target`, which conflicts
    /// with all others (systemd.special(7)), is the beginning of an end that files describe.
    pub(crate) fn hear(&mut self, happenings: &[Happening]) {
        if self.stages.shutdown.under_way.is_none() && happenings.iter().any(is_start) {
            let name = UnitName::parse("shutdown.target").expect("a valid name");
            let target = self.core.graph().lookup(&name);
            if happenings.iter().any(|h| is_start(h) && Some(h.unit) == target) {
                if self.forget_plan() {
                    say!("cancelling the scheduled shutdown: all units are stopped already");
                }
                self.ending(happenings);
                self.tell_end_of_files();
                self.sync_file_systems();
            }
        }
    }

    fn tell_end_of_files(&mut self) {
        let view = self.core.view();
        let by = words::asker_of_goal(&view).unwrap_or(AskedBy::Plan);
        match words::follows(&view) {
            Some(action) => self.tell_what_follows(action, by, ""),
            None => self.say_dated("The system is shutting down."),
        }
    }

    /// Goes on when all units are down, and says what is waited for until then.
    pub(crate) fn go_on_ending(&mut self) {
        let moment = now().monotonic;
        let Some(ending) = &mut self.stages.shutdown.under_way else { return };
        if ending.stage != Stage::Units {
            if ending.stage.is_over(moment, warren_sys::storage::dirty_bytes()) {
                say!("the last steps of the shutdown timed out");
                self.end_now();
            }
            return;
        }
        if !self.event_loop.events.is_empty() {
            return;
        }
        let (jobs, is_stopping) = (self.core.totals().jobs, self.core.totals().stopping);
        let overdue = moment.since(ending.asked) > self.options.end_within;
        let (action, goes_on) = (ending.action, ending.takes_last_steps);
        match action {
            // What the files described is over, and nothing was to follow.
            None if jobs == 0 => {
                self.stages.shutdown.under_way = None;
                self.say_dated(match self.core.view().is_going_down() {
                    true => "All units are stopped; nothing else to do.",
                    false => "The shutdown was cancelled.",
                });
                self.recording.recorder.shutdown_given_up();
                return crate::base::say::set_ending(false);
            }
            // Files do not lead to what is to follow, or not any more; or the last manager was killed when that was
            // written down, and nothing was being stopped for it yet.
            Some(action) if !is_stopping && (jobs == 0 || !self.core.is_going_down()) => {
                let soft = action == PowerAction::SoftReboot;
                return self.event_loop.events.push_back(Event::StopEverything { soft });
            }
            // Files name what follows when all else is over, but it is known by their target.
            None if overdue => {
                if let Some(action) = words::follows(&self.core.view()) {
                    say!("the shutdown timed out: {jobs} units are still stopping");
                    return self.end_without_stopping(action, AskedBy::Plan);
                }
            }
            Some(_) if !is_stopping && overdue => {
                ending.is_past_soft_reboot = true;
                return self.event_loop.events.push_back(Event::GiveUp);
            }
            Some(_) if is_stopping && overdue => {
                if jobs > 0 {
                    say!("the shutdown timed out: {jobs} units are still stopping");
                }
                return self.take_last_steps();
            }
            // All units are down; what they left is about to be gone. The last steps of an end that was
            // overtaken are over.
            Some(_) if is_stopping && jobs == 0 && !goes_on && self.is_swept() => {
                return self.take_last_steps();
            }
            _ => {}
        }
        let Some(ending) =
            self.stages.shutdown.under_way.as_mut().filter(|ending| moment >= ending.told_at)
        else {
            return;
        };
        ending.told_at = moment.after(TOLD_APART);
        self.open_console();
        self.tell_waits(moment);
    }

    fn tell_waits(&mut self, moment: Monotonic) {
        let view = self.core.view();
        // What the way of an automount point holds up waits for that, before all.
        let mut waits = waits::of_traps(&view, self.triggers.traps.going(), Instant::now());
        waits.extend(waits::waits(&view, moment));
        let Some(ending) = &mut self.stages.shutdown.under_way else { return };
        // What is down already, as an automount point whose way is not free, cannot be skipped.
        let can_skip = |unit: &UnitId| view.holds_up_the_end(*unit);
        ending.named = waits.iter().map(|wait| wait.unit).find(can_skip);
        if !waits.is_empty() {
            let dirty = to_be_written(warren_sys::storage::dirty_bytes());
            let key = match ending.named.filter(|_| ending.console.is_some()) {
                Some(unit) => {
                    format!(
                        "; press {} twice to skip {}",
                        char::from(console::SKIP),
                        view.graph.name(unit)
                    )
                }
                None => String::new(),
            };
            say!("waiting for {}; {dirty}{key}", waits::line(&view, &waits));
        }
    }

    // ---- the console ----

    /// Where keys are read.
    fn console_path(&self) -> Option<PathBuf> {
        let usual = || owns_machine(self.options.scope).then(|| PathBuf::from(CONSOLE));
        self.options.console.clone().or_else(usual)
    }

    /// From the first line that names somebody on, a key can answer it.
    fn open_console(&mut self) {
        let console = self.console_path();
        let Some(ending) =
            self.stages.shutdown.under_way.as_mut().filter(|ending| ending.console.is_none())
        else {
            return;
        };
        let Some(path) = console else { return };
        if let Some(console) = Console::open(&path)
            && self.event_loop.epoll.add(console.fd(), token::CONSOLE, Interest::READ).is_ok()
        {
            ending.console = Some(console);
        }
    }

    /// Something was typed on the console.
    pub(crate) fn read_console(&mut self) {
        let Some(ending) = &mut self.stages.shutdown.under_way else { return };
        let Some(console) = &mut ending.console else { return };
        match console.is_skip_typed() {
            Some(false) => {}
            Some(true) => {
                if let Some(unit) = ending.named.take() {
                    say!("not waiting for {} any longer", self.core.graph().name(unit));
                    let (asker, request) = (Asker::default(), Request::Hurry(unit));
                    self.event_loop.events.push_back(Event::Request {
                        client: NOBODY,
                        asker,
                        request,
                    });
                }
            }
            None => {
                let _ = self.event_loop.epoll.remove(console.fd());
                ending.console = None;
            }
        }
    }

    // ---- processes of this room ----

    /// Writing out begins with the end, so that little is left to write when units are down.
    /// It is asked of all file systems at once: the slow ones are not always the root's.
    fn sync_file_systems(&mut self) {
        if owns_machine(self.options.scope) {
            let argument = Step::SyncAll("/".to_owned()).to_command();
            self.run_own(SYNC_EFFECT, vec![argument]);
        }
    }

    fn take_last_steps(&mut self) {
        let mut steps = self.last_steps();
        let storage_is_next = steps.storage && steps.stragglers_may_be_left();
        if storage_is_next {
            (steps.storage, steps.programs) = (false, None);
        }
        if let Some(ending) = &mut self.stages.shutdown.under_way {
            let unwritten = warren_sys::storage::dirty_bytes();
            ending.stage = Stage::with_grace(steps.grace, now().monotonic, unwritten);
            // Its keys are for those who take them.
            if let Some(console) = ending.console.take() {
                let _ = self.event_loop.epoll.remove(console.fd());
            }
            ending.takes_last_steps = true;
            ending.storage_is_next = storage_is_next;
            ending.told_last = LastDone::default();
            ending.is_past_soft_reboot |= !steps.soft;
        }
        self.follow_watchdog();
        self.recording.recorder.units_stopped(now(), steps.storage, self.core.graph());
        for told_before in [self.options.last_report(), self.options.left_over()] {
            let _ = std::fs::remove_file(told_before);
        }
        match steps.are_needed() {
            true => self.run_last_steps(&steps),
            false => self.end_now(),
        }
    }

    /// What is to be done when all units are down.
    fn last_steps(&self) -> LastSteps {
        let soft = self.is_soft_reboot();
        let groups = self.shared.tree_path();
        let ends_all = self.ends_machine() && !soft;
        LastSteps {
            everywhere: groups.is_none() && ends_all,
            grace: self.grace(),
            console: self.console_path(),
            groups,
            soft,
            spare: self.write_spared(soft),
            // What is mounted outside of units stays for what comes.
            storage: owns_machine(self.options.scope) && !soft,
            programs: self.last_programs().filter(|_| !soft),
            report: Some(self.options.last_report()),
        }
    }

    /// Whether the process 1 of a host or a container ends.
    fn ends_machine(&self) -> bool {
        owns_machine(self.options.scope) || ends_container(self.options.scope)
    }

    /// How long processes that outlived their units have, as each unit would by itself, within the time for
    /// everything. A session has less: its unit has a time, of which some is to be left for its units.
    fn grace(&self) -> Duration {
        let within = self.options.end_within;
        let usual = self.shared.facts().defaults.timeout_stop.unwrap_or(within);
        let so_far = self
            .stages
            .shutdown
            .under_way
            .as_ref()
            .map(|ending| now().monotonic.since(ending.asked));
        let left = within.saturating_sub(so_far.unwrap_or_default());
        if self.options.scope == Scope::System { usual.min(left).max(GRACE_MIN) } else { GRACE_MIN }
    }

    /// The programs that run when all else is over: of a machine or a container, not of a session.
    fn last_programs(&self) -> Option<Programs> {
        if !self.ends_machine() {
            return None;
        }
        let word = power_action::name(self.stages.shutdown.under_way.as_ref()?.action?).to_owned();
        let programs = Programs { word, directories: self.options.shutdown_directories() };
        (!programs.paths().is_empty()).then_some(programs)
    }

    fn run_last_steps(&mut self, steps: &LastSteps) {
        if !self.run_own(LAST_STEPS_EFFECT, steps.arguments()) {
            self.sync_at_least();
        }
    }

    /// Processes that outlived their units are over, storage is not; false if that was not to follow.
    fn goes_on_with_storage(&mut self) -> bool {
        let Some(ending) = &mut self.stages.shutdown.under_way else { return false };
        if !std::mem::take(&mut ending.storage_is_next) || ending.stage == Stage::Units {
            return false;
        }
        ending.stage = Stage::last_steps(now().monotonic, warren_sys::storage::dirty_bytes());
        let last = LastDone::read(&self.options.last_report()).unwrap_or_default();
        self.recording.recorder.stragglers_ended(now(), &last, self.core.graph());
        let steps = self.last_steps();
        if let Some(ending) = &mut self.stages.shutdown.under_way {
            ending.told_last = last;
        }
        self.run_last_steps(&steps);
        true
    }

    fn is_soft_reboot(&self) -> bool {
        self.stages.shutdown.under_way.as_ref().and_then(|ending| ending.action)
            == Some(PowerAction::SoftReboot)
    }

    /// The cgroups whose processes the last steps leave alone, or main processes where there are no cgroups, in a
    /// file; none if there are none.
    fn write_spared(&self, soft: bool) -> Option<PathBuf> {
        let spared = self.core.outlasting(soft);
        let graph = self.core.graph();
        let units = spared.into_iter().filter(|&unit| !crate::cgroup::tree::is_slice(graph, unit));
        let view = self.core.view();
        let main = |unit| Some(view.run(unit).main_process()?.pid.to_string());
        let line = |unit| match self.cgroup.groups.tree() {
            Some(_) => self.cgroup.groups.path(unit).map(str::to_owned),
            None => main(unit),
        };
        let lines: Vec<String> = units.filter_map(line).collect();
        if lines.is_empty() {
            return None;
        }
        let path = self.options.runtime_dir.join(SPARED);
        match std::fs::write(&path, lines.join("\n")) {
            Ok(()) => Some(path),
            Err(e) => {
                say!("{}: {e}", path.display());
                None
            }
        }
    }

    /// Runs warrend with these arguments, beside the manager.
    fn run_own(&mut self, effect: EffectId, arguments: Vec<String>) -> bool {
        let path = crate::base::host::own_program();
        let argv = std::iter::once("warrend".to_owned());
        let argv = argv.chain(style_arguments()).chain(arguments).collect();
        // It says what it does where the manager does.
        let said = std::io::stderr().as_fd().try_clone_to_owned();
        let stderr = said.as_ref().map_or(StdOutput::Null, |_| StdOutput::Fd(0));
        let cgroup = CgroupPlace::Inherit;
        // For the programs of others that it runs.
        let env = inherited::environment(Scope::User, std::env::vars_os());
        let env = env.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let spec = ExecSpec { path, argv, env, cgroup, stderr, ..ExecSpec::default() };
        let id = EffectId(effect.0 | TOOL);
        let fds = said.into_iter().map(Passed::Own).collect();
        match self.spawning.helpers.spawn(id, Box::new(spec), fds) {
            Ok(()) => true,
            Err(error) => {
                say!("cannot run a helper process: {error}");
                false
            }
        }
    }

    /// Takes the answer to an effect of this room; false if it is another's.
    pub(crate) fn own_effect_done(&mut self, effect: EffectId, result: &Done) -> bool {
        match (effect, result) {
            (LAST_STEPS_EFFECT, Done::Failed { error }) => {
                say!("the last steps: {error}");
                self.sync_at_least();
            }
            (LAST_STEPS_EFFECT, _) if self.goes_on_with_storage() => {}
            (LAST_STEPS_EFFECT | LAST_SYNC_EFFECT, _) => self.end_now(),
            (SYNC_EFFECT, Done::Failed { error }) => {
                say!("cannot write out file systems: {error}")
            }
            _ => {}
        }
        matches!(effect, LAST_STEPS_EFFECT | LAST_SYNC_EFFECT | SYNC_EFFECT | WALL_EFFECT)
    }

    /// The last steps could not be taken: what files hold is written out all the same, in the time that
    /// the last steps have.
    fn sync_at_least(&mut self) {
        if !owns_machine(self.options.scope) {
            return self.end_now();
        }
        self.event_loop.workers.run(LAST_SYNC_EFFECT, || {
            warren_sys::storage::sync();
            Done::Ok
        });
    }

    /// The last steps are over, or their time is: says the last words and leaves, unless those of the
    /// end that has overtaken theirs are still to be taken.
    fn end_now(&mut self) {
        let Some(ending) = &mut self.stages.shutdown.under_way else { return };
        ending.takes_last_steps = false;
        if ending.stage == Stage::Units {
            return self.go_on_ending();
        }
        let Some(ending) = &self.stages.shutdown.under_way else { return };
        let last = LastDone::read(&self.options.last_report()).unwrap_or_default();
        let failed = match last.failed {
            0 => String::new(),
            1 => ", 1 file system or device could not be released".to_owned(),
            failed => format!(", {failed} file systems or devices could not be released"),
        };
        self.event_loop.leaving = ending.action.map(Leaving::Power);
        let outlasts = self.is_soft_reboot();
        let untold = last.since(&ending.told_last);
        let took = (ending.began, now());
        let tell = |material| say_dated(&format!("{}{failed}.", critical_path::words(material)));
        self.recording.recorder.shutdown_ended(took, &untold, outlasts, self.core.graph(), tell);
    }
}
