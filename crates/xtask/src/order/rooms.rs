//! The order that a crate states in `rooms.txt`: its folders and files from the ground up.
//! Must not: know what a room is for.
//! Runs on the main thread of xtask.

use std::collections::BTreeMap;

use super::circles::{self, Uses};
use super::source::Source;

/// What stands against the stated order: files in no room, rooms without files, arrows up, and `impl`s of a type
/// outside the room that owns it.
///
/// Each line of the text is a floor: a room, or several joined by `+` that use one another; words behind it say
/// what it is for. A room `a/b` is the file `a/b.rs` and the folder `a/b`. A file belongs to the longest room that
/// fits, and uses its own floor and those that stand before it. A line `impl TYPE ROOM` says which room alone may
/// have methods and traits of a type. `#` begins a comment.
pub fn faults(text: &str, source: &Source) -> Vec<String> {
    let floors: Vec<&str> = text.lines().filter_map(floor).collect();
    let rooms: Vec<(usize, &str)> = floors
        .iter()
        .enumerate()
        .flat_map(|(at, floor)| floor.split('+').map(move |room| (at, room)))
        .collect();
    let mut out = Vec::new();
    let mut places: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for file in &source.files {
        match place(&rooms, file) {
            Some(place) => _ = places.insert(file, place),
            None => out.push(format!("{file} is in no room of rooms.txt")),
        }
    }
    for room in &rooms {
        if !places.values().any(|place| place == room) {
            out.push(format!("rooms.txt: {} has no files", room.1));
        }
    }
    for arrow in &source.arrows {
        let (from, to) = (places.get(arrow.from.as_str()), places.get(arrow.to.as_str()));
        let (Some((from, lower)), Some((to, upper))) = (from, to) else { continue };
        if to > from {
            let place = format!("src/{}:{}", arrow.from, arrow.line);
            out.push(format!("{place}: {lower} uses {}, but {upper} stands above it", arrow.path));
        }
    }
    out.extend(text.lines().filter_map(owner).flat_map(|owner| strange_impls(owner, source)));
    out
}

/// A type, and the room that owns it.
fn owner(line: &str) -> Option<(&str, &str)> {
    let words: Vec<&str> = line.split_whitespace().take(3).collect();
    if let ["impl", name, room] = words[..] { Some((name, room)) } else { None }
}

/// `impl`s of a type outside its room; a type without any is not there.
fn strange_impls((name, room): (&str, &str), source: &Source) -> Vec<String> {
    let all: Vec<_> = source.impls.iter().filter(|one| one.name == name).collect();
    if all.is_empty() {
        return vec![format!("rooms.txt: no file has an impl of {name}")];
    }
    let strange = all.into_iter().filter(|one| !is_in(&one.file, room));
    let fault = |file: &str, line| format!("src/{file}:{line}: impl {name} stands outside {room}");
    strange.map(|one| fault(&one.file, one.line)).collect()
}

fn floor(line: &str) -> Option<&str> {
    line.split_whitespace().next().filter(|word| !word.starts_with('#') && *word != "impl")
}

/// The floor and the room of a file: the longest room that it is in.
fn place<'a>(rooms: &[(usize, &'a str)], file: &str) -> Option<(usize, &'a str)> {
    let fitting = rooms.iter().filter(|(_, room)| is_in(file, room));
    fitting.max_by_key(|(_, room)| room.len()).copied()
}

fn is_in(file: &str, room: &str) -> bool {
    let name = file.strip_suffix(".rs").unwrap_or(file);
    name == room || name.strip_prefix(room).is_some_and(|rest| rest.starts_with('/'))
}

/// The first word of a file's path: the room it is in when folders are not divided.
fn top(file: &str) -> &str {
    let name = file.strip_suffix(".rs").unwrap_or(file);
    name.split('/').next().unwrap_or(name)
}

/// An order in which no top folder or file uses one above it. Those that use one another stand on one line.
pub fn proposal(source: &Source) -> String {
    let mut uses = Uses::new();
    source.files.iter().for_each(|file| _ = uses.entry(top(file)).or_default());
    for arrow in source.arrows.iter().filter(|arrow| top(&arrow.from) != top(&arrow.to)) {
        uses.entry(top(&arrow.from)).or_default().insert(top(&arrow.to));
    }
    circles::components(&uses).iter().map(|floor| floor.join("+") + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_in_the_longest_room() {
        let rooms = [(0, "base"), (1, "config"), (2, "config/load"), (2, "lib")];
        for (file, room) in [
            ("base.rs", Some("base")),
            ("base/clock.rs", Some("base")),
            ("baseline.rs", None),
            ("config/mod.rs", Some("config")),
            ("config/load.rs", Some("config/load")),
            ("config/load/work.rs", Some("config/load")),
            ("config/loader.rs", Some("config")),
            ("lib.rs", Some("lib")),
        ] {
            assert_eq!(place(&rooms, file).map(|(_, room)| room), room, "{file}");
        }
    }
}
