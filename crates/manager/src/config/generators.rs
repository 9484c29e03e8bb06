//! Generators (systemd.generator(7)): programs that make unit files of other configuration, such as
//! fstab(5), when the manager starts and before each reload.
//!
//! All run side by side, into a fresh directory. What differs from the last time is then put in
//! place file by file, so that the loader finds those files changed and no others. A process of its
//! own does that: the manager has thousands of descriptors, which each child that it started itself
//! would begin with. The loader's thread waits for it; the loop has no part in it. Start at
//! [`Generators::run`]. `turn` says which of several runs counts; `environment` runs those that come first.

mod environment;
mod turn;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::virtualization;
use warren_unit::Scope;

use crate::base::boot_options;
use crate::base::environment::{BaseEnvironment, Sources, Variables};
use crate::base::say::say;
use crate::config::fstab;
use crate::config::fstab::GENERATOR;
use turn::Turn;

/// One that takes longer is killed, and what it wrote so far counts. Those of the environment, which run one
/// after the other, have as long together.
const TAKES_MAX: Duration = Duration::from_secs(60);

/// The argument with which warrend runs the generators and ends.
pub const RUN_GENERATORS: &str = "--run-generators";

/// When they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The machine starts: what can be had of them counts.
    Boot,
    /// What they made before counts until all of them have written what they make.
    Reload,
}

impl Occasion {
    /// What [`RUN_GENERATORS`] was given.
    pub fn parse(value: &str) -> Occasion {
        if value == RELOAD { Occasion::Reload } else { Occasion::Boot }
    }

    fn argument(self) -> String {
        match self {
            Occasion::Boot => RUN_GENERATORS.to_owned(),
            Occasion::Reload => format!("{RUN_GENERATORS}={RELOAD}"),
        }
    }
}

const RELOAD: &str = "reload";

/// Room that a reload wants for what generators write, bytes: as much as systemd 252 wants.
const ROOM_BYTES_MIN: u64 = 16 << 20;

/// Of a file system that is small, it wants such a part of it.
const ROOM_PART: u64 = 4;

/// Longest reason that a run is believed to give, bytes.
const REASON_BYTES_MAX: u64 = 4096;

/// Names of the three output directories below the manager's own, in the order of the arguments.
const OUTPUTS: [&str; 3] = ["generator", "generator.early", "generator.late"];

/// The table that [`crate::config::fstab`] last made units of, beside them.
const LAST_FSTAB: &str = "generator.fstab";

/// Deepest directory that is put in place: a drop-in in its directory.
const DEPTH_MAX: usize = 2;

/// Where directories of generators are, highest precedence first (systemd.generator(7), SYNOPSIS).
const PLACES: [&str; 5] =
    ["/run/systemd", "/etc/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd"];

/// What is needed to run them.
#[derive(Clone, Debug)]
pub struct Generators {
    search: Vec<PathBuf>,
    /// Where those of the environment are looked for.
    environment_search: Vec<PathBuf>,
    /// `/run/systemd` or its like.
    runtime: PathBuf,
    environment: Vec<(&'static str, String)>,
    sources: Sources,
    /// What [`crate::config::fstab`] makes units of where no generator does.
    fstab: Option<PathBuf>,
}

impl Generators {
    /// Those of the host, or those in `search`, with those of the environment in `environment` below each.
    pub fn new(
        sources: Sources,
        search: Option<Vec<PathBuf>>,
        runtime: PathBuf,
        architecture: &str,
    ) -> Generators {
        let scope = sources.scope;
        let is_host = scope == Scope::System && search.is_none();
        let fstab = is_host.then(|| PathBuf::from("/etc/fstab"));
        let environment_search = match &search {
            Some(search) => search.iter().map(|directory| directory.join("environment")).collect(),
            None => places(scope, "environment-generators"),
        };
        let search = search.unwrap_or_else(|| places(scope, "generators"));
        let environment = environment(scope, architecture);
        Generators { search, environment_search, runtime, environment, sources, fstab }
    }

    /// `DefaultEnvironment=` is this now.
    pub fn set_defaults(&mut self, environment: Arc<[Box<str>]>) {
        self.sources.defaults = environment;
    }

    /// When the last run began, before a generator of it read anything: ns since 1970 by the clock of file systems.
    pub fn last_began_ns(&self) -> Option<u64> {
        turn::last_taken_ns(&self.runtime)
    }

    /// What the manager's environment begins with, with what the last run made.
    pub fn environment(&self) -> BaseEnvironment {
        let (configured, generated) = (self.sources.read(), environment::last(&self.runtime));
        BaseEnvironment { configured, generated }
    }

    /// Has another process [`Generators::run`], and waits for it. A reload wants room for that.
    ///
    /// # Errors
    /// Why what they made last is still what counts, or on a boot nothing.
    pub fn run_apart(&self, occasion: Occasion) -> Result<(), String> {
        if occasion == Occasion::Reload {
            self.check_room()?;
        }
        let mut command = Command::new("/proc/self/exe");
        command.arg0("warrend").args(std::env::args().skip(1)).arg(occasion.argument());
        let cannot = |e: io::Error| format!("generators cannot run: {e}");
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
        let mut why = String::new();
        if let Some(said) = &mut child.stdout {
            // Without a reason, the status is one.
            let _ = said.take(REASON_BYTES_MAX).read_to_string(&mut why);
        }
        match child.wait().map_err(cannot)? {
            status if status.success() => Ok(()),
            status if why.is_empty() => Err(format!("generators were interrupted: {status}")),
            _ => Err(why),
        }
    }

    /// What cannot be found out is no reason against a reload.
    fn check_room(&self) -> Result<(), String> {
        let Ok(room) = warren_sys::file::room(&self.runtime) else { return Ok(()) };
        let wanted = ROOM_BYTES_MIN.min(room.size / ROOM_PART);
        if room.free >= wanted && room.has_files {
            return Ok(());
        }
        let (place, free) = (self.runtime.display(), room.free >> 10);
        let wanted = wanted >> 10;
        Err(format!("{place} has {free} KB free; a reload needs {wanted} KB for generators"))
    }

    /// Runs all of them and puts what they made in place. What goes wrong is told, and no reason
    /// not to go on: what the others made counts.
    ///
    /// # Errors
    /// On a reload, if what one makes may not be all there because the machine had no room for it: then
    /// nothing is put in place.
    pub fn run(&self, occasion: Occasion) -> Result<(), String> {
        let run = self.turn(occasion);
        match occasion {
            Occasion::Reload => run,
            Occasion::Boot => {
                run.unwrap_or_else(|why| say!("{why}"));
                Ok(())
            }
        }
    }

    fn turn(&self, occasion: Occasion) -> Result<(), String> {
        let cannot = |path: &Path| {
            let path = path.display().to_string();
            move |e: io::Error| format!("generators cannot run: {path}: {e}")
        };
        let programs = crate::base::programs::find(&self.search);
        let turn = Turn::take(&self.runtime).map_err(cannot(&self.runtime))?;
        let fresh = turn.directory();
        let outputs = OUTPUTS.map(|name| fresh.join(name));
        outputs.iter().try_for_each(fs::create_dir_all).map_err(cannot(&fresh))?;
        let mut wants = Wants::default();
        if let Some(fstab) =
            self.fstab.as_ref().filter(|_| !programs.contains_key(OsStr::new(GENERATOR)))
            && let Err(e) = self.read_fstab(fstab, &fresh)
        {
            wants.tell(format!("{}: cannot write its units: {e}", fstab.display()));
        }
        let mut inherited = self.sources.read();
        let made = environment::run(&self.environment_search, &inherited, &fresh, &mut wants);
        if let Err(e) = environment::write(&made, &fresh) {
            wants.tell(format!("cannot write the environment made by generators: {e}"));
        }
        inherited.extend(made);
        let programs = programs.values().flatten();
        let start = |path: &PathBuf| self.start(path, &outputs, &inherited, &mut wants);
        wait_for(programs.filter_map(start).collect(), Instant::now() + TAKES_MAX);
        if warren_sys::file::room(&fresh).is_ok_and(|room| is_full(&room)) {
            wants.tell(format!("{}: generators have filled it", fresh.display()));
        }
        if let (Occasion::Reload, Some(why)) = (occasion, wants.first) {
            return Err(why);
        }
        let mut put = Ok(());
        turn.if_last(|| put = self.put_in_place(&fresh)).and(put).map_err(|e| {
            let place = self.runtime.display();
            format!("cannot install the output of generators: {place}: {e}")
        })
    }

    /// As much as can be.
    fn put_in_place(&self, fresh: &Path) -> io::Result<()> {
        let place = Place { fresh, last: &self.runtime };
        let outputs = OUTPUTS.map(|name| place.put(&fresh.join(name), &self.runtime.join(name), 0));
        let files = [LAST_FSTAB, environment::FILE].map(|name| {
            let (new, last) = (fresh.join(name), self.runtime.join(name));
            if new.exists() { put_file(&new, &last) } else { remove(&last) }
        });
        outputs.into_iter().chain(files).collect()
    }

    /// Where systemd's generator for it is not installed. One that is masked stays away. A table that cannot
    /// be read says what it said before.
    ///
    /// # Errors
    /// Not all that it says could be written.
    fn read_fstab(&self, fstab: &Path, fresh: &Path) -> io::Result<()> {
        let command_line = boot_options::command_line();
        let (is_read, swaps) = fstab::is_asked_for(&boot_options::words(&command_line));
        if !is_read {
            return Ok(());
        }
        let table = match fstab::read(fstab) {
            Ok(table) => table,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => {
                say!("cannot read {}, using its previous content: {e}", fstab.display());
                let Ok(last) = fs::read(self.runtime.join(LAST_FSTAB)) else { return Ok(()) };
                last
            }
        };
        let points = warren_sys::autofs::points().unwrap_or_default().into_iter();
        let traps = points.filter(|point| point.is_alone).map(|point| point.path).collect();
        let made = fstab::units(
            &table,
            &fstab::Host {
                has_checker: &has_checker,
                place_of: &|path| fstab::place_of(path, &traps),
                // Swap areas are the host's.
                swaps: swaps && !warren_sys::process::in_container(),
            },
        );
        made.complaints.iter().for_each(|why| say!("{}: {why}", fstab.display()));
        made.write(&fresh.join(OUTPUTS[0]))?;
        fs::write(fresh.join(LAST_FSTAB), table)
    }

    fn start(
        &self,
        path: &Path,
        outputs: &[PathBuf; 3],
        inherited: &Variables,
        wants: &mut Wants,
    ) -> Option<Running> {
        let child = Command::new(path)
            .args(outputs)
            .envs(inherited.iter().map(|(name, value)| (&**name, &**value)))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        match child {
            Ok(child) => Some(Running { path: path.to_owned(), child }),
            Err(e) => {
                let why = format!("generator {} cannot be started: {e}", path.display());
                if is_want(&e) {
                    wants.tell(why)
                } else {
                    say!("{why}")
                }
                None
            }
        }
    }
}

/// What the machine lacked for a run.
#[derive(Default)]
struct Wants {
    first: Option<String>,
}

impl Wants {
    fn tell(&mut self, why: String) {
        say!("{why}");
        self.first.get_or_insert(why);
    }
}

/// Whether this says nothing of a file or program: room, memory, processes or descriptors are wanting.
fn is_want(error: &io::Error) -> bool {
    use io::ErrorKind::{OutOfMemory, QuotaExceeded, StorageFull, WouldBlock};
    let is_of_kind = matches!(error.kind(), OutOfMemory | QuotaExceeded | StorageFull | WouldBlock);
    is_of_kind || crate::config::snapshot::is_shortage(error)
}

/// Who wrote last may have failed with it.
fn is_full(room: &warren_sys::file::Room) -> bool {
    let is_bounded = room.size > 0;
    (is_bounded && room.free == 0) || !room.has_files
}

/// fsck(8) finds the program for a type by its name, and a type that is not given by itself.
fn has_checker(fs_type: &str) -> bool {
    let is_there = |name: &str| {
        ["/sbin", "/usr/sbin"].iter().any(|directory| Path::new(directory).join(name).exists())
    };
    is_there("fsck") && (fs_type == "auto" || is_there(&format!("fsck.{fs_type}")))
}

/// Directories of the host.
fn places(scope: Scope, kind: &str) -> Vec<PathBuf> {
    let scope = if scope == Scope::System { "system" } else { "user" };
    PLACES.iter().map(|place| Path::new(place).join(format!("{scope}-{kind}"))).collect()
}

/// systemd.generator(7), "ENVIRONMENT".
fn environment(scope: Scope, architecture: &str) -> Vec<(&'static str, String)> {
    let mut out = vec![("SYSTEMD_ARCHITECTURE", architecture.to_owned())];
    let container = virtualization::container().map(|kind| format!("container:{kind}"));
    let machine = || virtualization::machine().map(|kind| format!("vm:{kind}"));
    if let Some(kind) = container.or_else(machine) {
        out.push(("SYSTEMD_VIRTUALIZATION", kind));
    }
    if scope == Scope::User {
        out.push(("SYSTEMD_SCOPE", "user".to_owned()));
        return out;
    }
    out.push(("SYSTEMD_SCOPE", "system".to_owned()));
    out.push((
        "SYSTEMD_IN_INITRD",
        u8::from(Path::new("/etc/initrd-release").exists()).to_string(),
    ));
    out.push((
        "SYSTEMD_FIRST_BOOT",
        u8::from(crate::base::first_boot::is_first_boot()).to_string(),
    ));
    out
}

struct Running {
    path: PathBuf,
    child: Child,
}

/// Waits for all, until then.
fn wait_for(mut running: Vec<Running>, end: Instant) {
    let Ok(epoll) = Epoll::new() else {
        return running.iter_mut().for_each(|one| one.end(true));
    };
    let pidfds: Vec<_> = running
        .iter()
        .map(|one| warren_sys::process::pidfd_open(one.child.id() as i32).ok())
        .collect();
    for (index, pidfd) in pidfds.iter().enumerate() {
        if let Some(pidfd) = pidfd {
            let _ = epoll.add(pidfd.as_fd(), index as u64, Interest::READ);
        }
    }
    let mut left: BTreeSet<usize> = (0..running.len()).collect();
    let mut ready = Events::with_capacity(16);
    while !left.is_empty() {
        let time = end.saturating_duration_since(Instant::now());
        if time.is_zero() || epoll.wait(&mut ready, Some(time)).is_err() {
            break;
        }
        for index in ready.iter().map(|event| event.token as usize) {
            if let (true, Some(one)) = (left.remove(&index), running.get_mut(index)) {
                let _ = pidfds[index].as_ref().map(|pidfd| epoll.remove(pidfd.as_fd()));
                one.end(false);
            }
        }
    }
    left.into_iter().for_each(|index| running[index].end(true));
}

impl Running {
    fn end(&mut self, kill: bool) {
        let path = self.path.display();
        if kill {
            say!("generator {path} does not exit: killing it");
            let _ = self.child.kill();
        }
        match self.child.wait() {
            Ok(status) if status.success() || kill => {}
            Ok(status) => say!("generator {path} failed: {status}"),
            Err(e) => say!("cannot wait for generator {path}: {e}"),
        }
    }
}

/// Makes one tree equal to another, leaving alone what is equal already.
struct Place<'a> {
    /// Generators wrote here; links that say so are to lead to `last` instead.
    fresh: &'a Path,
    last: &'a Path,
}

impl Place<'_> {
    fn put(&self, from: &Path, to: &Path, depth: usize) -> io::Result<()> {
        fs::create_dir_all(to)?;
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            names.insert(entry.file_name());
            let (new, old) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                self.put_link(&new, &old)?;
            } else if kind.is_file() {
                put_file(&new, &old)?;
            } else if kind.is_dir() && depth < DEPTH_MAX {
                if fs::symlink_metadata(&old).is_ok_and(|m| !m.is_dir()) {
                    fs::remove_file(&old)?;
                }
                self.put(&new, &old, depth + 1)?;
            }
        }
        for entry in fs::read_dir(to)? {
            let entry = entry?;
            if !names.contains(&entry.file_name()) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn put_link(&self, new: &Path, old: &Path) -> io::Result<()> {
        let target = fs::read_link(new)?;
        let target = match target.strip_prefix(self.fresh) {
            Ok(rest) => self.last.join(rest),
            Err(_) => target,
        };
        if fs::read_link(old).is_ok_and(|there| there == target) {
            return Ok(());
        }
        remove(old)?;
        symlink(target, old)
    }
}

/// By a rename, so that nobody sees half of it.
fn put_file(new: &Path, old: &Path) -> io::Result<()> {
    let plain = fs::symlink_metadata(old).is_ok_and(|m| m.is_file());
    if plain && fs::read(old)? == fs::read(new)? {
        return Ok(());
    }
    if !plain {
        remove(old)?;
    }
    fs::rename(new, old)
}

/// Whatever is there, if anything.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::scratch::Scratch;
    use std::os::unix::fs::MetadataExt;
    use std::sync::Arc;

    /// Directories of generators, and one for what they write.
    struct Directories(Scratch);

    impl Directories {
        fn new(name: &str) -> Directories {
            let scratch = Scratch::new(name);
            for below in ["high", "low", "run"] {
                fs::create_dir(scratch.path(below)).expect("a scratch directory");
            }
            Directories(scratch)
        }

        fn generators(&self) -> Generators {
            let search = ["high", "low"].map(|name| self.0.path(name)).to_vec();
            let run = self.0.path("run");
            let (scope, defaults) = (Scope::System, Arc::new([]));
            let sources = Sources { scope, is_host: false, own: Arc::new([]), defaults };
            let generators = Generators::new(sources, Some(search), run, "x86-64");
            Generators { fstab: Some(self.0.path("fstab")), ..generators }
        }

        /// A shell script; the output directories are `$1`, `$2`, `$3`.
        fn script(&self, path: &str, text: &str) {
            let written = self.0.path("script");
            fs::write(&written, format!("#!/bin/sh\n{text}\n")).expect("a script");
            // By another process: a child of another test must not hold it open for writing.
            let mut install = std::process::Command::new("install");
            let done = install.arg(&written).arg(self.0.path(path)).status();
            assert!(done.expect("coreutils are there").success());
        }

        /// What is in the output directories: `path=content` or `path->target`.
        fn outputs(&self) -> Vec<String> {
            let mut out = Vec::new();
            self.list(&self.0.path("run"), &mut out);
            out.sort();
            out
        }

        fn list(&self, directory: &Path, out: &mut Vec<String>) {
            for entry in fs::read_dir(directory).expect("a directory").flatten() {
                let path = entry.path();
                let name = path.strip_prefix(self.0.path("run")).expect("below").display();
                let no_output = ["generator.turn", LAST_FSTAB, environment::FILE];
                if no_output.iter().any(|name| entry.file_name() == *name) {
                    continue;
                }
                if let Ok(target) = fs::read_link(&path) {
                    let target = target.display().to_string();
                    let here = self.0.path("run").display().to_string();
                    out.push(format!("{name}->{}", target.replace(&here, "RUN")));
                } else if path.is_dir() {
                    self.list(&path, out);
                } else {
                    let text = fs::read_to_string(&path).expect("text");
                    out.push(format!("{name}={}", text.trim_end()));
                }
            }
        }
    }

    #[test]
    fn all_run_and_the_first_of_a_name_counts() {
        let scratch = Directories::new("generators");
        scratch.script("high/a", "echo high > $1/a.service");
        scratch.script("low/a", "echo low > $1/a.service");
        scratch.script(
            "low/b",
            "mkdir $2/b.target.wants; ln -s $1/a.service $2/b.target.wants/a.service\n\
             echo $SYSTEMD_SCOPE $SYSTEMD_ARCHITECTURE > $3/late.service",
        );
        scratch.script("low/masked", "echo no > $1/no.service");
        symlink("/dev/null", scratch.0.path("high/masked")).expect("a link");
        scratch.script("low/fails", "echo partly > $1/partly.service; exit 1");
        fs::write(scratch.0.path("low/no-program"), "text").expect("a file");
        scratch.generators().run(Occasion::Reload).expect("it has room");
        assert_eq!(
            scratch.outputs(),
            [
                "generator.early/b.target.wants/a.service->RUN/generator/a.service",
                "generator.late/late.service=system x86-64",
                "generator/a.service=high",
                "generator/partly.service=partly",
            ]
        );
    }

    #[test]
    fn those_of_the_environment_come_first_and_one_after_the_other() {
        let scratch = Directories::new("generators-environment");
        fs::create_dir(scratch.0.path("low/environment")).expect("a directory");
        let first =
            "cat <<'X'\nA=1\nB=\"two words\"\nC=$A\nno assignment\nexport D=1\n9=1\nE=a\\\nb\nX";
        scratch.script("low/environment/10-a", first);
        scratch.script("low/environment/20-b", "echo A=$A-$B; exit 3");
        scratch.script("low/environment/30-c", "printf 'F=\\377\\n'");
        scratch.script("low/environment/40-d", "echo G=$A$F");
        scratch.script("low/environment/40-d.dpkg-old", "echo G=old");
        scratch.script("low/a", "echo $A $SYSTEMD_SCOPE > $1/a.service");
        let generators = scratch.generators();
        assert!(generators.environment().generated.is_empty());
        generators.run(Occasion::Reload).expect("it has room");
        let made = |generators: &Generators| -> Vec<String> {
            let pairs = generators.environment().generated.into_iter();
            pairs.map(|(name, value)| format!("{name}={value}")).collect()
        };
        let expected = ["A=1-two words", "B=two words", "C=$A", "E=ab", "G=1-two words"];
        assert_eq!(made(&generators), expected);
        assert_eq!(scratch.outputs(), ["generator/a.service=1-two words system"]);
        fs::remove_dir_all(scratch.0.path("low/environment")).expect("it is there");
        generators.run(Occasion::Reload).expect("it has room");
        assert!(generators.environment().generated.is_empty());
    }

    /// A run whose manager was killed goes on while the next manager's run begins and ends.
    #[test]
    fn of_two_runs_at_once_the_one_that_began_last_counts() {
        let scratch = Directories::new("generators-twice");
        for fifo in ["begun", "gate"] {
            let made = Command::new("mkfifo").arg(scratch.0.path(fifo)).status();
            assert!(made.is_ok_and(|status| status.success()), "a FIFO can be made");
        }
        let (begun, gate) = (scratch.0.path("begun"), scratch.0.path("gate"));
        let wait = format!("echo > {}; cat {}", begun.display(), gate.display());
        scratch.script("low/a", &format!("echo old > $1/a.service; {wait}; echo > $1/b.service"));
        // What was left behind is nobody's.
        fs::create_dir_all(scratch.0.path("run/generator.new.1.0/generator")).expect("mkdir");
        let first = scratch.generators();
        let first = std::thread::spawn(move || first.run(Occasion::Reload));
        fs::read(begun).expect("it has begun");
        scratch.script("low/a", "echo new > $1/a.service");
        scratch.generators().run(Occasion::Reload).expect("it has room");
        let is_of_second = fs::read_to_string(scratch.0.path("run/generator/a.service"));
        fs::write(gate, "").expect("it goes on");
        first.join().expect("it ends").expect("it has room");
        assert_eq!(is_of_second.expect("a file"), "new\n");
        assert_eq!(scratch.outputs(), ["generator/a.service=new"]);
        assert!(!scratch.0.path("run/generator.new.1.0").exists());
    }

    #[test]
    fn fstab_counts_where_no_generator_reads_it() {
        let scratch = Directories::new("generators-fstab");
        fs::write(scratch.0.path("fstab"), "none /x tmpfs size=1m\n").expect("a table");
        scratch.generators().run(Occasion::Reload).expect("it has room");
        let names = |scratch: &Directories| -> Vec<String> {
            let name = |line: String| line.split('=').next().unwrap_or_default().to_owned();
            scratch.outputs().into_iter().map(name).collect()
        };
        let link = "generator/local-fs.target.requires/x.mount->../x.mount";
        assert_eq!(names(&scratch), [link, "generator/x.mount"]);
        scratch.script("low/systemd-fstab-generator", "echo theirs > $1/y.mount");
        scratch.generators().run(Occasion::Reload).expect("it has room");
        assert_eq!(names(&scratch), ["generator/y.mount"]);
        symlink("/dev/null", scratch.0.path("high/systemd-fstab-generator")).expect("a link");
        scratch.generators().run(Occasion::Reload).expect("it has room");
        assert!(scratch.outputs().is_empty(), "who masks it wants none");
    }

    #[test]
    fn what_fstab_said_before_counts_while_it_cannot_be_read() {
        let scratch = Directories::new("generators-fstab-unread");
        let fstab = scratch.0.path("fstab");
        let is_made = || {
            scratch.generators().run(Occasion::Reload).expect("it has room");
            !scratch.outputs().is_empty()
        };
        fs::write(&fstab, b"# gr\xfc\xdfe\nnone /x tmpfs size=1m\n").expect("a table");
        assert!(is_made());
        fs::remove_file(&fstab).expect("it is there");
        fs::create_dir(&fstab).expect("a directory");
        assert!(is_made() && is_made());
        fs::remove_dir(&fstab).expect("it is there");
        assert!(!is_made(), "without one nothing is");
        fs::create_dir(&fstab).expect("a directory");
        assert!(!is_made(), "nor later");
    }

    #[test]
    fn what_is_the_same_stays_and_what_is_no_more_goes() {
        let scratch = Directories::new("generators-again");
        scratch.script("low/a", "echo same > $1/same.service; echo old > $1/old.service");
        scratch.generators().run(Occasion::Reload).expect("it has room");
        let inode = || {
            let path = scratch.0.path("run/generator/same.service");
            fs::metadata(path).expect("it is there").ino()
        };
        let before = inode();
        scratch.script("low/a", "echo same > $1/same.service; mkdir $1/new.service.d");
        scratch.generators().run(Occasion::Reload).expect("it has room");
        assert_eq!(scratch.outputs(), ["generator/same.service=same"]);
        assert_eq!(inode(), before, "a file that is the same is not touched");
        assert!(scratch.0.path("run/generator/new.service.d").is_dir());
    }
}
