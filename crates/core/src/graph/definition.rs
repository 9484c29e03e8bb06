//! What the files say about one unit, and what becomes of it in a generation.

use crate::model::ids::UnitId;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use warren_unit::escape::{path_unescape, unescape};
use warren_unit::load::Sources;
use warren_unit::parse::UnitFile;
use warren_unit::settings::Id;
use warren_unit::{LoadState, Loaded, Relation, UnitFlags, UnitName, UnitType};

/// One end of a relation: `relation` as seen from the unit that holds the edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Edge {
    /// What the holder has with the other unit.
    pub relation: Relation,
    /// The other unit.
    pub other: UnitId,
}

/// The files that make one unit, each shared with all other units that it makes. Of most units that
/// is one file, so that the rest takes a pointer.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The unit's own file; for an instance, its own or its template's.
    pub fragment: Option<Arc<UnitFile>>,
    others: Option<Arc<Others>>,
}

/// What makes a unit beside its own file.
#[derive(Debug)]
struct Others {
    dropins: Box<[Arc<UnitFile>]>,
    links: Box<[(Relation, UnitName)]>,
    masked: bool,
    before: Option<Files>,
}

impl Files {
    /// A unit's own file alone.
    pub fn of(fragment: Option<Arc<UnitFile>>) -> Files {
        Files { fragment, others: None }
    }

    /// See the methods of these names.
    pub fn new(
        fragment: Option<Arc<UnitFile>>,
        dropins: Vec<Arc<UnitFile>>,
        links: Vec<(Relation, UnitName)>,
        masked: bool,
    ) -> Files {
        let any = masked || !dropins.is_empty() || !links.is_empty();
        let (dropins, links) = (dropins.into(), links.into());
        let others = || Arc::new(Others { dropins, links, masked, before: None });
        Files { fragment, others: any.then(others) }
    }

    /// The same of a unit that cannot be found any more and had these, if any.
    pub fn after(self, before: Option<Files>) -> Files {
        let Some(before) = before else { return self };
        let (dropins, links, masked) = (self.dropins().into(), self.links().into(), self.masked());
        let others = Others { dropins, links, masked, before: Some(before) };
        Files { fragment: self.fragment, others: Some(Arc::new(others)) }
    }

    /// Those that a unit had which cannot be found any more: what still runs of it is ended by them.
    pub fn before(&self) -> Option<&Files> {
        self.others.as_ref()?.before.as_ref()
    }

    /// By which the unit runs, if it does: its files, or those that it had.
    pub fn in_use(&self) -> &Files {
        self.before().unwrap_or(self)
    }

    /// Drop-ins in the order in which they apply.
    pub fn dropins(&self) -> &[Arc<UnitFile>] {
        self.others.as_ref().map_or(&[], |others| &others.dropins)
    }

    /// What the unit's `.wants`, `.requires` and `.upholds` directories link to.
    pub fn links(&self) -> &[(Relation, UnitName)] {
        self.others.as_ref().map_or(&[], |others| &others.links)
    }

    /// A link to /dev/null was found first.
    pub fn masked(&self) -> bool {
        self.others.as_ref().is_some_and(|others| others.masked)
    }

    /// All of them, in the order in which they apply.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<UnitFile>> {
        self.fragment.iter().chain(self.dropins())
    }

    /// Whether any of them says something about this setting.
    pub fn mention(&self, setting: Id) -> bool {
        self.iter().any(|file| file.entries().any(|entry| entry.setting == setting))
    }

    /// As the unit crate takes them.
    pub fn sources(&self) -> Sources<'_> {
        Sources {
            fragment: self.fragment.as_ref(),
            dropins: self.dropins(),
            links: self.links(),
            masked: self.masked(),
        }
    }
}

/// Equal when they are the same files: the loader keeps a file's value while its text is the same. Those that there
/// were do not count.
impl PartialEq for Files {
    fn eq(&self, other: &Files) -> bool {
        let same = |(a, b): (&Arc<UnitFile>, &Arc<UnitFile>)| Arc::ptr_eq(a, b);
        self.fragment.is_some() == other.fragment.is_some()
            && self.dropins().len() == other.dropins().len()
            && self.iter().zip(other.iter()).all(same)
            && self.masked() == other.masked()
            && self.links() == other.links()
    }
}

/// What the files say about one unit: frozen, shared between generations until its files change.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The unit's id.
    pub id: UnitId,
    /// The main name.
    pub name: UnitName,
    /// Further names (symlinks) that lead here.
    pub aliases: Box<[UnitName]>,
    /// Whether and how it could be loaded.
    pub load_state: LoadState,
    /// `Description=`, or the name.
    pub description: Arc<str>,
    /// What the job engine asks often.
    pub flags: UnitFlags,
    /// The slice that the unit's cgroup lies in; none for types without a cgroup and for `-.slice`.
    pub slice: Option<UnitId>,
    /// Relations that this unit's own files (or defaults) state; sorted, without repeats. For a
    /// target also those of `completed`.
    pub edges: Box<[Edge]>,
    /// Units that this target is ordered after only because it pulls them in (systemd.target(5),
    /// "Automatic Dependencies"); depends on what those units state.
    pub completed: Box<[UnitId]>,
    /// The files, from which typed settings are compiled when they are needed.
    pub files: Files,
}

/// `Slice /system/getty`
fn slice_title(name: &str) -> String {
    let path = name.strip_suffix(".slice").unwrap_or(name).replace('-', "/");
    let path = if path.contains('\\') { unescape(&path).unwrap_or(path) } else { path };
    format!("Slice /{path}")
}

impl Definition {
    /// The unit's type.
    pub fn unit_type(&self) -> UnitType {
        self.name.unit_type()
    }

    /// What people are told that it is: its Description=, or else what systemd calls units of its kind
    /// that have none.
    pub fn title(&self) -> Cow<'_, str> {
        let name = self.name.as_str();
        // Of what was not loaded nothing is known but its name.
        let is_name = matches!(self.load_state, LoadState::NotFound | LoadState::Masked);
        if is_name || *self.description != *name {
            return Cow::Borrowed(&self.description);
        }
        match (name, self.unit_type()) {
            ("-.mount", _) => "Root Mount".into(),
            ("init.scope", _) => "System and Service Manager".into(),
            ("-.slice", _) => "Root Slice".into(),
            ("system.slice", _) => "System Slice".into(),
            (_, UnitType::Slice) => slice_title(name).into(),
            (_, UnitType::Mount | UnitType::Swap) => match path_unescape(self.name.stem()) {
                Ok(path) => path.into(),
                Err(_) => Cow::Borrowed(&self.description),
            },
            _ => Cow::Borrowed(&self.description),
        }
    }

    /// Whether any of its files says something about this setting: of 40,000 units, few need be
    /// compiled to know what most leave as it is.
    pub fn mentions(&self, setting: Id) -> bool {
        self.files.mention(setting)
    }

    /// Whether the unit stands for what the kernel has mounted or swaps to, and no file is for it: the text in place of
    /// one has no path.
    pub fn is_of_kernel(&self) -> bool {
        self.files.fragment.as_ref().is_some_and(|file| file.path().is_empty())
    }

    /// Paths of the files that the definition was compiled from. What the kernel has mounted has none.
    pub fn file_paths(&self) -> Vec<Arc<str>> {
        let files = self.files.iter();
        files.map(|file| file.path().clone()).filter(|path| !path.is_empty()).collect()
    }

    /// Starts from what the last definition was completed with: most often it stays.
    pub(super) fn keep_completion(&mut self, old: &Definition) {
        if old.completed.is_empty() {
            return;
        }
        let still = |other: &&UnitId| {
            let pulls = |e: &Edge| e.other == **other && Loaded::PULLS_IN.contains(&e.relation);
            let stated = Edge { relation: Relation::After, other: **other };
            self.edges.iter().any(pulls) && self.edges.binary_search(&stated).is_err()
        };
        let kept: Vec<UnitId> = old.completed.iter().filter(still).copied().collect();
        let mut edges = self.edges.to_vec();
        edges.extend(kept.iter().map(|&other| Edge { relation: Relation::After, other }));
        edges.sort_unstable();
        self.edges = edges.into();
        self.completed = kept.into();
    }

    pub(super) fn missing(id: UnitId, name: UnitName) -> Definition {
        Definition {
            id,
            description: name.as_str().into(),
            name,
            aliases: Box::default(),
            load_state: LoadState::NotFound,
            flags: UnitFlags::default(),
            slice: None,
            edges: Box::default(),
            completed: Box::default(),
            files: Files::default(),
        }
    }

    /// A unit whose name leads to another one, `by`, from now on. What still runs of it cannot be named any
    /// more, so it goes with who has its name: before that starts, and when it stops.
    pub(super) fn displaced(id: UnitId, name: UnitName, by: UnitId) -> Definition {
        let ties = [Relation::Before, Relation::Conflicts, Relation::StopPropagatedFrom];
        let mut edges = ties.map(|relation| Edge { relation, other: by });
        edges.sort_unstable();
        Definition { edges: edges.into(), ..Definition::missing(id, name) }
    }
}

/// A definition as the loader made it: names in place of ids.
#[derive(Clone, Debug)]
pub struct NewDefinition {
    /// The main name.
    pub name: UnitName,
    /// Further names that lead to this unit.
    pub aliases: Vec<UnitName>,
    /// Whether and how it could be loaded.
    pub load_state: LoadState,
    /// `Description=`, or the name.
    pub description: Arc<str>,
    /// What the job engine asks often.
    pub flags: UnitFlags,
    /// `Slice=` or the default slice.
    pub slice: Option<UnitName>,
    /// All relations: stated, implicit and default.
    pub relations: Vec<(Relation, UnitName)>,
    /// The files.
    pub files: Files,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `systemctl show -p Description` of systemd 252 has them.
    #[test]
    fn units_without_a_description_have_a_title() {
        for (name, title) in [
            ("-.mount", "Root Mount"),
            ("-.slice", "Root Slice"),
            ("system.slice", "System Slice"),
            ("system-getty.slice", "Slice /system/getty"),
            ("a-b\\x2dc.slice", "Slice /a/b-c"),
            ("init.scope", "System and Service Manager"),
            ("x-y.service", "x-y.service"),
            ("mnt-a\\x2db.mount", "/mnt/a-b"),
            ("dev-vda2.swap", "/dev/vda2"),
        ] {
            let unit_name = UnitName::parse(name).expect("a name");
            let mut unit = Definition::missing(UnitId(0), unit_name);
            assert_eq!(unit.title(), name);
            unit.load_state = LoadState::Masked;
            assert_eq!(unit.title(), name);
            unit.load_state = LoadState::Loaded;
            assert_eq!(unit.title(), title);
            unit.description = "said so".into();
            assert_eq!(unit.title(), "said so");
        }
    }
}
