//! What the manager keeps of every unit, active or not: small, frozen, derived from its files.
//!
//! The rest (command lines, limits, addresses, ...) is compiled when a unit is about to be used.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::UnitName;
use crate::relation::Relation;

/// How far loading got (the `LoadState` property of systemd).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LoadState {
    /// Usable.
    Loaded,
    /// There is no file, and the type needs one.
    NotFound,
    /// The files can be read but do not make a unit: a needed setting is missing or wrong.
    BadSetting,
    /// The files cannot be read.
    Error,
    /// The file is empty or a link to /dev/null.
    Masked,
    /// Nothing is known of it: it was forgotten, or never looked at.
    Stub,
}

impl LoadState {
    /// The name on the wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            LoadState::Loaded => "loaded",
            LoadState::NotFound => "not-found",
            LoadState::BadSetting => "bad-setting",
            LoadState::Error => "error",
            LoadState::Masked => "masked",
            LoadState::Stub => "stub",
        }
    }
}

impl fmt::Display for LoadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The switches of \[Unit\] that are asked for often, as bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UnitFlags(u16);

macro_rules! flags {
    ($( $(#[$doc:meta])* $name:ident = $bit:literal, $get:ident; )*) => {
        impl UnitFlags {
            $( $(#[$doc])* pub const $name: UnitFlags = UnitFlags(1 << $bit); )*
            const NAMES: &'static [(UnitFlags, &'static str)] =
                &[$( (UnitFlags::$name, stringify!($get)), )*];
            $( $(#[$doc])* pub const fn $get(self) -> bool { self.contains(UnitFlags::$name) } )*
        }
    };
}

flags! {
    /// StopWhenUnneeded=
    STOP_WHEN_UNNEEDED = 0, stop_when_unneeded;
    /// RefuseManualStart=
    REFUSE_MANUAL_START = 1, refuse_manual_start;
    /// RefuseManualStop=
    REFUSE_MANUAL_STOP = 2, refuse_manual_stop;
    /// AllowIsolate=
    ALLOW_ISOLATE = 3, allow_isolate;
    /// IgnoreOnIsolate=, with the default of the type applied
    IGNORE_ON_ISOLATE = 4, ignore_on_isolate;
    /// DefaultDependencies=
    DEFAULT_DEPENDENCIES = 5, default_dependencies;
    /// SurviveFinalKillSignal=
    SURVIVE_FINAL_KILL_SIGNAL = 6, survive_final_kill_signal;
    /// OnSuccess= or OnFailure= names a unit
    HAS_ON_RESULT = 7, has_on_result;
    /// at least one Condition*= or Assert*= is set
    HAS_CONDITIONS = 8, has_conditions;
    /// exists for ever and is always active: `-.slice`, `init.scope`, `-.mount`
    PERPETUAL = 9, perpetual;
    /// the unit can be reloaded (ExecReload=, Type=notify-reload, or a mount)
    CAN_RELOAD = 10, can_reload;
    /// CollectMode=inactive-or-failed
    COLLECT_FAILED = 11, collect_failed;
    /// job timeouts, start limits or emergency actions are written
    HAS_JOB_SETTINGS = 12, has_job_settings;
    /// a target that is ordered after what it pulls in: for each edge of a relation of
    /// [`Loaded::PULLS_IN`] to a unit that has DEFAULT_DEPENDENCIES set and that this one is not
    /// ordered before by either end, the graph adds After (systemd.target(5))
    COMPLETES_ORDERING = 13, completes_ordering;
    /// a start has to look at `RequireAny=`, `OptionalAll=` or `ExcludeAll=`
    HAS_GROUPS = 14, has_groups;
    /// User= or Group= is written
    NAMES_IDENTITY = 15, names_identity;
}

impl UnitFlags {
    /// No flag.
    pub const NONE: UnitFlags = UnitFlags(0);

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: UnitFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets or clears flags.
    pub const fn set(&mut self, other: UnitFlags, on: bool) {
        self.0 = if on { self.0 | other.0 } else { self.0 & !other.0 };
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: UnitFlags) -> UnitFlags {
        UnitFlags(self.0 | other.0)
    }
}

impl fmt::Debug for UnitFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = UnitFlags::NAMES.iter().filter(|(flag, _)| self.contains(*flag));
        f.debug_set().entries(names.map(|(_, name)| name)).finish()
    }
}

/// What is kept of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// How far loading got; the rest is empty unless it is `Loaded`.
    pub load_state: LoadState,
    /// Description=, or the unit's name.
    pub description: Arc<str>,
    /// Everything this unit states about others: written, implicit and default dependencies.
    /// Sorted, without duplicates. Of the inverses, only these occur: `ReloadPropagatedFrom` and
    /// `StopPropagatedFrom`, which files may say, and `TriggeredBy`, for Sockets=.
    pub relations: Box<[(Relation, UnitName)]>,
    /// Switches.
    pub flags: UnitFlags,
    /// The slice its cgroup lies in; `None` for types without a cgroup and for `-.slice`.
    pub slice: Option<UnitName>,
}

impl Loaded {
    /// The relations that [`UnitFlags::COMPLETES_ORDERING`] is about.
    pub const PULLS_IN: [Relation; 5] = [
        Relation::Requires,
        Relation::Requisite,
        Relation::Wants,
        Relation::BindsTo,
        Relation::Upholds,
    ];

    /// An unusable unit: a state and a name.
    pub fn unusable(name: &UnitName, load_state: LoadState) -> Loaded {
        Loaded {
            load_state,
            description: Arc::from(name.as_str()),
            relations: Box::default(),
            flags: UnitFlags::DEFAULT_DEPENDENCIES,
            slice: None,
        }
    }
}
