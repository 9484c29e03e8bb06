//! Circles of files that use one another.
//! Must not: know a crate by name. The bound is the same for all.
//! Runs on the main thread of xtask.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;

/// Files that may use one another in a circle: a type, its parts and its rules.
pub const CIRCLE_FILES_MAX: usize = 5;

/// The members of one circle, sorted: files, or rooms.
pub type Circle = Vec<String>;

/// Groups of files each of which uses all others of the group, maybe through more files; the largest first,
/// those of one file left out.
pub fn of(source: &Source) -> Vec<Circle> {
    let mut circles = components(&uses(source));
    circles.retain(|circle| circle.len() > 1);
    circles.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    circles
}

/// Members divided into circles; most have one member. Each stands behind those that it uses.
pub fn components(uses: &Uses<'_>) -> Vec<Circle> {
    let mut search = Search { next: uses.clone(), ..Search::default() };
    for member in uses.keys() {
        if !search.seen.contains_key(member) {
            search.visit(member);
        }
    }
    search.circles
}

/// Each member, and those that it uses.
pub type Uses<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn uses(source: &Source) -> Uses<'_> {
    let mut uses: Uses<'_> = source.files.iter().map(|file| (&file[..], BTreeSet::new())).collect();
    for arrow in &source.arrows {
        uses.entry(&arrow.from).or_default().insert(&arrow.to);
    }
    uses
}

/// Tarjan's search for strongly connected components.
#[derive(Default)]
struct Search<'a> {
    next: Uses<'a>,
    /// When a file was first seen, and the earliest file that it leads back to.
    seen: BTreeMap<&'a str, (usize, usize)>,
    /// Files whose circle is not known yet.
    open: Vec<&'a str>,
    circles: Vec<Circle>,
}

impl<'a> Search<'a> {
    /// Depth is bounded by the number of files of a crate.
    fn visit(&mut self, file: &'a str) -> usize {
        let at = self.seen.len();
        self.seen.insert(file, (at, at));
        self.open.push(file);
        let mut earliest = at;
        for next in self.next.get(file).cloned().unwrap_or_default() {
            match self.seen.get(next) {
                None => earliest = earliest.min(self.visit(next)),
                Some((index, _)) if self.open.contains(&next) => earliest = earliest.min(*index),
                Some(_) => {}
            }
        }
        self.seen.insert(file, (at, earliest));
        if earliest == at {
            let first = self.open.iter().position(|open| *open == file).expect("it was pushed");
            let mut circle: Circle =
                self.open.split_off(first).into_iter().map(str::to_owned).collect();
            circle.sort_unstable();
            self.circles.push(circle);
        }
        earliest
    }
}

/// The circles over the bound, each as a fault.
pub fn faults(name: &str, circles: &[Circle]) -> Vec<String> {
    let large = circles.iter().filter(|circle| circle.len() > CIRCLE_FILES_MAX);
    let line = |circle: &Circle| {
        let (count, files) = (circle.len(), circle.join(" "));
        format!(
            "crates/{name}: {count} files use one another in a circle, at most {CIRCLE_FILES_MAX} may: {files}"
        )
    };
    large.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_of_more_than_five_files_is_a_fault() {
        let circle = |files: usize| vec!["a.rs".to_owned(); files];
        assert_eq!(faults("x", &[circle(5), circle(2)]), [""; 0]);
        let found = faults("x", &[circle(6), circle(5)]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .starts_with("crates/x: 6 files use one another in a circle, at most 5 may: a.rs")
        );
    }
}
