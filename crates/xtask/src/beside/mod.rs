//! `cargo xtask beside`: the same units and the same commands on a machine of systemd 252, for some groups of the
//! newest systemd, and on one of ours, and what differs.
//!
//! A group is a file of cases (`beside/GROUP.txt`, see [`cases`]); every case is a few units and a
//! shell script with the words of `beside/words.sh`, whose output is compared. What is meant to
//! differ is in `beside/differences.md` with its reason; everything else is a fault, of ours or of the
//! case. Both outputs of each case stay in `target/beside` to look at. Cases can also be drawn by lot (see
//! [`random`]).

mod cases;
mod pairs;
mod random;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};

use crate::differences::{self, Differences};
use crate::lab;
use cases::Group;

/// What both machines see of us, as `/lab/beside`.
const SHARED: &str = "beside";

/// What has the programs that its machines run.
const PACKAGES: [&str; 4] = ["warren-init", "warren-manager", "warren-pam", "warren-cli"];

/// The program of ours that opens sessions of PAM.
const PAM: &str = "warren-pam";

/// A case takes no longer than this; seconds.
const CASE_MAX: &str = "90";

/// One of the two machines: name of its outputs, its init.
const SIDES: [(&str, &str); 2] = [("252", lab::SYSTEMD), ("here", "/lab/beside/warren-init")];

/// What the script of each case printed, by the case's name.
type Outputs = BTreeMap<String, String>;

/// Compares these groups; all that there are if none is named. `GROUP/CASE` is one case.
pub fn run(names: &[&str]) -> Result<()> {
    ensure!(lab::is_there(), lab::NO_LAB);
    let chosen = Differences::read(&data().join("differences.md"))?;
    let groups = groups(names)?;
    build()?;
    let mut faults = 0;
    for group in &groups {
        if group.is_beside_newest && !lab::has_newest() {
            println!(
                "{}: not run, there is no {}: NEWEST=1 cargo xtask lab setup",
                group.name,
                lab::NEWEST
            );
            continue;
        }
        faults += compare(group, &chosen)?;
    }
    if names.is_empty() {
        let name = |group: &Group, case: &cases::Case| format!("{}/{}", group.name, case.name);
        let all: Vec<String> =
            groups.iter().flat_map(|g| g.cases.iter().map(|c| name(g, c))).collect();
        let stale = chosen.without(&all);
        stale
            .iter()
            .for_each(|name| println!("{name}: in differences.md, but there is no such case"));
        faults += stale.len();
    }
    ensure!(faults == 0, "{faults} cases differ in other ways than differences.md says");
    println!("Nothing differs but what differences.md says.");
    Ok(())
}

/// Compares random cases, those of the seeds `FIRST..LAST`, and makes smaller what differs.
pub fn run_random(seeds: &str) -> Result<()> {
    ensure!(lab::is_there(), lab::NO_LAB);
    let (first, last) = seeds.split_once("..").context("seeds are given as FIRST..LAST")?;
    let seeds: Range<u64> = first.parse().context("a seed")?..last.parse().context("a seed")?;
    build()?;
    let found = differing(&random::group(seeds)?)?;
    for (name, diff) in &found {
        let seed = name.trim_start_matches('r').parse().context("a seed")?;
        println!("{name} differs:\n{}\n{}", random::text(seed), diff.join("\n"));
    }
    for (name, _) in &found {
        let seed = name.trim_start_matches('r').parse().context("a seed")?;
        let (text, diff) = shrink(random::text(seed))?;
        println!("{name}, as small as it gets:\n{text}\n{}", diff.join("\n"));
    }
    ensure!(found.is_empty(), "{} cases differ", found.len());
    println!("Nothing differs.");
    Ok(())
}

/// Leaves out what can be left out so that the case still differs, and how it does.
fn shrink(mut text: String) -> Result<(String, Vec<String>)> {
    let mut differs = Vec::new();
    loop {
        let all = random::smaller(&text).into_iter().enumerate();
        let all: Vec<_> = all.map(|(number, text)| (format!("v{number}"), text)).collect();
        let found = differing(&Group::of_texts("random", &all)?)?;
        let least = found.into_iter().filter_map(|(name, diff)| {
            let (_, text) = all.iter().find(|(is, _)| *is == name)?;
            Some((text.clone(), diff))
        });
        match least.min_by_key(|(text, _)| text.len()) {
            Some((less, diff)) => (text, differs) = (less, diff),
            None => return Ok((text, differs)),
        }
    }
}

/// Cases that differ, and in what lines.
fn differing(group: &Group) -> Result<Vec<(String, Vec<String>)>> {
    let kept = crate::command::root().join("target/beside").join(&group.name);
    let [theirs, ours] = both(group, &kept)?;
    let mut found = Vec::new();
    for case in &group.cases {
        let diff = differences::diff(&theirs[&case.name], &ours[&case.name])?;
        found.extend((!diff.is_empty()).then(|| (case.name.clone(), diff)));
    }
    Ok(found)
}

fn build() -> Result<()> {
    let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
    let words: Vec<&str> = ["build", "--bins"].into_iter().chain(packages).collect();
    crate::command::cargo(&words)?;
    let programs = crate::command::root().join("target/debug");
    lab::copy_programs(SHARED, &programs)?;
    fs::copy(programs.join(PAM), lab::shared(SHARED)?.join(PAM)).context(PAM)?;
    Ok(())
}

fn data() -> PathBuf {
    crate::command::root().join("crates/xtask/beside")
}

fn groups(names: &[&str]) -> Result<Vec<Group>> {
    let entries = fs::read_dir(data())?.collect::<Result<Vec<_>, _>>()?;
    let paths = entries.iter().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "txt")).collect();
    paths.sort();
    let mut all: Vec<Group> = paths.iter().map(|path| Group::read(path)).collect::<Result<_>>()?;
    if names.is_empty() {
        return Ok(all);
    }
    // They take their time, and run when they are asked for.
    all.push(pairs::group()?);
    let picked = |&name: &&str| {
        let (group, case) = name.split_once('/').unwrap_or((name, ""));
        let group = all.iter().find(|g| g.name == group);
        group.and_then(|g| g.only(case)).with_context(|| format!("there is no {name}"))
    };
    names.iter().map(picked).collect()
}

/// Runs a group on both sides; how many of its cases differ unlike what was chosen.
fn compare(group: &Group, chosen: &Differences) -> Result<usize> {
    let kept = crate::command::root().join("target/beside").join(&group.name);
    let [theirs, ours] = both(group, &kept)?;
    let mut faults = 0;
    for case in &group.cases {
        let name = format!("{}/{}", group.name, case.name);
        let diff = differences::diff(&theirs[&case.name], &ours[&case.name])?;
        match chosen.judge(&name, &diff) {
            Ok(()) => {}
            Err(complaint) => {
                faults += 1;
                println!("{name}: {complaint}\n{}", diff.join("\n"));
            }
        }
    }
    println!("{}: {} cases, {faults} differ", group.name, group.cases.len());
    Ok(faults)
}

fn both(group: &Group, kept: &Path) -> Result<[Outputs; 2]> {
    let _ = fs::remove_dir_all(kept);
    let units = kept.join("units");
    group.write(&units, &lab::shared(SHARED)?)?;
    for script in ["varlink.py", "words.sh", "look.sh", "who.sh", "probe.sh", "userdb.py"] {
        fs::copy(data().join(script), lab::shared(SHARED)?.join(script))?;
    }
    let sides = std::thread::scope(|scope| {
        let begin = |(name, init)| {
            let (units, kept) = (&units, kept.join(name));
            scope.spawn(move || side(group, name, init, units, &kept))
        };
        SIDES.map(begin).map(|side| side.join().expect("it does not panic"))
    });
    let [theirs, ours] = sides;
    Ok([theirs.context("systemd")?, ours.context("Warrener")?])
}

/// One machine from its boot to its end.
fn side(group: &Group, name: &str, init: &str, units: &Path, kept: &Path) -> Result<Outputs> {
    fs::create_dir_all(kept)?;
    let rootfs = if group.is_beside_newest { lab::NEWEST } else { lab::ROOTFS };
    let machine = lab::Machine::boot(&format!("beside-{name}"), rootfs, init, units)?;
    let told = told(group, machine.pid, kept);
    let down = machine.down();
    let told = told?;
    down?;
    Ok(told)
}

fn told(group: &Group, pid: i32, kept: &Path) -> Result<Outputs> {
    let ready = lab::inside(pid, &["sh", "/lab/beside/words.sh", "ready"]).status()?;
    ensure!(ready.success(), "the machine is not ready for the cases: {ready}");
    let (outputs, left) = (Mutex::new(Outputs::new()), Mutex::new(group.cases.iter()));
    let next = || left.lock().expect("nobody panics").next();
    let work = || -> Result<()> {
        while let Some(case) = next() {
            let words = ["timeout", "-k", "1", CASE_MAX, "sh", "/lab/beside/words.sh", "run"];
            let output =
                lab::inside(pid, &[&words, &[case.name.as_str()][..]].concat()).output()?;
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            text += &String::from_utf8_lossy(&output.stderr);
            if output.status.code() == Some(124) {
                text += &format!("not over after {CASE_MAX} s\n");
            }
            fs::write(kept.join(&case.name), &text)?;
            outputs.lock().expect("nobody panics").insert(case.name.clone(), text);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..group.at_a_time).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a worker panicked"),
        })
    })?;
    Ok(outputs.into_inner().expect("nobody panics"))
}
