//! Records of logins (`UtmpIdentifier=`): what ends is written down by a worker. That it begins, its process writes.

use warren_core::model::ids::{EffectId, UnitId};
use warren_core::model::process::ExitStatus;
use warren_core::protocol::event::Done;
use warren_sys::utmp::{self, End, Entry, Files};
use warren_unit::settings::{Group, Id};

use crate::base::say::say;
use crate::daemon::Daemon;
use crate::peer::log_link::exec_of;

/// Nobody waits for what comes of it; the number is beyond those of the machine.
const RECORD_EFFECT: EffectId = EffectId((1 << 61) + 5);

const IDENTIFIER: Id = Id::of(Group::Exec, "UtmpIdentifier");

impl Daemon {
    /// Writes down that a process of a unit has ended, if the unit keeps such records.
    pub(super) fn record_end(&mut self, unit: UnitId, pid: u32, status: ExitStatus) {
        let Some(definition) = self.core.graph().get(unit) else { return };
        if !definition.mentions(IDENTIFIER) {
            return;
        }
        let settings = self.core.settings().compile(definition);
        let exec = exec_of(&settings);
        let Some(id) = exec.and_then(|exec| exec.utmp_identifier.clone()) else { return };
        let terminal = exec.and_then(|exec| exec.tty_path.clone()).unwrap_or_default();
        let end = match status {
            ExitStatus::Exited(status) => End::exited(status),
            ExitStatus::Killed(signal) => End::killed(signal, false),
            ExitStatus::Dumped(signal) => End::killed(signal, true),
            ExitStatus::Unknown => End::UNKNOWN,
        };
        let name = self.unit_name(unit);
        self.event_loop.workers.run(RECORD_EFFECT, move || {
            let line = utmp::line_of(&terminal).as_bytes();
            let entry = Entry { pid: pid as i32, id: id.as_bytes(), line, user: b"" };
            if let Err(e) = utmp::end(Files::OWN, &entry, end) {
                say!("{name}: cannot record the end of process {pid} in utmp or wtmp: {e}");
            }
            Done::Ok
        });
    }
}
