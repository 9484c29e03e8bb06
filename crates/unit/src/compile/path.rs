//! \[Path\] (systemd.path(5)).

use std::time::Duration;

use super::Unit;
use crate::config::{PathConfig, TriggerLimit};
use crate::settings::id;
use crate::value;

impl Unit<'_> {
    pub(super) fn path_unit(&self) -> PathConfig {
        let interval = self.merged.value(id!(Path "TriggerLimitIntervalSec"), value::span);
        let burst = self.number(id!(Path "TriggerLimitBurst"), 0, u32::MAX.into());
        PathConfig {
            paths: self.merged.watched_paths(),
            make_directory: self.merged.flag(id!(Path "MakeDirectory"), false),
            directory_mode: self
                .merged
                .value(id!(Path "DirectoryMode"), value::mode)
                .unwrap_or(0o755),
            trigger_limit: TriggerLimit {
                interval: interval.map_or(Duration::from_secs(2), |s| s.unwrap_or(Duration::MAX)),
                burst: burst.unwrap_or(200),
            },
        }
    }
}
