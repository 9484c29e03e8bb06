//! The loop and what timers need: files that workers read, and the clock.

use crate::base::clock::now;
use crate::base::say::say;
use crate::daemon::Daemon;
use crate::timer::{stamps, zones};
use warren_bus::BusError;
use warren_bus::backend::{Answer, ReplySender};
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::{Done, Event, TimerFiles};

/// Nobody waits for what comes of it; the number is beyond those of the machine.
const STAMP_EFFECT: EffectId = EffectId((1 << 61) + 4);

impl Daemon {
    fn stamp_path(&self, unit: UnitId) -> std::path::PathBuf {
        stamps::path(&self.options.timer_dir(), self.core.graph().name(unit).as_str())
    }

    /// Reads the stamp file of a timer, and zones that it names.
    pub(super) fn look_up_timer(
        &mut self,
        id: EffectId,
        unit: UnitId,
        has_stamp: bool,
        names: Vec<Box<str>>,
    ) {
        let path = self.stamp_path(unit);
        self.event_loop.workers.run(id, move || {
            let zones = names.into_iter().map(|name| {
                let zone = zones::named(&name);
                if zone.is_none() {
                    say!("unknown time zone {name}: ignoring OnCalendar= lines that use it");
                }
                (name, zone)
            });
            let zones = zones.collect();
            let stamp = has_stamp.then(|| stamps::look_up(&path, now().realtime_us)).transpose();
            match stamp {
                Ok(stamp) => Done::TimerFiles(TimerFiles { stamp_us: stamp.flatten(), zones }),
                Err(e) => {
                    say!("cannot read the stamp file {}: {e}; missed runs of the timer are not caught up",
                        path.display());
                    Done::TimerFiles(TimerFiles { stamp_us: None, zones })
                }
            }
        });
    }

    /// Notes in its stamp file that a timer elapsed.
    pub(super) fn stamp_timer(&mut self, unit: UnitId, at_us: u64) {
        let path = self.stamp_path(unit);
        self.event_loop.workers.run(STAMP_EFFECT, move || {
            if let Err(e) = stamps::write(&path, at_us) {
                say!(
                    "cannot write the stamp file {}: {e}; this run of the timer is not remembered",
                    path.display()
                );
            }
            Done::Ok
        });
    }

    /// Removes the stamp file of a timer, for a client.
    pub(super) fn forget_stamp(&mut self, unit: UnitId, reply: ReplySender) {
        let path = self.stamp_path(unit);
        self.event_loop.workers.run(STAMP_EFFECT, move || {
            let failed = |e: std::io::Error| BusError::failed(format!("{}: {e}", path.display()));
            reply.send(stamps::remove(&path).map(|()| Answer::Done).map_err(failed));
            Done::Ok
        });
    }

    /// The clock was set, the machine woke up, or it was to be woken.
    pub(super) fn wall_clock_tells(&mut self) {
        if let Some(slept) = self.triggers.wall_clock.hear() {
            self.event_loop.events.push_back(Event::ClockSet { slept });
        }
    }

    /// Paths that the kernel tells nothing of are looked at now and then: that is said once.
    pub(super) fn say_unwatched(&mut self) {
        if let Some((unit, why, apart)) = self.triggers.paths.take_unsaid() {
            let (name, apart) = (self.unit_name(unit), apart.as_secs());
            say!("{name}: checking its paths, and those of similar units, every {apart} s: {why}");
        }
    }

    /// Has the machine woken for the next timer that wants it.
    pub(super) fn arm_alarm(&mut self) {
        let at = self.core.next_waking();
        if !self.triggers.wall_clock.wake_at(at, &self.event_loop.epoll) {
            say!("this machine has no clock that can wake it: WakeSystem= of timers has no effect");
        }
    }
}
