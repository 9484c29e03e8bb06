//! One configuration over time: which of its files changed since it was last evaluated.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use warren_fleet::Source;
use warren_sys::inotify::{Inotify, WatchFor, WatchId};

use crate::identity::Identity;
use crate::reading::{Log, Observation, Reach, Reading, read};

/// What became of the files of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Files with another text than before, and those that a pattern finds now; of those that it
    /// finds no more the text is empty.
    pub modified: Vec<Source>,
    /// Something else: files that are named and gone, or that cannot be read any more.
    pub others: bool,
}

impl Changes {
    /// Whether all is as it was.
    pub fn is_empty(&self) -> bool {
        self.modified.is_empty() && !self.others
    }
}

/// The files of one configuration: every `*.conf` in a directory, and what those include.
pub struct Files {
    directory: PathBuf,
    /// Where `include <...>` looks.
    search: Vec<PathBuf>,
    reach: Reach,
    seen: Observation,
    watch: Option<Inotify>,
    watched: BTreeMap<WatchId, PathBuf>,
    /// The directories that are watched, with device and inode: a link on the way can lead to another one.
    directories: BTreeMap<PathBuf, (u64, u64)>,
    /// A watch could not be placed or ended: everything is looked at.
    is_blind: bool,
}

impl Files {
    /// The files below `directory`. With `watched`, later changes are heard of.
    pub fn new(directory: PathBuf, watched: bool) -> Files {
        Files {
            reach: Reach::of(&directory),
            directory,
            search: Vec::new(),
            seen: Observation::default(),
            watch: if watched { Inotify::new().ok() } else { None },
            watched: BTreeMap::new(),
            directories: BTreeMap::new(),
            is_blind: false,
        }
    }

    /// The same, with directories where `include <...>` looks, for a configuration that has its files in several
    /// places: all may be read.
    pub fn with_search_path(self, search: Vec<PathBuf>) -> Files {
        Files { search, reach: Reach::Everything, ..self }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether there was any file when it was last read.
    pub fn is_empty(&self) -> bool {
        self.seen.files.is_empty()
    }

    /// Paths and texts of all files that were read last.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.seen.files.values().map(|read| &read.source)
    }

    /// What to evaluate: a text that includes the files of the directory.
    pub fn root(&self) -> Source {
        let path = self.directory.join("(all files)");
        Source::new(&path.to_string_lossy(), b"include \"*.conf\"\n")
    }

    /// Has `evaluate` ask for files; watches what it asks for.
    pub fn read<T>(&mut self, log: Log<'_>, evaluate: impl FnOnce(Reading<'_>) -> T) -> T {
        let before = std::mem::take(&mut self.seen);
        // Watched first: what changes while it is read is heard of.
        self.watch_directory(&self.directory.clone());
        before.directories.iter().for_each(|directory| self.watch_directory(directory));
        let mut seen = Observation::default();
        let (before, search, reach) = (&before.files, &self.search, &self.reach);
        let reading = Reading { seen: &mut seen, before, search, reach, bytes: 0, log };
        let out = evaluate(reading);
        seen.directories.sort();
        seen.directories.dedup();
        for directory in &seen.directories {
            let is_new = !self.directories.contains_key(directory);
            self.watch_directory(directory);
            // It may have changed between the reading and the watch.
            self.is_blind |= is_new && self.watch.is_some();
        }
        self.seen = seen;
        out
    }

    fn watch_directory(&mut self, directory: &Path) {
        let Some(watch) = &self.watch else { return };
        // Looked at before it is watched: if it is another one by then, that is seen the next time.
        if !self.directories.contains_key(directory)
            && let Some(place) = place(directory)
            && let Ok(id) = watch.add(directory, WatchFor::Edits)
        {
            self.watched.insert(id, directory.to_owned());
            self.directories.insert(directory.to_owned(), place);
        }
    }

    /// What changed since the files were last read or looked at. With `full`, or when nothing is
    /// watched, every file is looked at.
    pub fn changes(&mut self, full: bool) -> Changes {
        let (touched, all) = self.touched();
        let is_other = |(path, then): &(PathBuf, Option<Identity>)| Identity::at(path) != *then;
        let is_refused_other = self.seen.refused.iter().any(is_other);
        let all = all
            || is_refused_other
            || full
            || std::mem::take(&mut self.is_blind)
            || self.watch.is_none();
        if !all && touched.is_empty() {
            return Changes::default();
        }
        let mut changes = Changes { others: is_refused_other, ..Changes::default() };
        let known: Vec<PathBuf> = match all {
            true => self.seen.files.keys().cloned().collect(),
            false => touched.iter().filter(|p| self.seen.files.contains_key(*p)).cloned().collect(),
        };
        let mut gone: Vec<PathBuf> = Vec::new();
        for path in known {
            if !self.look_at(&path, &mut changes) {
                gone.push(path);
            }
        }
        let is_new = |path: &PathBuf| !self.seen.files.contains_key(path);
        if all || !gone.is_empty() || touched.iter().any(is_new) {
            self.look_at_patterns(&mut changes);
        }
        changes.others |= gone.iter().any(|path| self.seen.files.contains_key(path));
        changes
    }

    /// Reads a known file again; false if it cannot be read.
    fn look_at(&mut self, path: &Path, changes: &mut Changes) -> bool {
        let Some(known) = self.seen.files.get_mut(path) else { return true };
        let reach = (&self.reach, known.word);
        let Ok(now) = read(path, Some(known), reach) else { return false };
        if !std::sync::Arc::ptr_eq(&now.source.text, &known.source.text) {
            changes.modified.push(now.source.clone());
        }
        *known = now;
        true
    }

    /// Files that patterns find now and did not before, or the other way round.
    fn look_at_patterns(&mut self, changes: &mut Changes) {
        let mut patterns = std::mem::take(&mut self.seen.patterns);
        changes.others |= patterns.is_empty();
        for index in 0..patterns.len() {
            let now = patterns[index].asked.find(&mut self.seen.directories);
            let before = std::mem::replace(&mut patterns[index].found, now.clone());
            let reach = (&self.reach, patterns[index].word);
            let of_others = patterns.iter().enumerate().filter(|(other, _)| *other != index);
            let elsewhere: BTreeSet<&PathBuf> =
                of_others.flat_map(|(_, pattern)| &pattern.found).collect();
            let [was, is] = [&before, &now].map(|all| all.iter().collect::<BTreeSet<_>>());
            for path in now.iter().filter(|path| !was.contains(path)) {
                match read(path, None, reach) {
                    Ok(new) if !elsewhere.contains(path) && !self.seen.files.contains_key(path) => {
                        changes.modified.push(new.source.clone());
                        self.seen.files.insert(path.clone(), new);
                    }
                    _ => changes.others = true,
                }
            }
            for path in before.iter().filter(|path| !is.contains(path)) {
                changes.others |= elsewhere.contains(path);
                if self.seen.files.remove(path).is_some() {
                    changes.modified.push(Source::new(&path.to_string_lossy(), b""));
                }
            }
        }
        self.seen.patterns = patterns;
        let directories = std::mem::take(&mut self.seen.directories);
        directories.iter().for_each(|directory| self.watch_directory(directory));
        self.seen.directories = directories;
        self.seen.directories.sort();
        self.seen.directories.dedup();
    }

    /// Paths that the watches reported, and whether reports may be missing.
    fn touched(&mut self) -> (BTreeSet<PathBuf>, bool) {
        let mut touched = BTreeSet::new();
        let Some(watch) = &self.watch else { return (touched, true) };
        let mut events = Vec::new();
        let mut lost = !matches!(watch.drain(&mut events), Ok(false));
        // A directory that was not there when it was to be watched.
        lost |= !self.directories.contains_key(&self.directory) && self.directory.is_dir();
        // Nobody tells that a link leads elsewhere: `current` of a deployment.
        let moved = self.directories.iter().filter(|(path, old)| place(path) != Some(**old));
        let moved: Vec<PathBuf> = moved.map(|(path, _)| path.clone()).collect();
        for path in moved {
            lost = true;
            self.directories.remove(&path);
            self.watched.retain(|_, watched| *watched != path);
            self.watch_directory(&path);
        }
        for event in events {
            let Some(directory) = self.watched.get(&event.watch) else { continue };
            lost |= event.name.is_empty();
            touched.insert(directory.join(&event.name));
            if event.ended {
                let gone = self.watched.remove(&event.watch);
                gone.iter().for_each(|directory| {
                    self.directories.remove(directory);
                });
            }
        }
        (touched, lost)
    }
}

/// Device and inode of a directory.
fn place(directory: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(directory).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Word;
    use std::fs;
    use warren_fleet::outside::Outside;
    use warren_testkit::Scratch;

    fn scratch(name: &str) -> Scratch {
        let scratch = Scratch::new(name);
        fs::create_dir(scratch.path("more")).expect("it can be made");
        scratch
    }

    /// Reads as a configuration with `include "more/*.conf"` in its first file would.
    fn evaluate(files: &mut Files) -> Vec<String> {
        let root = files.root().path.to_string();
        files.read(&mut |_| {}, |mut reading| {
            let plain = warren_fleet::ast::IncludeKind::Relative;
            let mut include = |from: &str, path: &str| {
                let (from, path) = (from.to_owned(), path.to_owned());
                let include =
                    warren_fleet::outside::Include { kind: plain, from, path, pattern: None };
                reading.include(&include).unwrap_or_default()
            };
            let mut sources = include(&root, "*.conf");
            if let Some(first) = sources.first().map(|source| source.path.to_string()) {
                sources.extend(include(&first, "more/*.conf"));
            }
            sources.iter().map(|s| String::from_utf8_lossy(&s.text).into_owned()).collect()
        })
    }

    #[test]
    fn a_file_that_is_named_is_missed() {
        let scratch = scratch("named");
        let mut files = Files::new(scratch.0.clone(), true);
        scratch.write("more/named", "x");
        let root = files.root().path.to_string();
        let kind = warren_fleet::ast::IncludeKind::Relative;
        let path = "more/named".to_owned();
        let include = warren_fleet::outside::Include { kind, from: root, path, pattern: None };
        let found = files.read(&mut |_| {}, |mut reading| reading.include(&include));
        assert!(found.is_ok());
        files.changes(false);
        fs::remove_file(scratch.0.join("more/named")).expect("removed");
        assert!(files.changes(false).others);
    }

    /// Whether a configuration that includes this can be read; later changes are heard of.
    fn can_include(files: &mut Files, path: &str) -> bool {
        let from = files.root().path.to_string();
        let kind = warren_fleet::ast::IncludeKind::Relative;
        let include = |path: &str| {
            let (from, path) = (from.clone(), path.to_owned());
            warren_fleet::outside::Include { kind, from, path, pattern: None }
        };
        let found = files.read(&mut |_| {}, |mut reading| {
            reading.include(&include("*.conf")).and_then(|_| reading.include(&include(path)))
        });
        files.changes(false);
        assert!(files.changes(false).is_empty());
        found.is_ok()
    }

    /// A rule names it, or a link among the rules leads to it.
    #[test]
    fn a_closed_file_outside_of_the_rules_is_not_read() {
        use std::os::unix::fs::PermissionsExt;
        use warren_fleet::ast::IncludeKind;
        use warren_fleet::outside::Include;
        let scratch = scratch("closed");
        let (rules, secret) = (scratch.path("rules"), scratch.path("secret"));
        scratch.write("rules/own.conf", "own");
        fs::write(&secret, "hunter2").expect("written");
        std::os::unix::fs::symlink(&secret, rules.join("link.conf")).expect("a link");
        std::os::unix::fs::symlink(&rules, scratch.path("current")).expect("a link");
        let is_open = |path: &Path| fs::metadata(path).is_ok_and(|found| found.mode() & 1 != 0);
        let can_come = scratch.0.ancestors().all(is_open);
        for (mode, is_read) in [(0o600, false), (0o640, false), (0o644, can_come)] {
            fs::set_permissions(&secret, PermissionsExt::from_mode(mode)).expect("it is ours");
            let reach = Reach::Below(scratch.path("current"));
            for path in [&secret, &rules.join("link.conf")] {
                let found = read(path, None, (&reach, Word::Nobody));
                assert_eq!(found.is_ok(), is_read, "{path:?} {mode:o}");
                let said = found.err().unwrap_or_default();
                assert!(!said.contains("hunter2") && said.is_empty() == is_read, "{said}");
            }
            fs::set_permissions(rules.join("own.conf"), PermissionsExt::from_mode(mode))
                .expect("it is ours");
            let own = read(&rules.join("own.conf"), None, (&reach, Word::Nobody));
            assert!(own.is_ok(), "rules may be closed");
        }
        fs::set_permissions(&scratch.0, PermissionsExt::from_mode(0o700)).expect("it is ours");
        let reach = Reach::Below(rules);
        assert!(read(&secret, None, (&reach, Word::Nobody)).is_err(), "nobody else comes there");
        // What root's own file includes is root's to say.
        let from = |path: &Path| path.to_string_lossy().into_owned();
        let mut files = Files::new(scratch.path("rules"), false);
        files.reach = reach;
        let including = scratch.path("rules/own.conf");
        let mut include = |mode: u32, owner: u32| {
            fs::set_permissions(&including, PermissionsExt::from_mode(mode)).expect("it is ours");
            let _ = std::os::unix::fs::chown(&including, Some(owner), None);
            let include = Include {
                kind: IncludeKind::Relative,
                from: from(&including),
                path: from(&secret),
                pattern: None,
            };
            files.read(&mut |_| {}, |mut reading| reading.include(&include)).is_ok()
        };
        if warren_sys::process::own_ids().0 != 0 {
            return warren_testkit::not_run("needs root");
        }
        assert!(include(0o644, 0) && !include(0o664, 0) && !include(0o644, 7));
        // Somebody else's may include what is his.
        std::os::unix::fs::chown(&secret, Some(7), None).expect("it is ours");
        assert!(include(0o644, 7) && include(0o644, 0) && !include(0o644, 8));
    }

    #[test]
    fn what_was_asked_for_in_vain_is_waited_for() {
        for watched in [true, false] {
            let scratch = scratch("vain");
            fs::create_dir(scratch.path("rules")).expect("it can be made");
            let mut files = Files::new(scratch.path("rules"), watched);
            assert!(!can_include(&mut files, "../more/a.conf"));
            scratch.write("more/a.conf", "a");
            assert!(files.changes(false).others);
            assert!(can_include(&mut files, "../more/a.conf"));
            assert!(!can_include(&mut files, "../later/*.conf"));
            fs::create_dir(scratch.path("later")).expect("it can be made");
            assert!(files.changes(false).others);
            // Too large to be read, then not.
            let large = fs::File::create(scratch.path("more/b.conf")).expect("made");
            for path in ["../more/b.conf", "../more/b*.conf"] {
                large.set_len(crate::FILE_BYTES_MAX + 1).expect("sparse");
                assert!(!can_include(&mut files, path));
                large.set_len(1).expect("cut");
                assert!(files.changes(false).others);
            }
        }
    }

    #[test]
    fn a_link_that_leads_to_another_directory_is_seen() {
        let scratch = scratch("switched");
        scratch.write("first.conf", "x");
        for (release, text) in [("r1", "one"), ("r2", "two")] {
            fs::create_dir(scratch.path(release)).expect("it can be made");
            scratch.write(&format!("{release}/a.conf"), text);
        }
        fs::remove_dir(scratch.path("more")).expect("it is empty");
        let lead = |to: &str| {
            let new = scratch.path("new");
            std::os::unix::fs::symlink(to, &new).expect("a link");
            fs::rename(new, scratch.path("more")).expect("renamed");
        };
        lead("r1");
        let mut files = Files::new(scratch.0.clone(), true);
        assert_eq!(evaluate(&mut files), ["x", "one"]);
        files.changes(false);
        for (to, text) in [("r2", "two"), ("r1", "one"), ("r2", "two")] {
            lead(to);
            let changes = files.changes(false);
            let texts =
                changes.modified.iter().map(|s| String::from_utf8_lossy(&s.text).into_owned());
            assert_eq!(texts.collect::<Vec<_>>(), [text]);
            assert!(files.changes(false).is_empty());
        }
        scratch.write("r2/a.conf", "edited");
        assert_eq!(files.changes(false).modified.len(), 1);
    }

    #[test]
    fn an_inventory_is_watched_as_rules_are() {
        let scratch = scratch("inventory");
        let mut files = Files::new(scratch.0.clone(), true);
        scratch.write("shops.csv", "name\na\n");
        let (from, kind) =
            (files.root().path.to_string(), warren_fleet::ast::IncludeKind::Relative);
        let path = "shops.csv".to_owned();
        let include = warren_fleet::outside::Include { kind, from, path, pattern: None };
        let found = files.read(&mut |_| {}, |mut reading| reading.data(&include));
        assert!(found.is_ok());
        files.changes(false);
        assert!(files.changes(false).is_empty());
        scratch.write("shops.csv", "name\nb\n");
        assert_eq!(modified(&files.changes(false)), ["shops.csv"]);
        fs::remove_file(scratch.0.join("shops.csv")).expect("removed");
        assert!(files.changes(false).others);
    }

    fn modified(changes: &Changes) -> Vec<String> {
        let name = |s: &Source| s.path.rsplit('/').next().unwrap_or_default().to_owned();
        changes.modified.iter().map(name).collect()
    }

    fn check_all_changes_are_seen(watched: bool) {
        let scratch = scratch(if watched { "watched" } else { "looked" });
        let mut files = Files::new(scratch.0.clone(), watched);
        scratch.write("a.conf", "a");
        scratch.write("b.conf~", "no");
        scratch.write("more/c.conf", "c");
        assert_eq!(evaluate(&mut files), ["a", "c"]);
        // A new watch may have missed something once.
        files.changes(false);
        assert!(files.changes(false).is_empty());
        scratch.write("more/c.conf", "cc");
        scratch.write("b.conf~", "still no");
        let changes = files.changes(false);
        assert_eq!((modified(&changes), changes.others), (vec!["c.conf".to_owned()], false));
        assert!(files.changes(false).is_empty());
        scratch.write("a.conf", "a");
        assert!(files.changes(true).is_empty(), "touched is not changed");
        scratch.write("more/d.conf", "d");
        let changes = files.changes(false);
        assert_eq!((modified(&changes), changes.others), (vec!["d.conf".to_owned()], false));
        assert!(files.changes(false).is_empty());
        fs::remove_file(scratch.0.join("more/c.conf")).expect("removed");
        let changes = files.changes(false);
        assert_eq!((modified(&changes), changes.others), (vec!["c.conf".to_owned()], false));
        assert_eq!(&*changes.modified[0].text, b"");
        assert_eq!(evaluate(&mut files), ["a", "d"]);
        fs::remove_dir_all(&scratch.0).expect("removed");
        assert_eq!(modified(&files.changes(false)), ["a.conf", "d.conf"]);
        assert!(files.changes(false).is_empty());
        assert_eq!(evaluate(&mut files), [""; 0]);
        fs::create_dir_all(&scratch.0).expect("made");
        scratch.write("a.conf", "again");
        assert_eq!(modified(&files.changes(false)), ["a.conf"]);
        assert_eq!(evaluate(&mut files), ["again"]);
    }

    #[test]
    fn changes_are_heard_of() {
        check_all_changes_are_seen(true);
    }

    #[test]
    fn changes_are_found_without_watches() {
        check_all_changes_are_seen(false);
    }
}
