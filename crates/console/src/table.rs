//! Rows of the table: made of the model by what the person wants to see. Pure.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warren_wire::control::{ActiveState, ShutdownWait, TopJob};

use crate::model::{Model, Unit, Usage};

/// Slices in slices that are shown.
const DEPTH_MAX: u16 = 16;

/// What a table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tab {
    /// What has failed, and what is started again and again.
    Trouble,
    /// Jobs.
    Jobs,
    /// All units.
    Units,
    /// What rules made units for.
    Sets,
    /// Slices.
    Slices,
    /// Templates.
    Templates,
}

impl Tab {
    /// All, in the order of their keys.
    pub const ALL: [Tab; 6] =
        [Tab::Trouble, Tab::Jobs, Tab::Units, Tab::Sets, Tab::Slices, Tab::Templates];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Tab::Trouble => "Trouble",
            Tab::Jobs => "Jobs",
            Tab::Units => "Units",
            Tab::Sets => "Containers",
            Tab::Slices => "Slices",
            Tab::Templates => "Templates",
        }
    }
}

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Name.
    Name,
    /// State: failed first.
    State,
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Tasks.
    Tasks,
    /// Bytes read and written.
    Io,
    /// Pressure.
    Pressure,
    /// Restarts.
    Restarts,
    /// Time in its state: the newest first.
    Since,
}

impl Sort {
    /// All, in the order of the columns.
    pub const ALL: [Sort; 9] = [
        Sort::Name,
        Sort::State,
        Sort::Cpu,
        Sort::Memory,
        Sort::Tasks,
        Sort::Io,
        Sort::Pressure,
        Sort::Restarts,
        Sort::Since,
    ];

    /// It is read of the groups that are shown alone, unless a look at all is a whole one ([`crate::usage`]): what is
    /// sorted by it asks for that.
    pub fn is_of_whole_look(self) -> bool {
        matches!(self, Sort::Tasks | Sort::Io | Sort::Pressure)
    }

    /// As the heading of its column.
    pub fn title(self) -> &'static str {
        match self {
            Sort::Name => "NAME",
            Sort::State => "STATE",
            Sort::Cpu => "CPU%",
            Sort::Memory => "MEMORY",
            Sort::Tasks => "TASKS",
            Sort::Io => "IO/s",
            Sort::Pressure => "WAITS%",
            Sort::Restarts => "RESTARTS",
            Sort::Since => "SINCE",
        }
    }
}

/// What the person wants to see.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// Of what.
    pub tab: Tab,
    /// Words that all must be in the name, the slice, the container or the state.
    pub filter: String,
    /// Only units of this group.
    pub within: Option<(Tab, Arc<str>)>,
    /// By what.
    pub sort: Sort,
    /// The other way round.
    pub is_inverted: bool,
    /// Units below their slices.
    pub is_tree: bool,
    /// Groups that are unfolded.
    pub unfolded: BTreeSet<Arc<str>>,
}

/// What a row is of.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A unit.
    Unit,
    /// Units that have something in common.
    Group {
        /// How many.
        units: u32,
        /// Of these, how many are up.
        up: u32,
        /// Of these, how many have failed.
        failed: u32,
        /// They are shown below it.
        is_unfolded: bool,
    },
    /// A unit with trouble of its own, and how many it holds back.
    Cause {
        /// How many.
        holds_back: u32,
        /// They are shown below it.
        is_unfolded: bool,
    },
    /// A unit that it holds back.
    HeldBack,
    /// A service that fails and is started again.
    Restarting,
    /// A job.
    Job(TopJob),
    /// What a shutdown waits for.
    Wait(ShutdownWait),
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name of the unit or the group.
    pub name: Arc<str>,
    /// What it is of.
    pub what: What,
    /// How far it is indented.
    pub depth: u16,
    /// What it uses.
    pub usage: Usage,
    /// How often units of it were started again.
    pub restarts: u32,
    /// When it came into its state; of a group, when the last of its units did.
    pub since_us: u64,
    /// What needs a look has a lower one.
    pub rank: u8,
}

impl Row {
    fn of_unit(model: &Model, name: &Arc<str>, unit: &Unit, depth: u16) -> Row {
        Row {
            name: name.clone(),
            what: What::Unit,
            depth,
            usage: model.usage.get(name).copied().unwrap_or_default(),
            restarts: unit.restarts,
            since_us: unit.since_us.unwrap_or(0),
            rank: rank(&unit.active),
        }
    }

    /// Whether it stands for a unit, which can be opened.
    pub fn is_unit(&self) -> bool {
        match &self.what {
            What::Group { .. } => false,
            What::Wait(wait) => wait.unit.is_some(),
            _ => true,
        }
    }

    /// What is shown below it is folded away or not; none of what has nothing below it.
    pub fn is_unfolded(&self) -> Option<bool> {
        match self.what {
            What::Group { is_unfolded, .. } => Some(is_unfolded),
            What::Cause { holds_back, is_unfolded } if holds_back > 0 => Some(is_unfolded),
            _ => None,
        }
    }
}

/// The filter, read once.
struct Filter(Vec<String>);

impl Filter {
    fn new(text: &str) -> Filter {
        Filter(text.split_whitespace().map(str::to_lowercase).collect())
    }

    fn takes(&self, name: &str, unit: Option<&Unit>) -> bool {
        self.0.iter().all(|word| {
            let has =
                |text: &str| match text.bytes().any(|b| !b.is_ascii() || b.is_ascii_uppercase()) {
                    true => text.to_lowercase().contains(word),
                    false => text.contains(word),
                };
            let of_unit = |unit: &Unit| {
                let groups = [&unit.slice, &unit.target].into_iter().flatten();
                unit.active.as_str() == word
                    || *unit.sub == **word
                    || groups.into_iter().any(|g| has(g))
            };
            has(name) || unit.is_some_and(of_unit)
        })
    }
}

/// The rows.
pub fn rows(model: &Model, wish: &Wish) -> Vec<Row> {
    let filter = Filter::new(&wish.filter);
    match wish.tab {
        Tab::Trouble => trouble(model, wish, &filter),
        Tab::Jobs => jobs(model, &filter),
        Tab::Units if wish.is_tree => tree(model, wish, &filter, true),
        Tab::Units => {
            // Slices use what their units use, and have a table of their own.
            let mut rows: Vec<Row> = units(model, wish, &filter)
                .filter(|(name, _)| !name.ends_with(".slice"))
                .map(|(name, unit)| Row::of_unit(model, name, unit, 0))
                .collect();
            sort(&mut rows, wish);
            rows
        }
        Tab::Sets | Tab::Templates => groups(model, wish, &filter),
        Tab::Slices => tree(model, wish, &filter, false),
    }
}

/// The units that a group stands for: all of them, whatever is filtered.
pub fn units_of(model: &Model, tab: Tab, group: &str) -> Vec<Arc<str>> {
    let is_in = |name: &Arc<str>, unit: &Unit| match tab {
        Tab::Slices | Tab::Units => is_below(model, unit, group),
        _ => group_of(tab, name, unit).as_deref() == Some(group),
    };
    let all =
        model.units.iter().filter(|(name, unit)| !name.ends_with(".slice") && is_in(name, unit));
    all.map(|(name, _)| name.clone()).collect()
}

/// The units of some groups, and those that are of this name themselves.
pub fn members<'a>(
    model: &'a Model,
    tab: Tab,
    groups: &'a BTreeSet<&str>,
) -> impl Iterator<Item = Arc<str>> + 'a {
    let is_in = move |name: &str, unit: &Unit| {
        let group = group_of(tab, name, unit);
        groups.contains(name) || group.is_some_and(|group| groups.contains(&*group))
    };
    let all = model.units.iter().filter(move |(name, unit)| is_in(name, unit));
    all.map(|(name, _)| name.clone())
}

fn units<'a>(
    model: &'a Model,
    wish: &'a Wish,
    filter: &'a Filter,
) -> impl Iterator<Item = (&'a Arc<str>, &'a Unit)> {
    model.units.iter().filter(move |(name, unit)| {
        let is_within = wish.within.as_ref().is_none_or(|(tab, group)| match tab {
            Tab::Slices => is_below(model, unit, group),
            tab => group_of(*tab, name, unit).as_deref() == Some(&**group),
        });
        is_within && filter.takes(name, Some(unit))
    })
}

fn is_below(model: &Model, unit: &Unit, slice: &str) -> bool {
    let mut at = unit.slice.as_deref();
    for _ in 0..DEPTH_MAX {
        match at {
            Some(name) if name == slice => return true,
            Some(name) => at = model.units.get(name).and_then(|unit| unit.slice.as_deref()),
            None => return false,
        }
    }
    false
}

/// The group of a unit in a table of groups: what a rule made it for, its template, or else its slice.
pub fn group_of(tab: Tab, name: &str, unit: &Unit) -> Option<Arc<str>> {
    match tab {
        Tab::Sets => unit.target.clone(),
        Tab::Templates => template(name).map(Arc::from),
        _ => unit.slice.clone(),
    }
}

/// The template that a unit is an instance of, systemd.unit(5).
fn template(name: &str) -> Option<String> {
    let (prefix, rest) = name.split_once('@')?;
    let (_, suffix) = rest.rsplit_once('.')?;
    Some(format!("{prefix}@.{suffix}"))
}

fn group_row(
    model: &Model,
    name: Arc<str>,
    of: &[(&Arc<str>, &Unit)],
    wish: &Wish,
    depth: u16,
) -> Row {
    let mut usage = Usage::default();
    let (mut up, mut failed, mut restarts, mut since_us) = (0, 0, 0_u32, 0);
    for (name, unit) in of {
        if let Some(more) = model.usage.get(*name) {
            usage.add(more);
        }
        up += u32::from(matches!(unit.active, ActiveState::Active | ActiveState::Reloading));
        failed += u32::from(unit.active == ActiveState::Failed);
        restarts = restarts.saturating_add(unit.restarts);
        since_us = since_us.max(unit.since_us.unwrap_or(0));
    }
    let is_unfolded = wish.unfolded.contains(&name);
    let what = What::Group { units: of.len() as u32, up, failed, is_unfolded };
    let rank = match (failed, up) {
        (1.., _) => 0,
        (_, up) if (up as usize) < of.len() => 4,
        _ => 3,
    };
    Row { name, what, depth, usage, restarts, since_us, rank }
}

fn groups(model: &Model, wish: &Wish, filter: &Filter) -> Vec<Row> {
    let mut by_group = BTreeMap::<Arc<str>, Vec<(&Arc<str>, &Unit)>>::new();
    for (name, unit) in units(model, wish, filter) {
        if let Some(group) = group_of(wish.tab, name, unit) {
            by_group.entry(group).or_default().push((name, unit));
        }
    }
    let mut heads: Vec<Row> =
        by_group.iter().map(|(group, of)| group_row(model, group.clone(), of, wish, 0)).collect();
    sort(&mut heads, wish);
    let mut out = Vec::new();
    for head in heads {
        let of = by_group.get(&head.name).filter(|_| head.is_unfolded() == Some(true));
        out.push(head);
        let mut below: Vec<Row> =
            of.into_iter().flatten().map(|(n, u)| Row::of_unit(model, n, u, 1)).collect();
        sort(&mut below, wish);
        out.extend(below);
    }
    out
}

/// Slices in their slices, with their units where they are unfolded.
fn tree(model: &Model, wish: &Wish, filter: &Filter, all_unfolded: bool) -> Vec<Row> {
    let mut below = BTreeMap::<&str, Vec<(&Arc<str>, &Unit)>>::new();
    let mut slices = BTreeMap::<&str, Vec<(&Arc<str>, &Unit)>>::new();
    for (name, unit) in units(model, wish, filter) {
        let Some(slice) = unit.slice.as_deref().filter(|_| !name.ends_with(".slice")) else {
            continue;
        };
        below.entry(slice).or_default().push((name, unit));
        // Each slice on the way counts the unit.
        let mut at = Some(slice);
        for _ in 0..DEPTH_MAX {
            let Some(slice) = at else { break };
            slices.entry(slice).or_default().push((name, unit));
            at = model.units.get(slice).and_then(|unit| unit.slice.as_deref());
        }
    }
    let mut children = BTreeMap::<Option<&str>, Vec<&str>>::new();
    for slice in slices.keys() {
        let parent = model.units.get(*slice).and_then(|unit| unit.slice.as_deref());
        children
            .entry(parent.filter(|parent| slices.contains_key(parent)))
            .or_default()
            .push(slice);
    }
    let forest = Forest { model, wish, below, slices, children, all_unfolded };
    let mut out = Vec::new();
    forest.add(None, 0, &mut out);
    out
}

struct Forest<'a> {
    model: &'a Model,
    wish: &'a Wish,
    below: BTreeMap<&'a str, Vec<(&'a Arc<str>, &'a Unit)>>,
    slices: BTreeMap<&'a str, Vec<(&'a Arc<str>, &'a Unit)>>,
    children: BTreeMap<Option<&'a str>, Vec<&'a str>>,
    all_unfolded: bool,
}

impl Forest<'_> {
    fn add(&self, parent: Option<&str>, depth: u16, out: &mut Vec<Row>) {
        let slices = self.children.get(&parent).into_iter().flatten();
        let mut heads: Vec<Row> = slices.map(|slice| self.head(slice, depth)).collect();
        sort(&mut heads, self.wish);
        for head in heads {
            let (name, is_unfolded) = (head.name.clone(), head.is_unfolded() == Some(true));
            out.push(head);
            if depth < DEPTH_MAX {
                self.add(Some(&name), depth + 1, out);
            }
            if is_unfolded {
                let units = self.below.get(&*name).into_iter().flatten();
                let mut rows: Vec<Row> =
                    units.map(|(n, u)| Row::of_unit(self.model, n, u, depth + 1)).collect();
                sort(&mut rows, self.wish);
                out.extend(rows);
            }
        }
    }

    fn head(&self, slice: &str, depth: u16) -> Row {
        let mut row = group_row(self.model, slice.into(), &self.slices[slice], self.wish, depth);
        // The kernel counts the whole group.
        row.usage = self.model.usage.get(slice).copied().unwrap_or(row.usage);
        if let What::Group { is_unfolded, .. } = &mut row.what {
            // `unfolded` has those that differ from the rest.
            *is_unfolded ^= self.all_unfolded;
        }
        row
    }
}

fn trouble(model: &Model, wish: &Wish, filter: &Filter) -> Vec<Row> {
    let mut out = Vec::new();
    for (name, held_back) in model.root_causes() {
        let Some(unit) = model.units.get(&name) else { continue };
        let matches = |name: &Arc<str>| filter.takes(name, model.units.get(name));
        if !matches(&name) && !held_back.iter().any(matches) {
            continue;
        }
        let is_unfolded = wish.unfolded.contains(&name);
        let what = What::Cause { holds_back: held_back.len() as u32, is_unfolded };
        out.push(Row { what, ..Row::of_unit(model, &name, unit, 0) });
        for name in held_back.iter().filter(|_| is_unfolded) {
            let Some(unit) = model.units.get(name) else { continue };
            out.push(Row { what: What::HeldBack, ..Row::of_unit(model, name, unit, 1) });
        }
    }
    for restarting in &model.top.restarting {
        let known = model.units.get_key_value(&*restarting.unit);
        let Some((name, unit)) = known.filter(|(_, unit)| unit.active != ActiveState::Failed)
        else {
            continue;
        };
        if filter.takes(name, Some(unit)) {
            out.push(Row { what: What::Restarting, ..Row::of_unit(model, name, unit, 0) });
        }
    }
    out
}

/// What a shutdown waits for, then the jobs that the manager tells of, the oldest first.
fn jobs(model: &Model, filter: &Filter) -> Vec<Row> {
    let matches = |job: &&TopJob| {
        let waits_on = job.waits_on.as_deref().is_some_and(|unit| filter.takes(unit, None));
        waits_on || filter.takes(&job.unit, model.units.get(&*job.unit))
    };
    let row = |name: &str, what: What| Row {
        name: name.into(),
        what,
        depth: 0,
        usage: Usage::default(),
        restarts: 0,
        since_us: 0,
        rank: 0,
    };
    let waits = model.top.waits.iter().map(|wait| {
        let who = wait.unit.as_deref().or(wait.process.as_deref()).unwrap_or("a process");
        row(who, What::Wait(wait.clone()))
    });
    let jobs = model.top.job_rows.iter().filter(matches);
    waits.chain(jobs.map(|job| row(&job.unit, What::Job(job.clone())))).collect()
}

fn sort(rows: &mut [Row], wish: &Wish) {
    let order = |a: &Row, b: &Row| {
        let of = |row: &Row, key: fn(&Usage) -> f64| key(&row.usage);
        let most = |key: fn(&Usage) -> f64| of(b, key).total_cmp(&of(a, key));
        let cpu = |usage: &Usage| usage.cpu.map_or(-1.0, f64::from);
        let memory = |usage: &Usage| usage.memory.map_or(-1.0, |bytes| bytes as f64);
        let first = match wish.sort {
            Sort::Name => Ordering::Equal,
            Sort::State => a.rank.cmp(&b.rank),
            Sort::Cpu => most(cpu).then_with(|| most(memory)),
            Sort::Memory => most(memory),
            Sort::Tasks => most(|usage| usage.tasks.map_or(-1.0, |count| count as f64)),
            Sort::Io => most(|u| u.read.zip(u.written).map_or(-1.0, |(r, w)| r as f64 + w as f64)),
            Sort::Pressure => {
                most(|usage| usage.pressure.map_or(-1.0, |(share, _)| f64::from(share)))
            }
            Sort::Restarts => b.restarts.cmp(&a.restarts),
            Sort::Since => b.since_us.cmp(&a.since_us),
        };
        // Of those that use the same, as nothing, what needs a look is first.
        let is_by_name = wish.sort == Sort::Name;
        let first =
            first.then_with(|| if is_by_name { Ordering::Equal } else { a.rank.cmp(&b.rank) });
        let first = first.then_with(|| a.name.cmp(&b.name));
        if wish.is_inverted { first.reverse() } else { first }
    };
    rows.sort_by(order);
}

/// What needs a look comes first.
fn rank(active: &ActiveState) -> u8 {
    match active {
        ActiveState::Failed => 0,
        ActiveState::Activating | ActiveState::Deactivating => 1,
        ActiveState::Reloading => 2,
        ActiveState::Active => 3,
        _ => 4,
    }
}
