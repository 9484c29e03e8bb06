//! \[Scope\] (systemd.scope(5)).

use super::Unit;
use crate::config::ScopeConfig;
use crate::settings::id;

impl Unit<'_> {
    pub(super) fn scope(&self) -> ScopeConfig {
        let written = self.timeout(id!(Scope "TimeoutStopSec"), true);
        ScopeConfig {
            timeout_stop: written.unwrap_or(self.defaults.timeout_stop),
            runtime_max: self.timeout(id!(Scope "RuntimeMaxSec"), false).flatten(),
            runtime_randomized_extra: self
                .timeout(id!(Scope "RuntimeRandomizedExtraSec"), false)
                .flatten()
                .unwrap_or_default(),
            oom_policy: self.oom_policy(id!(Scope "OOMPolicy")),
            controller: self.merged.text(id!(Warren "Controller")).map(Into::into),
            kill: self.kill(),
            cgroup: Box::new(self.cgroup()),
        }
    }
}
