//! The manager and the machine underneath it. The loop that drives both is `turn`.

mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warren_core::machine::Core;
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::{ClientId, JobId, UnitId};
use warren_core::model::job::{JobKind, JobResult};
use warren_core::model::state::{Device, Socket, TypeState, UnitRun};
use warren_core::model::time::{Moment, Monotonic};
use warren_core::persist::run_state;
use warren_core::protocol::request::Reply;
use warren_core::settings::Settings;
use warren_unit::{Context, Defaults, UnitName, UnitType};

use crate::batches::{Batch, Heard};
use crate::kernel::Kernel;
use crate::units::UnitTexts;

/// Nothing that the kernel does at once takes longer, µs.
const SOON_US: u64 = 10_000;

/// The manager and the machine underneath it.
#[derive(Debug)]
pub struct World {
    /// The manager.
    pub core: Core,
    /// The machine.
    pub kernel: Kernel,
    /// The unit files in force.
    pub texts: UnitTexts,
    /// One line per thing that happened.
    pub log: Vec<String>,
    /// Steps in a row that left work for the next one.
    steps_behind: u32,
    /// What did not hold: the check's name and the case.
    pub wrong: Vec<String>,
    /// Replies to requests, by client.
    pub replies: BTreeMap<ClientId, Reply>,
    /// How jobs ended.
    pub results: Vec<(JobId, UnitId, JobResult)>,
    /// Jobs that were cut loose from their order by `ignore-dependencies`, or edits of files that
    /// make promises about relations void.
    pub lawless: bool,
    /// What is without default dependencies may outlast the end.
    pub soft: bool,
    /// The machine ends without stops.
    pub given_up: bool,
    /// Units whose files allow, or allowed, processes to outlive them.
    pub leavers: BTreeSet<UnitId>,
    /// How often the manager was killed.
    pub crashes: u32,
    /// What there is of devices.
    pub devices: crate::devices::Devices,
    /// Events that the core has taken.
    pub events: u64,
    /// What the state file holds.
    pub file: Vec<u8>,
    /// What the checks know of the manager.
    pub heard: Heard,
    batch: Batch,
    names_written: usize,
    instances: u64,
    /// Instances that connections made: they have no text of their own.
    connected: BTreeSet<UnitName>,
    clients: u64,
    seed: u128,
}

impl World {
    /// A world with these units, nothing started.
    pub fn new(texts: UnitTexts, kernel: Kernel, seed: u64) -> World {
        let mut world = World {
            core: new_core(u128::from(seed)),
            kernel,
            texts: UnitTexts::default(),
            log: Vec::new(),
            wrong: Vec::new(),
            replies: BTreeMap::new(),
            results: Vec::new(),
            lawless: false,
            steps_behind: 0,
            soft: false,
            given_up: false,
            leavers: BTreeSet::new(),
            crashes: 0,
            devices: crate::devices::Devices::default(),
            events: 0,
            file: run_state::header(),
            heard: Heard::default(),
            batch: Batch::default(),
            names_written: 0,
            instances: 0,
            connected: BTreeSet::new(),
            clients: 0,
            seed: u128::from(seed),
        };
        world.load(texts);
        if let Some(root) = world.unit("-.mount") {
            world.kernel.mounts.insert(root);
        }
        world
    }

    /// Now, on both clocks.
    pub fn moment(&self) -> Moment {
        Moment { monotonic: Monotonic(self.kernel.now), realtime_us: self.kernel.realtime() }
    }

    /// The unit of this name.
    pub fn unit(&self, name: &str) -> Option<UnitId> {
        self.core.graph().lookup(&UnitName::parse(name).ok()?)
    }

    /// The name of a unit.
    pub fn name(&self, unit: UnitId) -> &str {
        self.core.graph().name(unit).as_str()
    }

    /// All units of one type.
    pub fn units_of(&self, unit_type: UnitType) -> Vec<UnitId> {
        let of_type = |d: &&Arc<_>| {
            let definition: &Arc<warren_core::graph::Definition> = d;
            definition.unit_type() == unit_type
        };
        self.core.graph().definitions().filter(of_type).map(|d| d.id).collect()
    }

    /// Whether a socket unit is open as far as the core knows.
    pub fn believes_open(&self, unit: UnitId) -> bool {
        matches!(&self.core.unit_run(unit).state, TypeState::Socket(Socket::Up(run)) if run.fds > 0)
    }

    /// Whether nothing is under way that will change the picture soon.
    pub fn is_at_rest(&self) -> bool {
        let still = |run: &UnitRun| {
            let tentative = run.state == TypeState::Device(Device::Tentative);
            run.job.is_none()
                && (tentative
                    || !matches!(
                        run.active_state(),
                        ActiveState::Activating
                            | ActiveState::Deactivating
                            | ActiveState::Reloading
                    ))
        };
        self.core.graph().definitions().all(|d| still(self.core.unit_run(d.id)))
            && !self.kernel.is_busy_until(self.kernel.now + SOON_US)
    }

    /// The kind of the job of a unit.
    pub fn job_kind(&self, unit: UnitId) -> Option<JobKind> {
        self.core.unit_run(unit).job.as_ref().map(|job| job.kind)
    }
}

/// Jobs that a step looks at with every other seed.
const FEW_JOBS: usize = 2;

/// A machine that forgets settings as soon as it may, and with every other seed goes on in another
/// step as soon as it may.
fn new_core(seed: u128) -> Core {
    let mut core = Core::new(settings(), seed);
    core.set_settings_at_rest_max(0);
    if !seed.is_multiple_of(2) {
        core.set_jobs_per_step_max(FEW_JOBS);
    }
    core
}

/// What every run has: an unknown host and the manager's own defaults.
fn settings() -> Settings {
    Settings { context: Arc::new(Context::system()), defaults: Arc::new(Defaults::default()) }
}
