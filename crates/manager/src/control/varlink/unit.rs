//! A unit as `io.systemd.Unit` tells of it: what it is to be (`context`) and what it does (`runtime`).
//!
//! The fields are those of the interface's description. The value of each is that of the D-Bus property of its name, put
//! into the field's type; what D-Bus of systemd 252 does not have is what the unit's files say. A field for which
//! neither knows a value is left out, as one that is not set.

use serde_json::{Map, Value, json};
use warren_bus::properties::{self, Interface as BusInterface, Subject};
use warren_unit::UnitType;
use warren_unit::config::TasksLimit;
use warren_unit::settings::{Id, Section};
use warren_unit::value::SECURE_BITS;

use super::idl::{Interface, Type};
use super::{raw, shape};

/// Words of `CPUSchedulingPolicy=`, `IOSchedulingClass=`, `NUMAPolicy=` and syslog(3), by number.
const CPU_POLICIES: [&str; 8] = ["other", "fifo", "rr", "batch", "", "idle", "", "ext"];
const IO_CLASSES: [&str; 4] = ["none", "realtime", "best_effort", "idle"];
const NUMA_POLICIES: [&str; 5] = ["default", "preferred", "bind", "interleave", "local"];
const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "12", "13", "14", "15", "local0", "local1", "local2", "local3", "local4", "local5",
    "local6", "local7",
];

/// Fields that D-Bus has under another name.
const RENAMED: [(&str, &str); 4] = [
    ("ID", "Id"),
    ("Path", "ControlGroup"),
    ("RestrictFilesystems", "RestrictFileSystems"),
    ("RestartUSecNext", "RestartUSec"),
];

/// Fields that the interface wants always, and others that have a value where no file says one: what this manager does
/// then.
const DEFAULTS: [(&str, &str, &str); 24] = [
    ("UnitContext", "SurviveFinalKillSignal", "no"),
    ("UnitContext", "DebugInvocation", "no"),
    ("UnitRuntime", "CanLiveMount", "no"),
    ("CGroupContext", "MemoryZSwapWriteback", "yes"),
    ("CGroupContext", "MemoryPressureWatch", "auto"),
    ("CGroupContext", "CPUPressureWatch", "no"),
    ("CGroupContext", "IOPressureWatch", "no"),
    ("CGroupContext", "CoredumpReceive", "no"),
    ("CGroupContext", "ManagedOOMSwap", "auto"),
    ("CGroupContext", "ManagedOOMMemoryPressure", "auto"),
    ("CGroupContext", "ManagedOOMPreference", "none"),
    ("ExecContext", "RootEphemeral", "no"),
    ("TimerContext", "DeferReactivation", "no"),
    ("SocketContext", "AcceptFileDescriptors", "yes"),
    ("SocketContext", "DeferTrigger", "no"),
    ("SocketContext", "PassFileDescriptorsToExec", "no"),
    ("ServiceContext", "RestartMode", "normal"),
    ("ServiceContext", "FileDescriptorStorePreserve", "restart"),
    ("ServiceContext", "ReloadSignal", "HUP"),
    ("ServiceRuntime", "LiveMountResult", "success"),
    ("MountRuntime", "ReloadResult", "success"),
    ("MountRuntime", "CleanResult", "success"),
    ("SocketRuntime", "CleanResult", "success"),
    ("SwapRuntime", "CleanResult", "success"),
];

/// What is told of one unit.
pub(crate) struct Told<'a> {
    subject: &'a Subject<'a>,
    interface: &'a Interface,
    bus: Vec<&'static BusInterface>,
}

/// What a field's own rule makes of it.
enum Ruled {
    /// No rule is there for it.
    No,
    /// It is this, or not told.
    Is(Option<Value>),
}

impl<'a> Told<'a> {
    /// Of this unit, as this description of `io.systemd.Unit` has it.
    pub(crate) fn new(subject: &'a Subject<'a>, interface: &'a Interface) -> Told<'a> {
        Told { subject, interface, bus: properties::interfaces(subject.unit_type()).collect() }
    }

    /// What it is to be.
    pub(crate) fn context(&self) -> Value {
        let mut context = self.object("UnitContext");
        let unit_type = self.subject.unit_type();
        let has_exec = has_exec(unit_type);
        let has_group = has_exec || matches!(unit_type, UnitType::Scope | UnitType::Slice);
        let own = format!("{}Context", unit_type.section());
        let parts = [
            ("CGroup", "CGroupContext", has_group),
            ("Exec", "ExecContext", has_exec),
            ("Kill", "KillContext", has_exec || unit_type == UnitType::Scope),
            (unit_type.section(), &*own, !self.interface.fields(&own).is_empty()),
        ];
        for (field, structure, _) in parts.into_iter().filter(|(_, _, has)| *has) {
            context.insert(field.to_owned(), self.object(structure).into());
        }
        context.into()
    }

    /// What it does.
    pub(crate) fn runtime(&self) -> Value {
        let mut runtime = self.object("UnitRuntime");
        let unit_type = self.subject.unit_type();
        if has_exec(unit_type) || matches!(unit_type, UnitType::Scope | UnitType::Slice) {
            let group = self.object("CGroupRuntime");
            // One that has a group, or had one of which something is known.
            if !group.is_empty() {
                runtime.insert("CGroup".to_owned(), group.into());
            }
        }
        let own = format!("{}Runtime", unit_type.section());
        if !self.interface.fields(&own).is_empty() {
            runtime.insert(unit_type.section().to_owned(), self.object(&own).into());
        }
        runtime.into()
    }

    fn object(&self, structure: &str) -> Map<String, Value> {
        let mut object = Map::new();
        for (name, of) in self.interface.fields(structure) {
            if let Some(value) = self.field(structure, name, of) {
                object.insert(name.clone(), value);
            }
        }
        object
    }

    fn field(&self, structure: &str, name: &str, of: &Type) -> Option<Value> {
        if let Ruled::Is(value) = self.by_rule(structure, name) {
            return value;
        }
        let named = match of {
            Type::Maybe(inner) => inner,
            of => of,
        };
        match named {
            Type::Named(named) if named == "Timestamp" => return self.timestamp(name),
            Type::Named(named) if named == "RateLimit" => return self.rate_limit(name),
            Type::Named(named) if named == "ProcessId" => return self.process(name),
            Type::Named(named) if named == "ExecCommand" => {
                return self.commands(name)?.into_iter().next();
            }
            Type::Named(named) if named == "EmergencyAction" => {
                let action = shape::shaped(self.interface, of, &self.raw(name)?)?;
                return (action != "none").then_some(action);
            }
            Type::List(inner) if **inner == Type::Named("ExecCommand".to_owned()) => {
                return self.commands(name).filter(|all| !all.is_empty()).map(Value::Array);
            }
            Type::List(inner) if **inner == Type::Named("ExecCommandStatus".to_owned()) => {
                let ends = self.ends(name.trim_end_matches("Status"))?;
                return (!ends.is_empty()).then(|| ends.into());
            }
            _ => {}
        }
        self.plain(structure, name, of)
    }

    /// The property of the name, else what files say, else what holds without either.
    fn plain(&self, structure: &str, name: &str, of: &Type) -> Option<Value> {
        if let Some(raw) = self.raw(name) {
            return shape::shaped(self.interface, of, &raw);
        }
        let text = self.setting(name);
        let text = text.and_then(|text| shape::of_text(self.interface, of, &text));
        let default = || {
            let row = DEFAULTS.iter().find(|row| (row.0, row.1) == (structure, name))?;
            shape::of_text(self.interface, of, row.2)
        };
        text.or_else(default)
    }

    fn raw(&self, name: &str) -> Option<Value> {
        let renamed = RENAMED.iter().find(|(field, _)| *field == name);
        raw::value(&self.bus, renamed.map_or(name, |(_, property)| property), self.subject)
    }

    /// What the files say last for the setting of this name.
    fn setting(&self, name: &str) -> Option<String> {
        let definition = self.subject.definition();
        let sections = [Section::Type(definition.unit_type()), Section::Unit];
        let id: Id = sections.into_iter().find_map(|section| section.setting(name))?;
        let entries = definition.files.iter().flat_map(|file| file.entries());
        let last = entries.filter(|entry| entry.setting == id).last()?;
        Some(last.value.to_owned())
    }

    fn by_rule(&self, structure: &str, name: &str) -> Ruled {
        let subject = self.subject;
        Ruled::Is(match (structure, name) {
            // Parts are put in by themselves.
            (
                "UnitContext" | "UnitRuntime",
                "CGroup" | "Exec" | "Kill" | "Service" | "Automount" | "Mount" | "Path" | "Scope"
                | "Socket" | "Swap" | "Timer",
            ) => None,
            ("UnitContext", "Type") => Some(subject.unit_type().to_string().into()),
            ("UnitContext", "Names") => {
                let others: Vec<&str> = subject.all_names().skip(1).collect();
                (!others.is_empty()).then(|| others.into())
            }
            ("UnitContext", "Description") => {
                let title = subject.description();
                (title != subject.name()).then(|| title.into())
            }
            ("UnitContext", "Conditions" | "Asserts") => self.conditions(name),
            ("UnitContext", "FailureActionExitStatus" | "SuccessActionExitStatus") => {
                self.raw(name).filter(|status| *status != -1)
            }
            ("UnitRuntime", "InvocationID") => self.invocation(),
            ("UnitRuntime", "JobId") => subject.run().job_id().map(|id| id.0.into()),
            ("UnitRuntime", "ActivationDetails") => None,
            ("UnitRuntime", "CanLiveMount") => Some(subject.run().main_process().is_some().into()),
            ("CGroupContext", "TasksMax") => self.tasks_max(),
            ("CGroupContext", "AllowedCPUs" | "StartupAllowedCPUs")
            | ("CGroupContext", "AllowedMemoryNodes" | "StartupAllowedMemoryNodes")
            | ("ExecContext", "NUMAMask") => shape::bits(&self.raw(name).unwrap_or_default()),
            ("CGroupContext", "SocketBindAllow" | "SocketBindDeny") => self.socket_binds(name),
            ("CGroupContext", "MemoryMin" | "MemoryLow" | "StartupMemoryLow") => {
                self.raw(name).filter(|bytes| *bytes != 0 && *bytes != u64::MAX)
            }
            ("CGroupContext", "ManagedOOMMemoryPressureLimit") => {
                self.raw(name).filter(|limit| *limit != 0)
            }
            ("CGroupRuntime", "ID") => subject.live().control_group_id.map(Value::from),
            ("ExecContext", "Limits") => self.limits(),
            ("ExecContext", "WorkingDirectory") => self.working_directory(),
            ("ExecContext", "CapabilityBoundingSet" | "AmbientCapabilities") => {
                let names = shape::capabilities(&self.raw(name).unwrap_or_default());
                names.filter(|names| names.as_array().is_some_and(|names| !names.is_empty()))
            }
            ("ExecContext", "RestrictNamespaces") => {
                let names = shape::namespaces(&self.raw(name).unwrap_or_default());
                names.filter(|names| names.as_array().is_some_and(|names| !names.is_empty()))
            }
            ("ExecContext", "OOMScoreAdjust") => self.setting(name).and_then(|_| self.raw(name)),
            ("ExecContext", "SystemCallErrorNumber") => self.setting(name).map(Value::from),
            ("ExecContext", "PrivateMounts" | "TTYReset" | "TTYVHangup" | "TTYVTDisallocate") => {
                self.raw(name).filter(|on| *on == true)
            }
            ("ExecContext", "SecureBits") => self.secure_bits(),
            ("ExecContext", "CPUSchedulingPolicy") => self.word_at(name, &CPU_POLICIES),
            ("ExecContext", "IOSchedulingClass") => self.word_at(name, &IO_CLASSES),
            ("ExecContext", "NUMAPolicy") => self.word_at(name, &NUMA_POLICIES),
            ("ExecContext", "SyslogLevel" | "LogLevelMax") => self.word_at(name, &LEVELS),
            ("ExecContext", "SyslogFacility") => self.word_at(name, &FACILITIES),
            ("ExecContext", "CPUAffinity") => {
                let affinity = shape::bits(&self.raw(name).unwrap_or_default());
                let from_numa = self.raw("CPUAffinityFromNUMA").unwrap_or(Value::Bool(false));
                let is_set = affinity.is_some() || from_numa == true;
                let affinity = affinity.unwrap_or_else(|| json!([]));
                is_set.then(|| json!({"affinity": affinity, "fromNUMA": from_numa}))
            }
            ("ExecContext", "ExecSearchPath") => {
                let paths = self.raw(name).unwrap_or_default();
                let paths: Vec<&str> = texts(&paths).collect();
                (!paths.is_empty()).then(|| paths.join(":").into())
            }
            ("ExecContext", "LogExtraFields") => self.byte_texts(name),
            ("ExecContext", "StandardInputData" | "RootHash" | "RootHashSignature") => {
                self.base64(name)
            }
            ("ExecContext", "BindPaths" | "BindReadOnlyPaths") => self.binds(name),
            // Not shown over D-Bus either: everybody may ask.
            ("ExecContext", "SetCredential" | "SetCredentialEncrypted") => None,
            (
                "ExecContext",
                "RuntimeDirectory"
                | "StateDirectory"
                | "CacheDirectory"
                | "LogsDirectory"
                | "ConfigurationDirectory",
            ) => self.directory(name),
            ("ExecContext", "TTYRows" | "TTYColumns") => {
                self.raw(name).filter(|size| *size != u16::MAX)
            }
            (
                "KillContext",
                "KillSignal" | "RestartKillSignal" | "FinalKillSignal" | "WatchdogSignal",
            ) => shape::signal(&self.raw(name).unwrap_or_default()),
            ("ServiceContext", "ReloadSignal") => {
                let text = self.setting(name).unwrap_or_else(|| "HUP".to_owned());
                Some(text.trim_start_matches("SIG").into())
            }
            ("ServiceContext", "WatchdogUSec" | "FileDescriptorStoreMax") => {
                self.raw(name).filter(|value| *value != 0 && *value != u64::MAX)
            }
            ("ServiceContext", "RuntimeRandomizedExtraUSec")
            | ("TimerContext", "RandomizedDelayUSec")
            | ("ServiceRuntime", "NRestarts" | "NFileDescriptorStore")
            | ("SocketRuntime", "NConnections" | "NAccepted" | "NRefused") => {
                self.raw(name).filter(|value| *value != 0)
            }
            (
                "ServiceContext",
                "SuccessExitStatus" | "RestartPreventExitStatus" | "RestartForceExitStatus",
            ) => self.exit_statuses(name),
            (
                "ServiceContext",
                "StandardInputFileDescriptor"
                | "StandardOutputFileDescriptor"
                | "StandardErrorFileDescriptor",
            ) => None,
            ("ServiceRuntime", "ExecMain") => self.main(),
            (_, "UID" | "GID") => self.raw(name).filter(|id| *id != u32::MAX),
            ("SocketContext", "SocketProtocol") => {
                let words = [(0, "ip"), (132, "sctp"), (136, "udplite")];
                let number = self.raw(name).unwrap_or_default();
                words.into_iter().find(|(known, _)| number == *known).map(|(_, word)| word.into())
            }
            (
                "SocketContext",
                "DeferAcceptUSec"
                | "KeepAliveTimeUSec"
                | "KeepAliveIntervalUSec"
                | "KeepAliveProbes"
                | "MessageQueueMaxMessages"
                | "MessageQueueMessageSize"
                | "PipeSize"
                | "ReceiveBuffer"
                | "SendBuffer"
                | "IPTOS"
                | "IPTTL"
                | "Mark"
                | "Priority",
            ) => self.raw(name).filter(|value| *value != -1 && *value != 0),
            ("TimerContext", "Timers") => self.timers(),
            ("TimerRuntime", "NextElapseUSecRealtime" | "NextElapseUSecMonotonic") => {
                // As systemd has it: never is 0, and one that is down says nothing.
                let next = self.raw(name).unwrap_or_default();
                let is_up = !subject.run().active_state().is_down();
                is_up.then(|| if next == u64::MAX { 0.into() } else { next })
            }
            _ => return Ruled::No,
        })
    }

    fn word_at(&self, name: &str, words: &[&str]) -> Option<Value> {
        shape::word_at(words, &self.raw(name)?)
    }

    /// Never is none.
    fn timestamp(&self, name: &str) -> Option<Value> {
        let realtime = self.raw(name)?;
        let monotonic = self.raw(&format!("{name}Monotonic"));
        match (realtime.as_u64().unwrap_or(0), monotonic.unwrap_or_default()) {
            (0, _) => None,
            (realtime, monotonic) => Some(json!({"realtime": realtime, "monotonic": monotonic})),
        }
    }

    fn rate_limit(&self, name: &str) -> Option<Value> {
        let interval = self.raw(&format!("{name}IntervalUSec"))?;
        let burst = self.raw(&format!("{name}Burst"))?;
        let is_set = burst != 0 && interval != 0 && interval != u64::MAX;
        is_set.then(|| json!({"intervalUSec": interval, "burst": burst}))
    }

    fn process(&self, name: &str) -> Option<Value> {
        let pid = self.raw(name)?.as_u64().filter(|pid| *pid != 0)?;
        Some(json!({"pid": pid}))
    }

    /// `a(sasbttttuii)` of the property; how they are run is in its `Ex` form.
    fn commands(&self, name: &str) -> Option<Vec<Value>> {
        let rows = self.raw(name)?;
        let extended = self.raw(&format!("{name}Ex")).unwrap_or_default();
        let flags = |at: usize| extended[at][2].clone();
        let command = |(at, row): (usize, &Value)| {
            let has = |flag: &str| texts(&flags(at)).any(|word| word == flag);
            let mut command = json!({
                "path": row[0],
                "ignoreFailure": row[2] == true || has("ignore-failure"),
                "privileged": has("privileged"),
                "noSetuid": has("no-setuid"),
                "noEnvExpand": has("no-env-expand"),
                "viaShell": has("via-shell"),
            });
            if row[1].as_array().is_some_and(|arguments| !arguments.is_empty()) {
                command["arguments"] = row[1].clone();
            }
            command
        };
        Some(rows.as_array()?.iter().enumerate().map(command).collect())
    }

    /// What is known of the runs of these commands; of those that were not run nothing.
    fn ends(&self, name: &str) -> Option<Vec<Value>> {
        let rows = self.raw(name)?;
        let was_run = |row: &&Value| row[7] != 0;
        let status = |row: &Value| {
            status([&row[3], &row[4]], [&row[5], &row[6]], &row[7], [&row[8], &row[9]])
        };
        Some(rows.as_array()?.iter().filter(was_run).map(status).collect())
    }

    fn main(&self) -> Option<Value> {
        let raw = |name: &str| self.raw(&format!("ExecMain{name}")).unwrap_or_default();
        let pid = raw("PID");
        (pid != 0).then(|| {
            status(
                [&raw("StartTimestamp"), &raw("StartTimestampMonotonic")],
                [&raw("ExitTimestamp"), &raw("ExitTimestampMonotonic")],
                &pid,
                [&raw("Code"), &raw("Status")],
            )
        })
    }

    /// `a(sbbsi)`
    fn conditions(&self, name: &str) -> Option<Value> {
        let rows = self.raw(name)?;
        let condition = |row: &Value| json!({"type": row[0], "trigger": row[1], "negate": row[2], "parameter": row[3]});
        let all: Vec<Value> = rows.as_array()?.iter().map(condition).collect();
        (!all.is_empty()).then(|| all.into())
    }

    fn invocation(&self) -> Option<Value> {
        let id = self.subject.history().map_or(0, |history| history.invocation);
        (id != 0).then(|| uuid(id).into())
    }

    /// A share stays a share.
    fn tasks_max(&self) -> Option<Value> {
        let own = self.subject.cgroup().tasks_max;
        let is_slice = self.subject.unit_type() == UnitType::Slice;
        let default = (!is_slice).then_some(self.subject.facts().defaults.tasks_max);
        match own.or(default)? {
            TasksLimit::Infinity => None,
            TasksLimit::Tasks(tasks) => Some(json!({"value": tasks, "scale": 0})),
            TasksLimit::Scale { numerator, denominator } => {
                Some(json!({"value": numerator, "scale": denominator}))
            }
        }
    }

    /// `a(iiqq)`
    fn socket_binds(&self, name: &str) -> Option<Value> {
        let rows = self.raw(name)?;
        let rule = |row: &Value| {
            let protocol = match row[1].as_i64() {
                Some(6) => "tcp",
                Some(17) => "udp",
                _ => "any",
            };
            json!({"family": row[0], "protocol": protocol, "numberOfPorts": row[2], "minimumPort": row[3]})
        };
        let all: Vec<Value> = rows.as_array()?.iter().map(rule).collect();
        (!all.is_empty()).then(|| all.into())
    }

    fn limits(&self) -> Option<Value> {
        let mut table = Map::new();
        for (name, _) in self.interface.fields("ResourceLimitTable") {
            let limit = |suffix: &str| self.raw(&format!("Limit{name}{suffix}"));
            if let Some(limit) = resource_limit(limit("Soft"), limit("")) {
                table.insert(name.clone(), limit);
            }
        }
        Some(table.into())
    }

    fn working_directory(&self) -> Option<Value> {
        let text = self.raw("WorkingDirectory")?;
        let text = text.as_str()?;
        // What may be missing begins with `-` in files, and with `!` over D-Bus.
        let (path, missing_ok) = match text.strip_prefix(['!', '-']) {
            Some(path) => (path, true),
            None => (text, false),
        };
        match path {
            "" => None,
            "~" => Some(json!({"home": true, "missingOK": missing_ok})),
            path => Some(json!({"path": path, "missingOK": missing_ok})),
        }
    }

    fn secure_bits(&self) -> Option<Value> {
        let set = self.raw("SecureBits")?.as_i64()?;
        let named = SECURE_BITS.iter().enumerate().filter(|(bit, _)| set & (1 << bit) != 0);
        let names: Vec<&str> = named.map(|(_, name)| *name).collect();
        (!names.is_empty()).then(|| names.into())
    }

    /// `aay` whose items are texts.
    fn byte_texts(&self, name: &str) -> Option<Value> {
        let items = self.raw(name)?;
        let all: Vec<String> = items.as_array()?.iter().map(text_of).collect();
        (!all.is_empty()).then(|| all.into())
    }

    fn base64(&self, name: &str) -> Option<Value> {
        use base64::Engine as _;
        let bytes = bytes_of(&self.raw(name)?);
        let text = || base64::engine::general_purpose::STANDARD.encode(&bytes);
        (!bytes.is_empty()).then(|| text().into())
    }

    /// `a(ssbt)`
    fn binds(&self, name: &str) -> Option<Value> {
        const RECURSIVE: u64 = 0x4000;
        let rows = self.raw(name)?;
        let bind = |row: &Value| {
            let flags = row[3].as_u64().unwrap_or(0);
            let options = if flags & RECURSIVE != 0 { "rbind" } else { "norbind" };
            json!({
                "source": row[0],
                "destination": row[1],
                "ignoreEnoent": row[2],
                "options": [options],
            })
        };
        let all: Vec<Value> = rows.as_array()?.iter().map(bind).collect();
        (!all.is_empty()).then(|| all.into())
    }

    fn directory(&self, name: &str) -> Option<Value> {
        let (paths, mode) = (self.raw(name)?, self.raw(&format!("{name}Mode"))?);
        let links = self.raw(&format!("{name}Symlink")).unwrap_or_default();
        let links = links.as_array().cloned().unwrap_or_default();
        let path = |path: &str| {
            let of_path = links.iter().filter(|link| link[0] == path);
            let of_path: Vec<&Value> = of_path.map(|link| &link[1]).collect();
            match of_path.is_empty() {
                true => json!({"path": path}),
                false => json!({"path": path, "symlinks": of_path}),
            }
        };
        let all: Vec<Value> = texts(&paths).map(path).collect();
        let quota = json!({
            "accounting": false, "enforce": false, "quotaAbsolute": 0, "quotaScale": 0,
        });
        (!all.is_empty()).then(|| json!({"paths": all, "mode": mode, "quota": quota}))
    }

    /// `(aiai)`
    fn exit_statuses(&self, name: &str) -> Option<Value> {
        let sets = self.raw(name)?;
        let signals = sets[1].as_array()?.iter().filter_map(shape::signal);
        let signals: Vec<Value> = signals.collect();
        let mut set = Map::new();
        if sets[0].as_array().is_some_and(|statuses| !statuses.is_empty()) {
            set.insert("statuses".to_owned(), sets[0].clone());
        }
        if !signals.is_empty() {
            set.insert("signals".to_owned(), signals.into());
        }
        (!set.is_empty()).then(|| set.into())
    }

    /// `a(stt)` and `a(sst)`
    fn timers(&self) -> Option<Value> {
        let (spans, calendars) = (self.raw("TimersMonotonic")?, self.raw("TimersCalendar")?);
        let spans = spans.as_array()?.iter().map(|row| json!({"base": row[0], "usec": row[1]}));
        let calendars = calendars.as_array()?.iter();
        let calendars = calendars.map(|row| json!({"base": row[0], "calendar": row[1]}));
        let all: Vec<Value> = spans.chain(calendars).collect();
        (!all.is_empty()).then(|| all.into())
    }
}

/// Whether units of this type run processes of their own.
fn has_exec(unit_type: UnitType) -> bool {
    matches!(unit_type, UnitType::Service | UnitType::Socket | UnitType::Mount | UnitType::Swap)
}

/// A limit; infinity is left out, and one that is infinite in both is none.
pub(crate) fn resource_limit(soft: Option<Value>, hard: Option<Value>) -> Option<Value> {
    let mut limit = Map::new();
    for (name, value) in [("soft", soft), ("hard", hard)] {
        if let Some(value) = value.filter(|value| *value != u64::MAX) {
            limit.insert(name.to_owned(), value);
        }
    }
    (!limit.is_empty()).then(|| limit.into())
}

fn status(
    started: [&Value; 2],
    ended: [&Value; 2],
    pid: &Value,
    [code, status]: [&Value; 2],
) -> Value {
    let moment = |[realtime, monotonic]: [&Value; 2]| {
        (*realtime != 0).then(|| json!({"realtime": realtime, "monotonic": monotonic}))
    };
    let mut told = json!({"PID": {"pid": pid}});
    if let Some(started) = moment(started) {
        told["StartTimestamp"] = started;
    }
    if let Some(ended) = moment(ended) {
        told["ExitTimestamp"] = ended;
        told["Code"] = code.clone();
        told["Status"] = status.clone();
    }
    told
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn bytes_of(list: &Value) -> Vec<u8> {
    let bytes = list.as_array().into_iter().flatten().filter_map(Value::as_u64);
    bytes.filter_map(|byte| u8::try_from(byte).ok()).collect()
}

fn text_of(list: &Value) -> String {
    String::from_utf8_lossy(&bytes_of(list)).into_owned()
}

/// With dashes (RFC 9562).
pub(crate) fn uuid(id: u128) -> String {
    let digits = format!("{id:032x}");
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// Reads 32 hexadecimal digits, with dashes at their places or without.
pub(crate) fn read_uuid(text: &str) -> Option<u128> {
    let digits = match text.len() {
        32 => text.to_owned(),
        _ => text.split('-').collect::<String>(),
    };
    let is_right = digits.bytes().all(|byte| byte.is_ascii_hexdigit()) && digits.len() == 32;
    let id = is_right.then(|| u128::from_str_radix(&digits, 16).ok()).flatten()?;
    (text.len() == 32 || uuid(id) == text.to_lowercase()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_read_with_dashes_and_without() {
        let id = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;
        let text = "01234567-89ab-cdef-0011-223344556677";
        assert_eq!(uuid(id), text);
        assert_eq!(read_uuid(text), Some(id));
        assert_eq!(read_uuid(&text.replace('-', "")), Some(id));
        assert_eq!(read_uuid(&text.to_uppercase()), Some(id));
        for wrong in [
            "",
            "x",
            "0123456789abcdef001122334455667",
            "0-123456789abcdef00112233445566-77",
            "+1234567-89ab-cdef-0011-223344556677",
        ] {
            assert_eq!(read_uuid(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn limits_without_an_end_are_left_out() {
        let limit = |soft: u64, hard: u64| resource_limit(Some(soft.into()), Some(hard.into()));
        assert_eq!(limit(u64::MAX, u64::MAX), None);
        assert_eq!(limit(0, u64::MAX), Some(json!({"soft": 0})));
        assert_eq!(limit(1, 2), Some(json!({"soft": 1, "hard": 2})));
    }
}
