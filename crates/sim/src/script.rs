//! The notation of plans and of the tests.
//!
//! ```text
//! seed 7
//! faults spawn=20 crash=5
//! # a.service
//! [Service]
//! ExecStart=/p run
//! ==
//! 0 start a.service
//! 100 traffic a.socket
//! ```
//!
//! Before `==` come the seed, the faults and the unit files, after it the actions with the
//! milliseconds at which each happens. An action is a verb and what it is for, see [`Action`].

use std::fmt;
use std::time::Duration;

use warren_core::model::admin_marks::Marked;
use warren_core::model::device_news::Sight;
use warren_core::model::ids::UnitId;
use warren_core::model::job::JobMode;
use warren_core::protocol::event::Event;
use warren_core::protocol::request::{CleanKind, Request};
use warren_unit::{Relation, UnitName};

use crate::faults::Faults;
use crate::kernel::clock;
use crate::program;
use crate::units::UnitTexts;
use crate::world::World;

/// Something that the world does to the manager.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// `VERB UNIT [MODE]`: systemctl's verbs for jobs.
    Job(String, String, JobMode),
    /// `traffic SOCKET`: a connection or datagram arrives.
    Traffic(String),
    /// `clock DATE TIME`: somebody sets the wall clock, in UTC.
    Clock(String),
    /// `sleep SECONDS`: the machine sleeps, and only the wall clock goes on.
    Sleep(u64),
    /// `zone RULE`: the host moves to another zone, as in the variable TZ.
    Zone(String),
    /// `touch PATH`: something is changed at what the path unit watches.
    Touch(String),
    /// `meet PATH` and `miss PATH`: what it waits for is there from now on, or is not.
    Meet(String, bool),
    /// `enter AUTOMOUNT`: a process walks in.
    Enter(String),
    /// `idle AUTOMOUNT`: nobody used the mount behind it for long enough.
    Idle(String),
    /// `mount UNIT`: somebody mounts there by hand.
    Mount(String),
    /// `umount UNIT`: somebody unmounts by hand.
    Unmount(String),
    /// `kill UNIT SIGNAL`: `systemctl kill`.
    Kill(String, i32),
    /// `freeze UNIT` and `thaw UNIT`
    Freeze(String, bool),
    /// `clean UNIT`: `systemctl clean --what=all`.
    Clean(String),
    /// `scope UNIT STEPS`: a program starts a process, and the scope that holds it.
    Scope(String, String),
    /// `abandon UNIT`: the program looks after it no longer.
    Abandon(String),
    /// `reset-failed UNIT`
    ResetFailed(String),
    /// `mark UNIT maintenance` or `mark UNIT degraded`
    Mark(String, Marked),
    /// `mend UNIT`: its mark is cleared.
    Mend(String),
    /// `cancel UNIT`: its job, if it has one.
    Cancel(String),
    /// `clear`: all jobs.
    Clear,
    /// `edit UNIT TEXT`: a new text for its file, `;` between lines, and a reload.
    Edit(String, String),
    /// `remove UNIT`: its file goes, and a reload.
    Remove(String),
    /// `reload`: a reload without a change.
    Reload,
    /// `crash`: the manager is killed.
    Crash,
    /// `hurry UNIT`: nobody waits for its stop any more.
    Hurry(String),
    /// `shutdown`: everything is stopped.
    Shutdown,
    /// `soft-reboot`: everything is stopped that does not outlast one.
    SoftReboot,
    /// `give-up`: the machine ends without stops.
    GiveUp,
    /// Instances of connections that are over are forgotten.
    Forget,
    /// `plug DEVICE`: it comes.
    Plug(String),
    /// `unplug DEVICE`: it goes.
    Unplug(String),
    /// `seeing`: somebody looks for devices from now on.
    Seeing,
    /// `blind`: nobody does.
    Blind,
    /// `watchdogs yes`, `watchdogs no`: service watchdogs are acted on or not.
    Watchdogs(bool),
    /// `swapless`: the machine lets nobody swap, as a container does.
    Swapless,
}

impl Action {
    /// Reads one action; none if it is no action.
    pub fn parse(text: &str) -> Option<Action> {
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        let unit = || Some(first.to_owned()).filter(|name| UnitName::parse(name).is_ok());
        Some(match verb {
            "traffic" => Action::Traffic(unit()?),
            "clock" => Action::Clock(clock::moment(rest).map(|_| rest.to_owned())?),
            "sleep" => Action::Sleep(rest.parse().ok()?),
            "zone" => Action::Zone(clock::zone(rest).map(|_| rest.to_owned())?),
            "touch" => Action::Touch(unit()?),
            "meet" => Action::Meet(unit()?, true),
            "miss" => Action::Meet(unit()?, false),
            "enter" => Action::Enter(unit()?),
            "idle" => Action::Idle(unit()?),
            "mount" => Action::Mount(unit()?),
            "umount" => Action::Unmount(unit()?),
            "kill" => Action::Kill(unit()?, second.trim().parse().ok()?),
            "freeze" => Action::Freeze(unit()?, true),
            "thaw" => Action::Freeze(unit()?, false),
            "clean" => Action::Clean(unit()?),
            "scope" => Action::Scope(unit()?, second.trim().to_owned()),
            "abandon" => Action::Abandon(unit()?),
            "reset-failed" => Action::ResetFailed(unit()?),
            "mark" => Action::Mark(unit()?, marked(second.trim())?),
            "mend" => Action::Mend(unit()?),
            "cancel" => Action::Cancel(unit()?),
            "clear" => Action::Clear,
            "edit" => Action::Edit(unit()?, second.to_owned()),
            "remove" => Action::Remove(unit()?),
            "reload" if first.is_empty() => Action::Reload,
            "crash" => Action::Crash,
            "hurry" => Action::Hurry(unit()?),
            "shutdown" if first.is_empty() => Action::Shutdown,
            "soft-reboot" if first.is_empty() => Action::SoftReboot,
            "give-up" if first.is_empty() => Action::GiveUp,
            "forget" => Action::Forget,
            "plug" => Action::Plug(unit()?),
            "unplug" => Action::Unplug(unit()?),
            "seeing" if first.is_empty() => Action::Seeing,
            "blind" if first.is_empty() => Action::Blind,
            "watchdogs" if matches!(rest, "yes" | "no") => Action::Watchdogs(rest == "yes"),
            "swapless" if first.is_empty() => Action::Swapless,
            _ => {
                let mode = match second.trim() {
                    "" => JobMode::Replace,
                    word => JobMode::from_word(word)?,
                };
                Action::Job(verb.to_owned(), unit()?, mode)
            }
        })
    }

    /// Does it.
    pub fn perform(&self, world: &mut World) {
        let unit = |world: &World, name: &str| world.unit(name);
        match self {
            Action::Job(verb, name, mode) => world.order(verb, name, *mode),
            Action::Traffic(name) => {
                if let Some(unit) = unit(world, name) {
                    world.kernel.traffic(unit);
                }
            }
            Action::Clock(text) => {
                let at_us = clock::moment(text).expect("it was read when the plan was");
                let event = world.kernel.set_clock(at_us);
                world.step(event);
            }
            Action::Sleep(seconds) => {
                let event = world.kernel.sleep(Duration::from_secs(*seconds));
                world.step(event);
            }
            Action::Zone(rule) => {
                let zone = clock::zone(rule).expect("it was read when the plan was");
                world.kernel.wall.zone = zone.clone();
                world.step(Event::ZoneSet(zone));
            }
            Action::Watchdogs(on) => world.step(Event::ServiceWatchdogs(*on)),
            Action::Touch(name) => touch(world, name, None),
            Action::Meet(name, is_met) => touch(world, name, Some(*is_met)),
            Action::Enter(name) => spring(world, name, false),
            Action::Idle(name) => spring(world, name, true),
            Action::Mount(name) => by_hand(world, name, true),
            Action::Unmount(name) => by_hand(world, name, false),
            Action::Kill(name, signal) => {
                let Some(unit) = unit(world, name) else { return };
                let whom = warren_core::protocol::request::KillWhom::All;
                world.request(Request::Kill { unit, whom, signal: *signal });
            }
            Action::Freeze(name, frozen) => {
                let Some(unit) = unit(world, name) else { return };
                world.request(Request::Freeze { unit, frozen: *frozen });
            }
            Action::Clean(name) => {
                let Some(unit) = unit(world, name) else { return };
                world.request(Request::Clean { unit, kinds: CleanKind::ALL.to_vec() });
            }
            Action::Scope(name, steps) => {
                let Some(unit) = unit(world, name) else { return };
                let pid = world.kernel.start_outside(program::steps_of(steps));
                let (mode, pids) = (JobMode::Fail, Box::from([pid]));
                world.request(Request::StartScope { unit, mode, pids });
            }
            Action::Abandon(name) => {
                let Some(unit) = unit(world, name) else { return };
                world.request(Request::AbandonScope(unit));
            }
            Action::ResetFailed(name) => {
                let unit = unit(world, name);
                world.request(Request::ResetFailed(unit));
            }
            Action::Mark(name, marked) => {
                let Some(unit) = unit(world, name) else { return };
                let (marked, text) = (*marked, "by hand".to_owned());
                world.request(Request::Mark { unit, marked, text });
            }
            Action::Mend(name) => {
                let Some(unit) = unit(world, name) else { return };
                world.request(Request::Clear(unit));
            }
            Action::Cancel(name) => {
                let job = unit(world, name).and_then(|u| world.core.unit_run(u).job_id());
                if let Some(job) = job {
                    world.lawless = true;
                    world.request(Request::CancelJob(job));
                }
            }
            Action::Hurry(name) => {
                let Some(unit) = unit(world, name) else { return };
                world.lawless = true;
                world.request(Request::Hurry(unit));
            }
            Action::Clear => {
                world.lawless = true;
                world.request(Request::ClearJobs);
            }
            Action::Edit(name, text) => edit(world, name, Some(text)),
            Action::Remove(name) => edit(world, name, None),
            Action::Reload => world.reload_nothing(),
            Action::Crash => world.crash(),
            Action::Shutdown => {
                world.soft = false;
                world.step(Event::StopEverything { soft: false });
            }
            Action::SoftReboot => {
                world.soft = true;
                world.step(Event::StopEverything { soft: true });
            }
            Action::GiveUp => world.step(Event::GiveUp),
            Action::Forget => world.forget(),
            Action::Plug(name) => world.plug(name, true),
            Action::Unplug(name) => world.plug(name, false),
            Action::Seeing => world.see_devices(Sight::Seeing),
            Action::Blind => world.see_devices(Sight::Blind),
            Action::Swapless => world.core.set_without_swaps(true),
        }
    }
}

fn marked(word: &str) -> Option<Marked> {
    [Marked::Maintenance, Marked::Degraded].into_iter().find(|marked| marked.as_str() == word)
}

fn spring(world: &mut World, name: &str, idle: bool) {
    let Some(unit) = world.unit(name) else { return };
    let behind: Option<UnitId> = world.core.graph().related(unit, Relation::Triggers).next();
    world.kernel.spring(unit, behind, idle);
}

fn touch(world: &mut World, name: &str, is_met: Option<bool>) {
    if let Some(unit) = world.unit(name) {
        world.kernel.touch(unit, is_met);
    }
}

fn by_hand(world: &mut World, name: &str, on: bool) {
    if let Some(unit) = world.unit(name) {
        world.lawless |= !on;
        world.kernel.mount_by_hand(unit, on);
    }
}

fn edit(world: &mut World, name: &str, text: Option<&str>) {
    let Ok(name) = UnitName::parse(name) else { return };
    world.lawless = true;
    let mut texts = world.texts.clone();
    match text {
        Some(text) => texts.set(name, text.replace(';', "\n") + "\n"),
        None => texts.remove(&name),
    }
    world.load(texts);
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Job(verb, unit, JobMode::Replace) => write!(f, "{verb} {unit}"),
            Action::Job(verb, unit, mode) => write!(f, "{verb} {unit} {}", mode.as_str()),
            Action::Traffic(unit) => write!(f, "traffic {unit}"),
            Action::Clock(text) => write!(f, "clock {text}"),
            Action::Sleep(seconds) => write!(f, "sleep {seconds}"),
            Action::Zone(rule) => write!(f, "zone {rule}"),
            Action::Touch(unit) => write!(f, "touch {unit}"),
            Action::Meet(unit, true) => write!(f, "meet {unit}"),
            Action::Meet(unit, false) => write!(f, "miss {unit}"),
            Action::Enter(unit) => write!(f, "enter {unit}"),
            Action::Idle(unit) => write!(f, "idle {unit}"),
            Action::Mount(unit) => write!(f, "mount {unit}"),
            Action::Unmount(unit) => write!(f, "umount {unit}"),
            Action::Kill(unit, signal) => write!(f, "kill {unit} {signal}"),
            Action::Freeze(unit, true) => write!(f, "freeze {unit}"),
            Action::Freeze(unit, false) => write!(f, "thaw {unit}"),
            Action::Clean(unit) => write!(f, "clean {unit}"),
            Action::Scope(unit, steps) => write!(f, "scope {unit} {steps}"),
            Action::Abandon(unit) => write!(f, "abandon {unit}"),
            Action::ResetFailed(unit) => write!(f, "reset-failed {unit}"),
            Action::Mark(unit, marked) => write!(f, "mark {unit} {}", marked.as_str()),
            Action::Mend(unit) => write!(f, "mend {unit}"),
            Action::Cancel(unit) => write!(f, "cancel {unit}"),
            Action::Clear => write!(f, "clear"),
            Action::Edit(unit, text) => write!(f, "edit {unit} {text}"),
            Action::Remove(unit) => write!(f, "remove {unit}"),
            Action::Reload => write!(f, "reload"),
            Action::Crash => write!(f, "crash"),
            Action::Hurry(unit) => write!(f, "hurry {unit}"),
            Action::Shutdown => write!(f, "shutdown"),
            Action::SoftReboot => write!(f, "soft-reboot"),
            Action::GiveUp => write!(f, "give-up"),
            Action::Forget => write!(f, "forget"),
            Action::Plug(unit) => write!(f, "plug {unit}"),
            Action::Unplug(unit) => write!(f, "unplug {unit}"),
            Action::Seeing => write!(f, "seeing"),
            Action::Blind => write!(f, "blind"),
            Action::Watchdogs(on) => write!(f, "watchdogs {}", if *on { "yes" } else { "no" }),
            Action::Swapless => write!(f, "swapless"),
        }
    }
}

/// Everything that a run depends on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// What the kernel's chance begins with.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Faults,
    /// The unit files.
    pub units: UnitTexts,
    /// What is done, at which millisecond; in order.
    pub actions: Vec<(u64, Action)>,
}

macro_rules! fault_names {
    ($($name:ident)*) => {
        /// The names of all faults.
        pub const FAULT_NAMES: &[&str] = &[$(stringify!($name)),*];
        impl Faults {
            /// The probability by name.
            pub fn by_name(&mut self, name: &str) -> Option<&mut u32> {
                match name { $(stringify!($name) => Some(&mut self.$name),)* _ => None }
            }
        }
    };
}
fault_names!(spawn exec cgroup listen mount unmount condition slow repeat crash overtake unbegun hang busy batch);

impl Plan {
    /// Reads a plan; the error names the line that means nothing.
    pub fn parse(text: &str) -> Result<Plan, String> {
        let (head, tail) = text.split_once("\n==\n").unwrap_or((text, ""));
        let mut plan = Plan { units: UnitTexts::parse(head), ..Plan::default() };
        for line in head.lines() {
            if let Some(seed) = line.strip_prefix("seed ") {
                plan.seed = seed.trim().parse().map_err(|_| line.to_owned())?;
            } else if let Some(words) = line.strip_prefix("faults ") {
                plan.read_faults(words)?;
            }
        }
        for line in tail.lines().filter(|line| !line.trim().is_empty()) {
            let (at, action) = line.trim().split_once(' ').ok_or(line.to_owned())?;
            let at = at.parse().map_err(|_| line.to_owned())?;
            plan.actions.push((at, Action::parse(action).ok_or(line.to_owned())?));
        }
        Ok(plan)
    }

    fn read_faults(&mut self, words: &str) -> Result<(), String> {
        for word in words.split_ascii_whitespace() {
            let (name, value) = word.split_once('=').ok_or(word.to_owned())?;
            let value = value.parse().map_err(|_| word.to_owned())?;
            *self.faults.by_name(name).ok_or(word.to_owned())? = value;
        }
        Ok(())
    }

    /// Writes the notation.
    pub fn print(&self) -> String {
        let mut faults = self.faults;
        let words: Vec<String> = FAULT_NAMES
            .iter()
            .filter_map(|name| faults.by_name(name).map(|value| (name, *value)))
            .filter(|(_, value)| *value > 0)
            .map(|(name, value)| format!(" {name}={value}"))
            .collect();
        let faults =
            if words.is_empty() { String::new() } else { format!("faults{}\n", words.concat()) };
        let actions: String =
            self.actions.iter().map(|(at, action)| format!("{at} {action}\n")).collect();
        format!("seed {}\n{faults}{}==\n{actions}", self.seed, self.units.print())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_printed() {
        let text = "seed 3\nfaults spawn=20 crash=5\n# a.service\n[Service]\nExecStart=/p run\n==\n\
                    0 start a.service\n5 edit a.service [Service];ExecStart=/p exit:1\n9 stop a.service fail\n";
        let plan = Plan::parse(text).expect("a plan");
        assert_eq!((plan.actions.len(), plan.faults.spawn, plan.seed), (3, 20, 3));
        assert_eq!(plan.print(), text);
    }

    #[test]
    fn what_means_nothing_is_named() {
        assert_eq!(Plan::parse("seed x\n==\n"), Err("seed x".to_owned()));
        assert_eq!(Plan::parse("seed 1\n==\n0 jump\n"), Err("0 jump".to_owned()));
    }
}
