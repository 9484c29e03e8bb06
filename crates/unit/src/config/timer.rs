//! \[Timer\] (systemd.timer(5)).

use std::time::Duration;

use warren_calendar::Calendar;

words! {
    /// What a time span of a timer is counted from.
    TimerBase {
        /// The activation of the timer.
        Active = "OnActiveSec",
        /// The boot of the machine; in a container the start of its manager.
        Boot = "OnBootSec",
        /// The start of the manager.
        Startup = "OnStartupSec",
        /// The last activation of the unit that it starts.
        UnitActive = "OnUnitActiveSec",
        /// The last deactivation of the unit that it starts.
        UnitInactive = "OnUnitInactiveSec",
    }
}

/// One thing that a timer waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimerEvent {
    /// OnCalendar=
    Calendar(Box<Calendar>),
    /// A span after a moment; [`Duration::MAX`] never comes.
    After(TimerBase, Duration),
}

/// \[Timer\]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerConfig {
    /// On*Sec= and OnCalendar=, in the order of the files.
    pub events: Vec<TimerEvent>,
    /// AccuracySec=: it may elapse so much later, together with others.
    pub accuracy: Duration,
    /// RandomizedDelaySec=
    pub randomized_delay: Duration,
    /// RandomizedOffsetSec=
    pub randomized_offset: Duration,
    /// FixedRandomDelay=: the delay is the same each time.
    pub fixed_random_delay: bool,
    /// DeferReactivation=: what elapses while the unit runs is left out.
    pub defer_reactivation: bool,
    /// OnClockChange=
    pub on_clock_change: bool,
    /// OnTimezoneChange=
    pub on_timezone_change: bool,
    /// Persistent=: what elapsed while the timer was not active is made up for.
    pub persistent: bool,
    /// WakeSystem=
    pub wake_system: bool,
    /// RemainAfterElapse=: it stays active when nothing is to come.
    pub remain_after_elapse: bool,
}

impl TimerConfig {
    /// Its calendar expressions.
    pub fn calendars(&self) -> impl Iterator<Item = &Calendar> {
        self.events.iter().filter_map(|event| match event {
            TimerEvent::Calendar(calendar) => Some(&**calendar),
            TimerEvent::After(..) => None,
        })
    }

    /// Its time spans.
    pub fn spans(&self) -> impl Iterator<Item = (TimerBase, Duration)> {
        self.events.iter().filter_map(|event| match event {
            TimerEvent::After(base, span) => Some((*base, *span)),
            TimerEvent::Calendar(_) => None,
        })
    }
}
