//! How processes are stopped (systemd.kill(5)).

use crate::signal::Signal;

words! {
    /// KillMode=: who is sent which signal.
    KillMode {
        /// All processes of the cgroup.
        ControlGroup = "control-group",
        /// SIGTERM to the main process, SIGKILL to all that remain.
        Mixed = "mixed",
        /// The main process only.
        Process = "process",
        /// Nobody; only the stop commands run.
        None = "none",
    }
}

/// Signals and whom they go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillConfig {
    /// KillMode=
    pub mode: KillMode,
    /// KillSignal=
    pub signal: Signal,
    /// RestartKillSignal=; `None` is as `signal`.
    pub restart_signal: Option<Signal>,
    /// SendSIGHUP=: follow with SIGHUP.
    pub send_sighup: bool,
    /// SendSIGKILL=: end with the final signal after the timeout.
    pub send_sigkill: bool,
    /// FinalKillSignal=
    pub final_signal: Signal,
    /// WatchdogSignal=
    pub watchdog_signal: Signal,
}

impl Default for KillConfig {
    fn default() -> KillConfig {
        KillConfig {
            mode: KillMode::ControlGroup,
            signal: Signal::TERM,
            restart_signal: None,
            send_sighup: false,
            send_sigkill: true,
            final_signal: Signal::KILL,
            watchdog_signal: Signal::ABRT,
        }
    }
}
