//! Devices: they come and go, the manager is told at once, and what must hold of them.

use std::collections::BTreeSet;

use warren_core::model::device_news::{DeviceChange, DeviceNews, Sight};
use warren_core::model::ids::UnitId;
use warren_core::model::state::{Device, TypeState};
use warren_core::protocol::event::{Effect, Event};
use warren_unit::{Relation, UnitName, UnitType};

use crate::random::Random;
use crate::script::{Action, Plan};
use crate::world::World;

/// What there is of devices.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    /// Whether somebody looks for them.
    pub sight: Sight,
    plugged: BTreeSet<UnitName>,
    /// Those of which the manager was told last that they are there.
    told: BTreeSet<UnitName>,
    /// Those that went after the manager was told of them.
    gone: BTreeSet<UnitName>,
}

impl Devices {
    /// The manager is told of a device.
    fn tell(&mut self, name: UnitName, plugged: bool) {
        if plugged {
            self.gone.remove(&name);
            self.told.insert(name);
        } else if self.told.remove(&name) {
            self.gone.insert(name);
        }
    }
}

impl World {
    /// A device comes or goes; the manager is told if somebody looks.
    pub fn plug(&mut self, name: &str, on: bool) {
        let Ok(name) = UnitName::parse(name) else { return };
        match on {
            true => _ = self.devices.plugged.insert(name),
            false => _ = self.devices.plugged.remove(&name),
        }
        self.tell_of_devices();
    }

    /// Somebody begins or ends to look for devices.
    pub fn see_devices(&mut self, sight: Sight) {
        self.devices.sight = sight;
        if sight == Sight::Blind {
            self.devices.gone.clear();
            self.step(Event::Devices(DeviceNews::default()));
        }
        self.tell_of_devices();
    }

    /// Tells the whole picture, as after a restart of either side.
    pub(crate) fn tell_of_devices(&mut self) {
        if self.devices.sight == Sight::Blind {
            return;
        }
        let change = |unit: UnitId| {
            let plugged = self.devices.plugged.contains(self.core.graph().name(unit));
            DeviceChange { unit, plugged, changed: false, wants: Vec::new() }
        };
        let changes: Vec<DeviceChange> =
            self.units_of(UnitType::Device).into_iter().map(change).collect();
        if changes.is_empty() && self.core.sight() == Sight::Seeing {
            return;
        }
        for change in &changes {
            self.devices.tell(self.core.graph().name(change.unit).clone(), change.plugged);
        }
        self.step(Event::Devices(DeviceNews { sight: Sight::Seeing, changes }));
    }
}

/// What happened, for the timeline.
pub fn words_of(news: &DeviceNews, name: impl Fn(UnitId) -> String) -> String {
    let word = |change: &DeviceChange| {
        format!(" {}{}", if change.plugged { '+' } else { '-' }, name(change.unit))
    };
    let words: String = news.changes.iter().map(word).collect();
    format!("devices {:?}{words}", news.sight)
}

/// `mount-without-device`: nothing is mounted from a device that is waited for and not there.
pub fn mounts_have_devices(world: &World, effects: &[Effect]) -> Vec<String> {
    if world.devices.sight == Sight::Blind {
        return Vec::new();
    }
    let graph = world.core.graph();
    let mounted = effects.iter().filter_map(|effect| match effect {
        Effect::Mount { unit, remount: false, .. } => Some(*unit),
        _ => None,
    });
    let mut wrong = Vec::new();
    for unit in mounted {
        let bound = graph.related(unit, Relation::BindsTo);
        let waited_for = bound.filter(|&o| graph.is_device(o) && graph.is_before(o, unit));
        for device in waited_for.filter(|&o| !world.core.unit_run(o).active_state().is_up()) {
            let (mount, device) = (world.name(unit), world.name(device));
            wrong.push(format!("mount-without-device: {mount} is mounted without {device}"));
        }
    }
    wrong
}

/// `device`: the manager knows what it was told.
pub fn known(world: &World) -> Vec<String> {
    if world.devices.sight == Sight::Blind {
        return Vec::new();
    }
    let differs = |&unit: &UnitId| {
        let known = world.core.unit_run(unit).state == TypeState::Device(Device::Plugged);
        known != world.devices.plugged.contains(world.core.graph().name(unit))
    };
    let units = world.units_of(UnitType::Device).into_iter().filter(differs);
    units.map(|unit| format!("device: {} is not as it was told", world.name(unit))).collect()
}

/// Whether `unit`, which is bound to this device, may be up without it: nobody looks, nobody ever told
/// of the device, or it is there in some other way. What a mount is of is there in some way, unless it
/// is told to be.
pub fn may_be_missing(world: &World, device: UnitId, unit: UnitId) -> bool {
    let graph = world.core.graph();
    if !graph.is_device(device) {
        return false;
    }
    let state = &world.core.unit_run(device).state;
    let is_mount = graph.definition(unit).unit_type() == UnitType::Mount;
    world.devices.sight == Sight::Blind
        || *state == TypeState::Device(Device::Tentative)
        || !is_mount && !world.devices.gone.contains(graph.name(device))
}

/// Adds devices to some plans, from chance of their own: the other plans stay as they are.
pub fn draw(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x6465_7669_6365);
    if !random.chance(300) {
        return;
    }
    let devices = 1 + random.below(2);
    let end = plan.actions.last().map_or(1000, |(at, _)| *at) + 1;
    for index in 0..devices {
        let device = format!("dev-d{index}.device");
        let mount = UnitName::parse(&format!("m{index}.mount")).expect("a name");
        plan.units.set(mount, draw_mount(&mut random, index));
        let user = UnitName::parse(&format!("u{index}.service")).expect("a name");
        plan.units.set(user, draw_user(&mut random, index, &device));
        for _ in 0..6 + random.below(8) {
            plan.actions.push((random.below(end), draw_action(&mut random, index, &device)));
        }
    }
    plan.actions.push((0, Action::Seeing));
    plan.actions.sort_by_key(|(at, _)| *at);
}

fn draw_mount(random: &mut Random, index: u64) -> String {
    let more = *random.pick(&["", "JobTimeoutSec=30\n", "StopWhenUnneeded=yes\n"]);
    format!(
        "[Unit]\nDefaultDependencies=no\n{more}[Mount]\nWhat=/dev/d{index}\nWhere=/m{index}\n\
         TimeoutSec=10\n"
    )
}

fn draw_user(random: &mut Random, index: u64, device: &str) -> String {
    let tie = match random.below(5) {
        0 => format!("BindsTo={device}\nAfter={device}"),
        1 => format!("Wants={device}"),
        2 => format!("Requires={device}\nAfter={device}\nReloadPropagatedFrom={device}"),
        _ => format!("RequiresMountsFor=/m{index}"),
    };
    format!("[Unit]\nDefaultDependencies=no\n{tie}\n[Service]\nExecStart=/p run\n")
}

fn draw_action(random: &mut Random, index: u64, device: &str) -> Action {
    let job = |verb: &str, name: String| {
        Action::Job(verb.to_owned(), name, warren_core::model::job::JobMode::Replace)
    };
    match random.below(16) {
        0..=3 => Action::Plug(device.to_owned()),
        4..=6 => Action::Unplug(device.to_owned()),
        7..=8 => job("start", format!("m{index}.mount")),
        9..=11 => job("start", format!("u{index}.service")),
        12 => Action::Mount(format!("m{index}.mount")),
        13 => job(["start", "stop", "restart"][random.index(3)], device.to_owned()),
        14 if random.chance(300) => Action::Blind,
        _ => Action::Seeing,
    }
}
