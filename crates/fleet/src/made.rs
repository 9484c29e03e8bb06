//! Unit files as the manager takes them: without a tie to the values that they were made of, but
//! with the file, line and rule behind each of their lines.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::sync::Arc;

use warren_unit::UnitType;
use warren_unit::parse::UnitFile;

use crate::eval::World;
use crate::heap::Heap;
use crate::modules::Modules;
use crate::source::Place;
use crate::types::Types;
use crate::units::Unit;

/// A line of a file that somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The file.
    pub path: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.line)
    }
}

/// Why a unit file is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The definition or rule as written: `apply Service "web"`.
    pub head: Arc<str>,
    /// Where that is.
    pub spot: Spot,
    /// What a rule made it for, `Container 'shop'`, and where that is defined.
    pub target: Option<(Arc<str>, Spot)>,
    /// Where each line of the file was set.
    pub lines: Arc<[Option<Spot>]>,
}

impl Origin {
    /// Where a line of the file was set, from 1; else where the rule is.
    pub fn of_line(&self, line: u32) -> &Spot {
        let index = (line as usize).checked_sub(1);
        let spot = index.and_then(|index| self.lines.get(index)).and_then(Option::as_ref);
        spot.unwrap_or(&self.spot)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.head, self.spot)?;
        match &self.target {
            Some((name, spot)) => write!(f, " for {name} ({spot})"),
            None => Ok(()),
        }
    }
}

/// A unit file or a drop-in that rules made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// What it says.
    pub file: Arc<UnitFile>,
    /// Why it is there.
    pub origin: Arc<Origin>,
}

impl Product {
    /// The files whose rules and objects the unit was made from.
    pub fn sources(&self) -> BTreeSet<&str> {
        let origin = &*self.origin;
        let target = origin.target.iter().map(|(_, spot)| spot);
        let spots = target.chain(origin.lines.iter().flatten()).chain([&origin.spot]);
        spots.map(|spot| &*spot.path).collect()
    }

    /// The unit type of a path below the directory of all: `x.service`, `x.service.d/y.conf`.
    pub fn unit_type(path: &str) -> Option<UnitType> {
        let owner = path.split_once('/').map_or(path, |(owner, _)| owner.trim_end_matches(".d"));
        UnitType::from_suffix(owner.rsplit('.').next().unwrap_or(owner))
    }

    /// The text for people and for systemd: what it says, with comments that say why.
    pub fn text(&self, unit_type: UnitType) -> String {
        let mut out = format!("# Made by {}\n", self.origin);
        let mut last = None;
        for (line, number) in self.file.print(unit_type).lines().zip(1..) {
            let spot = self.origin.lines.get(number - 1).and_then(Option::as_ref);
            if let Some(spot) = spot.filter(|spot| Some(*spot) != last) {
                writeln!(out, "# {spot}").expect("a string grows");
            }
            last = spot;
            out.push_str(line);
            out.push('\n');
        }
        out
    }
}

/// Makes products of units; what many of them have in common they share.
pub(crate) struct Weaver<'w> {
    pub world: &'w World,
    pub types: &'w Types,
    pub modules: &'w Modules,
    pub shared: &'w mut Shared,
}

/// What products share: equal texts and equal lists of lines are kept once.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    texts: BTreeSet<Arc<str>>,
    lines: BTreeSet<Arc<[Option<Spot>]>>,
}

impl Shared {
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let made: Arc<str> = text.into();
        self.texts.insert(made.clone());
        made
    }

    fn lines(&mut self, lines: &[Option<Spot>]) -> Arc<[Option<Spot>]> {
        if let Some(known) = self.lines.get(lines) {
            return known.clone();
        }
        let made: Arc<[Option<Spot>]> = lines.into();
        self.lines.insert(made.clone());
        made
    }
}

impl Weaver<'_> {
    pub(crate) fn product(&mut self, unit: &Unit) -> Product {
        let lines: Vec<Option<Spot>> =
            unit.lines.iter().map(|place| place.map(|place| self.spot(place))).collect();
        let heap = Heap::over(&self.world.layer);
        let object = heap.object(unit.object);
        let target = object.target.map(|id| {
            let target = heap.object(id);
            let of_type = &self.types.get(target.of_type).name;
            let name = format!("{of_type} '{}'", heap.text(target.name));
            (self.shared.text(&name), self.spot(target.origin))
        });
        let origin = Origin {
            head: self.head(unit.origin),
            spot: self.spot(unit.origin),
            target,
            lines: self.shared.lines(&lines),
        };
        Product { file: unit.file.clone(), origin: Arc::new(origin) }
    }

    fn spot(&mut self, place: Place) -> Spot {
        match self.modules.get(place.file) {
            Some(module) => Spot {
                path: module.source.path.clone(),
                line: module.source.line_column(place.span.start).0,
            },
            None => Spot { path: self.shared.text("?"), line: 0 },
        }
    }

    /// The text of a definition from its keyword to its name.
    fn head(&mut self, place: Place) -> Arc<str> {
        let bytes = self.modules.get(place.file).and_then(|module| {
            module.source.text.get(place.span.start as usize..place.span.end as usize)
        });
        let text = String::from_utf8_lossy(bytes.unwrap_or_default());
        self.shared.text(&text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_tell_the_type() {
        let of = |path: &str| Product::unit_type(path).map(UnitType::suffix);
        assert_eq!(of("a.b.service"), Some("service"));
        assert_eq!(of("a.mount.d/x.conf"), Some("mount"));
        assert_eq!(of("slice.d/x.conf"), Some("slice"));
        assert_eq!(of("nothing.conf"), None);
    }
}
