//! Rules of a revision: written to a directory, read from one, evaluated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use warren_core::settings::Settings;
use warren_fleet::engine::Options;
use warren_fleet::engine::copies::Replicated;
use warren_fleet::engine::membership::Membership;
use warren_fleet::outside::NoFacts;
use warren_fleet::session::{BOUNDS, Loaded, Session};
use warren_fleet::source::Source;
use warren_fleet_files::Files as RuleFiles;
use warren_hosts::apps::{Apps, apps, own_app};
use warren_hosts::digest::Digest;
use warren_hosts::machine::Named;
use warren_hosts::plan::{Made, MadeFile, Rules};
use warren_hosts::revision::{self, FILES_MAX, Files};
use warren_unit::UnitName;
use warren_unit::parse::parse;

/// Evaluation may be some hundred levels deep, in bytes.
const STACK_BYTES: usize = 64 << 20;

/// Directories below one another.
const DEPTH_MAX: usize = 32;

/// Reads all files below a directory; what begins with `.` is left out, links are followed nowhere.
///
/// # Errors
/// In words: not readable, too many, too large, no plain file.
pub fn read_directory(directory: &Path) -> Result<Files, String> {
    let mut files = Files::new();
    let mut bytes = 0;
    read_below(directory, "", DEPTH_MAX, &mut files, &mut bytes)?;
    match files.is_empty() {
        true => Err(format!("{}: no files in it", directory.display())),
        false => Ok(files),
    }
}

fn read_below(
    directory: &Path,
    prefix: &str,
    depth: usize,
    files: &mut Files,
    bytes: &mut u64,
) -> Result<(), String> {
    let wrong = |path: &Path, what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    if depth == 0 {
        return Err(wrong(directory, &"more than 32 directories below one another"));
    }
    let entries = std::fs::read_dir(directory).map_err(|e| wrong(directory, &e))?;
    for entry in entries {
        let entry = entry.map_err(|e| wrong(directory, &e))?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| wrong(&path, &"its name is not UTF-8"))?;
        if name.starts_with('.') {
            continue;
        }
        let kind = entry.file_type().map_err(|e| wrong(&path, &e))?;
        let below = format!("{prefix}{name}");
        if kind.is_dir() {
            read_below(&path, &format!("{below}/"), depth - 1, files, bytes)?;
            continue;
        }
        if !kind.is_file() {
            return Err(wrong(&path, &"neither a file nor a directory"));
        }
        let size = entry.metadata().map_err(|e| wrong(&path, &e))?.len();
        *bytes += size;
        if *bytes > revision::ALL_BYTES_MAX || files.len() >= FILES_MAX {
            let most = revision::ALL_BYTES_MAX >> 20;
            let what = format!("with it there are more than {FILES_MAX} files or {most} MiB");
            return Err(wrong(&path, &what));
        }
        files.insert(below, std::fs::read(&path).map_err(|e| wrong(&path, &e))?);
    }
    Ok(())
}

/// Writes files below a new directory, which must not be there, and has the disk keep them.
///
/// # Errors
/// As the file system says.
pub fn write_directory(directory: &Path, files: &Files) -> std::io::Result<()> {
    use std::io::Write as _;
    std::fs::create_dir_all(directory)?;
    for (name, bytes) in files {
        let path = directory.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut file = std::fs::File::create_new(&path)?;
        file.write_all(bytes)?;
        file.sync_data()?;
    }
    Ok(())
}

/// Texts of all rules among files.
fn texts(files: &Files) -> impl Iterator<Item = &[u8]> {
    files.iter().filter(|(path, _)| path.ends_with(".conf")).map(|(_, bytes)| &**bytes)
}

/// What of a host these rules name.
pub fn named(files: &Files) -> Named {
    Named::of(texts(files))
}

/// Whether these rules may have containers of which copies run on several hosts.
pub fn may_have_copies(files: &Files) -> bool {
    texts(files).any(|text| text.windows(8).any(|word| word == b"replicas"))
}

/// Whether these rules may have groups of containers.
pub fn may_have_groups(files: &Files) -> bool {
    texts(files).any(|text| text.windows(6).any(|word| word == b"groups" || &word[..5] == b"Group"))
}

/// Rules of a revision that lie in a directory.
#[derive(Debug)]
pub struct Evaluated {
    directory: PathBuf,
    named: Named,
    threads: usize,
}

impl Evaluated {
    /// Rules in this directory, which has these files.
    pub fn new(directory: PathBuf, files: &Files, threads: usize) -> Evaluated {
        Evaluated { directory, named: named(files), threads }
    }

    fn load(&self, prelude: &str) -> Loaded {
        let mut files = RuleFiles::new(self.directory.clone(), false);
        let root = files.root();
        let before = Source::new("machine.conf", prelude.as_bytes());
        let options = Options {
            threads: self.threads,
            now: 0.0,
            facts: &NoFacts,
            bounds: BOUNDS,
            before: Some(&before),
            ..Options::default()
        };
        let mut log = |_: &str| {};
        files.read(&mut log, |reading| {
            deep(|| Session::load(root, Box::new(reading), &options, "/run/warren/fleet"))
        })
    }

    /// Containers with copies.
    ///
    /// # Errors
    /// The rules have faults.
    pub fn replicated(&self, prelude: &str) -> Result<Vec<Replicated>, String> {
        let loaded = self.load(prelude);
        loaded.session.as_ref().map(Session::replicated).ok_or_else(|| self.faults(&loaded))
    }

    /// Which groups containers are in.
    ///
    /// # Errors
    /// The rules have faults.
    pub fn membership(&self, prelude: &str) -> Result<Membership, String> {
        let loaded = self.load(prelude);
        loaded.session.as_ref().map(Session::membership).ok_or_else(|| self.faults(&loaded))
    }

    /// The first fault, and how many there are. Files are named as in the revision, wherever it lies for now.
    fn faults(&self, loaded: &Loaded) -> String {
        let errors = loaded.messages.iter().filter(|m| m.severity == warren_fleet::Severity::Error);
        let count = errors.clone().count();
        let first = errors.clone().next().map(|m| {
            let path = Path::new(&*m.path);
            let path = path.strip_prefix(&self.directory).unwrap_or(path).display();
            format!("{path}:{}: {}", m.line, m.message)
        });
        let first = first.unwrap_or_default();
        match count {
            0 | 1 => first,
            n => format!("{first} (and {} more)", n - 1),
        }
    }
}

impl Rules for Evaluated {
    fn named(&self) -> &Named {
        &self.named
    }

    fn evaluate(&self, prelude: &str) -> Result<Made, String> {
        use warren_fleet::made::Product;
        let loaded = self.load(prelude);
        let Some(session) = &loaded.session else { return Err(self.faults(&loaded)) };
        let membership = session.membership();
        // Units of a container have the same applications: they share them.
        let mut known: BTreeMap<&str, Apps> = BTreeMap::new();
        let mut made = Made::new();
        for (path, product) in session.products() {
            let Some(unit_type) = Product::unit_type(path) else { continue };
            let text = product.file.print(unit_type).into();
            let target = product.origin.target.as_ref().map(|(target, _)| &**target);
            let of_target = |target: &str| {
                let groups = membership.get(target).map_or(&[][..], Vec::as_slice);
                apps(own_app(target), groups)
            };
            let apps = match target {
                Some(target) => known.entry(target).or_insert_with(|| of_target(target)).clone(),
                None => apps(app(path, None), &[]),
            };
            made.insert(path.clone(), MadeFile { text, apps });
        }
        Ok(made)
    }
}

/// What units have in common, for people: what a rule made them for, `Container 'shop'`; else their template, or
/// themselves. Of a drop-in what its unit is.
pub fn app<'n>(unit: &'n str, target: Option<&'n str>) -> &'n str {
    if let Some(target) = target {
        return own_app(target);
    }
    let unit = unit.split_once(".d/").map_or(unit, |(unit, _)| unit);
    let template = unit.split_once('@').map(|(template, _)| template);
    template.or_else(|| unit.rsplit_once('.').map(|(name, _)| name)).unwrap_or(unit)
}

/// Says which units have to be restarted to run by another text. Where a thousand hosts have the same two texts, they
/// are compared once.
pub struct RestartCheck {
    settings: Settings,
    #[expect(clippy::type_complexity, reason = "unit, digests of the texts")]
    known: Mutex<BTreeMap<(Box<str>, Digest, Digest), bool>>,
}

impl Default for RestartCheck {
    fn default() -> RestartCheck {
        let settings = Settings {
            context: Arc::new(warren_unit::Context::system()),
            defaults: Arc::new(warren_unit::Defaults::default()),
        };
        RestartCheck { settings, known: Mutex::default() }
    }
}

impl RestartCheck {
    /// Whether a unit that runs by one text has to be restarted to run by the other one. One whose name is none of a
    /// unit, such as the drop-ins of all services, may be.
    pub fn is_needed(&self, unit: &str, before: &str, after: &str) -> bool {
        let key = (unit.into(), Digest::of(before.as_bytes()), Digest::of(after.as_bytes()));
        let known = || self.known.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(is_needed) = known().get(&key) {
            return *is_needed;
        }
        let is_needed = UnitName::parse(unit).map_or(true, |name| {
            let [before, after] = [before, after]
                .map(|text| Arc::new(parse(unit.into(), text.as_bytes(), name.unit_type()).0));
            self.settings.needs_restart(&name, &before, &after)
        });
        known().insert(key, is_needed);
        is_needed
    }
}

/// Evaluation is recursive: it gets a thread with room for that.
fn deep<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let started = thread.spawn_scoped(scope, work).expect("a thread can be started");
        started.join().expect("evaluation does not panic")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_testkit::Scratch;

    #[test]
    fn a_directory_comes_back_as_it_was() {
        let scratch = Scratch::new("agent-rules");
        let files = Files::from([
            ("a.conf".to_owned(), b"object Container \"shop\" { replicas = 2 }\n".to_vec()),
            ("d/e/list.csv".to_owned(), b"name\n".to_vec()),
        ]);
        let directory = scratch.path("r");
        write_directory(&directory, &files).expect("written");
        std::fs::write(directory.join(".hidden"), "x").expect("written");
        assert_eq!(read_directory(&directory), Ok(files.clone()));
        assert!(write_directory(&directory, &files).is_err());
        assert!(may_have_copies(&files));
        std::os::unix::fs::symlink("/etc/passwd", directory.join("link")).expect("a link");
        let why = read_directory(&directory).expect_err("a link");
        assert!(why.ends_with("link: neither a file nor a directory"), "{why}");
    }

    #[test]
    fn rules_are_evaluated_with_what_comes_before_them() {
        let scratch = Scratch::new("agent-evaluated");
        let rules = "object Container \"shop\" { replicas = 2 }\napply Service \"web\" to Container {\n  \
                     ExecStart = \"/bin/web \" + machine.labels.role\n  assign where true\n}\n";
        let files = Files::from([("a.conf".to_owned(), rules.as_bytes().to_vec())]);
        let directory = scratch.path("r");
        write_directory(&directory, &files).expect("written");
        let evaluated = Evaluated::new(directory, &files, 1);
        let prelude = |role: &str, copies: &str| {
            format!(
                "globals.machine = {{ labels = {{ role = \"{role}\" }}, copies = {{ {copies} }} }}\n"
            )
        };
        let made = |role, copies| evaluated.evaluate(&prelude(role, copies)).expect("no faults");
        assert!(made("web", "").is_empty());
        let (web, db) = (made("web", "shop = [ 1 ]"), made("db", "shop = [ 1 ]"));
        assert_eq!((web.len(), web == db), (1, false));
        assert_eq!(evaluated.replicated(&prelude("web", "")).expect("no faults").len(), 1);
        assert!(evaluated.membership(&prelude("web", "")).expect("no faults").is_empty());
        let why = evaluated.evaluate("x = = 1\n").expect_err("a fault");
        assert!(why.starts_with("machine.conf:1"), "{why}");
        std::fs::write(scratch.path("r").join("a.conf"), "x = = 1\n").expect("written");
        let why = evaluated.evaluate("").expect_err("a fault");
        assert!(why.starts_with("a.conf:1: "), "{why}");
    }

    #[test]
    fn a_unit_is_of_its_container_and_of_groups() {
        let scratch = Scratch::new("agent-groups");
        let rules = "object Container \"cart\" { groups = [ \"shop\" ] }\nobject Container \"plain\" {}\n\
                     object Group \"shop\" { groups = [ \"all\" ] }\nobject Group \"all\" {}\n\
                     apply Service \"web\" to Container {\n  ExecStart = \"/bin/web\"\n  assign where true\n}\n\
                     apply Service \"gate\" to Group {\n  ExecStart = \"/bin/gate\"\n  assign where group.name == \"shop\"\n}\n\
                     object Service \"own\" { ExecStart = \"/bin/own\" }\n";
        let files = Files::from([("a.conf".to_owned(), rules.as_bytes().to_vec())]);
        let directory = scratch.path("r");
        write_directory(&directory, &files).expect("written");
        let made = Evaluated::new(directory, &files, 1).evaluate("").expect("no faults");
        let shown: Vec<String> =
            made.iter().map(|(path, file)| format!("{path}: {}", file.apps.join(" "))).collect();
        let expected = [
            "cart-web.service: cart all shop",
            "own.service: own",
            "plain-web.service: plain",
            "shop-gate.service: shop all",
        ];
        assert_eq!(shown, expected);
        assert!(may_have_groups(&files));
        let none = Files::from([("a.conf".to_owned(), b"object Container \"a\" {}".to_vec())]);
        assert!(!may_have_groups(&none));
    }
}
