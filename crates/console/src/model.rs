//! What is known: the units, the counters of the manager, what cgroups use.

use std::collections::BTreeMap;
use std::sync::Arc;

use warren_wire::control::{ActiveState, OverviewAnswer, TopAnswer};

/// Units that are kept, whatever a manager answers.
const UNITS_MAX: usize = 1_000_000;

/// Units between one and the root cause of its trouble that are looked at.
const CHAIN_MAX: usize = 64;

/// A unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    /// State, as the column ACTIVE of `warren list`.
    pub active: ActiveState,
    /// State in the words of its type.
    pub sub: Arc<str>,
    /// Why, for programs.
    pub code: Arc<str>,
    /// Its slice.
    pub slice: Option<Arc<str>>,
    /// What a rule made it for.
    pub target: Option<Arc<str>>,
    /// The unit that set off its trouble.
    pub cause: Option<Box<str>>,
    /// When it came into its state, in µs since 1970.
    pub since_us: Option<u64>,
    /// How often `Restart=` started it again.
    pub restarts: u32,
}

/// What a cgroup uses.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Percent of one processor.
    pub cpu: Option<f32>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Tasks.
    pub tasks: Option<u64>,
    /// Bytes read in a second.
    pub read: Option<u64>,
    /// Bytes written in a second.
    pub written: Option<u64>,
    /// Percent of the last 10 s in which some task waited, and for which resource: the worst of them.
    pub pressure: Option<(f32, Resource)>,
}

/// What tasks may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// A processor.
    Cpu,
    /// Memory.
    Memory,
    /// A device.
    Io,
}

impl Resource {
    /// In a column.
    pub fn as_str(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Memory => "mem",
            Resource::Io => "io",
        }
    }
}

impl Usage {
    /// Of both together; what one lacks is the other's.
    pub fn add(&mut self, other: &Usage) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            _ => a.or(b),
        };
        let cpu = self.cpu.zip(other.cpu).map(|(a, b)| a + b);
        self.cpu = cpu.or(self.cpu).or(other.cpu);
        self.memory = sum(self.memory, other.memory);
        self.tasks = sum(self.tasks, other.tasks);
        self.read = sum(self.read, other.read);
        self.written = sum(self.written, other.written);
        let of = |pressure: Option<(f32, Resource)>| pressure.map_or(-1.0, |(share, _)| share);
        if of(other.pressure) > of(self.pressure) {
            self.pressure = other.pressure;
        }
    }
}

/// All that is known.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// Units by name.
    pub units: BTreeMap<Arc<str>, Unit>,
    /// Texts of reason codes.
    pub texts: BTreeMap<Arc<str>, Arc<str>>,
    /// What groups use, by the unit's name.
    pub usage: BTreeMap<Arc<str>, Usage>,
    /// The counters before the last ones, and the last ones.
    pub before: Option<TopAnswer>,
    /// The last counters.
    pub top: TopAnswer,
    /// All units were told once.
    pub is_loaded: bool,
    /// Counts up with each change, so that who has made something of it knows when to do so again.
    pub version: u64,
}

impl Model {
    /// Takes counters.
    pub fn take_top(&mut self, top: TopAnswer) {
        let before = std::mem::replace(&mut self.top, top);
        // Those of an earlier manager may be larger.
        let follows = before.now_us > 0 && before.now_us < self.top.now_us;
        self.before = follows.then_some(before);
        self.version += 1;
    }

    /// Takes rows: all units, or those that changed.
    pub fn take_overview(&mut self, answer: OverviewAnswer, is_all: bool) {
        let shared =
            |texts: &[String]| texts.iter().map(|t| Arc::from(&**t)).collect::<Vec<Arc<str>>>();
        let (slices, targets) = (shared(&answer.slices), shared(&answer.targets));
        let mut words = BTreeMap::<String, Arc<str>>::new();
        let mut word = |text: &str| match words.get(text) {
            Some(word) => word.clone(),
            None => {
                let word: Arc<str> = text.into();
                words.insert(text.to_owned(), word.clone());
                word
            }
        };
        if is_all {
            self.units.clear();
        }
        for row in answer.rows {
            let place = |of: &[Arc<str>], at: Option<u32>| of.get(at? as usize).cloned();
            let unit = Unit {
                active: row.active,
                sub: word(&row.sub),
                code: word(row.code.as_str()),
                slice: place(&slices, row.slice),
                target: place(&targets, row.target),
                cause: row.cause.map(String::into_boxed_str),
                since_us: row.since_us,
                restarts: row.restarts,
            };
            if let Some(known) = self.units.get_mut(&*row.name) {
                *known = unit;
            } else if self.units.len() < UNITS_MAX {
                self.units.insert(row.name.into(), unit);
            }
        }
        let texts = answer.texts.into_iter();
        self.texts.extend(texts.map(|(code, text)| (Arc::from(code), Arc::from(text))));
        self.is_loaded |= is_all;
        self.version += 1;
    }

    /// Takes what groups use: of all units that have one, or only of some.
    pub fn take_usage(&mut self, usage: BTreeMap<Arc<str>, Usage>, is_all: bool) {
        match is_all {
            true => self.usage = usage,
            false => self.usage.extend(usage),
        }
        self.version += 1;
    }

    /// Why a unit is in its state, for people; empty where there is nothing to say.
    pub fn reason(&self, unit: &Unit) -> &str {
        self.texts.get(&unit.code).map_or("", |text| text)
    }

    /// How much a counter grew in a second.
    pub fn rate(&self, counter: impl Fn(&TopAnswer) -> u64) -> Option<f64> {
        let before = self.before.as_ref()?;
        let seconds = self.top.now_us.checked_sub(before.now_us)? as f64 / 1e6;
        let grown = counter(&self.top).saturating_sub(counter(before));
        (seconds > 0.0).then(|| grown as f64 / seconds)
    }

    /// Units with trouble of their own, each with those that it holds back: those that hold back most first, then those
    /// whose trouble is the newest.
    pub fn root_causes(&self) -> Vec<(Arc<str>, Vec<Arc<str>>)> {
        let mut roots = BTreeMap::<Arc<str>, Vec<Arc<str>>>::new();
        for (name, unit) in &self.units {
            let is_failed = unit.active == ActiveState::Failed;
            let is_held_back = unit.cause.is_some() && unit.active == ActiveState::Inactive;
            if !is_failed && !is_held_back {
                continue;
            }
            let root = self.root_of(name, unit);
            if root == *name {
                if is_failed {
                    roots.entry(root).or_default();
                }
            } else if is_failed || self.units[&root].active == ActiveState::Failed {
                roots.entry(root).or_default().push(name.clone());
            }
        }
        let mut roots: Vec<_> = roots.into_iter().collect();
        let since =
            |name: &Arc<str>| self.units.get(name).and_then(|unit| unit.since_us).unwrap_or(0);
        roots.sort_by(|(a, of_a), (b, of_b)| {
            let key =
                |name, of: &Vec<_>| (std::cmp::Reverse(of.len()), std::cmp::Reverse(since(name)));
            key(a, of_a).cmp(&key(b, of_b)).then_with(|| a.cmp(b))
        });
        roots
    }

    /// The unit that this one's trouble goes back to; itself where nothing is known. One of a circle is its own.
    fn root_of(&self, name: &Arc<str>, unit: &Unit) -> Arc<str> {
        let (mut at, mut unit) = (name.clone(), unit);
        for _ in 0..CHAIN_MAX {
            let cause = unit.cause.as_deref().and_then(|cause| self.units.get_key_value(cause));
            match cause {
                Some((cause, _)) if *cause == *name => break,
                Some((cause, next))
                    if next.active == ActiveState::Failed || next.cause.is_some() =>
                {
                    (at, unit) = (cause.clone(), next);
                }
                _ => return at,
            }
        }
        name.clone()
    }
}
