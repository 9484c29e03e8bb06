//! Sets of nf_tables that are told of units: of their cgroups, users and groups (systemd.resource-control(5),
//! "NFTSet=").
//!
//! What has a process is told by the helper that makes it, before there is one. Here is what was told, for when it counts
//! no more. A thread of its own tells the rest, in the order in which it is asked: the kernel may be at work on rules of
//! somebody else.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

use crate::base::say::say;

use warren_core::model::ids::UnitId;
use warren_sys::nftables::{self, Change, Set};
use warren_sys::passwd::Current;
use warren_unit::config::{NftSet, NftSource};

/// Who is told to a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The kernel's id of a cgroup.
    Cgroup(u64),
    /// A user, by name or number.
    User(Box<str>),
    /// A group, by name or number.
    Group(Box<str>),
    /// The primary group of a user.
    GroupOf(Box<str>),
}

/// One that is in a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The set.
    pub set: NftSet,
    /// Who.
    pub who: Who,
}

/// Who is told to a unit's sets: of what it has none, nothing is.
pub fn elements(
    sets: &[NftSet],
    cgroup: Option<u64>,
    user: Option<&str>,
    group: Option<&str>,
) -> Vec<Element> {
    let who = |set: &NftSet| match set.source {
        NftSource::Cgroup => cgroup.map(Who::Cgroup),
        NftSource::User => user.map(|name| Who::User(name.into())),
        NftSource::Group => match group {
            Some(name) => Some(Who::Group(name.into())),
            None => user.map(|name| Who::GroupOf(name.into())),
        },
    };
    sets.iter().filter_map(|set| Some(Element { set: set.clone(), who: who(set)? })).collect()
}

/// What is being taken out of sets, and whether it is to be there again.
pub struct Leaving(Vec<(Element, AtomicBool)>);

/// What sets were told, by unit.
#[derive(Default)]
pub struct NftSets {
    told: BTreeMap<UnitId, Vec<Element>>,
    leaving: Vec<Weak<Leaving>>,
}

impl NftSets {
    /// Sets are told this of a unit. Returned is what they are to forget of what they were told of it before.
    pub fn tell(&mut self, unit: UnitId, elements: Vec<Element>) -> Option<Arc<Leaving>> {
        self.leaving.retain(|leaving| leaving.strong_count() > 0);
        for leaving in self.leaving.iter().filter_map(Weak::upgrade) {
            let again = leaving.0.iter().filter(|(element, _)| elements.contains(element));
            again.for_each(|(_, is_back)| is_back.store(true, Ordering::SeqCst));
        }
        let before = match elements.is_empty() {
            true => self.told.remove(&unit),
            false => self.told.insert(unit, elements),
        };
        self.forget(before.unwrap_or_default())
    }

    /// What of this no unit is told by any more.
    fn forget(&mut self, before: Vec<Element>) -> Option<Arc<Leaving>> {
        let is_told = |element: &Element| self.told.values().flatten().any(|told| told == element);
        let gone: Vec<_> = before.into_iter().filter(|element| !is_told(element)).collect();
        if gone.is_empty() {
            return None;
        }
        let gone = gone.into_iter().map(|element| (element, AtomicBool::new(false))).collect();
        let leaving = Arc::new(Leaving(gone));
        self.leaving.push(Arc::downgrade(&leaving));
        Some(leaving)
    }

    /// All that sets were told of a unit.
    pub fn of(&self, unit: UnitId) -> &[Element] {
        self.told.get(&unit).map_or(&[], Vec::as_slice)
    }

    /// All that sets were told.
    pub fn all(&self) -> Vec<Element> {
        self.told.values().flatten().cloned().collect()
    }
}

/// What the thread is asked to do.
enum Piece {
    Remove(Arc<Leaving>),
    /// Whoever waits for it hears when it is done.
    Add(Vec<Element>, Option<Sender<()>>),
}

impl Piece {
    fn carry_out(self) {
        match self {
            Piece::Remove(leaving) => remove(&leaving),
            Piece::Add(elements, waits) => {
                for why in add(&elements) {
                    say!("NFTSet= is not applied: {why}");
                }
                let _ = waits.map(|waits| waits.send(()));
            }
        }
    }
}

/// The thread that changes sets. It is started with the first change; there are no more of these than stops of units, and
/// reloads.
#[derive(Default)]
pub struct NftThread(Option<Sender<Piece>>);

impl NftThread {
    /// Has these taken out of their sets.
    pub fn remove(&mut self, leaving: Arc<Leaving>) {
        self.ask(Piece::Remove(leaving));
    }

    /// Has these put into their sets; what is returned hears when they are.
    pub fn add(&mut self, elements: Vec<Element>) -> Receiver<()> {
        let (done, is_done) = channel();
        self.ask(Piece::Add(elements, Some(done)));
        is_done
    }

    fn ask(&mut self, piece: Piece) {
        if self.0.is_none() {
            let (pieces, asked) = channel::<Piece>();
            let serve = move || {
                // It may be held up in the kernel: it holds nothing that others wait for.
                let _ = warren_sys::process::keep_only_descriptors(&[]);
                asked.into_iter().for_each(Piece::carry_out);
            };
            let started = std::thread::Builder::new().name("nft-sets".into()).spawn(serve);
            self.0 = started.is_ok().then_some(pieces);
        }
        let left = match &self.0 {
            Some(pieces) => pieces.send(piece).err().map(|error| error.0),
            None => Some(piece),
        };
        // Without a thread it is done at once.
        left.into_iter().for_each(Piece::carry_out);
    }
}

/// Takes out of sets what is leaving. Who is back by now is put in again: its helper may have done so before.
fn remove(leaving: &Leaving) {
    let mut names = Numbers::default();
    for (element, is_back) in &leaving.0 {
        if !is_back.load(Ordering::SeqCst) {
            // The set, or the whole table, may be gone.
            let _ = change(element, Change::Remove, &mut names);
        }
        if is_back.load(Ordering::SeqCst) {
            let _ = change(element, Change::Add, &mut names);
        }
    }
}

/// Puts these into their sets; says which could not be, and why.
fn add(elements: &[Element]) -> Vec<String> {
    let mut names = Numbers::default();
    let failed = elements.iter().filter_map(|element| {
        let NftSet { family, table, name, .. } = &element.set;
        let why = change(element, Change::Add, &mut names).err()?;
        Some(format!("{}:{table}:{name}: {why}", family.as_str()))
    });
    failed.collect()
}

fn change(element: &Element, change: Change, numbers: &mut Numbers) -> Result<(), String> {
    let set = &element.set;
    let place = Set { family: set.family.number(), table: &set.table, name: &set.name };
    let key = match &element.who {
        Who::Cgroup(id) => id.to_ne_bytes().to_vec(),
        Who::User(name) => numbers.user(name)?.0.to_ne_bytes().to_vec(),
        Who::GroupOf(name) => numbers.user(name)?.1.to_ne_bytes().to_vec(),
        Who::Group(name) => numbers.group(name)?.to_ne_bytes().to_vec(),
    };
    nftables::change_element(place, &key, change).map_err(|e| e.to_string())
}

/// Numbers of names, as the user database and name services have them.
#[derive(Default)]
struct Numbers(Option<Current>);

impl Numbers {
    fn database(&mut self) -> Result<&mut Current, String> {
        let current = self.0.get_or_insert_default();
        current.refresh().map_err(|e| e.to_string())?;
        Ok(current)
    }

    /// Of a user and its primary group.
    fn user(&mut self, name: &str) -> Result<(u32, u32), String> {
        let user = self.database()?.database().find_user(name);
        user.map(|user| (user.uid, user.gid)).ok_or_else(|| format!("no such user: {name}"))
    }

    fn group(&mut self, name: &str) -> Result<u32, String> {
        let group = self.database()?.database().find_group(name);
        group.map(|group| group.gid).ok_or_else(|| format!("no such group: {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(text: &str) -> Vec<NftSet> {
        text.split(' ').map(|word| NftSet::parse(word).expect("a set")).collect()
    }

    fn told(all: &NftSets) -> Vec<String> {
        let text = |element: Element| format!("{} {:?}", element.set.name, element.who);
        all.all().into_iter().map(text).collect()
    }

    #[test]
    fn a_unit_is_told_by_what_it_has() {
        let all = sets("cgroup:inet:t:c user:inet:t:u group:ip:t:g");
        let who = |cgroup, user, group| -> Vec<Who> {
            elements(&all, cgroup, user, group).into_iter().map(|element| element.who).collect()
        };
        assert_eq!(who(Some(7), None, None), [Who::Cgroup(7)]);
        assert_eq!(who(None, Some("u"), None), [Who::User("u".into()), Who::GroupOf("u".into())]);
        assert_eq!(who(None, None, Some("g")), [Who::Group("g".into())]);
    }

    #[test]
    fn what_another_unit_is_told_by_stays() {
        let (a, b) = (UnitId(1), UnitId(2));
        let users = sets("user:inet:t:u");
        let mut all = NftSets::default();
        let of = |name| elements(&users, None, Some(name), None);
        assert!(all.tell(a, of("www")).is_none());
        assert!(all.tell(b, of("www")).is_none());
        assert!(all.tell(a, Vec::new()).is_none(), "the other still has it");
        let leaving = all.tell(b, of("other")).expect("nobody has it");
        assert_eq!(leaving.0.len(), 1);
        assert_eq!(told(&all), ["u User(\"other\")"]);
        // It comes back before it was taken out.
        assert!(all.tell(a, of("www")).is_none());
        assert!(leaving.0[0].1.load(Ordering::SeqCst));
        drop(leaving);
        all.tell(a, of("www"));
        assert!(all.leaving.is_empty(), "what is over is forgotten");
    }
}
