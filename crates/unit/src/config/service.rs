//! \[Service\] (systemd.service(5)).

use std::time::Duration;

use super::{CgroupConfig, Command, ExecConfig, KillConfig, Preserve};
use crate::name::UnitName;
use crate::signal::Signal;

words! {
    /// Type=: when a service counts as started.
    ServiceType {
        /// As soon as it was spawned.
        Simple = "simple",
        /// When the program was executed.
        Exec = "exec",
        /// When the first process has exited and left a daemon.
        Forking = "forking",
        /// When its processes have ended.
        Oneshot = "oneshot",
        /// When it has taken a name on the bus.
        Dbus = "dbus",
        /// When it says READY=1.
        Notify = "notify",
        /// As notify, and it reloads on SIGHUP.
        NotifyReload = "notify-reload",
        /// As simple, after all jobs are done.
        Idle = "idle",
    }
}

words! {
    /// ExitType=: when a service counts as ended.
    ExitType {
        /// When the main process ends.
        Main = "main",
        /// When its cgroup is empty.
        Cgroup = "cgroup",
    }
}

words! {
    /// Restart=: after which ends it is started again.
    Restart {
        /// Never.
        No = "no",
        /// After a clean end.
        OnSuccess = "on-success",
        /// After any end that is not clean, timeouts included.
        OnFailure = "on-failure",
        /// After an unclean signal, a timeout or the watchdog.
        OnAbnormal = "on-abnormal",
        /// After the watchdog only.
        OnWatchdog = "on-watchdog",
        /// After an unclean signal only.
        OnAbort = "on-abort",
        /// Always.
        Always = "always",
    }
}

words! {
    /// RestartMode=: what others see of a restart by Restart=.
    RestartMode {
        /// The service has ended, or failed, between two runs.
        Normal = "normal",
        /// It is on its way up all the time, and units that depend on it hear of no end.
        Direct = "direct",
        /// As normal, and the next run is told so.
        Debug = "debug",
    }
}

words! {
    /// NotifyAccess=: whose messages are heard.
    NotifyAccess {
        /// Nobody's.
        None = "none",
        /// The main process's.
        Main = "main",
        /// The main and control processes'.
        Exec = "exec",
        /// Every process's of the cgroup.
        All = "all",
    }
}

words! {
    /// OOMPolicy=: what follows when the kernel kills a process for want of memory.
    OomPolicy {
        /// Nothing.
        Continue = "continue",
        /// The unit is stopped.
        Stop = "stop",
        /// The kernel kills the whole cgroup.
        Kill = "kill",
    }
}

words! {
    /// TimeoutStartFailureMode= and TimeoutStopFailureMode=.
    TimeoutFailureMode {
        /// As a stop: KillSignal=.
        Terminate = "terminate",
        /// WatchdogSignal= first.
        Abort = "abort",
        /// FinalKillSignal= at once.
        Kill = "kill",
    }
}

words! {
    /// `[X-Warren] StopPolicy=`: how the service is ended at shutdown.
    StopPolicy {
        /// As at any stop.
        Ask = "ask",
        /// Killed without being asked, because it holds nothing to save.
        Sudden = "sudden",
    }
}

words! {
    /// `[X-Warren] StopBudget=`: what the stop timeout is for.
    StopBudget {
        /// The whole stop, from its beginning.
        Total = "total",
        /// Each phase of it afresh, as systemd.service(5) has it.
        PerPhase = "per-phase",
    }
}

/// `OpenFile=`: a file that is opened for a service, or a socket that is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// The file, an absolute path on the host.
    pub path: Box<str>,
    /// The name of the descriptor, at most 255 bytes without `:` and control characters.
    pub name: Box<str>,
    /// How it is opened.
    pub options: OpenOptions,
}

/// How a file of `OpenFile=` is opened: for reading and writing, unless an option says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// For reading only.
    pub read_only: bool,
    /// What is written goes to the end of the file.
    pub append: bool,
    /// What was in the file is dropped.
    pub truncate: bool,
    /// A file that cannot be opened is left out, and the service starts without it.
    pub graceful: bool,
}

impl OpenOptions {
    /// The words of the options, in the order of their bits on the bus (org.freedesktop.systemd1(5), `OpenFile`).
    pub const WORDS: &[&str] = &["read-only", "append", "truncate", "graceful"];

    /// Each option, in the order of [`Self::WORDS`].
    fn all(&mut self) -> [&mut bool; 4] {
        [&mut self.read_only, &mut self.append, &mut self.truncate, &mut self.graceful]
    }

    /// Takes an option; false if there is none of this name, or it was there before.
    pub fn add(&mut self, word: &str) -> bool {
        let at = Self::WORDS.iter().position(|known| *known == word);
        let option = at.and_then(|at| self.all().into_iter().nth(at));
        option.is_some_and(|option| !std::mem::replace(option, true))
    }

    /// The options as bits, the first word of [`Self::WORDS`] being 1.
    pub fn bits(mut self) -> u64 {
        self.all().into_iter().enumerate().map(|(at, option)| u64::from(*option) << at).sum()
    }
}

/// Exit statuses and signals: SuccessExitStatus= and its relatives. Both sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitStatusSet {
    /// Exit codes.
    pub codes: Box<[u8]>,
    /// Signals that ended the process.
    pub signals: Box<[Signal]>,
}

impl ExitStatusSet {
    /// Whether an exit code is in the set.
    pub fn has_code(&self, code: u8) -> bool {
        self.codes.binary_search(&code).is_ok()
    }

    /// Whether a signal is in the set.
    pub fn has_signal(&self, signal: Signal) -> bool {
        self.signals.binary_search(&signal).is_ok()
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty() && self.signals.is_empty()
    }
}

/// One service, ready to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceConfig {
    /// Type=, with its default applied (systemd.service(5)).
    pub service_type: ServiceType,
    /// ExitType=
    pub exit_type: ExitType,
    /// RemainAfterExit=
    pub remain_after_exit: bool,
    /// GuessMainPID=
    pub guess_main_pid: bool,
    /// PIDFile=, absolute.
    pub pid_file: Option<Box<str>>,
    /// BusName=
    pub bus_name: Option<Box<str>>,
    /// ExecCondition=
    pub exec_condition: Vec<Command>,
    /// ExecStartPre=
    pub exec_start_pre: Vec<Command>,
    /// ExecStart=
    pub exec_start: Vec<Command>,
    /// ExecStartPost=
    pub exec_start_post: Vec<Command>,
    /// ExecReload=
    pub exec_reload: Vec<Command>,
    /// ExecStop=
    pub exec_stop: Vec<Command>,
    /// ExecStopPost=
    pub exec_stop_post: Vec<Command>,
    /// Restart=
    pub restart: Restart,
    /// RestartMode=
    pub restart_mode: RestartMode,
    /// RestartSec=
    pub restart_delay: Duration,
    /// RestartMaxDelaySec=, `None` where the delay does not grow.
    pub restart_delay_max: Option<Duration>,
    /// RestartSteps=, in which it grows to that.
    pub restart_steps: u32,
    /// TimeoutStartSec=
    pub timeout_start: Option<Duration>,
    /// TimeoutStopSec=
    pub timeout_stop: Option<Duration>,
    /// TimeoutAbortSec=, its default being the stop timeout.
    pub timeout_abort: Option<Duration>,
    /// TimeoutStartFailureMode=
    pub timeout_start_failure_mode: TimeoutFailureMode,
    /// TimeoutStopFailureMode=
    pub timeout_stop_failure_mode: TimeoutFailureMode,
    /// `[X-Warren] StopPolicy=`
    pub stop_policy: StopPolicy,
    /// `[X-Warren] StopBudget=`
    pub stop_budget: StopBudget,
    /// RuntimeMaxSec=
    pub runtime_max: Option<Duration>,
    /// RuntimeRandomizedExtraSec=
    pub runtime_randomized_extra: Duration,
    /// WatchdogSec=; `None` is off.
    pub watchdog: Option<Duration>,
    /// SuccessExitStatus=, besides 0 and the clean signals.
    pub success_exit_status: ExitStatusSet,
    /// RestartPreventExitStatus=
    pub restart_prevent_exit_status: ExitStatusSet,
    /// RestartForceExitStatus=
    pub restart_force_exit_status: ExitStatusSet,
    /// PermissionsStartOnly=: commands other than ExecStart= run with full privileges.
    pub permissions_start_only: bool,
    /// NonBlocking= on the sockets handed over.
    pub non_blocking: bool,
    /// NotifyAccess=, with the default of Type= and WatchdogSec= applied.
    pub notify_access: NotifyAccess,
    /// Sockets=: units whose sockets are handed over, besides the one of the same name.
    pub sockets: Vec<UnitName>,
    /// OpenFile=, in the order of the files.
    pub open_files: Vec<OpenFile>,
    /// FileDescriptorStoreMax=
    pub fd_store_max: u32,
    /// FileDescriptorStorePreserve=
    pub fd_store_preserve: Preserve,
    /// OOMPolicy=
    pub oom_policy: OomPolicy,
    /// ReloadSignal= of Type=notify-reload.
    pub reload_signal: Signal,
    /// RootDirectoryStartOnly=
    pub root_directory_start_only: bool,
    /// Its execution environment.
    pub exec: Box<ExecConfig>,
    /// How it is stopped.
    pub kill: KillConfig,
    /// Its limits.
    pub cgroup: Box<CgroupConfig>,
}

impl ServiceConfig {
    /// How long to wait before a restart, so many having been made before: RestartSec=, which grows to
    /// RestartMaxDelaySec= by the same factor RestartSteps= times (systemd.service(5)).
    pub fn restart_delay_after(&self, restarts: u32) -> Duration {
        let (first, steps) = (self.restart_delay, self.restart_steps);
        match self.restart_delay_max {
            Some(longest) if steps > 0 && !first.is_zero() && longest > first => {
                let factor = longest.as_secs_f64() / first.as_secs_f64();
                let grown = factor.powf(f64::from(restarts.min(steps)) / f64::from(steps));
                Duration::try_from_secs_f64(first.as_secs_f64() * grown)
                    .unwrap_or(longest)
                    .min(longest)
            }
            _ => first,
        }
    }
}
