//! Signals: what is told to subscribers, and the queue of what one of them has yet to be told.
//!
//! The queue holds facts, not bytes: a unit that changes twice before its subscriber has read
//! stands in it once, and is encoded from the newest view when its turn comes. So a slow reader
//! costs a few bytes for each unit at most, and what it reads is never out of date.

use crate::backend::Backend;
use crate::path;
use crate::properties::manager::MANAGER_INTERFACE;
use crate::properties::{self, Emits, Interface, Subject};
use crate::wire::{self, To, Writer};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use warren_core::model::ids::UnitId;
use warren_core::protocol::request::Notice;
use warren_core::view::View;

/// Most entries of one subscriber's queue; beyond it, it has stopped reading and is dropped.
pub const QUEUE_ENTRIES_MAX: usize = 1 << 18;

const PROPERTIES_CHANGED: &str = "org.freedesktop.DBus.Properties.PropertiesChanged";

/// Something that all subscribers are told, besides units and jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Announcement {
    /// A reload of the configuration begins or has ended.
    Reloading(bool),
    /// Links or files were made or removed through the manager.
    UnitFilesChanged,
    /// The boot transaction is done; microseconds.
    StartupFinished {
        /// Of firmware, boot loader, kernel and initrd; 0 where there was none.
        before: [u64; 4],
        /// Of user space.
        userspace: u64,
        /// In all.
        total: u64,
    },
}

/// One entry of a queue.
#[derive(Clone, Debug)]
enum Entry {
    Notice(Notice),
    Changed(UnitId),
    ManagerChanged,
    Announcement(Announcement),
}

/// Units whose signals are kept for the next subscriber: some 4 KB each.
const ENCODED_UNITS_MAX: usize = 1024;

/// What all subscribers are told of units in one view, encoded once.
pub struct Encoded {
    view: Arc<View>,
    units: BTreeMap<UnitId, Vec<Signal>>,
}

impl Encoded {
    /// Nothing yet.
    pub fn of(view: Arc<View>) -> Encoded {
        Encoded { view, units: BTreeMap::new() }
    }

    /// Whether it is of this view.
    pub fn is_of(&self, view: &Arc<View>) -> bool {
        Arc::ptr_eq(&self.view, view)
    }

    /// PropertiesChanged of the unit.
    fn of_unit(&mut self, unit: UnitId, backend: &dyn Backend) -> &[Signal] {
        if self.units.len() >= ENCODED_UNITS_MAX && !self.units.contains_key(&unit) {
            self.units.clear();
        }
        let view = &self.view;
        self.units.entry(unit).or_insert_with(|| {
            let mut signals = Vec::new();
            properties_changed(view, backend, unit, &mut |signal| signals.push(signal));
            signals
        })
    }
}

/// What one subscriber has yet to be told.
#[derive(Debug, Default)]
pub struct SignalQueue {
    entries: VecDeque<Entry>,
    changed: BTreeSet<UnitId>,
}

impl SignalQueue {
    /// Adds what one publication tells: what is new, then what changed, then what ended, so that
    /// whoever waits for a job sees its unit's last state before the job's end. Then, if another
    /// number of units is `failed` now, how many.
    pub fn publish(&mut self, changed: &[UnitId], notices: &[Notice], fails_others: bool) {
        self.extend(notices.iter().filter(|notice| is_beginning(notice)));
        for unit in changed {
            if self.changed.insert(*unit) {
                self.entries.push_back(Entry::Changed(*unit));
            }
        }
        self.extend(notices.iter().filter(|notice| is_end(notice)));
        if fails_others {
            self.entries.push_back(Entry::ManagerChanged);
        }
    }

    /// Adds an announcement.
    pub fn announce(&mut self, announcement: Announcement) {
        self.entries.push_back(Entry::Announcement(announcement));
    }

    /// Whether the subscriber has fallen too far behind.
    pub fn is_over(&self) -> bool {
        self.entries.len() > QUEUE_ENTRIES_MAX
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Encodes the next entry; the messages go to `out`, each with a serial of its own.
    pub fn encode_next(
        &mut self,
        encoded: &mut Encoded,
        backend: &dyn Backend,
        out: &mut dyn FnMut(&Signal),
    ) {
        match self.entries.pop_front() {
            None => {}
            Some(Entry::Changed(unit)) => {
                self.changed.remove(&unit);
                encoded.of_unit(unit, backend).iter().for_each(out);
            }
            Some(Entry::ManagerChanged) => out(&failed_changed(&encoded.view, backend)),
            Some(Entry::Notice(notice)) => {
                encode_notice(&encoded.view, &notice, &mut |signal| out(&signal));
            }
            Some(Entry::Announcement(announcement)) => {
                encode_announcement(announcement, &mut |signal| out(&signal));
            }
        }
    }

    fn extend<'a>(&mut self, notices: impl Iterator<Item = &'a Notice>) {
        self.entries.extend(notices.map(|notice| Entry::Notice(notice.clone())));
    }
}

fn is_beginning(notice: &Notice) -> bool {
    matches!(notice, Notice::UnitNew(_) | Notice::JobNew { .. })
}

fn is_end(notice: &Notice) -> bool {
    matches!(notice, Notice::UnitRemoved(_) | Notice::JobRemoved { .. })
}

/// A signal that lacks its serial only.
pub struct Signal {
    path: String,
    member: &'static str,
    signature: &'static str,
    body: Vec<u8>,
}

impl Signal {
    /// The whole message.
    pub fn message(&self, to: To<'_>, serial: u32) -> Vec<u8> {
        wire::signal(to, serial, &self.path, self.member, self.signature, &self.body)
    }
}

fn from_manager(member: &'static str, signature: &'static str, body: Writer) -> Signal {
    Signal { path: path::MANAGER.to_owned(), member, signature, body: body.finish() }
}

fn encode_notice(view: &View, notice: &Notice, out: &mut dyn FnMut(Signal)) {
    let name = |unit: &UnitId| view.definition(*unit).name.as_str();
    let mut w = Writer::new();
    out(match notice {
        Notice::UnitNew(unit) => {
            w.str(name(unit)).str(&path::unit(name(unit)));
            from_manager("org.freedesktop.systemd1.Manager.UnitNew", "so", w)
        }
        Notice::UnitRemoved(unit) => {
            w.str(name(unit)).str(&path::unit(name(unit)));
            from_manager("org.freedesktop.systemd1.Manager.UnitRemoved", "so", w)
        }
        Notice::JobNew { job, unit } => {
            w.u32(job.0).str(&path::job(job.0)).str(name(unit));
            from_manager("org.freedesktop.systemd1.Manager.JobNew", "uos", w)
        }
        Notice::JobRemoved { job, unit, result, .. } => {
            w.u32(job.0).str(&path::job(job.0)).str(name(unit)).str(result.as_str());
            from_manager("org.freedesktop.systemd1.Manager.JobRemoved", "uoss", w)
        }
        Notice::RequestStop(unit) => Signal {
            path: path::unit(name(unit)),
            member: "org.freedesktop.systemd1.Scope.RequestStop",
            signature: "",
            body: Vec::new(),
        },
        Notice::Log { .. } | Notice::RemovalGivenUp { .. } | Notice::CycleBroken { .. } => return,
    });
}

fn encode_announcement(announcement: Announcement, out: &mut dyn FnMut(Signal)) {
    let mut w = Writer::new();
    out(match announcement {
        Announcement::Reloading(active) => {
            w.bool(active);
            from_manager("org.freedesktop.systemd1.Manager.Reloading", "b", w)
        }
        Announcement::UnitFilesChanged => {
            from_manager("org.freedesktop.systemd1.Manager.UnitFilesChanged", "", w)
        }
        Announcement::StartupFinished { before, userspace, total } => {
            before.iter().chain(&[userspace, total]).for_each(|time| {
                w.u64(*time);
            });
            from_manager("org.freedesktop.systemd1.Manager.StartupFinished", "tttttt", w)
        }
    });
}

/// PropertiesChanged of the manager, which is sent for this one of its properties.
fn failed_changed(view: &View, backend: &dyn Backend) -> Signal {
    let interface = &MANAGER_INTERFACE;
    let subject = Subject::manager(view, backend);
    let mut w = Writer::new();
    w.str(interface.name);
    w.array(b'{', |w| {
        let failed = interface.properties().filter(|property| property.name == "NFailedUnits");
        failed.for_each(|property| property.write_entry(&subject, w));
    });
    w.strs(std::iter::empty());
    from_manager(PROPERTIES_CHANGED, "sa{sv}as", w)
}

/// PropertiesChanged of the type's interface, then of the one that all units have.
fn properties_changed(
    view: &View,
    backend: &dyn Backend,
    unit: UnitId,
    out: &mut dyn FnMut(Signal),
) {
    let definition = view.definition(unit);
    let subject = Subject::unit(view, backend, unit);
    for interface in properties::interfaces(definition.unit_type()) {
        if let Some(body) = changed_body(interface, &subject) {
            out(Signal {
                path: path::unit(definition.name.as_str()),
                member: PROPERTIES_CHANGED,
                signature: "sa{sv}as",
                body,
            });
        }
    }
}

/// All properties of the interface that tell of changes; nothing if it has none.
fn changed_body(interface: &Interface, subject: &Subject<'_>) -> Option<Vec<u8>> {
    let with = |emits: Emits| interface.properties().filter(move |p| p.emits == emits);
    with(Emits::Value).chain(with(Emits::Invalidates)).next()?;
    let mut w = Writer::with_capacity(2048);
    w.str(interface.name);
    w.array(b'{', |w| with(Emits::Value).for_each(|property| property.write_entry(subject, w)));
    w.strs(with(Emits::Invalidates).map(|property| property.name));
    Some(w.finish())
}
