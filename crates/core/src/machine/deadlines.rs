//! When units want to be looked at: one deadline for each, the earliest of its own.

use crate::model::ids::UnitId;
use crate::model::state::{Mount, Service, Socket, TypeState};
use crate::model::time::Monotonic;

use super::{Core, note_write};

impl Core {
    /// The earliest moment at which `unit` wants to be looked at.
    fn wanted_deadline(&self, unit: UnitId) -> Option<Monotonic> {
        let run = self.run(unit);
        let of_job = run.job.as_ref().and_then(|job| job.deadline);
        let of_state = match &run.state {
            TypeState::Service(Service::Up(s)) => {
                [s.deadline, s.runtime_deadline, s.watchdog_deadline].into_iter().flatten().min()
            }
            TypeState::Socket(Socket::Up(s)) => s.deadline,
            TypeState::Mount(Mount::Up(s)) | TypeState::Swap(Mount::Up(s)) => s.deadline,
            _ => None,
        };
        let upheld = self.upheld_again.get(&unit).copied();
        let clearing = self.clearing(unit).and_then(|clearing| clearing.until);
        [of_job, of_state, upheld, clearing].into_iter().flatten().min()
    }

    /// Arms the deadlines of every unit that changed in this step.
    pub(super) fn arm_changed(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        touched.drain(..).for_each(|unit| self.arm(unit));
        self.touched = touched;
    }

    pub(super) fn arm(&mut self, unit: UnitId) {
        let wanted = self.wanted_deadline(unit);
        let armed = self.armed.get(&unit).copied();
        if wanted == armed {
            return;
        }
        if let Some(at) = armed {
            self.deadlines.remove(&(at, unit));
            self.armed.remove(&unit);
        }
        if let Some(at) = wanted {
            self.deadlines.insert((at, unit));
            self.armed.insert(unit, at);
        }
    }

    pub(super) fn serve_deadlines(&mut self) {
        while let Some(&(at, unit)) = self.deadlines.first() {
            if at > self.now.monotonic {
                break;
            }
            self.deadlines.pop_first();
            self.armed.remove(&unit);
            note_write([&mut self.changed, &mut self.touched], unit);
            if self.upheld_again.get(&unit).is_some_and(|&due| due <= self.now.monotonic) {
                self.upheld_again.remove(&unit);
                self.return_if_allowed(unit);
                self.upheld_queue.insert(unit);
                self.bound_queue.insert(unit);
                self.unneeded_queue.insert(unit);
            }
            self.clearing_deadline(unit);
            self.job_deadline(unit);
            match &self.run(unit).state {
                TypeState::Service(_) => self.service_deadline(unit),
                TypeState::Socket(_) => self.socket_deadline(unit),
                TypeState::Mount(_) | TypeState::Swap(_) => self.mount_deadline(unit),
                _ => {}
            }
        }
    }
}
