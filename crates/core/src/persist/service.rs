//! How a service is written down: as the flat record that every version has written.

use crate::model::ids::EffectId;
use crate::model::process::{CommandList, Control, MainProcess, Outcome, Process};
use crate::model::state::{ServicePhase, ServiceRun};
use crate::model::time::Monotonic;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// A [`ServiceRun`] in writing; the order of the fields is the format.
#[derive(Serialize, Deserialize)]
struct ServiceRecord<'r> {
    phase: ServicePhase,
    main: Option<Process>,
    main_asked: Option<EffectId>,
    control: Option<Control>,
    command: (CommandList, u16),
    deadline: Option<Monotonic>,
    stop_by: Option<Monotonic>,
    clean: bool,
    sudden: bool,
    runtime_deadline: Option<Monotonic>,
    watchdog_deadline: Option<Monotonic>,
    watchdog_override_us: Option<u64>,
    outcome: Outcome,
    reload_outcome: Outcome,
    ready: bool,
    stopping: bool,
    notify_reloading: bool,
    stop_requested: bool,
    group_empty: bool,
    kill_asked: Option<EffectId>,
    main_search: Option<EffectId>,
    doomed: Cow<'r, [EffectId]>,
    fds_stored: u32,
}

impl Serialize for ServiceRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = ServiceRecord {
            phase: self.phase,
            main: self.main.process(),
            main_asked: self.main.asked(),
            control: self.control,
            command: self.command,
            deadline: self.deadline,
            stop_by: self.stop_by,
            clean: self.clean,
            sudden: self.sudden,
            runtime_deadline: self.runtime_deadline,
            watchdog_deadline: self.watchdog_deadline,
            watchdog_override_us: self.watchdog_override_us,
            outcome: self.outcome,
            reload_outcome: self.reload_outcome,
            ready: self.ready,
            stopping: self.stopping,
            notify_reloading: self.notify_reloading,
            stop_requested: self.stop_requested,
            group_empty: self.group_empty,
            kill_asked: self.kill_asked,
            main_search: self.main_search,
            doomed: Cow::Borrowed(&self.doomed),
            fds_stored: self.fds_stored,
        };
        record.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ServiceRun {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ServiceRun, D::Error> {
        let record = ServiceRecord::deserialize(deserializer)?;
        Ok(ServiceRun {
            phase: record.phase,
            main: MainProcess::of(record.main, record.main_asked),
            control: record.control,
            command: record.command,
            deadline: record.deadline,
            stop_by: record.stop_by,
            clean: record.clean,
            sudden: record.sudden,
            runtime_deadline: record.runtime_deadline,
            watchdog_deadline: record.watchdog_deadline,
            watchdog_override_us: record.watchdog_override_us,
            outcome: record.outcome,
            reload_outcome: record.reload_outcome,
            ready: record.ready,
            stopping: record.stopping,
            notify_reloading: record.notify_reloading,
            stop_requested: record.stop_requested,
            group_empty: record.group_empty,
            kill_asked: record.kill_asked,
            main_search: record.main_search,
            doomed: record.doomed.into_owned(),
            fds_stored: record.fds_stored,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Moment;

    /// What versions before [`MainProcess`] wrote, field by field.
    fn flat(run: &ServiceRun, main: Option<Process>, asked: Option<EffectId>) -> Vec<u8> {
        let begin = (run.phase, main, asked, run.control, run.command, run.deadline, run.stop_by);
        let middle = (
            (run.clean, run.sudden, run.runtime_deadline, run.watchdog_deadline),
            (run.watchdog_override_us, run.outcome, run.reload_outcome, run.ready, run.stopping),
        );
        let end = (
            (run.notify_reloading, run.stop_requested, run.group_empty, run.kill_asked),
            (run.main_search, &run.doomed, run.fds_stored),
        );
        postcard::to_stdvec(&(begin, middle, end)).expect("plain data")
    }

    #[test]
    fn a_service_is_written_as_before_and_read_back_with_any_main_process() {
        let process =
            Process { pid: 7, started: Moment { monotonic: Monotonic(5), realtime_us: 6 } };
        let asked = EffectId(300);
        for (main, flat_main, flat_asked) in [
            (MainProcess::None, None, None),
            (MainProcess::Asked(asked), None, Some(asked)),
            (MainProcess::Running(process), Some(process), None),
            (MainProcess::Named { process, asked }, Some(process), Some(asked)),
        ] {
            let run = ServiceRun {
                phase: ServicePhase::StopPost,
                main,
                control: Some(Control::Asked(EffectId(9))),
                command: (CommandList::StopPost, 2),
                deadline: Some(Monotonic(11)),
                stop_by: Some(Monotonic(12)),
                clean: true,
                sudden: false,
                runtime_deadline: Some(Monotonic(13)),
                watchdog_deadline: None,
                watchdog_override_us: Some(14),
                outcome: Outcome::Timeout,
                reload_outcome: Outcome::Signal,
                ready: true,
                stopping: false,
                notify_reloading: true,
                stop_requested: false,
                group_empty: true,
                kill_asked: Some(EffectId(15)),
                main_search: None,
                doomed: vec![EffectId(16), EffectId(17)],
                fds_stored: 18,
            };
            let written = postcard::to_stdvec(&run).expect("plain data");
            assert_eq!(written, flat(&run, flat_main, flat_asked), "{main:?}");
            assert_eq!(postcard::from_bytes::<ServiceRun>(&written).expect("as written"), run);
        }
    }
}
