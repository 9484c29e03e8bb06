//! Circles of files that use one another, and the list of those that are allowed.
//! Must not: allow a circle to grow.
//! Runs on the main thread of xtask.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};

use super::source::Source;
use crate::command::root;

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

/// Who uses whom, divided into circles; most have one member. Each stands behind those that it uses.
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

/// How far a crate is from the bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    /// Files of the largest circle.
    largest: usize,
    /// Files of all circles over the bound. A circle that falls into two may have both counted.
    all: usize,
}

/// The crates that have circles over the bound.
type Sizes = BTreeMap<String, Size>;

/// Holds what was found against the committed list. `UPDATE_GOLDEN=1` writes smaller sizes into the list,
/// never larger ones.
pub fn check(found: &BTreeMap<String, Vec<Circle>>) -> Result<Vec<String>> {
    let path = root().join("crates/xtask/circles.txt");
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let sizes: Sizes = found.iter().map(|(name, circles)| (name.clone(), size(circles))).collect();
    let grown = grown(&parse(&text)?, &sizes);
    if !grown.is_empty() {
        return Ok(grown.iter().flat_map(|name| shown(name, &found[*name])).collect());
    }
    let new = list(&text, &sizes);
    if new == text {
        return Ok(Vec::new());
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, new).with_context(|| format!("{}", path.display()))?;
        return Ok(Vec::new());
    }
    let hint = "circles are smaller than crates/xtask/circles.txt allows: \
                `UPDATE_GOLDEN=1 cargo xtask check` writes it";
    Ok(vec![hint.to_owned()])
}

fn shown(name: &str, circles: &[Circle]) -> Vec<String> {
    let large = circles.iter().filter(|circle| circle.len() > CIRCLE_FILES_MAX);
    let line = |circle: &Circle| {
        let (count, files) = (circle.len(), circle.join(" "));
        format!("crates/{name}: {count} files use one another in a circle: {files}")
    };
    large.map(line).collect()
}

fn size(circles: &[Circle]) -> Size {
    let large = circles.iter().map(Vec::len).filter(|files| *files > CIRCLE_FILES_MAX);
    large.fold(Size::default(), |size, files| Size {
        largest: size.largest.max(files),
        all: size.all + files,
    })
}

/// Lines of a crate and its two sizes; `#` begins a comment.
fn parse(text: &str) -> Result<Sizes> {
    let mut out = Sizes::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, largest, all] = words[..] else { bail!("circles.txt: {line}") };
        let number = |word: &str| word.parse().with_context(|| format!("circles.txt: {line}"));
        let size = Size { largest: number(largest)?, all: number(all)? };
        out.insert(name.to_owned(), size);
    }
    Ok(out)
}

/// Crates whose circles are larger than the list allows.
fn grown<'a>(allowed: &Sizes, found: &'a Sizes) -> Vec<&'a str> {
    let is_over = |name: &str, size: &Size| {
        let allowed = allowed.get(name).copied().unwrap_or_default();
        size.largest > allowed.largest || size.all > allowed.all
    };
    found.iter().filter(|(name, size)| is_over(name, size)).map(|(name, _)| name.as_str()).collect()
}

/// The list with these sizes, and the comments of the old one.
fn list(old: &str, sizes: &Sizes) -> String {
    let comments = old.lines().filter(|line| line.starts_with('#')).map(str::to_owned);
    let large = sizes.iter().filter(|(_, size)| size.largest > 0);
    let lines = large.map(|(name, size)| format!("{name} {} {}", size.largest, size.all));
    comments.chain(lines).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_may_shrink_or_fall_apart_and_not_grow() {
        let allowed = parse("# why\nmanager 64 71\ncore 17 17\n").unwrap();
        for (found, grows) in [
            ("manager 64 71\ncore 17 17", ""),
            ("manager 40 70", ""),
            ("manager 65 65", "manager"),
            ("manager 40 72", "manager"),
            ("cli 6 6\ncore 18 18", "cli core"),
        ] {
            let found = parse(found).unwrap();
            assert_eq!(grown(&allowed, &found).join(" "), grows, "{found:?}");
        }
        let smaller = parse("core 6 6\ncli 0 0").unwrap();
        assert_eq!(list("# why\ncore 17 17\n", &smaller), "# why\ncore 6 6\n");
        let circle = |files: usize| vec![String::new(); files];
        assert_eq!(size(&[circle(9), circle(6), circle(5)]), Size { largest: 9, all: 15 });
    }
}
