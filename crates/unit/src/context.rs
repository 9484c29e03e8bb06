//! What compiling a unit needs to know besides its files: the host (for specifiers) and the
//! manager's defaults (systemd-system.conf(5)).
//!
//! The manager fills these in once; nothing here asks the host itself.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{Rlimits, TasksLimit};

/// Whose manager this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The host's (or a container's, or a nested one): units of `/etc/systemd/system`.
    System,
    /// One user's: units of `~/.config/systemd/user`.
    User,
}

/// Facts about the host and the user, for specifiers (systemd.unit(5), "SPECIFIERS").
/// Ids are 32 lowercase hexadecimal digits. An empty text means: not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// System or user manager.
    pub scope: Scope,
    /// `%H`
    pub hostname: Arc<str>,
    /// `%q`, the pretty hostname; the short hostname where there is none.
    pub pretty_hostname: Arc<str>,
    /// `%m`
    pub machine_id: Arc<str>,
    /// `%b`
    pub boot_id: Arc<str>,
    /// `%v`
    pub kernel_release: Arc<str>,
    /// `%a`, in systemd's spelling: `x86-64`, `arm64`.
    pub architecture: Arc<str>,
    /// `%o`, ID of os-release.
    pub os_id: Arc<str>,
    /// `%w`, VERSION_ID of os-release.
    pub os_version_id: Arc<str>,
    /// `%B`, BUILD_ID of os-release.
    pub os_build_id: Arc<str>,
    /// `%W`, VARIANT_ID of os-release.
    pub os_variant_id: Arc<str>,
    /// `%A`, IMAGE_VERSION of os-release.
    pub os_image_version: Arc<str>,
    /// `%M`, IMAGE_ID of os-release.
    pub os_image_id: Arc<str>,
    /// `%u`
    pub user_name: Arc<str>,
    /// `%U`
    pub uid: u32,
    /// `%g`
    pub group_name: Arc<str>,
    /// `%G`
    pub gid: u32,
    /// `%h`
    pub home: Arc<str>,
    /// `%s`
    pub shell: Arc<str>,
    /// `%t`: `/run` or `$XDG_RUNTIME_DIR`.
    pub runtime_dir: Arc<str>,
    /// `%S`: `/var/lib` or `$XDG_CONFIG_HOME`.
    pub state_dir: Arc<str>,
    /// `%C`: `/var/cache` or `$XDG_CACHE_HOME`.
    pub cache_dir: Arc<str>,
    /// `%L`: `/var/log` or `$XDG_CONFIG_HOME/log`.
    pub log_dir: Arc<str>,
    /// `%E`: `/etc` or `$XDG_CONFIG_HOME`.
    pub config_dir: Arc<str>,
    /// `%T`
    pub tmp_dir: Arc<str>,
    /// `%V`
    pub var_tmp_dir: Arc<str>,
    /// `%d` is this directory joined with the unit's name: `/run/credentials`.
    pub credentials_dir: Arc<str>,
    /// UMask= of units that say nothing (systemd.exec(5)): 0022, or what a user's manager has itself.
    pub umask: u32,
    /// The search path for programs named without a slash (systemd.service(5), "COMMAND
    /// LINES"), colon separated.
    pub exec_search_path: Arc<str>,
}

impl Context {
    /// A system manager on a host of which nothing is known.
    pub fn system() -> Context {
        let none = Arc::<str>::from("");
        Context {
            scope: Scope::System,
            hostname: none.clone(),
            pretty_hostname: none.clone(),
            machine_id: none.clone(),
            boot_id: none.clone(),
            kernel_release: none.clone(),
            architecture: none.clone(),
            os_id: none.clone(),
            os_version_id: none.clone(),
            os_build_id: none.clone(),
            os_variant_id: none.clone(),
            os_image_version: none.clone(),
            os_image_id: none,
            user_name: "root".into(),
            uid: 0,
            group_name: "root".into(),
            gid: 0,
            home: "/root".into(),
            shell: "/bin/sh".into(),
            umask: 0o022,
            runtime_dir: "/run".into(),
            state_dir: "/var/lib".into(),
            cache_dir: "/var/cache".into(),
            log_dir: "/var/log".into(),
            config_dir: "/etc".into(),
            tmp_dir: "/tmp".into(),
            var_tmp_dir: "/var/tmp".into(),
            credentials_dir: "/run/credentials".into(),
            exec_search_path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
        }
    }
}

/// What processes inherit of the manager where their unit says nothing (systemd-system.conf(5)).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inherited {
    /// CPUAffinity=
    pub cpu_affinity: Option<crate::config::IndexSet>,
    /// NUMAPolicy=
    pub numa_policy: Option<crate::config::NumaPolicy>,
    /// NUMAMask=
    pub numa_nodes: Option<crate::config::NumaNodes>,
    /// TimerSlackNSec=
    pub timer_slack_nsec: Option<u64>,
    /// DefaultSmackProcessLabel=
    pub smack_label: Option<Box<str>>,
}

/// What holds for every process, whatever its unit and the prefix of its command say (systemd-system.conf(5)).
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// CapabilityBoundingSet=
    pub capabilities: crate::config::CapabilitySet,
    /// NoNewPrivileges=
    pub no_new_privileges: bool,
    /// SystemCallArchitectures=, as stated; empty for all.
    pub architectures: Box<str>,
}

impl Default for Bounds {
    fn default() -> Bounds {
        let capabilities = crate::config::CapabilitySet::ALL;
        Bounds { capabilities, no_new_privileges: false, architectures: Box::default() }
    }
}

/// The manager's defaults for units that do not say (systemd-system.conf(5)).
/// A timeout of `None` is no timeout.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// DefaultTimeoutStartSec=
    pub timeout_start: Option<Duration>,
    /// DefaultTimeoutStopSec=
    pub timeout_stop: Option<Duration>,
    /// DefaultTimeoutAbortSec=; the outer `None` means: as the stop timeout.
    pub timeout_abort: Option<Option<Duration>>,
    /// DefaultDeviceTimeoutSec=
    pub device_timeout: Option<Duration>,
    /// DefaultRestartSec=
    pub restart_delay: Duration,
    /// DefaultStartLimitIntervalSec=; zero switches the limit off.
    pub start_limit_interval: Duration,
    /// DefaultStartLimitBurst=
    pub start_limit_burst: u32,
    /// DefaultEnvironment=, `NAME=value`.
    pub environment: Arc<[Box<str>]>,
    /// ManagerEnvironment=, `NAME=value`.
    pub manager_environment: Arc<[Box<str>]>,
    /// What processes inherit unless their unit says otherwise.
    pub inherited: Inherited,
    /// What no unit can lift for its processes.
    pub bounds: Bounds,
    /// LogLevel=, 0 to 7; `None` says all.
    pub log_level: Option<u8>,
    /// ShowStatus=
    pub show_status: Option<crate::config::ShowStatus>,
    /// What is done when process 1 has crashed.
    pub crash: crate::config::Crash,
    /// LogColor=, LogLocation= and LogTime=
    pub line_style: crate::config::LineStyle,
    /// StatusUnitFormat=
    pub status_unit_format: crate::config::StatusUnitFormat,
    /// What it says of the watchdog of the machine.
    pub watchdog: Arc<crate::config::Watchdog>,
    /// LogTarget=, as [`crate::value::log_target`] understands it.
    pub log_target: Option<&'static str>,
    /// DefaultCPUAccounting=
    pub cpu_accounting: bool,
    /// DefaultMemoryAccounting=
    pub memory_accounting: bool,
    /// DefaultTasksAccounting=
    pub tasks_accounting: bool,
    /// DefaultIOAccounting=
    pub io_accounting: bool,
    /// DefaultIPAccounting=
    pub ip_accounting: bool,
    /// DefaultTasksMax=
    pub tasks_max: TasksLimit,
    /// DefaultLimit*=
    pub rlimits: Rlimits,
    /// DefaultOOMPolicy=
    pub oom_policy: crate::config::OomPolicy,
    /// MissingProtection=refuse: what cannot be protected as it asks for is not started.
    pub refuses_missing_protection: bool,
    /// DefaultOOMScoreAdjust=; `None` leaves it as inherited.
    pub oom_score_adjust: Option<i16>,
    /// CtrlAltDelBurstAction=
    pub ctrl_alt_del_burst: crate::config::EmergencyAction,
    /// DefaultTimerAccuracySec=
    pub timer_accuracy: Duration,
    /// DefaultStandardOutput=
    pub standard_output: crate::config::Output,
    /// DefaultStandardError=
    pub standard_error: crate::config::Output,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults {
            timeout_start: Some(Duration::from_secs(90)),
            timeout_stop: Some(Duration::from_secs(90)),
            timeout_abort: None,
            device_timeout: Some(Duration::from_secs(90)),
            restart_delay: Duration::from_millis(100),
            start_limit_interval: Duration::from_secs(10),
            start_limit_burst: 5,
            environment: Arc::from([]),
            manager_environment: Arc::from([]),
            inherited: Inherited::default(),
            bounds: Bounds::default(),
            log_level: None,
            log_target: None,
            watchdog: Arc::default(),
            show_status: None,
            crash: crate::config::Crash::default(),
            line_style: crate::config::LineStyle::default(),
            status_unit_format: crate::config::StatusUnitFormat::Combined,
            cpu_accounting: true,
            memory_accounting: true,
            tasks_accounting: true,
            io_accounting: false,
            ip_accounting: false,
            tasks_max: TasksLimit::Scale { numerator: 15, denominator: 100 },
            rlimits: Rlimits::of_units(),
            oom_policy: crate::config::OomPolicy::Stop,
            refuses_missing_protection: false,
            oom_score_adjust: None,
            ctrl_alt_del_burst: crate::config::EmergencyAction::RebootForce,
            timer_accuracy: Duration::from_secs(60),
            standard_output: crate::config::Output::Journal,
            standard_error: crate::config::Output::Inherit,
        }
    }
}
