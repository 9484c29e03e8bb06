//! A unit as `io.systemd.Unit` tells of it: what it is to be (`context`) and what it does (`runtime`).
//!
//! The fields are those of the interface's description. The value of each is that of the D-Bus property of its name, put
//! into the field's type; what D-Bus of systemd 252 does not have is what the unit's files say. A field for which
//! neither knows a value is left out, as one that is not set.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use warren_bus::properties::{self, Property, Subject};
use warren_unit::UnitType;
use warren_unit::config::TasksLimit;
use warren_unit::settings::{Id, Section};
use warren_unit::value::SECURE_BITS;

use super::idl::{Fields, Interface, Type};
use super::{interfaces, raw, shape};

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

/// What a field's own rule makes of it; nothing is not told.
type Rule = fn(&Told<'_>, &str) -> Option<Value>;

/// How the value of a field is had.
enum How {
    /// By a rule of its own.
    Rule(Rule),
    /// A moment, of two properties.
    Timestamp,
    /// A rate, of two properties.
    RateLimit,
    /// A process, of which the number is known.
    Process,
    /// The first of the commands.
    Command,
    /// All of them, if there is any.
    Commands,
    /// How they ended.
    Ends,
    /// An action, if there is one.
    Action,
    /// The property of the name, else what files say, else what holds without either.
    Plain {
        property: Option<&'static Property>,
        setting: Option<Id>,
        default: Option<&'static str>,
    },
}

/// A field of a structure.
struct Field {
    name: &'static str,
    of: &'static Type,
    how: How,
}

/// How the fields of all structures are had of units of one type, by the structures' names: looked up once, as there
/// are hundreds of fields and properties.
type Plan = BTreeMap<&'static str, Vec<Field>>;

static PLANS: LazyLock<BTreeMap<UnitType, Plan>> = LazyLock::new(|| {
    let plan = |unit_type: &UnitType| {
        let structures = interfaces::unit().structures();
        let structures = structures.filter(|(structure, _)| is_told(structure));
        let fields = |structure: &'static str, fields: &'static Fields| {
            fields.iter().map(|(name, of)| Field::of(*unit_type, structure, name, of)).collect()
        };
        (*unit_type, structures.map(|(name, of)| (name, fields(name, of))).collect())
    };
    UnitType::ALL.iter().map(plan).collect()
});

/// Whether a structure is a part of what is told, and not what fields of it are made of.
fn is_told(structure: &str) -> bool {
    structure.ends_with("Context") || structure.ends_with("Runtime")
}

impl Field {
    fn of(
        unit_type: UnitType,
        structure: &'static str,
        name: &'static str,
        of: &'static Type,
    ) -> Field {
        let how = match rule(structure, name) {
            Some(rule) => How::Rule(rule),
            None => How::by_type(of).unwrap_or_else(|| How::plain(unit_type, structure, name)),
        };
        Field { name, of, how }
    }
}

impl How {
    /// By the name of the field's type.
    fn by_type(of: &Type) -> Option<How> {
        let named = match of {
            Type::Maybe(inner) => inner,
            of => of,
        };
        let is_list_of = |inner: &Type, name: &str| *inner == Type::Named(name.to_owned());
        match named {
            Type::Named(named) => match &**named {
                "Timestamp" => Some(How::Timestamp),
                "RateLimit" => Some(How::RateLimit),
                "ProcessId" => Some(How::Process),
                "ExecCommand" => Some(How::Command),
                "EmergencyAction" => Some(How::Action),
                _ => None,
            },
            Type::List(inner) if is_list_of(inner, "ExecCommand") => Some(How::Commands),
            Type::List(inner) if is_list_of(inner, "ExecCommandStatus") => Some(How::Ends),
            _ => None,
        }
    }

    fn plain(unit_type: UnitType, structure: &str, name: &str) -> How {
        let sections = [Section::Type(unit_type), Section::Unit];
        let row = DEFAULTS.iter().find(|row| (row.0, row.1) == (structure, name));
        How::Plain {
            property: property(unit_type, name),
            setting: sections.into_iter().find_map(|section| section.setting(name)),
            default: row.map(|row| row.2),
        }
    }
}

/// The property that a field has its value of.
fn property(unit_type: UnitType, name: &str) -> Option<&'static Property> {
    let renamed = RENAMED.iter().find(|(field, _)| *field == name);
    properties::find(unit_type, renamed.map_or(name, |(_, property)| property))
}

/// What is told of one unit.
pub(crate) struct Told<'a> {
    subject: &'a Subject<'a>,
    interface: &'static Interface,
    unit_type: UnitType,
    plan: &'static Plan,
}

impl<'a> Told<'a> {
    /// Of this unit.
    pub(crate) fn new(subject: &'a Subject<'a>) -> Told<'a> {
        let unit_type = subject.unit_type();
        let plan = PLANS.get(&unit_type).expect("there is one for each type");
        Told { subject, interface: interfaces::unit(), unit_type, plan }
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
        for field in self.plan.get(structure).into_iter().flatten() {
            if let Some(value) = self.field(field) {
                object.insert(field.name.to_owned(), value);
            }
        }
        object
    }

    fn field(&self, field: &Field) -> Option<Value> {
        let name = field.name;
        match field.how {
            How::Rule(rule) => rule(self, name),
            How::Timestamp => self.timestamp(name),
            How::RateLimit => self.rate_limit(name),
            How::Process => self.process(name),
            How::Command => self.commands(name)?.into_iter().next(),
            How::Commands => self.commands(name).filter(|all| !all.is_empty()).map(Value::Array),
            How::Ends => {
                let ends = self.ends(name.trim_end_matches("Status"))?;
                (!ends.is_empty()).then(|| ends.into())
            }
            How::Action => {
                let action = shape::shaped(self.interface, field.of, &self.raw(name)?)?;
                (action != "none").then_some(action)
            }
            How::Plain { property: Some(property), .. } => {
                shape::shaped(self.interface, field.of, &raw::read(property, self.subject))
            }
            How::Plain { property: None, setting, default } => {
                let of_text = |text: &str| shape::of_text(self.interface, field.of, text);
                let text = setting.and_then(|setting| self.said(setting));
                text.and_then(of_text).or_else(|| default.and_then(of_text))
            }
        }
    }

    fn raw(&self, name: &str) -> Option<Value> {
        property(self.unit_type, name).map(|property| raw::read(property, self.subject))
    }

    /// What the files say last for a setting.
    fn said(&self, setting: Id) -> Option<&'a str> {
        let files = self.subject.definition().files.iter();
        let entries = files.flat_map(|file| file.entries());
        entries.filter(|entry| entry.setting == setting).last().map(|entry| entry.value)
    }

    /// The same for the setting of this name.
    fn setting(&self, name: &str) -> Option<String> {
        let sections = [Section::Type(self.unit_type), Section::Unit];
        let id: Id = sections.into_iter().find_map(|section| section.setting(name))?;
        self.said(id).map(str::to_owned)
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

/// The rule of a field that has one of its own.
fn rule(structure: &str, name: &str) -> Option<Rule> {
    let rule: Rule = match (structure, name) {
        // Parts are put in by themselves.
        (
            "UnitContext" | "UnitRuntime",
            "CGroup" | "Exec" | "Kill" | "Service" | "Automount" | "Mount" | "Path" | "Scope"
            | "Socket" | "Swap" | "Timer",
        ) => |_, _| None,
        ("UnitContext", "Type") => |told, _| Some(told.subject.unit_type().to_string().into()),
        ("UnitContext", "Names") => |told, _| {
            let others: Vec<&str> = told.subject.all_names().skip(1).collect();
            (!others.is_empty()).then(|| others.into())
        },
        ("UnitContext", "Description") => |told, _| {
            let title = told.subject.description();
            (title != told.subject.name()).then(|| title.into())
        },
        ("UnitContext", "Conditions" | "Asserts") => |told, name| told.conditions(name),
        ("UnitContext", "FailureActionExitStatus" | "SuccessActionExitStatus") => {
            |told, name| told.raw(name).filter(|status| *status != -1)
        }
        ("UnitRuntime", "InvocationID") => |told, _| told.invocation(),
        ("UnitRuntime", "JobId") => |told, _| told.subject.run().job_id().map(|id| id.0.into()),
        ("UnitRuntime", "ActivationDetails") => |_, _| None,
        ("UnitRuntime", "CanLiveMount") => {
            |told, _| Some(told.subject.run().main_process().is_some().into())
        }
        ("CGroupContext", "TasksMax") => |told, _| told.tasks_max(),
        ("CGroupContext", "AllowedCPUs" | "StartupAllowedCPUs")
        | ("CGroupContext", "AllowedMemoryNodes" | "StartupAllowedMemoryNodes")
        | ("ExecContext", "NUMAMask") => {
            |told, name| shape::bits(&told.raw(name).unwrap_or_default())
        }
        ("CGroupContext", "SocketBindAllow" | "SocketBindDeny") => {
            |told, name| told.socket_binds(name)
        }
        ("CGroupContext", "MemoryMin" | "MemoryLow" | "StartupMemoryLow") => {
            |told, name| told.raw(name).filter(|bytes| *bytes != 0 && *bytes != u64::MAX)
        }
        ("CGroupContext", "ManagedOOMMemoryPressureLimit") => {
            |told, name| told.raw(name).filter(|limit| *limit != 0)
        }
        ("CGroupRuntime", "ID") => |told, _| told.subject.live().control_group_id.map(Value::from),
        ("ExecContext", "Limits") => |told, _| told.limits(),
        ("ExecContext", "WorkingDirectory") => |told, _| told.working_directory(),
        ("ExecContext", "CapabilityBoundingSet" | "AmbientCapabilities") => |told, name| {
            let names = shape::capabilities(&told.raw(name).unwrap_or_default());
            names.filter(|names| names.as_array().is_some_and(|names| !names.is_empty()))
        },
        ("ExecContext", "RestrictNamespaces") => |told, name| {
            let names = shape::namespaces(&told.raw(name).unwrap_or_default());
            names.filter(|names| names.as_array().is_some_and(|names| !names.is_empty()))
        },
        ("ExecContext", "OOMScoreAdjust") => {
            |told, name| told.setting(name).and_then(|_| told.raw(name))
        }
        ("ExecContext", "SystemCallErrorNumber") => {
            |told, name| told.setting(name).map(Value::from)
        }
        ("ExecContext", "PrivateMounts" | "TTYReset" | "TTYVHangup" | "TTYVTDisallocate") => {
            |told, name| told.raw(name).filter(|on| *on == true)
        }
        ("ExecContext", "SecureBits") => |told, _| told.secure_bits(),
        ("ExecContext", "CPUSchedulingPolicy") => |told, name| told.word_at(name, &CPU_POLICIES),
        ("ExecContext", "IOSchedulingClass") => |told, name| told.word_at(name, &IO_CLASSES),
        ("ExecContext", "NUMAPolicy") => |told, name| told.word_at(name, &NUMA_POLICIES),
        ("ExecContext", "SyslogLevel" | "LogLevelMax") => |told, name| told.word_at(name, &LEVELS),
        ("ExecContext", "SyslogFacility") => |told, name| told.word_at(name, &FACILITIES),
        ("ExecContext", "CPUAffinity") => |told, name| {
            let affinity = shape::bits(&told.raw(name).unwrap_or_default());
            let from_numa = told.raw("CPUAffinityFromNUMA").unwrap_or(Value::Bool(false));
            let is_set = affinity.is_some() || from_numa == true;
            let affinity = affinity.unwrap_or_else(|| json!([]));
            is_set.then(|| json!({"affinity": affinity, "fromNUMA": from_numa}))
        },
        ("ExecContext", "ExecSearchPath") => |told, name| {
            let paths = told.raw(name).unwrap_or_default();
            let paths: Vec<&str> = texts(&paths).collect();
            (!paths.is_empty()).then(|| paths.join(":").into())
        },
        ("ExecContext", "LogExtraFields") => |told, name| told.byte_texts(name),
        ("ExecContext", "StandardInputData" | "RootHash" | "RootHashSignature") => {
            |told, name| told.base64(name)
        }
        ("ExecContext", "BindPaths" | "BindReadOnlyPaths") => |told, name| told.binds(name),
        // Not shown over D-Bus either: everybody may ask.
        ("ExecContext", "SetCredential" | "SetCredentialEncrypted") => |_, _| None,
        (
            "ExecContext",
            "RuntimeDirectory"
            | "StateDirectory"
            | "CacheDirectory"
            | "LogsDirectory"
            | "ConfigurationDirectory",
        ) => |told, name| told.directory(name),
        ("ExecContext", "TTYRows" | "TTYColumns") => {
            |told, name| told.raw(name).filter(|size| *size != u16::MAX)
        }
        (
            "KillContext",
            "KillSignal" | "RestartKillSignal" | "FinalKillSignal" | "WatchdogSignal",
        ) => |told, name| shape::signal(&told.raw(name).unwrap_or_default()),
        ("ServiceContext", "ReloadSignal") => |told, name| {
            let text = told.setting(name).unwrap_or_else(|| "HUP".to_owned());
            Some(text.trim_start_matches("SIG").into())
        },
        ("ServiceContext", "WatchdogUSec" | "FileDescriptorStoreMax") => {
            |told, name| told.raw(name).filter(|value| *value != 0 && *value != u64::MAX)
        }
        ("ServiceContext", "RuntimeRandomizedExtraUSec")
        | ("TimerContext", "RandomizedDelayUSec")
        | ("ServiceRuntime", "NRestarts" | "NFileDescriptorStore")
        | ("SocketRuntime", "NConnections" | "NAccepted" | "NRefused") => {
            |told, name| told.raw(name).filter(|value| *value != 0)
        }
        (
            "ServiceContext",
            "SuccessExitStatus" | "RestartPreventExitStatus" | "RestartForceExitStatus",
        ) => |told, name| told.exit_statuses(name),
        (
            "ServiceContext",
            "StandardInputFileDescriptor"
            | "StandardOutputFileDescriptor"
            | "StandardErrorFileDescriptor",
        ) => |_, _| None,
        ("ServiceRuntime", "ExecMain") => |told, _| told.main(),
        (_, "UID" | "GID") => |told, name| told.raw(name).filter(|id| *id != u32::MAX),
        ("SocketContext", "SocketProtocol") => |told, name| {
            let words = [(0, "ip"), (132, "sctp"), (136, "udplite")];
            let number = told.raw(name).unwrap_or_default();
            words.into_iter().find(|(known, _)| number == *known).map(|(_, word)| word.into())
        },
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
        ) => |told, name| told.raw(name).filter(|value| *value != -1 && *value != 0),
        ("TimerContext", "Timers") => |told, _| told.timers(),
        ("TimerRuntime", "NextElapseUSecRealtime" | "NextElapseUSecMonotonic") => |told, name| {
            // As systemd has it: never is 0, and one that is down says nothing.
            let next = told.raw(name).unwrap_or_default();
            let is_up = !told.subject.run().active_state().is_down();
            is_up.then(|| if next == u64::MAX { 0.into() } else { next })
        },
        _ => return None,
    };
    Some(rule)
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
