//! What is seen of edits of a directory, compared with a fresh look.

use warren_unit::UnitName;

use super::*;
use crate::base::scratch::Scratch;

#[test]
fn looking_at_all_again_sees_what_reading_all_sees() {
    let scratch = Scratch::new("sweep");
    let read = || Snapshot::read_unwatched(vec![scratch.0.clone()]);
    for name in ["a", "c", "e", "g"] {
        scratch.edit(&format!("{name}.service [Service]"));
    }
    scratch.edit("x.target.wants/a.service -> ../a.service");
    scratch.edit("a.service.d/1.conf [Unit]");
    let mut snapshot = read();
    for (edit, changed) in [
        ("c.service [Unit]\nDescription=longer", "c.service"),
        ("0.service [Service]", "0.service"),
        ("d.service -> c.service", "d.service"),
        ("z.service -> /dev/null", "z.service"),
        ("d.service [Service]", "d.service"),
        ("- a.service", "a.service"),
        ("- z.service", "z.service"),
        ("x.target.wants/e.service -> ../e.service", "x.target.wants"),
        ("x.target.wants/a.service -> /dev/null", "x.target.wants"),
        ("- x.target.wants/e.service", "x.target.wants"),
        ("a.service.d/1.conf [Unit]\nDescription=longer", "a.service.d"),
        ("y.target.requires/c.service -> ../c.service", "y.target.requires"),
        ("notes about nothing", ""),
    ] {
        scratch.edit(edit);
        // Without a watch nothing but the files tells.
        let trusting = edit.starts_with("a.service.d");
        let seen: Vec<Box<str>> = snapshot.sweep_all(trusting, Links::All).into_iter().collect();
        let want: Vec<Box<str>> =
            Some(changed.into()).filter(|_| !changed.is_empty()).into_iter().collect();
        assert_eq!(seen, want, "{edit}");
        let (now, fresh) = (&snapshot.directories[0].entries, &read().directories[0].entries);
        assert!(now.keys().eq(fresh.keys()), "{edit}");
    }
    assert!(snapshot.sweep().is_empty(), "nothing was done since");
}

#[test]
fn what_lies_behind_links_is_looked_at_by_each_update() {
    let scratch = Scratch::new("behind-links");
    scratch.edit("units/a.service [Service]");
    scratch.edit("opt/x.conf [Unit]");
    scratch.edit("opt/many/1.conf [Unit]");
    scratch.edit("units/a.service.d/x.conf -> ../../opt/x.conf");
    scratch.edit("units/a.service.d/null.conf -> /dev/null");
    scratch.edit("units/b.service.d -> ../opt/many");
    scratch.edit("units/c.service.d -> ../opt/many");
    let mut snapshot = Snapshot::read(vec![scratch.0.join("units")]);
    let (both, one) = ("b.service.d c.service.d", "a.service.d");
    for (edit, changed) in [
        ("notes -", ""),
        ("opt/x.conf [Unit]\nDescription=longer", one),
        ("- opt/x.conf", one),
        ("opt/x.conf [Unit]", one),
        ("opt/many/1.conf [Unit]\nDescription=longer", both),
        ("opt/many/2.conf [Unit]", both),
        ("units/a.service.d/x.conf [Unit]", one),
        ("opt/x.conf [Unit]\nDescription=of nobody", ""),
    ] {
        scratch.edit(edit);
        let seen: Vec<Box<str>> = snapshot.update().into_iter().collect();
        assert_eq!(seen.join(" "), changed, "{edit}");
    }
    let outside: Vec<&str> = snapshot.outside.iter().map(|(_, name)| &**name).collect();
    assert_eq!(outside, ["b.service.d", "c.service.d"], "a mask is none");
}

/// A scratch directory lies where no configuration is.
#[test]
fn what_lies_behind_links_to_no_configuration_waits_for_a_full_update() {
    let scratch = Scratch::new("far-links");
    scratch.edit("far/x.conf [Unit]");
    scratch.edit("units/a.service.d/x.conf -> ../../far/x.conf");
    scratch.edit("units/b.service -> ../far/b.service");
    let mut snapshot = Snapshot::read(vec![scratch.0.join("units")]);
    let joined = |seen: BTreeSet<Box<str>>| seen.into_iter().collect::<Vec<_>>().join(" ");
    scratch.edit("far/x.conf [Unit]\nDescription=longer");
    scratch.edit("far/b.service [Service]");
    assert_eq!(joined(snapshot.update_nearby(&[])), "");
    snapshot.is_partly_watched = true;
    assert_eq!(joined(snapshot.update_nearby(&[])), "", "nor by a look at everything in its place");
    // What the watch tells of is looked at.
    scratch.edit("units/c.service -> ../far/b.service");
    assert_eq!(joined(snapshot.update_nearby(&[])), "c.service");
    // Of units that are asked for all is looked at, also by an alias.
    scratch.edit("units/alias.service -> b.service");
    let unit = |name: &str| UnitName::parse(name).expect("a name");
    let asked = snapshot.update_nearby(&[unit("alias.service")]);
    assert_eq!(joined(asked), "alias.service");
    let asked = snapshot.update_nearby(&[unit("alias.service")]);
    assert_eq!(joined(asked), "b.service");
    assert_eq!(joined(snapshot.update_nearby(&[unit("a.service")])), "a.service.d");
    scratch.edit("far/x.conf [Unit]");
    assert_eq!(joined(snapshot.update()), "a.service.d");
}

/// However many others there are: one who asks for a unit's state waits for what that is made of.
#[test]
fn a_look_for_one_units_state_looks_behind_no_other_links_and_at_no_other_files() {
    let joined = |seen: BTreeSet<Box<str>>| seen.into_iter().collect::<Vec<_>>().join(" ");
    let unit = |name: &str| UnitName::parse(name).expect("a name");
    for is_watched in [true, false] {
        let scratch = Scratch::new("one-state");
        for name in ["a", "b", "t@"] {
            scratch.edit(&format!("far/{name}.service [Unit]"));
            scratch.edit(&format!("units/{name}.service -> ../far/{name}.service"));
        }
        scratch.edit("units/c.service [Service]");
        scratch.edit("units/x.target.wants/c.service -> ../c.service");
        let paths = vec![scratch.0.join("units")];
        let mut snapshot = match is_watched {
            true => Snapshot::read(paths),
            false => Snapshot::read_unwatched(paths),
        };
        let before = snapshot.looked_behind_at_ns();
        for name in ["a", "b", "t@"] {
            scratch.edit(&format!("far/{name}.service [Unit]\nDescription=longer"));
        }
        // Who may change nothing waits for no server.
        assert_eq!(joined(snapshot.update_of(&unit("a.service"), false)), "");
        assert_eq!(snapshot.work.looked_at, 0);
        assert_eq!(joined(snapshot.update_of(&unit("a.service"), true)), "a.service");
        assert_eq!(joined(snapshot.update_of(&unit("t@x.service"), true)), "t@.service");
        assert_eq!(joined(snapshot.update_of(&unit("a.service"), true)), "");
        assert_eq!(snapshot.work.looked_at, 1);
        assert_eq!(snapshot.looked_behind_at_ns(), before, "of others nothing is known");
        // A link for it is seen wherever it is.
        for name in ["new.target.wants", "x.target.wants"] {
            scratch.edit(&format!("units/{name}/a.service -> ../a.service"));
            assert_eq!(joined(snapshot.update_of(&unit("a.service"), false)), name);
        }
        scratch.edit("- units/new.target.wants/a.service");
        fs::remove_dir(scratch.0.join("units/new.target.wants")).expect("it is empty");
        assert_eq!(joined(snapshot.update_of(&unit("a.service"), false)), "new.target.wants");
        scratch.edit("units/c.service [Unit]\nDescription=longer");
        let seen = if is_watched { "c.service" } else { "" };
        assert_eq!(joined(snapshot.update_of(&unit("a.service"), false)), seen);
        let rest = if is_watched { "b.service" } else { "b.service c.service" };
        assert_eq!(joined(snapshot.update()), rest);
    }
}

/// What a snapshot has of its directories' entries, in words.
fn shown(snapshot: &Snapshot) -> String {
    let entries = snapshot.directories.iter().map(|directory| {
        let entries = directory.entries.iter();
        entries.map(|(name, entry)| format!("{name} {}\n", in_words(entry))).collect::<String>()
    });
    entries.collect()
}

fn in_words(entry: &Entry) -> String {
    let text =
        |file: &File| file.parsed.entries().map(|e| format!("{}\n", e.value)).collect::<String>();
    match entry {
        Entry::File(file) => text(file),
        Entry::Link(link) => match &link.leads {
            Leads::Outside(file) => format!("-> {} {}", link.target, text(file)),
            Leads::Inside => format!("-> {} inside", link.target),
            Leads::Nowhere => format!("-> {} nowhere", link.target),
        },
        Entry::Directory(entries) => {
            entries.iter().map(|(name, entry)| format!("{name}: {}", in_words(entry))).collect()
        }
        Entry::Wrong(why) => (*why).to_owned(),
    }
}

/// As of the directory of an application whose `current` is a link.
#[test]
fn where_directories_that_are_links_lead_is_looked_at_by_each_update() {
    let scratch = Scratch::new("linked-directories");
    let paths = || vec![scratch.0.join("units")];
    for version in ["v1", "v2"] {
        scratch.edit(&format!("opt/{version}/a.d/x.conf [Unit]\nDescription={version}"));
    }
    scratch.edit("opt/v2/a.wants/b.service -> ../b.service");
    scratch.edit("opt/current -> v1");
    scratch.edit("units/a.service.d -> ../opt/current/a.d");
    scratch.edit("units/a.service.wants -> ../opt/current/a.wants");
    scratch.edit("units/b.service.d -> ../opt/later");
    let mut snapshot = Snapshot::read(paths());
    let joined = |seen: BTreeSet<Box<str>>| seen.into_iter().collect::<Vec<_>>().join(" ");
    for (edit, changed) in [
        ("notes -", ""),
        ("opt/current -> v2", "a.service.d a.service.wants"),
        ("opt/v1/a.d/x.conf [Unit]\nDescription=of nobody", ""),
        ("opt/v2/a.d/x.conf [Unit]\nDescription=edited", "a.service.d"),
        ("opt/v2/a.wants/c.service -> ../c.service", "a.service.wants"),
        ("opt/later/y.conf [Unit]", "b.service.d"),
        ("opt/current -> none", "a.service.d a.service.wants"),
        ("opt/current -> v1", "a.service.d"),
        ("- units/b.service.d", "b.service.d"),
        ("units/b.service.d/own.conf [Unit]", "b.service.d"),
    ] {
        scratch.edit(edit);
        assert_eq!(
            joined(snapshot.update_nearby(&[])),
            if edit.contains("units/") { changed } else { "" }
        );
        let changed = if edit.contains("units/") { "" } else { changed };
        assert_eq!(joined(snapshot.update()), changed, "{edit}");
        assert_eq!(shown(&snapshot), shown(&Snapshot::read_unwatched(paths())), "{edit}");
        assert_eq!(joined(snapshot.update()), "", "nothing was done since");
        let watched: Vec<&Watched> = snapshot.watched.values().flatten().collect();
        let each: BTreeSet<&Watched> = watched.iter().copied().collect();
        assert_eq!(watched.len(), each.len(), "what one led to before is watched: {watched:?}");
    }
    assert_eq!(snapshot.linked.len(), 2, "{:?}", snapshot.linked);
    scratch.edit("opt/v1/a.d/x.conf [Unit]\nDescription=edited again");
    assert_eq!(
        joined(snapshot.update_of(&UnitName::parse("a.service").expect("a name"), false)),
        ""
    );
    assert_eq!(
        joined(snapshot.update_of(&UnitName::parse("a.service").expect("a name"), true)),
        "a.service.d"
    );
}

/// The watch tells of what is done by the name that it has in the directory.
#[test]
fn a_file_that_was_edited_by_another_of_its_names_is_seen_by_each_update() {
    let scratch = Scratch::new("hard-links");
    scratch.edit("site/a.service [Service]");
    scratch.edit("site/x.conf [Unit]");
    scratch.edit("units/b.service.d/own.conf [Unit]");
    scratch.edit("units/c.service [Service]");
    for (from, to) in [("site/a.service", "a.service"), ("site/x.conf", "b.service.d/x.conf")] {
        fs::hard_link(scratch.0.join(from), scratch.0.join("units").join(to)).expect("a name");
    }
    let mut snapshot = Snapshot::read(vec![scratch.0.join("units")]);
    for (file, changed) in [("site/a.service", "a.service"), ("site/x.conf", "b.service.d")] {
        assert_eq!(snapshot.update(), BTreeSet::new());
        fs::write(scratch.0.join(file), "[Unit]\nDescription=longer").expect("it is written");
        assert_eq!(snapshot.update(), BTreeSet::from([changed.into()]));
    }
    assert_eq!(snapshot.update(), BTreeSet::new());
    assert_eq!(snapshot.work.parsed, 0);
    let paths: Vec<String> = snapshot.files_behind_links().iter().map(|p| p.to_string()).collect();
    let expected =
        ["a.service", "b.service.d/x.conf"].map(|name| scratch.0.join("units").join(name));
    assert_eq!(paths, expected.map(|path| path.display().to_string()));
}

/// The watch tells of the name that the edit was done by.
#[test]
fn a_file_that_gets_a_second_name_among_the_unit_files_is_seen_by_what_is_done_by_that() {
    let scratch = Scratch::new("second-names");
    for (file, second) in [
        ("a.service", "b.service"),
        ("a.service.d/x.conf", "b.service"),
        ("a.service.d/x.conf", "a.service.d/second.conf"),
        ("a.service", "b.service.d/second.conf"),
    ] {
        for first in ["a.service", "a.service.d/x.conf", "b.service.d/x.conf"] {
            scratch.edit(&format!("{first} [Unit]"));
        }
        // It does not matter that another file has other names already.
        let _ = fs::hard_link(scratch.0.join("b.service.d/x.conf"), scratch.0.join("notes"));
        let mut snapshot = Snapshot::read(vec![scratch.0.clone()]);
        snapshot.update();
        fs::hard_link(scratch.0.join(file), scratch.0.join(second)).expect("a name");
        // A look for whoever starts a unit is no look at all files.
        snapshot.update_nearby(&[]);
        snapshot.update();
        let paths = snapshot.files_behind_links();
        for name in [file, second] {
            assert!(paths.contains(&*scratch.0.join(name).to_string_lossy()), "{name}: {paths:?}");
        }
        fs::write(scratch.0.join(second), "[Unit]\nDescription=longer").expect("it is written");
        snapshot.update();
        let read = Snapshot::read_unwatched(vec![scratch.0.clone()]);
        assert_eq!(shown(&snapshot), shown(&read), "{file} {second}");
        assert_eq!((snapshot.update(), snapshot.work.parsed), (BTreeSet::new(), 0));
        scratch.edit(&format!("- {second}"));
    }
}

/// Of a rename above it the watch of a directory tells nothing, as of a mount over it.
#[test]
fn a_directory_that_another_takes_the_place_of_is_looked_at_and_watched() {
    let scratch = Scratch::new("replaced");
    scratch.edit("above/units/a.service [Service]");
    scratch.edit("above/units/b.service.d/1.conf [Unit]");
    scratch.edit("other/units/b.service.d/1.conf [Unit]\nDescription=longer");
    scratch.edit("other/units/c.service [Service]");
    let mut snapshot = Snapshot::read(vec![scratch.0.join("above/units")]);
    let seen =
        |snapshot: &mut Snapshot| snapshot.update().into_iter().collect::<Vec<_>>().join(" ");
    let rename = |from: &str, to: &str| {
        fs::rename(scratch.0.join(from), scratch.0.join(to)).expect("a rename");
    };
    rename("above", "before");
    rename("other", "above");
    assert_eq!(seen(&mut snapshot), "a.service b.service.d c.service");
    scratch.edit("above/units/b.service.d/2.conf [Unit]");
    scratch.edit("above/units/d.service [Unit]");
    assert_eq!(seen(&mut snapshot), "b.service.d d.service");
    assert_eq!(snapshot.watched.len(), 2, "the other one is watched no more");
    rename("above", "other");
    assert_eq!(seen(&mut snapshot), "b.service.d c.service d.service");
    rename("before", "above");
    assert_eq!(seen(&mut snapshot), "a.service b.service.d");
}

/// As that of a failing disk; here the path of what takes its place is too long.
#[test]
fn what_was_known_of_a_directory_stays_while_it_cannot_be_read() {
    let scratch = Scratch::new("unread");
    scratch.edit("real/a.service [Service]");
    scratch.edit("units -> real");
    let mut snapshot = Snapshot::read(vec![scratch.0.join("units")]);
    let too_long = format!("units -> {}", "x".repeat(300));
    scratch.edit("real/b.service [Service]");
    for _ in 0..2 {
        scratch.edit(&too_long);
        assert!(snapshot.update().is_empty() && snapshot.sweep().is_empty());
        assert!(snapshot.directories[0].entries.contains_key("a.service"));
        assert_eq!((snapshot.unread().is_some(), snapshot.shortage()), (true, None));
    }
    scratch.edit("units -> real");
    assert_eq!(snapshot.update().into_iter().collect::<Vec<_>>(), ["b.service".into()]);
    assert!(snapshot.unread().is_none());
    scratch.edit("- units");
    assert_eq!(snapshot.update().len(), 2, "what is not there is gone");
}

#[test]
fn all_files_together_are_bounded_and_one_that_goes_makes_room() {
    let scratch = Scratch::new("bounded");
    let text = format!("[Unit]\nDescription={}", "x".repeat(1000));
    for name in ["a.service", "b.service", "c.service.d/1.conf"] {
        scratch.edit(&format!("{name} {text}"));
    }
    let mut snapshot = Snapshot::read(vec![]);
    snapshot.kept_bytes_max = 2500;
    snapshot.directories.push(Directory::new(scratch.0.clone(), false));
    snapshot.sweep();
    let faults = |snapshot: &Snapshot| -> Vec<String> {
        let faults = snapshot.diagnostics.iter().filter(|(_, faults)| !faults.is_empty());
        faults.map(|(path, _)| path.rsplit_once('/').expect("a path").1.to_owned()).collect()
    };
    assert_eq!(faults(&snapshot), ["1.conf"]);
    assert!(snapshot.diagnostics.values().flatten().all(|d| d.code.as_str() == "file-too-large"));
    scratch.edit("- a.service");
    snapshot.update();
    assert_eq!(snapshot.kept_bytes / 1000, 1);
    scratch.edit(&format!("c.service.d/1.conf {text}"));
    snapshot.update();
    assert_eq!((faults(&snapshot), snapshot.kept_bytes / 1000), (vec![], 2));
    scratch.edit(&format!("d.service {text}"));
    snapshot.update();
    assert_eq!(faults(&snapshot), ["d.service"]);
}

#[test]
fn what_somebody_still_writes_is_seen_as_far_as_it_is() {
    use std::io::Write;
    let scratch = Scratch::new("written");
    scratch.edit("a.service [Unit]\nDescription=before\n");
    scratch.edit("a.service.d/1.conf [Unit]\n");
    let mut snapshot = Snapshot::read(vec![scratch.0.clone()]);
    for (file, changed) in [("a.service", "a.service"), ("a.service.d/1.conf", "a.service.d")] {
        let path = scratch.0.join(file);
        let mut file = fs::File::options().append(true).open(path).expect("it is there");
        for part in ["Description=one\n", "Description=longer\n"] {
            file.write_all(part.as_bytes()).expect("written");
            assert!(snapshot.watched().0.is_some_and(|watch| watch.has_news()));
            assert_eq!(snapshot.update().into_iter().collect::<Vec<_>>(), [changed.into()]);
        }
        drop(file);
        assert!(snapshot.update().is_empty());
    }
}

/// A watch that could not be had is asked for again by the look at everything that stands in.
#[test]
fn what_is_not_watched_is_looked_at_until_it_is() {
    let scratch = Scratch::new("unwatched");
    scratch.edit("a.service [Service]");
    scratch.edit("a.service.d/1.conf [Unit]");
    let mut snapshot = Snapshot::read(vec![scratch.0.clone()]);
    let watch = snapshot.watch.replace(Arc::new(Inotify::new().expect("another inotify")));
    drop(watch);
    snapshot.watched.clear();
    snapshot.is_partly_watched = true;
    assert!(snapshot.watched().0.is_none(), "it is not for others to rely on");
    for (edit, changed) in [
        ("a.service.d/1.conf [Unit]\nDescription=longer", "a.service.d"),
        ("a.service.d/1.conf [Unit]\nDescription=longer still", "a.service.d"),
        ("b.service [Service]", "b.service"),
    ] {
        scratch.edit(edit);
        let seen: Vec<Box<str>> = snapshot.update().into_iter().collect();
        assert_eq!(seen, [changed.into()], "{edit}");
        assert!(snapshot.watched().0.is_some(), "by now everything is watched");
    }
    assert_eq!(snapshot.work.looked_at, 1);
}
