//! Orders to the loader that are under way, and what is done when it has answered.

use crate::base::answers::AnswerTo;
use crate::base::fair_queue::Questions;
use crate::daemon::clients::Client;
use crate::daemon::collector::Collector;
use crate::published::orders::{JobOutcome, LoaderOrder, Report};
use crate::socket::accept::WaitingConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::time::Instant;
use warren_bus::ReplySender;
use warren_bus::backend::{Call, Transient};
use warren_core::model::ids::UnitId;
use warren_core::protocol::request::Asker;
use warren_unit::{Diagnostic, UnitName};

/// What is to be done when the loader has answered.
pub(crate) enum AfterLoad {
    /// Make the job.
    Enqueue { asker: Asker, call: Call, client: Client },
    /// Tell which unit it is.
    Unit { name: UnitName, reply: ReplySender },
    /// Answer the bus.
    BusReload(ReplySender),
    /// Tell those who listen; who sent the signal hears nothing.
    SignalReload,
    /// Answer `warren`.
    Report { reply: AnswerTo<Report>, ordered: Instant },
    /// Start a unit that a client made.
    Transient(Box<StartTransient>),
    /// Tell whether it could be done.
    Done(ReplySender),
    /// Hand a connection to its instance.
    Connection(Box<WaitingConnection>),
    /// These units were to be forgotten.
    Forgotten(BTreeSet<UnitId>),
    /// Names that gained or lost a mount were loaded.
    Mounts,
    /// Tell this device's unit, of which something was wanted that was not loaded.
    Wanted(UnitName),
    /// Nobody waits.
    Nothing,
}

/// A unit that a client makes.
pub(crate) struct StartTransient {
    /// The client.
    pub(crate) asker: Asker,
    /// What it wants.
    pub(crate) made: Transient,
    /// Where the answer goes.
    pub(crate) reply: ReplySender,
    /// Where the end of its job goes.
    pub(crate) end: AnswerTo<JobOutcome>,
}

impl AfterLoad {
    pub(crate) fn is_reload(&self) -> bool {
        use AfterLoad::{BusReload, Report, SignalReload};
        matches!(self, Report { .. } | BusReload(_) | SignalReload)
    }
}

/// The loader's orders.
pub(crate) struct Loads {
    loader: Sender<LoaderOrder>,
    under_way: BTreeMap<u64, AfterLoad>,
    /// The token that was given last.
    last: u64,
    /// What unprivileged clients ask of the loader.
    pub(crate) questions: Questions<(Call, ReplySender)>,
    /// Units that may be forgotten.
    pub(crate) collector: Collector,
    /// Wrong values of units that were logged.
    pub(crate) faults_said: BTreeMap<UnitId, Box<[Diagnostic]>>,
}

/// The loader's thread has ended.
#[derive(Debug)]
pub(crate) struct LoaderGone;

impl Loads {
    /// Over the channel to the loader's thread.
    pub(crate) fn new(loader: Sender<LoaderOrder>) -> Loads {
        Loads {
            loader,
            under_way: BTreeMap::new(),
            last: 0,
            questions: Questions::default(),
            collector: Collector::default(),
            faults_said: BTreeMap::new(),
        }
    }

    /// Keeps what is to be done after an order; its token.
    pub(crate) fn add(&mut self, after: AfterLoad) -> u64 {
        self.last += 1;
        self.under_way.insert(self.last, after);
        self.last
    }

    /// What is to be done after the order with this token.
    pub(crate) fn take(&mut self, token: u64) -> Option<AfterLoad> {
        self.under_way.remove(&token)
    }

    /// Whether a client waits for the report of the order with this token.
    pub(crate) fn is_reported(&self, token: u64) -> bool {
        matches!(self.under_way.get(&token), Some(AfterLoad::Report { .. }))
    }

    /// Whether a reload is under way.
    pub(crate) fn is_reloading(&self) -> bool {
        self.under_way.values().any(AfterLoad::is_reload)
    }

    /// Sends an order.
    pub(crate) fn send(&self, order: LoaderOrder) -> Result<(), LoaderGone> {
        self.loader.send(order).map_err(|_| LoaderGone)
    }
}
