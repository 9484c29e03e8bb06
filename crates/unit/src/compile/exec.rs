//! The execution environment (systemd.exec(5)).

use std::collections::BTreeMap;
use std::time::Duration;

use super::Unit;
use crate::config::dynamic_user::name_of_unit;
use crate::config::*;
use crate::context::Scope;
use crate::diagnostic::Code;
use crate::merged::known_word;
use crate::parse::Entry;
use crate::settings::{Id, Kind, List, Setting, Status, id};
use crate::value::{self, Fault};
use warren_sandbox::bpf::file_system;
use warren_sandbox::{credentials, images, mounts::Plan, seccomp};

/// The most StandardInputText= and StandardInputData= can give, in bytes.
const INPUT_BYTES_MAX: usize = 64 << 20;

/// Facilities of syslog(3) by number.
const FACILITIES: [&str; 24] = [
    "kern",
    "user",
    "mail",
    "daemon",
    "auth",
    "syslog",
    "lpr",
    "news",
    "uucp",
    "cron",
    "authpriv",
    "ftp",
    "ntp",
    "security",
    "console",
    "solaris-cron",
    "local0",
    "local1",
    "local2",
    "local3",
    "local4",
    "local5",
    "local6",
    "local7",
];

/// What stands for the processors of `NUMAMask=`.
const NUMA: &str = "numa";

/// The bits of a word of `CoredumpFilter=`.
fn coredump_bits(word: &str) -> Option<u32> {
    const TYPES: [&str; 9] = [
        "private-anonymous",
        "shared-anonymous",
        "private-file-backed",
        "shared-file-backed",
        "elf-headers",
        "private-huge",
        "shared-huge",
        "private-dax",
        "shared-dax",
    ];
    const DEFAULT: u32 = 0x33;
    match word {
        "all" => Some((1 << TYPES.len()) - 1),
        "default" => Some(DEFAULT),
        _ => match TYPES.iter().position(|name| *name == word) {
            Some(bit) => Some(1 << bit),
            None => {
                let digits = word.strip_prefix("0x").unwrap_or(word);
                let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                u32::from_str_radix(digits, 16).ok().filter(|_| is_number)
            }
        },
    }
}

impl Unit<'_> {
    pub(super) fn exec(&self) -> ExecConfig {
        let merged = &self.merged;
        let mut config = ExecConfig {
            user: merged.value(id!(Exec "User"), value::user),
            group: merged.value(id!(Exec "Group"), value::user),
            supplementary_groups: self.supplementary_groups(),
            dynamic_user: merged.flag(id!(Exec "DynamicUser"), false),
            remove_ipc: merged.flag(id!(Exec "RemoveIPC"), false),
            environment: self.environment(),
            environment_files: self.environment_files(),
            pass_environment: self.variable_names(id!(Exec "PassEnvironment")),
            unset_environment: self.unset_environment(),
            root_directory: self.path(id!(Exec "RootDirectory")),
            exec_search_path: self.exec_search_path(),
            standard_input_data: self.input_data(),
            tty_path: self.path(id!(Exec "TTYPath")),
            pam_name: self.owned(id!(Exec "PAMName")),
            utmp_identifier: self.owned(id!(Exec "UtmpIdentifier")),
            utmp_mode: merged
                .word(id!(Exec "UtmpMode"), UtmpMode::from_word)
                .unwrap_or(UtmpMode::Init),
            tty_reset: merged.flag(id!(Exec "TTYReset"), false),
            tty_vhangup: merged.flag(id!(Exec "TTYVHangup"), false),
            tty_vt_disallocate: merged.flag(id!(Exec "TTYVTDisallocate"), false),
            tty_size: (
                self.number(id!(Exec "TTYRows"), 0, i64::from(u16::MAX)),
                self.number(id!(Exec "TTYColumns"), 0, i64::from(u16::MAX)),
            ),
            rlimits: self.rlimits(),
            umask: merged.value(id!(Exec "UMask"), value::mode).unwrap_or(merged.context().umask),
            ignore_sigpipe: merged.flag(id!(Exec "IgnoreSIGPIPE"), true),
            timeout_clean: self.timeout(id!(Exec "TimeoutCleanSec"), false).flatten(),
            no_new_privileges: merged.flag(id!(Exec "NoNewPrivileges"), false),
            personality: merged.word(id!(Exec "Personality"), Personality::from_word),
            keyring_mode: merged
                .word(id!(Exec "KeyringMode"), KeyringMode::from_word)
                .unwrap_or(self.default_keyring()),
            timer_slack_nsec: merged
                .value(id!(Exec "TimerSlackNSec"), nanoseconds)
                .or(self.defaults.inherited.timer_slack_nsec),
            coredump_filter: self.coredump_filter(),
            memory_ksm: merged.optional_flag(id!(Exec "MemoryKSM")),
            numa_policy: merged.word(id!(Exec "NUMAPolicy"), NumaPolicy::from_word),
            numa_nodes: self.numa_nodes(id!(Exec "NUMAMask")),
            cpu_affinity_of_nodes: self.has_affinity_of_nodes(),
            selinux_context: self.label(id!(Exec "SELinuxContext")),
            apparmor_profile: self.label(id!(Exec "AppArmorProfile")),
            smack_label: self.label(id!(Exec "SmackProcessLabel")),
            set_login_environment: merged.optional_flag(id!(Exec "SetLoginEnvironment")),
            sandbox: self.sandbox(),
            protections: self.protecting(Status::Applied),
            ..ExecConfig::default()
        };
        if self.merged.context().scope == Scope::User {
            // They lie in mounts of a process's own, which a user's manager has none of.
            let provided = |asked: &mut SandboxSetting| {
                credentials::concerns(asked.setting)
                    || images::concerns(asked.setting)
                    || asked.setting == "RootEphemeral"
            };
            config.sandbox.extend(config.protections.extract_if(.., provided));
        }
        if config.dynamic_user {
            self.imply_dynamic_user(&mut config);
        }
        self.standard_streams(&mut config);
        self.scheduling(&mut config);
        self.directories(&mut config);
        self.capabilities(&mut config);
        self.working_directory(&mut config);
        self.logging(&mut config);
        config
    }

    /// What `DynamicUser=` implies, whatever else is stated (systemd.exec(5)).
    fn imply_dynamic_user(&self, config: &mut ExecConfig) {
        let name = || name_of_unit(self.merged.name().prefix());
        let user = config.user.get_or_insert_with(name).clone();
        config.group.get_or_insert(user);
        config.no_new_privileges = true;
        config.remove_ipc = true;
        for (setting, value) in [
            ("ProtectSystem", "strict"),
            ("ProtectHome", "read-only"),
            ("PrivateTmp", "yes"),
            ("RestrictSUIDSGID", "yes"),
        ] {
            let mut stated = config.protections.iter_mut();
            match stated.find(|stated| stated.setting == setting) {
                Some(stated) if setting == "ProtectSystem" => stated.value = value.into(),
                Some(_) => {}
                None => config.protections.push(SandboxSetting { setting, value: value.into() }),
            }
        }
    }

    /// Words and numbers in base 16 (systemd.exec(5), "CoredumpFilter=").
    fn coredump_filter(&self) -> Option<u32> {
        let mut bits = None;
        for (entry, at, word) in self.merged.words(id!(Exec "CoredumpFilter")) {
            match coredump_bits(&word) {
                Some(more) => *bits.get_or_insert(0) |= more,
                None => {
                    let message = format!("'{word}' is not a type of mappings");
                    self.merged.fault(&entry, Code::BadValue, &Fault::new(at, message));
                }
            }
        }
        bits
    }

    /// NUMAMask= of a unit or of the manager.
    pub(super) fn numa_nodes(&self, id: Id) -> Option<NumaNodes> {
        let mut set = IndexSet::default();
        for entry in self.merged.list(id) {
            let Some(text) = self.merged.expand(entry) else { continue };
            if text == "all" {
                return Some(NumaNodes::All);
            }
            match value::indexes(&text) {
                Ok(more) => set.extend(&more),
                Err(fault) => self.merged.fault(entry, Code::BadValue, &fault),
            }
        }
        (!set.is_empty()).then_some(NumaNodes::Listed(set))
    }

    fn has_affinity_of_nodes(&self) -> bool {
        let list = self.merged.list(id!(Exec "CPUAffinity"));
        list.iter().any(|entry| entry.value == NUMA)
    }

    fn label(&self, id: Id) -> Option<Label> {
        let text = self.merged.text(id)?;
        let (is_optional, label) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, &*text),
        };
        (!label.is_empty()).then(|| Label { label: label.into(), is_optional })
    }

    fn supplementary_groups(&self) -> Vec<Box<str>> {
        let mut out = Vec::new();
        for (entry, at, word) in self.merged.words(id!(Exec "SupplementaryGroups")) {
            match value::user(&word) {
                Ok(group) => out.push(group),
                Err(fault) => {
                    self.merged.fault(&entry, Code::BadValue, &Fault::new(at, fault.message));
                }
            }
        }
        out
    }

    /// systemd.exec(5), "LOGGING AND STANDARD INPUT/OUTPUT".
    fn logging(&self, config: &mut ExecConfig) {
        let merged = &self.merged;
        config.syslog_identifier = self.owned(id!(Exec "SyslogIdentifier"));
        config.syslog_level_prefix = merged.flag(id!(Exec "SyslogLevelPrefix"), true);
        let level = merged.value(id!(Exec "SyslogLevel"), value::log_level);
        config.syslog_level = level.unwrap_or(config.syslog_level);
        let facility = merged.value(id!(Exec "SyslogFacility"), |t| value::by_name(&FACILITIES, t));
        config.syslog_facility = facility.unwrap_or(config.syslog_facility);
        config.log_level_max = merged.value(id!(Exec "LogLevelMax"), value::log_level);
        config.log_namespace = merged.value(id!(Exec "LogNamespace"), log_namespace);
        config.log_class = merged.value(id!(Warren "LogClass"), log_class);
        config.log_extra_fields = self.log_extra_fields();
        // Backslashes belong to the pattern: nothing is unquoted or expanded.
        let patterns = merged.list(id!(Exec "LogFilterPatterns")).iter();
        config.log_filter_patterns = patterns.map(|entry| entry.value.into()).collect();
        let interval = merged.value(id!(Exec "LogRateLimitIntervalSec"), value::span);
        config.log_rate_limit_interval = interval.map(|span| span.unwrap_or(Duration::MAX));
        config.log_rate_limit_burst =
            self.number(id!(Exec "LogRateLimitBurst"), 0, i64::from(u32::MAX));
    }

    fn log_extra_fields(&self) -> Vec<Box<str>> {
        let mut out = Vec::new();
        for (entry, at, word) in self.merged.words(id!(Exec "LogExtraFields")) {
            match word.split_once('=').filter(|(name, _)| is_field_name(name)) {
                Some(_) => out.push(word.into()),
                None => {
                    let fault = Fault::new(at, format!("'{word}' is not FIELD=value"));
                    self.merged.fault(&entry, Code::BadValue, &fault);
                }
            }
        }
        out
    }

    /// Private in the system manager, inherited in a user's (systemd.exec(5), KeyringMode=).
    fn default_keyring(&self) -> KeyringMode {
        match self.merged.context().scope {
            Scope::System => KeyringMode::Private,
            Scope::User => KeyringMode::Inherit,
        }
    }

    fn environment(&self) -> Vec<EnvironmentVariable> {
        let mut out: Vec<EnvironmentVariable> = Vec::new();
        for (entry, at, word) in self.merged.words(id!(Exec "Environment")) {
            match word.split_once('=').filter(|(name, _)| is_variable_name(name)) {
                Some((name, value)) => match out.iter_mut().find(|v| &*v.name == name) {
                    Some(before) => before.value = value.into(),
                    None => {
                        out.push(EnvironmentVariable { name: name.into(), value: value.into() })
                    }
                },
                None => {
                    let fault = Fault::new(at, format!("'{word}' is not NAME=value"));
                    self.merged.fault(&entry, Code::BadValue, &fault);
                }
            }
        }
        out
    }

    fn environment_files(&self) -> Vec<EnvironmentFile> {
        let mut out = Vec::new();
        for entry in self.merged.list(id!(Exec "EnvironmentFile")) {
            let Some(text) = self.merged.expand(entry) else { continue };
            let (optional, path) = match text.strip_prefix('-') {
                Some(path) => (true, path),
                None => (false, &*text),
            };
            match value::path(path) {
                Ok(path) => out.push(EnvironmentFile { path: path.into(), optional }),
                Err(fault) => self.merged.fault(entry, Code::BadValue, &fault),
            }
        }
        out
    }

    fn variable_names(&self, id: Id) -> Vec<Box<str>> {
        let mut out = Vec::new();
        for (entry, at, word) in self.merged.words(id) {
            if is_variable_name(&word) {
                out.push(word.into());
            } else {
                let fault = Fault::new(
                    at,
                    format!("'{word}' is not a valid name of an environment variable"),
                );
                self.merged.fault(&entry, Code::BadValue, &fault);
            }
        }
        out
    }

    fn unset_environment(&self) -> Vec<UnsetEnvironment> {
        let mut out = Vec::new();
        for (entry, at, word) in self.merged.words(id!(Exec "UnsetEnvironment")) {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.into())),
                None => (&*word, None),
            };
            if is_variable_name(name) {
                out.push(UnsetEnvironment { name: name.into(), value });
            } else {
                let fault = Fault::new(at, format!("'{word}' is neither NAME nor NAME=value"));
                self.merged.fault(&entry, Code::BadValue, &fault);
            }
        }
        out
    }

    /// Colon separated; more than one assignment is joined.
    fn exec_search_path(&self) -> Vec<Box<str>> {
        let mut out = Vec::new();
        for (entry, at, word) in self.merged.words(id!(Exec "ExecSearchPath")) {
            for part in word.split(':') {
                match value::path(part) {
                    Ok(path) => out.push(path.into()),
                    Err(fault) => {
                        let fault = Fault::new(at, fault.message);
                        self.merged.fault(&entry, Code::BadValue, &fault);
                    }
                }
            }
        }
        out
    }

    /// StandardInputText= appends its text and a newline; StandardInputData= appends base64.
    fn input_data(&self) -> Box<[u8]> {
        let (text, data) = (id!(Exec "StandardInputText"), id!(Exec "StandardInputData"));
        let mut out = Vec::new();
        for entry in self.merged.in_file_order() {
            if entry.setting != text && entry.setting != data {
                continue;
            }
            if entry.value.is_empty() {
                out.clear();
                continue;
            }
            let Some(expanded) = self.merged.expand(&entry) else { continue };
            let decoded = match entry.setting == text {
                true => value::unescape_c(&expanded).map(|t| (t + "\n").into_bytes()),
                false => base64(&expanded),
            };
            match decoded.filter(|bytes| bytes.len() + out.len() <= INPUT_BYTES_MAX) {
                Some(bytes) => out.extend_from_slice(&bytes),
                None => {
                    let fault = Fault::new(0, "the data is not valid base64, or too long");
                    self.merged.fault(&entry, Code::BadValue, &fault);
                }
            }
        }
        out.into()
    }

    fn standard_streams(&self, config: &mut ExecConfig) {
        let merged = &self.merged;
        let has_data = !config.standard_input_data.is_empty();
        let default_input = if has_data { Input::Data } else { Input::Null };
        let input = merged.value(id!(Exec "StandardInput"), input);
        config.standard_input = input.unwrap_or(default_input);
        // What is read from is written to as well, unless the unit says something else.
        let default_output = match config.standard_input {
            Input::Null | Input::Data | Input::File(_) => self.defaults.standard_output.clone(),
            _ => Output::Inherit,
        };
        let out = merged.value(id!(Exec "StandardOutput"), value::output);
        config.standard_output = out.unwrap_or(default_output);
        let error = merged.value(id!(Exec "StandardError"), value::output);
        config.standard_error = error.unwrap_or_else(|| self.defaults.standard_error.clone());
    }

    fn rlimits(&self) -> Rlimits {
        let mut limits = self.defaults.rlimits.clone();
        for &resource in Resource::ALL {
            let id = rlimit_id(resource);
            if let Some(limit) = self.merged.value(id, |text| value::rlimit(resource, text)) {
                limits.set(resource, Some(limit));
            }
        }
        limits
    }

    fn scheduling(&self, config: &mut ExecConfig) {
        let merged = &self.merged;
        config.nice = self.number(id!(Exec "Nice"), -20, 19);
        config.oom_score_adjust =
            self.number(id!(Exec "OOMScoreAdjust"), -1000, 1000).or(self.defaults.oom_score_adjust);
        self.cpu_scheduling(config);
        config.cpu_scheduling_reset_on_fork =
            merged.flag(id!(Exec "CPUSchedulingResetOnFork"), false);
        config.cpu_affinity = self.index_set(id!(Exec "CPUAffinity"));
        self.io_scheduling(config);
    }

    /// A policy brings the priority into its own range, as with systemd 252; one that is written after it
    /// stays as it is, and is refused at the start if the policy has no such one.
    fn cpu_scheduling(&self, config: &mut ExecConfig) {
        let (policy, priority) =
            (id!(Exec "CPUSchedulingPolicy"), id!(Exec "CPUSchedulingPriority"));
        for entry in self.merged.in_file_order_of(&[policy, priority]) {
            if entry.setting == priority {
                let number = self.merged.one(&entry, |text| value::number(text, 0, 99));
                let number = number.and_then(|number| u8::try_from(number).ok());
                config.cpu_scheduling_priority = number.or(config.cpu_scheduling_priority);
            } else if entry.value.is_empty() {
                (config.cpu_scheduling_policy, config.cpu_scheduling_priority) = (None, None);
            } else if let Some(word) = self
                .merged
                .one(&entry, |text| known_word(policy, text, CpuSchedulingPolicy::from_word))
            {
                let real_time = matches!(word, CpuSchedulingPolicy::Fifo | CpuSchedulingPolicy::Rr);
                let before = config.cpu_scheduling_priority.unwrap_or(0);
                config.cpu_scheduling_policy = Some(word);
                config.cpu_scheduling_priority = Some(if real_time { before.max(1) } else { 0 });
            }
        }
    }

    /// An empty assignment to either resets both; none is best effort with its usual priority, as with
    /// systemd 252.
    fn io_scheduling(&self, config: &mut ExecConfig) {
        let (class, priority) = (id!(Exec "IOSchedulingClass"), id!(Exec "IOSchedulingPriority"));
        for entry in self.merged.in_file_order_of(&[class, priority]) {
            if entry.value.is_empty() {
                (config.io_scheduling_class, config.io_scheduling_priority) = (None, None);
            } else if entry.setting == priority {
                let number = self.merged.one(&entry, |text| value::number(text, 0, 7));
                let number = number.and_then(|number| u8::try_from(number).ok());
                config.io_scheduling_priority = number.or(config.io_scheduling_priority);
            } else {
                match self.merged.one(&entry, |text| known_word(class, text, io_class)) {
                    None => {}
                    Some(IoSchedulingClass::None) => {
                        config.io_scheduling_class = Some(IoSchedulingClass::BestEffort);
                        config.io_scheduling_priority = None;
                    }
                    Some(word) => config.io_scheduling_class = Some(word),
                }
            }
        }
    }

    /// All assignments together; `None` if there is none.
    pub(super) fn index_set(&self, id: Id) -> Option<IndexSet> {
        let mut set = IndexSet::default();
        for entry in self.merged.list(id) {
            let Some(text) = self.merged.expand(entry) else { continue };
            if id == id!(Exec "CPUAffinity") && text == NUMA {
                continue;
            }
            match value::indexes(&text) {
                Ok(more) => set.extend(&more),
                Err(fault) => self.merged.fault(entry, Code::BadValue, &fault),
            }
        }
        (!set.is_empty()).then_some(set)
    }

    fn directories(&self, config: &mut ExecConfig) {
        let directory = |id, mode| ExecDirectory {
            paths: self.directory_paths(id),
            mode: self.merged.value(mode, value::mode).unwrap_or(0o755),
        };
        config.runtime_directory =
            directory(id!(Exec "RuntimeDirectory"), id!(Exec "RuntimeDirectoryMode"));
        config.state_directory =
            directory(id!(Exec "StateDirectory"), id!(Exec "StateDirectoryMode"));
        config.cache_directory =
            directory(id!(Exec "CacheDirectory"), id!(Exec "CacheDirectoryMode"));
        config.logs_directory = directory(id!(Exec "LogsDirectory"), id!(Exec "LogsDirectoryMode"));
        config.configuration_directory =
            directory(id!(Exec "ConfigurationDirectory"), id!(Exec "ConfigurationDirectoryMode"));
        let preserve = self.preserve(id!(Exec "RuntimeDirectoryPreserve"));
        config.runtime_directory_preserve = preserve.unwrap_or(Preserve::No);
    }

    /// What is kept over a stop.
    pub(super) fn preserve(&self, setting: Id) -> Option<Preserve> {
        self.merged.word(setting, |text| match value::boolean(text) {
            Ok(true) => Some(Preserve::Yes),
            Ok(false) => Some(Preserve::No),
            Err(_) => Preserve::from_word(text),
        })
    }

    fn directory_paths(&self, id: Id) -> Vec<ExecDirectoryPath> {
        let mut found: BTreeMap<Box<str>, Vec<Box<str>>> = BTreeMap::new();
        for (entry, at, word) in self.merged.words(id) {
            let (path, link) = word.split_once(':').unwrap_or((&word, ""));
            // Configuration has no links, and there is one for each word.
            let may_link = id != id!(Exec "ConfigurationDirectory");
            let symlink = match link.split(':').next().unwrap_or_default() {
                "" => Some(None),
                link => relative(link).filter(|_| may_link).map(Some),
            };
            // What lies there belongs to users that are made for a run (DynamicUser=).
            let is_private = |path: &str| path == "private" || path.starts_with("private/");
            match (relative(path).filter(|path| !is_private(path)), symlink) {
                (Some(path), Some(symlink)) => {
                    let links = found.entry(path).or_default();
                    links.extend(symlink.filter(|link| !links.contains(link)));
                }
                _ => {
                    let message = format!("'{word}' is not a normalized relative path");
                    self.merged.fault(&entry, Code::BadValue, &Fault::new(at, message));
                }
            }
        }
        let paths = found.into_iter();
        let mut paths: Vec<ExecDirectoryPath> =
            paths.map(|(path, symlinks)| ExecDirectoryPath { path, symlinks }).collect();
        // As paths are ordered: what is below a directory follows it.
        paths.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        paths
    }

    fn capabilities(&self, config: &mut ExecConfig) {
        config.capability_bounding_set =
            self.capability_set(id!(Exec "CapabilityBoundingSet"), CapabilitySet::ALL);
        config.ambient_capabilities =
            self.capability_set(id!(Exec "AmbientCapabilities"), CapabilitySet::default());
        if self.merged.context().scope == Scope::System {
            let all = config.sandbox.iter().chain(&config.protections);
            let implied = all.map(|s| dropped_capabilities(s.setting));
            implied.for_each(|dropped| config.capability_bounding_set.0 &= !dropped.0);
        }
        config.secure_bits = self.secure_bits();
    }

    fn secure_bits(&self) -> u32 {
        let mut bits = 0;
        for (entry, at, word) in self.merged.words(id!(Exec "SecureBits")) {
            match value::SECURE_BITS.iter().position(|name| *name == &*word) {
                Some(bit) => bits |= 1 << bit,
                None => {
                    let message =
                        format!("'{word}' is not one of: {}", value::SECURE_BITS.join(", "));
                    self.merged.fault(&entry, Code::BadValue, &Fault::new(at, message));
                }
            }
        }
        bits
    }

    /// An assignment after the default starts from nothing (or, inverted, from everything), others add
    /// (or, inverted, remove); an empty one leaves nothing, `~` alone everything (systemd.exec(5)), and so
    /// does one of which no word is known. The default is what is there, also where it was written, as with
    /// systemd 252.
    pub(super) fn capability_set(&self, id: Id, default: CapabilitySet) -> CapabilitySet {
        let mut set = default;
        for entry in self.merged.raw(id) {
            let (words, inverted, faults) = value::capabilities(entry.value);
            let is_anew = set == default || words == CapabilitySet::default();
            set = CapabilitySet(match (is_anew, inverted) {
                (true, true) => !words.0,
                (true, false) => words.0,
                (false, true) => set.0 & !words.0,
                (false, false) => set.0 | words.0,
            });
            for fault in faults {
                self.merged.fault(entry, Code::BadValue, &fault);
            }
        }
        set
    }

    fn working_directory(&self, config: &mut ExecConfig) {
        let parsed = self.merged.value(id!(Exec "WorkingDirectory"), |text| {
            let (optional, path) = match text.strip_prefix('-') {
                Some(path) => (true, path),
                None => (false, text),
            };
            let directory = match path {
                "~" => WorkingDirectory::Home,
                path => WorkingDirectory::Path(value::path(path)?.into()),
            };
            Ok((directory, optional))
        });
        if let Some((directory, optional)) = parsed {
            config.working_directory = Some(directory);
            config.working_directory_optional = optional;
        }
    }

    /// Whether an assignment counts; says what is wrong with it. Words of a list that mean nothing are left out, and
    /// the rest counts (systemd.exec(5), "SystemCallFilter=").
    fn counts(&self, entry: &Entry<'_>, text: &str) -> bool {
        let setting = entry.setting.setting();
        let faults = value::check(setting.kind, text);
        faults.iter().for_each(|fault| self.merged.fault(entry, Code::BadValue, fault));
        for (word, why) in wrong_words(setting.name, text) {
            let at = text.find(&*word).unwrap_or(0);
            let fault = Fault::new(at, format!("'{word}' {why}"));
            self.merged.fault(entry, Code::BadValue, &fault);
        }
        faults.is_empty()
    }

    /// Every setting in use that protects the host and is not applied.
    pub(super) fn sandbox(&self) -> Vec<SandboxSetting> {
        self.protecting(Status::Sandbox)
    }

    /// Every setting in use that protects the host and has this status. Assignments of a list are lines of the value.
    pub(super) fn protecting(&self, status: Status) -> Vec<SandboxSetting> {
        let mut out: Vec<SandboxSetting> = Vec::new();
        for entry in self.merged.entries() {
            let setting = entry.setting.setting();
            if setting.status != status {
                continue;
            }
            // Of a switch that says nothing, what it said before counts, as with systemd 252.
            if entry.value.is_empty() && is_switch(setting) {
                let message = format!("a value is needed; {}= stays as it was", setting.name);
                self.merged.fault(entry, Code::BadValue, &Fault::new(0, message));
                continue;
            }
            let is_off = protects_nothing(setting, entry.value);
            let value = if is_off { None } else { self.merged.expand(entry) };
            if status == Status::Applied
                && let Some(text) = &value
                && !self.counts(entry, text)
            {
                continue;
            }
            if entry.value.is_empty() && BINDS.contains(&setting.name) {
                out.retain(|before| !BINDS.contains(&before.setting));
            }
            let before =
                out.iter().position(|s| s.setting == setting.name).map(|at| out.remove(at));
            let Some(value) = value else { continue };
            let value = match before.filter(|_| setting.list == List::Append) {
                Some(before) => format!("{}\n{value}", before.value).into(),
                None => value.into(),
            };
            out.push(SandboxSetting { setting: setting.name, value });
        }
        out
    }
}

/// An empty assignment to one of them empties both (systemd.exec(5), "BindPaths=").
const BINDS: [&str; 2] = ["BindPaths", "BindReadOnlyPaths"];

/// The words of a setting that mean nothing, and why.
fn wrong_words(setting: &str, text: &str) -> Vec<(Box<str>, String)> {
    if credentials::concerns(setting) {
        let wrong = credentials::parse(setting, text).err();
        // What comes behind may be a secret.
        let name = text.split(':').next().unwrap_or_default();
        let told = wrong.map(|why| (name.into(), format!("is not acted on: {why}")));
        return told.into_iter().collect();
    }
    let unknown = seccomp::settings::unknown_words(setting, text).into_iter();
    let unknown = unknown.chain(file_system::unknown_words(setting, text));
    let mut out: Vec<_> = unknown.map(|word| (word, "is not known".to_owned())).collect();
    let words = value::plain_words(text);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Plan::default().take(setting, &words, &mut out);
    out
}

/// What a setting that protects the host takes from the bounding set (systemd.exec(5)).
fn dropped_capabilities(setting: &str) -> CapabilitySet {
    let dropped = match setting {
        "PrivateDevices" => "CAP_MKNOD CAP_SYS_RAWIO",
        "ProtectClock" => "CAP_SYS_TIME CAP_WAKE_ALARM",
        "ProtectKernelLogs" => "CAP_SYSLOG",
        "ProtectKernelModules" => "CAP_SYS_MODULE",
        _ => "",
    };
    value::capabilities(dropped).0
}

/// Whether a setting is on or off, or one of some words.
fn is_switch(setting: &Setting) -> bool {
    matches!(setting.kind, Kind::Bool | Kind::BoolOr(_) | Kind::Word(_))
        || setting.name == "ProtectHostname"
}

/// Whether this value of a setting that protects the host leaves it off (systemd.exec(5),
/// systemd.resource-control(5)).
pub(super) fn protects_nothing(setting: &Setting, value: &str) -> bool {
    let is_no = || value::boolean(value) == Ok(false);
    match (setting.kind, setting.name) {
        // Without it there is one, below another root.
        (_, "MountAPIVFS") => value.is_empty(),
        (Kind::Bool | Kind::BoolOr(_), _) => is_no(),
        (Kind::Word(_), _) => matches!(value, "" | "all" | "auto" | "default"),
        // Every use of images.
        (_, "RootImagePolicy" | "MountImagePolicy" | "ExtensionImagePolicy") => {
            matches!(value, "" | "*")
        }
        (_, "ProtectHostname" | "RestrictNamespaces" | "NoNewPrivileges") => {
            value.is_empty() || is_no()
        }
        _ => value.is_empty(),
    }
}

/// A word or its number.
fn io_class(text: &str) -> Option<IoSchedulingClass> {
    match text {
        "0" => Some(IoSchedulingClass::None),
        "1" => Some(IoSchedulingClass::Realtime),
        "2" => Some(IoSchedulingClass::BestEffort),
        "3" => Some(IoSchedulingClass::Idle),
        text => IoSchedulingClass::from_word(text),
    }
}

fn relative(path: &str) -> Option<Box<str>> {
    let simple = crate::escape::simplify_path(path).filter(|_| !path.starts_with('/'))?;
    let relative = simple.strip_prefix('/').filter(|p| !p.is_empty())?;
    Some(relative.into())
}

/// A time whose unit is the nanosecond if none is given (systemd.exec(5), "TimerSlackNSec=").
pub(super) fn nanoseconds(text: &str) -> Result<u64, Fault> {
    let number = ["nsec", "ns"].iter().find_map(|unit| text.trim_end().strip_suffix(unit));
    let span = value::span_with_unit(number.unwrap_or(text), Duration::from_nanos(1))?;
    Ok(span.map_or(u64::MAX, |span| span.as_nanos().min(u128::from(u64::MAX)) as u64))
}

/// The name of a journal namespace: it is a part of file names.
fn log_namespace(text: &str) -> Result<Box<str>, Fault> {
    const BYTES_MAX: usize = 64;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    match text.len() <= BYTES_MAX && !text.starts_with('.') && text.bytes().all(allowed) {
        true => Ok(text.into()),
        false => Err(Fault::new(0, format!("'{text}' is not the name of a journal namespace"))),
    }
}

/// The name of a class of messages: it is a part of file names.
fn log_class(text: &str) -> Result<Box<str>, Fault> {
    const BYTES_MAX: usize = 32;
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match (1..=BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed) {
        true => Ok(text.into()),
        false => Err(Fault::new(0, format!("'{text}' is not the name of a class of messages"))),
    }
}

fn input(text: &str) -> Result<Input, Fault> {
    if let Some(path) = text.strip_prefix("file:") {
        return value::path(path).map(Into::into).map(Input::File);
    }
    if let Some(name) = text.strip_prefix("fd:") {
        return Ok(Input::Fd(name.into()));
    }
    Ok(match text {
        "null" => Input::Null,
        "tty" => Input::Tty,
        "tty-force" => Input::TtyForce,
        "tty-fail" => Input::TtyFail,
        "data" => Input::Data,
        "socket" => Input::Socket,
        "fd" => Input::Fd(Box::default()),
        _ => return Err(Fault::new(0, format!("'{text}' is not a value of StandardInput="))),
    })
}

/// A name that a unit may give to a field of its log entries (systemd.journal-fields(7)): those
/// that begin with `_` are the log daemon's own.
fn is_field_name(name: &str) -> bool {
    const NAME_BYTES_MAX: usize = 64;
    let allowed = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(allowed)
}

/// RFC 4648 base64; white space is skipped, and the bits behind the last byte may be any.
fn base64(text: &str) -> Option<Vec<u8>> {
    use ::base64::Engine as _;
    use ::base64::alphabet::STANDARD;
    use ::base64::engine::{GeneralPurpose, GeneralPurposeConfig};
    const ENGINE: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    let letters: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    ENGINE.decode(letters).ok()
}

fn rlimit_id(resource: Resource) -> Id {
    match resource {
        Resource::Cpu => id!(Exec "LimitCPU"),
        Resource::Fsize => id!(Exec "LimitFSIZE"),
        Resource::Data => id!(Exec "LimitDATA"),
        Resource::Stack => id!(Exec "LimitSTACK"),
        Resource::Core => id!(Exec "LimitCORE"),
        Resource::Rss => id!(Exec "LimitRSS"),
        Resource::Nofile => id!(Exec "LimitNOFILE"),
        Resource::As => id!(Exec "LimitAS"),
        Resource::Nproc => id!(Exec "LimitNPROC"),
        Resource::Memlock => id!(Exec "LimitMEMLOCK"),
        Resource::Locks => id!(Exec "LimitLOCKS"),
        Resource::Sigpending => id!(Exec "LimitSIGPENDING"),
        Resource::Msgqueue => id!(Exec "LimitMSGQUEUE"),
        Resource::Nice => id!(Exec "LimitNICE"),
        Resource::Rtprio => id!(Exec "LimitRTPRIO"),
        Resource::Rttime => id!(Exec "LimitRTTIME"),
    }
}
