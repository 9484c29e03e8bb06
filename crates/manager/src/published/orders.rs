//! What other threads ask of the loop.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use warren_bus::backend::{Call, ReplySender, Transient};
use warren_bus::names::NameState;
use warren_calendar::Zone;
use warren_core::graph::{Delta, Graph};
use warren_core::model::ids::UnitId;
use warren_core::model::job::JobResult;
use warren_core::model::time::{Moment, Monotonic};
use warren_core::protocol::request::{Asker, Request};
use warren_core::settings::Settings;
use warren_trace::event::Event;
use warren_trace::record::Head;
use warren_trace::words::Subject;
use warren_unit::{Defaults, Diagnostic, UnitName};

use crate::base::answers::AnswerTo;
use crate::base::environment::BaseEnvironment;
use crate::config::fleet::RulesChange;
use crate::config::loader::Loading;
use crate::config::snapshot::Work;
use crate::config::unit_files::Question;
use crate::mount::kernel_mounts::Changed;
use crate::published::scheduled::Scheduled;
use crate::recording::names::Formers;
use crate::recording::recorder::Done;

/// One order.
pub enum Order {
    /// A client of the bus.
    Call {
        /// Who asks.
        asker: Asker,
        /// What for.
        call: Call,
        /// Where the answer goes.
        reply: ReplySender,
    },
    /// The same, to be answered when the job that it makes has ended.
    CallAndWait {
        /// Who asks.
        asker: Asker,
        /// What for.
        call: Call,
        /// Where the end goes.
        reply: AnswerTo<JobOutcome>,
    },
    /// Make a unit and start it: answered when its job is installed, and again when that has ended.
    StartTransient {
        /// Who asks.
        asker: Asker,
        /// What is made.
        made: Box<Transient>,
        /// Where the answer goes.
        reply: ReplySender,
        /// Where the end goes.
        end: AnswerTo<JobOutcome>,
    },
    /// Several that are taken at once.
    Together(Vec<Order>),
    /// A request that clients of the bus do not have.
    Ask {
        /// Who asks.
        asker: Asker,
        /// What for.
        request: Request,
        /// Where the answer goes.
        reply: AnswerTo<JobOutcome>,
    },
    /// Plan an end.
    Plan {
        /// Who asks.
        asker: Asker,
        /// Which.
        scheduled: Scheduled,
        /// Where the answer goes.
        reply: Sender<Result<(), String>>,
    },
    /// There is to be no end; the answer is whether one was planned.
    CancelPlan(Asker, Sender<bool>),
    /// A lock against an end is gone.
    Unlocked,
    /// Read the configuration again.
    Reload {
        /// How.
        how: Reload,
        /// Where the report goes.
        reply: AnswerTo<Report>,
    },
    /// Find a stretch of what was recorded.
    Stretch {
        /// From here.
        from: Monotonic,
        /// Until here.
        until: Monotonic,
        /// Where it goes.
        reply: Sender<Stretch>,
    },
    /// Say which boot or shutdown is being recorded, and since when.
    UnderWay(Sender<Option<(Subject, Moment)>>),
    /// Cut the first piece out of it.
    Cut {
        /// The events' numbers.
        numbers: Range<u64>,
        /// Where at most [`PIECE_EVENTS_MAX`](crate::recording::recorder::PIECE_EVENTS_MAX) of them go.
        reply: Sender<Vec<Event>>,
    },
    /// What became of a bus name.
    BusName(String, NameState),
    /// The time zone of the host may be another one.
    ZoneSet(Zone),
    /// Clients on the bus refer to a unit, or no longer do.
    Refer(UnitId, bool),
    /// What the loader made.
    Loaded(Box<LoaderAnswer>),
    /// A question of somebody who may change nothing is answered.
    Answered,
    /// A client had unit files enabled, masked or the like.
    FilesChanged,
}

impl Order {
    /// Whether somebody outside asked, and waits for the answer.
    pub fn is_asked(&self) -> bool {
        !matches!(
            self,
            Order::Unlocked
                | Order::BusName(..)
                | Order::ZoneSet(_)
                | Order::Refer(..)
                | Order::Loaded(_)
                | Order::Answered
        )
    }
}

/// A stretch of what was recorded.
pub struct Stretch {
    /// What a recording of it begins with.
    pub head: Head,
    /// The numbers of its events.
    pub numbers: Range<u64>,
    /// The numbers of all events that are there.
    pub kept: Range<u64>,
    /// When it began, or what is there of it.
    pub began: Monotonic,
    /// Names and order of the units.
    pub graph: Arc<Graph>,
    /// Names of those that were forgotten.
    pub formers: Formers,
}

/// How a job that was waited for ended.
#[derive(Debug)]
pub enum JobOutcome {
    /// The call was refused.
    Refused {
        /// In systemd's words.
        text: String,
        /// The unit that stands against it, where it is one.
        about: Option<UnitName>,
    },
    /// There was nothing to wait for.
    Nothing,
    /// The job ended.
    Job(JobResult),
    /// It waits without a limit for this device, which is not there.
    InVain(UnitName),
}

/// How the configuration is read again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reload {
    /// Look at every file.
    pub full: bool,
    /// Only report what would change.
    pub dry_run: bool,
    /// Only what concerns this unit.
    pub unit: Option<UnitName>,
    /// Only what rules make.
    pub rules_only: bool,
    /// Back to this generation instead.
    pub rollback: Option<u64>,
}

impl Reload {
    /// All that changed.
    pub const ALL: Reload =
        Reload { full: false, dry_run: false, unit: None, rules_only: false, rollback: None };
}

/// Units that are up by what their files were.
#[derive(Debug, Default)]
pub struct ChangedUp {
    /// Which.
    pub units: Vec<UnitId>,
    /// The generations before and after.
    pub graphs: Option<[Arc<Graph>; 2]>,
}

impl ChangedUp {
    /// Those that would be others if they were started by their new settings. Of thousands that takes a moment.
    pub fn needs_restart(&self, settings: &Settings) -> Vec<UnitName> {
        let Some([before, after]) = &self.graphs else { return Vec::new() };
        let own = |graph: &Graph, unit| graph.get(unit).map(|it| settings.compile(it).own);
        let is_another = |unit: &&UnitId| match (own(before, **unit), own(after, **unit)) {
            (Some(own), Some(by)) => own.is_begun_otherwise(&by),
            _ => true,
        };
        self.units.iter().filter(is_another).map(|unit| after.name(*unit).clone()).collect()
    }
}

/// What a reload did, or would do.
#[derive(Debug, Default)]
pub struct Report {
    /// The generation now in force.
    pub generation: u64,
    /// Names of units.
    pub added: Vec<UnitName>,
    /// Names of units.
    pub changed: Vec<UnitName>,
    /// Names of units.
    pub removed: Vec<UnitName>,
    /// Active units whose files changed.
    pub changed_up: ChangedUp,
    /// What rules made before and after, where that differs.
    pub rules: Option<RulesChange>,
    /// What was wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// What it cost.
    pub work: Work,
    /// Time from the order to the new generation, and the loop's part of it, in µs.
    pub took_us: u64,
    /// The loop's part of it, in µs.
    pub loop_us: u64,
    /// Why nothing was done.
    pub error: Option<String>,
}

/// To the loader.
pub enum LoaderOrder {
    /// Find changes and load them.
    Reload {
        /// How.
        how: Reload,
        /// Comes back with the answer.
        token: u64,
    },
    /// Make a generation without these units, as far as nothing needs them.
    Forget {
        /// Which.
        names: Vec<UnitName>,
        /// Comes back with the answer.
        token: u64,
    },
    /// Make units of these files, and load them.
    Transient {
        /// Names and texts.
        files: Vec<(UnitName, String)>,
        /// Comes back with the answer.
        token: u64,
    },
    /// Change settings of a unit, and load it again.
    SetProperties {
        /// Which.
        unit: UnitName,
        /// Until the next boot.
        runtime: bool,
        /// The name of each setting, and its drop-in.
        dropins: Vec<(&'static str, String)>,
        /// Comes back with the answer.
        token: u64,
    },
    /// Load names that gained or lost a mount.
    Mounts {
        /// Which.
        changes: Vec<Changed>,
        /// Comes back with the answer.
        token: u64,
    },
    /// Load one name.
    LoadOne {
        /// Which.
        name: UnitName,
        /// Also what lies behind its links to where no configuration is: who asks may wait for a server,
        /// and the loader with him.
        goes_far: bool,
        /// Comes back with the answer.
        token: u64,
    },
    /// Do what a client wants done with unit files; no generation comes of it.
    Files {
        /// What.
        question: Question,
        /// Where the answer goes.
        reply: ReplySender,
    },
}

/// From the loader.
pub struct LoaderAnswer {
    /// Of the order.
    pub token: u64,
    /// What was loaded; the delta of a dry run is not in force.
    pub loading: Loading,
    /// It is only a report.
    pub dry_run: bool,
    /// Why nothing was loaded.
    pub error: Option<String>,
    /// What was done for it.
    pub done: Vec<Done>,
    /// The manager's CPU time when the first of that began, in µs.
    pub cpu_us: u64,
    /// Installation states, where they may have changed.
    pub states: Option<Arc<crate::config::file_states::FileStates>>,
    /// What the manager's environment begins with, where that was looked at.
    pub environment: Option<BaseEnvironment>,
    /// What units get that say nothing, where that is another now.
    pub defaults: Option<Arc<Defaults>>,
}

impl LoaderAnswer {
    /// Nothing but what was loaded.
    pub fn of(token: u64, loading: Loading, dry_run: bool) -> LoaderAnswer {
        LoaderAnswer {
            token,
            loading,
            dry_run,
            error: None,
            done: Vec::new(),
            cpu_us: 0,
            states: None,
            environment: None,
            defaults: None,
        }
    }
}

impl Report {
    /// The names in a delta.
    pub fn name(&mut self, graph: &Graph, delta: &Delta) {
        let names = |ids: &[warren_core::model::ids::UnitId]| -> Vec<UnitName> {
            ids.iter().map(|id| graph.name(*id).clone()).collect()
        };
        self.added = names(&delta.added);
        self.changed = names(&delta.changed);
        self.removed = names(&delta.removed);
        self.generation = graph.generation();
    }
}
