//! \[Timer\] (systemd.timer(5)).

use std::time::Duration;

use super::Unit;
use crate::config::TimerConfig;
use crate::settings::{Id, id};
use crate::value;

impl Unit<'_> {
    pub(super) fn timer(&self) -> TimerConfig {
        let flag = |id: Id, default| self.merged.flag(id, default);
        let span = |id: Id| Some(self.merged.value(id, value::span)?.unwrap_or(Duration::MAX));
        TimerConfig {
            events: self.merged.timer_events(),
            accuracy: span(id!(Timer "AccuracySec")).unwrap_or(self.defaults.timer_accuracy),
            randomized_delay: span(id!(Timer "RandomizedDelaySec")).unwrap_or_default(),
            randomized_offset: span(id!(Timer "RandomizedOffsetSec")).unwrap_or_default(),
            fixed_random_delay: flag(id!(Timer "FixedRandomDelay"), false),
            defer_reactivation: flag(id!(Timer "DeferReactivation"), false),
            on_clock_change: flag(id!(Timer "OnClockChange"), false),
            on_timezone_change: flag(id!(Timer "OnTimezoneChange"), false),
            persistent: flag(id!(Timer "Persistent"), false),
            wake_system: flag(id!(Timer "WakeSystem"), false),
            remain_after_elapse: flag(id!(Timer "RemainAfterElapse"), true),
        }
    }
}
