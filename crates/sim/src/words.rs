//! Words for the timeline: events, effects, states.

use warren_core::model::ids::UnitId;
use warren_core::protocol::event::{Effect, Event, KillTarget, Notify};
use warren_core::protocol::request::{Notice, Reply, Request};

use crate::world::World;

impl World {
    pub(crate) fn describe_event(&self, event: &Event) -> String {
        let name = |unit: UnitId| {
            self.core.graph().get(unit).map_or("?".to_owned(), |d| d.name.to_string())
        };
        match event {
            Event::Tick => "tick".to_owned(),
            Event::Request { request: Request::Enqueue { unit, job_type, mode, .. }, .. } => {
                format!("{} {} {}", job_type.as_str(), name(*unit), mode.as_str())
            }
            Event::Request { request, .. } => format!("{request:?}"),
            Event::Done { effect, result } => {
                let unit = self.core.effect_unit(*effect).map_or("nobody".to_owned(), name);
                format!("{effect:?} of {unit}: {result:?}")
            }
            Event::Exited { pid, status } => {
                let unit = self.core.unit_of_pid(*pid).map_or("nobody".to_owned(), name);
                format!("{pid} of {unit}: {status:?}")
            }
            Event::Notify { unit, pid, message } => {
                format!("{} {pid}: {}", name(*unit), words_of(message))
            }
            Event::CgroupEmpty { unit, .. } => format!("{} has no processes", name(*unit)),
            Event::OutOfMemory { unit } => format!("{} out of memory", name(*unit)),
            Event::Incoming { unit } => format!("{} has traffic", name(*unit)),
            Event::ConnectionRefused { socket } => format!("{} refuses", name(*socket)),
            Event::SocketsLost { unit, why } => format!("{} loses its sockets: {why}", name(*unit)),
            Event::ConnectionUnserved { socket } => format!("{} has no service", name(*socket)),
            Event::Connection { socket, instance, .. } => {
                format!("{} connected to {}", name(*socket), name(*instance))
            }
            Event::Mounted { unit } => format!("{} is mounted", name(*unit)),
            Event::Unmounted { unit } => format!("{} is not mounted", name(*unit)),
            Event::TrapHit { unit, token } => format!("{} was entered ({token})", name(*unit)),
            Event::TrapIdle { unit, token } => format!("{} is idle ({token})", name(*unit)),
            Event::TrapGone { unit } => format!("{} is gone", name(*unit)),
            Event::BusName { unit, state } => format!("bus name of {}: {state:?}", name(*unit)),
            Event::ClockSet { slept } => format!("clock set, slept {} s", slept.as_secs()),
            Event::ZoneSet(_) => "zone set".to_owned(),
            Event::PathTouched { unit, look } => format!("{} touched: {look:?}", name(*unit)),
            Event::Devices(news) => crate::devices::words_of(news, name),
            Event::StopEverything { soft: false } => "stop everything".to_owned(),
            Event::StopEverything { soft: true } => "stop for a soft reboot".to_owned(),
            Event::GiveUp => "give up".to_owned(),
            Event::FdsStored { unit, count } => format!("{count} fds of {} are kept", name(*unit)),
            Event::Commit { delta, .. } => format!("commit {delta:?}"),
            Event::Defaults(_) => "other defaults".to_owned(),
            Event::ServiceWatchdogs(on) => format!("service watchdogs: {on}"),
        }
    }

    /// One line for an effect, or none for those that say nothing.
    pub fn describe_effect(&self, effect: &Effect) -> Option<String> {
        let name = |unit: &UnitId| self.name(*unit).to_owned();
        Some(match effect {
            Effect::CheckConditions { unit, .. } => format!("check conditions of {}", name(unit)),
            Effect::Spawn(_, spawn) => {
                let whom = if spawn.main { "main" } else { "control" };
                format!("spawn {} {:?}[{}] {whom}", name(&spawn.unit), spawn.list, spawn.index)
            }
            Effect::MakeCgroup { unit, .. } => format!("make cgroup {}", name(unit)),
            Effect::AttachProcesses { unit, pids, .. } => {
                format!("attach {} processes to {}", pids.len(), name(unit))
            }
            Effect::LimitGroup { unit, .. } => format!("limit group of {}", name(unit)),
            Effect::Listen { unit, .. } => format!("listen {}", name(unit)),
            Effect::Mount { unit, remount: false, .. } => format!("mount {}", name(unit)),
            Effect::Mount { unit, .. } => format!("remount {}", name(unit)),
            Effect::Unmount { unit, .. } => format!("unmount {}", name(unit)),
            Effect::SetTrap { unit, .. } => format!("set trap {}", name(unit)),
            Effect::Kill { unit, target, signal, then, .. } => {
                let whom = match target {
                    KillTarget::Process(_) => "process",
                    KillTarget::Group => "group",
                };
                let hangup = if then.hangup { " and SIGHUP" } else { "" };
                format!("signal {signal}{hangup} to {whom} of {}", name(unit))
            }
            Effect::FindMain { unit, .. } => format!("find main process of {}", name(unit)),
            Effect::WatchBusName { unit, .. } => format!("watch the bus name of {}", name(unit)),
            Effect::Freeze { unit, frozen: true, .. } => format!("freeze {}", name(unit)),
            Effect::Freeze { unit, .. } => format!("thaw {}", name(unit)),
            Effect::KillGroup { unit } => format!("kill group of {}", name(unit)),
            Effect::CleanUp { unit, .. } => format!("clean up {}", name(unit)),
            Effect::ClearAway { unit, .. } => format!("clear away what {} left", name(unit)),
            Effect::CloseSockets { unit, .. } => format!("close {}", name(unit)),
            Effect::WatchSockets { unit, on, .. } => {
                format!("{} {}", if *on { "watch" } else { "do not watch" }, name(unit))
            }
            Effect::LookUpNames { unit, .. } => format!("look up who {} runs as", name(unit)),
            Effect::LookUpTimer { unit, .. } => format!("look up files of {}", name(unit)),
            Effect::StampTimer { unit, .. } => format!("stamp {}", name(unit)),
            Effect::WatchPaths { unit, .. } => format!("watch paths of {}", name(unit)),
            Effect::LookAtPaths { unit, .. } => format!("look at paths of {}", name(unit)),
            Effect::UnwatchPaths { unit } => format!("do not watch paths of {}", name(unit)),
            Effect::LookAtMount { unit } => format!("look at {}", name(unit)),
            Effect::DropConnection { unit } => format!("drop the connection of {}", name(unit)),
            Effect::FlushSockets { unit } => format!("flush {}", name(unit)),
            Effect::AnswerTrap { unit, tokens, ok } => {
                let word = if *ok { "go" } else { "fail" };
                format!("{word} {tokens:?} of {}", name(unit))
            }
            Effect::WatchIdle { unit, on } => {
                format!("{} idleness of {}", if *on { "watch" } else { "ignore" }, name(unit))
            }
            Effect::CloseTrap { unit } => format!("close trap {}", name(unit)),
            Effect::Reply { reply: Reply::Refused(refusal), .. } => format!("refused: {refusal}"),
            Effect::Reply { .. } => return None,
            Effect::Tell(notice) => return self.describe_notice(notice),
            Effect::Emergency { action, unit, status, .. } => {
                let status = status.map(|status| format!(" with {status}")).unwrap_or_default();
                format!("emergency {} by {}{status}", action.as_str(), name(unit))
            }
        })
    }

    fn describe_notice(&self, notice: &Notice) -> Option<String> {
        Some(match notice {
            Notice::JobNew { unit, job } => {
                let kind = self.core.unit_run(*unit).job.as_ref().filter(|j| j.id == *job);
                let kind = kind.map_or("passing", |job| job.kind.as_str());
                format!("new {kind} job of {}", self.name(*unit))
            }
            Notice::JobRemoved { unit, result, .. } => {
                format!("job of {}: {}", self.name(*unit), result.as_str())
            }
            Notice::RemovalGivenUp { unit, .. } => {
                format!("what {} left stays", self.name(*unit))
            }
            Notice::CycleBroken { units, at, is_kept } => {
                let names: Vec<&str> = units.iter().map(|u| self.name(*u)).collect();
                let how = if *is_kept { "opened" } else { "broken" };
                format!("circle {} {how} at {}", names.join(" "), self.name(*at))
            }
            Notice::RequestStop(unit) => {
                format!("ask the controller of {} to end it", self.name(*unit))
            }
            Notice::Log { unit, reason, detail } => {
                format!("log {}: {:?} {detail}", self.name(*unit), reason.code)
            }
            Notice::UnitNew(_) | Notice::UnitRemoved(_) => return None,
        })
    }

    /// One line per unit that is not at rest or has a job.
    pub fn states(&self) -> Vec<String> {
        let mut out = Vec::new();
        for definition in self.core.graph().definitions() {
            let run = self.core.unit_run(definition.id);
            let state = run.active_state();
            if definition.flags.perpetual() || state.as_str() == "inactive" && run.job.is_none() {
                continue;
            }
            let job = run.job.as_ref().map_or(String::new(), |job| {
                let how = if job.running { "running" } else { "waiting" };
                format!(" [{} {how}]", job.kind.as_str())
            });
            out.push(format!("{} {} {}{job}", definition.name, state.as_str(), run.sub_state()));
        }
        out.sort();
        out
    }
}

fn words_of(message: &Notify) -> String {
    let words = [
        (message.ready, "READY"),
        (message.reloading, "RELOADING"),
        (message.stopping, "STOPPING"),
        (message.clean == Some(true), "CLEAN"),
        (message.watchdog, "WATCHDOG"),
        (message.watchdog_trigger, "WATCHDOG=trigger"),
        (message.watchdog_us.is_some(), "WATCHDOG_USEC"),
        (message.main_pid.is_some(), "MAINPID"),
        (message.extend_timeout_us.is_some(), "EXTEND_TIMEOUT"),
    ];
    let said: Vec<&str> = words.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
    said.join(" ")
}
