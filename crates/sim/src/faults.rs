//! What may go wrong in a run. Each run draws its own probabilities (a swarm): most faults are off
//! in most runs, so that rare combinations meet undisturbed ground.

use crate::random::Random;

/// Probabilities per thousand; 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A spawn fails for want of resources.
    pub spawn: u32,
    /// An exec fails though the file says otherwise.
    pub exec: u32,
    /// A slice's cgroup cannot be made.
    pub cgroup: u32,
    /// Sockets cannot be opened.
    pub listen: u32,
    /// A mount or a trap fails.
    pub mount: u32,
    /// An unmount fails: busy.
    pub unmount: u32,
    /// Conditions or assertions do not hold.
    pub condition: u32,
    /// An effect takes seconds rather than milliseconds.
    pub slow: u32,
    /// An event is delivered a second time.
    pub repeat: u32,
    /// The manager is killed after a step, between two effects.
    pub crash: u32,
    /// Events about an end may overtake the events about its beginning.
    pub overtake: u32,
    /// A spawn that is not wanted any more is not begun, as far as the runner looks.
    pub unbegun: u32,
    /// A mount or an unmount hangs until its processes are told to go, or killed.
    pub hang: u32,
    /// What a unit has mounted is busy as long as there are faults, whoever wants to unmount it.
    pub busy: u32,
    /// The manager takes another event before it writes down what the one before changed.
    pub batch: u32,
}

impl Faults {
    /// Draws the faults of one run.
    pub fn draw(random: &mut Random) -> Faults {
        let mut one = |most: u64| if random.chance(300) { random.below(most) as u32 } else { 0 };
        Faults {
            spawn: one(200),
            exec: one(200),
            cgroup: one(100),
            listen: one(200),
            mount: one(300),
            unmount: one(300),
            condition: one(300),
            slow: one(200),
            repeat: one(100),
            crash: one(60),
            overtake: one(300),
            unbegun: one(1000),
            hang: one(300),
            busy: one(700),
            batch: one(800),
        }
    }
}
