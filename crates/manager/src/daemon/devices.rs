//! What the loop does with news of devices.

use crate::base::clock::now;
use crate::base::say::say;
use crate::base::token;
use crate::daemon::Daemon;
use crate::daemon::loads::AfterLoad;
use crate::peer::devices::{
    DEVICE_DAEMON, WANTS_MAX, daemon_unit, is_expected, is_out, is_plugged,
};
use crate::published::orders::LoaderOrder;
use std::collections::BTreeSet;
use std::sync::Arc;
use warren_core::graph::{Delta, Graph};
use warren_core::model::device_news::{DeviceChange, DeviceNews, Sight};
use warren_core::model::ids::UnitId;
use warren_core::persist::run_state::Restored;
use warren_core::protocol::event::Event;
use warren_unit::UnitName;
use warren_wire::device_link;

impl Daemon {
    /// At the first start: whether somebody is going to look for devices.
    pub(crate) fn foresee_devices(&mut self, graph: &Graph) {
        if is_expected(graph) {
            self.core.set_sight(Sight::Seeing);
        }
    }

    /// After a restart: whether somebody does; and all that was told is asked for again.
    pub(crate) fn take_up_devices(&mut self, graph: &Graph, restored: &Restored) {
        let unit = daemon_unit(graph);
        let run = unit.and_then(|unit| restored.runs.get(&unit));
        let not_begun = restored.manager.is_none_or(|manager| manager.jobs_ever == 0);
        if run.is_some_and(|run| !is_out(run)) || not_begun && is_expected(graph) {
            self.core.set_sight(Sight::Seeing);
            self.peers.devices.ask();
            let plugged = restored.runs.iter().filter(|(_, run)| is_plugged(run));
            let names = plugged.map(|(&unit, _)| graph.name(unit).clone());
            self.peers.devices.table.expect(names);
        }
    }

    /// Takes what the daemon said.
    pub(crate) fn read_devices(&mut self) {
        for text in self.peers.devices.receive() {
            let began = now().monotonic;
            let said = device_link::read(&text);
            let first = self.core.sight() == Sight::Blind || self.peers.devices.table.is_empty();
            let touched = self.peers.devices.table.apply(said.batch);
            self.tell_replaced();
            self.look_at_mounts(&touched);
            let started = self.peers.devices.note_activation(began);
            started.into_iter().for_each(|done| self.recording.recorder.did(done));
            self.shared.publish_devices(Arc::new(self.peers.devices.table.clone()));
            let changed = |name: &UnitName| {
                let facts = self.peers.devices.table.ready(name);
                facts.is_some_and(|facts| said.changed.contains(&facts.path))
            };
            let with_change = |name: UnitName| {
                let changed = changed(&name);
                (name, changed)
            };
            let news: Vec<(UnitName, bool)> = touched.into_iter().map(with_change).collect();
            self.tell_devices(news);
            if first {
                let count = self.peers.devices.table.devices().count();
                let took = now().monotonic.since(began);
                say!("received {count} devices from warren-deviced in {:.3} s", took.as_secs_f64());
            }
        }
    }

    /// What was bound to a disk in whose place another one is has lost it, before the other one is told of.
    fn tell_replaced(&mut self) {
        let replaced = self.peers.devices.table.take_replaced();
        let units = replaced.iter().filter_map(|name| self.core.graph().lookup(name));
        let gone = |unit| DeviceChange { unit, plugged: false, changed: false, wants: Vec::new() };
        let changes: Vec<DeviceChange> = units.map(gone).collect();
        if !changes.is_empty() {
            self.event_loop
                .events
                .push_back(Event::Devices(DeviceNews { sight: Sight::Seeing, changes }));
        }
    }

    /// What is known of these devices may be news to mounts of them.
    fn look_at_mounts(&mut self, devices: &BTreeSet<UnitName>) {
        let graph = self.core.graph().clone();
        for device in devices {
            if let Some(binds) = self.peers.devices.binds_mounts(device) {
                self.triggers.mounts.look_at_device(&graph, device, binds);
            }
        }
    }

    /// Makes events of what is new to units, and has those loaded that a device wants.
    fn tell_devices(&mut self, names: Vec<(UnitName, bool)>) {
        let graph = self.core.graph().clone();
        let mut changes = Vec::new();
        for (name, changed) in names {
            let wants = self.peers.devices.table.wants(&name);
            let unknown = wants.iter().take(WANTS_MAX).filter(|name| graph.lookup(name).is_none());
            let unknown: Vec<UnitName> = unknown.cloned().collect();
            match graph.lookup(&name) {
                _ if !unknown.is_empty() => self.load_wanted(unknown, name),
                // It is told of when it is loaded.
                None if !wants.is_empty() => self.load_name(name, AfterLoad::Nothing),
                None => {}
                Some(unit) => changes.push(self.device_change(unit, &name, changed)),
            }
        }
        let news = DeviceNews { sight: Sight::Seeing, changes };
        self.event_loop.events.push_back(Event::Devices(news));
    }

    fn device_change(&self, unit: UnitId, name: &UnitName, changed: bool) -> DeviceChange {
        let table = &self.peers.devices.table;
        let graph = self.core.graph();
        let wants = table.wants(name).iter().filter_map(|name| graph.lookup(name)).collect();
        DeviceChange { unit, plugged: table.ready(name).is_some(), changed, wants }
    }

    /// The device is told of when the last of what it wants is loaded, or found not to exist.
    fn load_wanted(&mut self, wanted: Vec<UnitName>, device: UnitName) {
        let last = wanted.len() - 1;
        for (at, name) in wanted.into_iter().enumerate() {
            let after = match at == last {
                true => AfterLoad::Wanted(device.clone()),
                false => AfterLoad::Nothing,
            };
            self.load_name(name, after);
        }
    }

    fn load_name(&mut self, name: UnitName, after: AfterLoad) {
        self.load(|token| LoaderOrder::LoadOne { name, goes_far: false, token }, after);
    }

    /// What a device wants is loaded as far as it can be.
    pub(crate) fn wanted_loaded(&mut self, device: UnitName) {
        let Some(unit) = self.core.graph().lookup(&device) else {
            return self.load_name(device, AfterLoad::Nothing);
        };
        let changes = vec![self.device_change(unit, &device, false)];
        self.event_loop
            .events
            .push_back(Event::Devices(DeviceNews { sight: Sight::Seeing, changes }));
    }

    /// Units of devices that are new in this generation are told what is known.
    pub(crate) fn tell_new_devices(&mut self, graph: &Graph, delta: &Delta) {
        if self.core.sight() == Sight::Blind {
            return;
        }
        let new = delta.added.iter().chain(&delta.reused).filter(|&&unit| graph.is_device(unit));
        let names: Vec<(UnitName, bool)> =
            new.map(|&unit| (graph.name(unit).clone(), false)).collect();
        if !names.is_empty() && !self.peers.devices.table.is_empty() {
            self.tell_devices(names);
        }
    }

    /// The daemon is down for good, or was never started: nobody waits for devices any more.
    pub(crate) fn look_for_device_daemon(&mut self) {
        if self.core.sight() == Sight::Blind
            || !self.stages.startup.is_first_unit_requested
            || !self.event_loop.events.is_empty()
        {
            return;
        }
        let unit = daemon_unit(self.core.graph());
        if unit.is_none_or(|unit| is_out(self.core.unit_run(unit))) && !self.core.totals().stopping
        {
            say!("{DEVICE_DAEMON} is down: all devices are assumed to be present");
            self.event_loop.events.push_back(Event::Devices(DeviceNews::default()));
        }
    }

    /// Begins to watch the link.
    pub(crate) fn watch_devices(&self) -> warren_sys::Result<()> {
        let interest = warren_sys::epoll::Interest::READ;
        self.event_loop.epoll.add(self.peers.devices.fd(), token::DEVICES, interest)
    }
}
