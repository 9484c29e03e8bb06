//! `warren verify`: checks unit files without a manager, as one would load them.
//!
//! A name is looked up in the search directories with its drop-ins; a path is one file, with the
//! drop-in directories beside it, or a drop-in with its unit. Nothing is started and no state is read.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Error, Result, ensure};
use warren_sys::progress::Progress;
use warren_unit::compile::Compiler;
use warren_unit::config::ExecConfig;
use warren_unit::context::{Context, Defaults, Scope};
use warren_unit::diagnostic::Code;
use warren_unit::load::{Sources, load};
use warren_unit::parse::{FILE_BYTES_MAX, UnitFile, parse};
use warren_unit::search::{Dropin, dropin_directories, select_dropins};
use warren_unit::{Diagnostic, Severity, UnitName, UnitType};
use warren_unit_files::Root;
use warren_wire::control as wire;

use crate::args::{Global, VerifyArgs};
use crate::connection::own_machine;
use crate::output::print_json;
use crate::output::{clean_lines, print};

/// Where zones are (tzfile(5)).
const ZONES: &str = "/usr/share/zoneinfo";

/// Stands for the instance of a template.
const TEST_INSTANCE: &str = "test_instance";

/// Stands for the rest of the names that a drop-in directory is for.
const TEST_NAME: &str = "test";

/// A file and what is in it.
type Text = (PathBuf, Vec<u8>);

/// Where to search and for whom.
#[derive(Debug)]
pub struct Verifier {
    paths: Vec<PathBuf>,
    context: Context,
    defaults: Defaults,
    /// Texts that are looked at in the place of files.
    open: BTreeMap<PathBuf, Vec<u8>>,
}

/// What was found about one unit.
#[derive(Debug)]
pub struct Verdict {
    /// The unit.
    pub name: String,
    /// Its load state, `not-found` among them.
    pub load: &'static str,
    /// All faults, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
}

impl Verdict {
    /// It cannot be loaded, or something in it is an error.
    pub fn has_errors(&self) -> bool {
        let error = |d: &Diagnostic| d.severity == Severity::Error;
        !matches!(self.load, "loaded" | "masked") || self.diagnostics.iter().any(error)
    }
}

impl Verifier {
    /// With the usual directories, or with these alone.
    pub fn new(user: bool, directories: &[PathBuf]) -> Verifier {
        let scope = if user { Scope::User } else { Scope::System };
        let context = warren_unit_files::context(&Root::OWN, scope);
        if !directories.is_empty() {
            return Verifier {
                paths: directories.to_vec(),
                context,
                defaults: Defaults::default(),
                open: BTreeMap::new(),
            };
        }
        let environment = warren_unit_files::search_environment(None);
        let paths = warren_unit_files::search_directories(scope, &environment, own_units());
        let (defaults, _) = warren_unit_files::manager_defaults(&context);
        Verifier { paths, context, defaults, open: BTreeMap::new() }
    }

    /// Where units are searched, the strongest first.
    pub fn directories(&self) -> &[PathBuf] {
        &self.paths
    }

    /// From now on a file has this text, whatever is on the disk; without one, what is there.
    pub fn overlay(&mut self, path: PathBuf, text: Option<&str>) {
        match text {
            Some(text) => self.open.insert(path, text.as_bytes().to_vec()),
            None => self.open.remove(&path),
        };
    }

    /// Checks a unit, or a file when the argument has a slash in it. The error is a sentence.
    pub fn verify(&self, argument: &str) -> Result<Verdict, String> {
        match argument.contains('/') {
            true => self.file(Path::new(argument)),
            false => self.unit(argument),
        }
    }

    fn file(&self, path: &Path) -> Result<Verdict, String> {
        if path.extension().is_some_and(|extension| extension == "conf") {
            return self.dropin(path);
        }
        let file_name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let name = parse_name(file_name)?;
        let bytes = self.read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let beside = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(self.check(&name, Some((path.to_path_buf(), bytes)), self.dropins(&name, &[beside])))
    }

    /// A drop-in is checked with the rest of its unit, whose file is beside the drop-in's directory or in the
    /// search directories. Where there is none, as of `foo-.service.d` and `service.d`, it is checked alone.
    fn dropin(&self, path: &Path) -> Result<Verdict, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let bytes = self.read(path).map_err(failed)?;
        let path = with_parent(path).map_err(failed)?;
        let parent = path.parent().unwrap_or(&path);
        let kind = parent.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
        let name = kind.strip_suffix(".d").and_then(owner_of).ok_or_else(|| {
            format!("{}: not a drop-in: {kind} is not a directory UNIT.d", path.display())
        })?;
        let beside = parent.parent().map(Path::to_path_buf).unwrap_or_default();
        let others = self.paths.iter().filter(|path| **path != beside).cloned();
        let directories: Vec<PathBuf> = std::iter::once(beside.clone()).chain(others).collect();
        if let Some(fragment) = self.fragment(&name, &directories).transpose()? {
            return Ok(self.check(&name, Some(fragment), self.dropins(&name, &directories)));
        }
        let own: Arc<str> = path.to_string_lossy().into();
        let mut verdict = self.check(&name, None, vec![(path, bytes)]);
        verdict.diagnostics.retain(|fault| fault.path == own);
        Ok(Verdict { name: kind, load: "loaded", ..verdict })
    }

    fn unit(&self, name: &str) -> Result<Verdict, String> {
        let name = parse_name(name)?;
        let fragment = self.fragment(&name, &self.paths).transpose()?;
        Ok(self.check(&name, fragment, self.dropins(&name, &self.paths)))
    }

    /// What the files of a unit say of the environment of its processes.
    pub fn environment(&self, name: &str) -> Result<ExecConfig, String> {
        let name = parse_name(name)?;
        let texts = self.fragment(&name, &self.paths).transpose()?;
        let parsed = |(path, bytes): &Text| {
            let path: Arc<str> = path.to_string_lossy().into();
            Arc::new(parse(path, bytes, name.unit_type()).0)
        };
        let fragment = texts.as_ref().map(parsed);
        let dropins: Vec<Arc<UnitFile>> =
            self.dropins(&name, &self.paths).iter().map(parsed).collect();
        let sources =
            Sources { fragment: fragment.as_ref(), dropins: &dropins, ..Sources::default() };
        let compiler = Compiler {
            name: &name,
            sources: &sources,
            context: &self.context,
            defaults: &self.defaults,
        };
        match name.unit_type() {
            UnitType::Service => Ok(*compiler.service().0.exec),
            UnitType::Socket => Ok(*compiler.socket().0.exec),
            _ => Err(format!("{name} is not a service")),
        }
    }

    /// A regular file's bytes, or one more than the parser takes, so that it says that there are more: a fifo or
    /// a device is not waited for.
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        if let Some(text) = self.open.get(path) {
            return Ok(text.clone());
        }
        if is_null(path) {
            return Ok(Vec::new());
        }
        if !fs::metadata(path)?.is_file() {
            return Err(std::io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The strongest file of this name, else of its template.
    fn fragment(&self, name: &UnitName, directories: &[PathBuf]) -> Option<Result<Text, String>> {
        let names = [Some(name.clone()), name.template()];
        let candidates = names
            .iter()
            .flatten()
            .flat_map(|n| directories.iter().map(move |p| p.join(n.as_str())));
        let mut there: Vec<PathBuf> = candidates
            .filter(|p| self.open.contains_key(p) || p.symlink_metadata().is_ok())
            .collect();
        // What is no file hides none.
        let is_file =
            |path: &PathBuf| self.open.contains_key(path) || path.is_symlink() || path.is_file();
        let first = there.iter().position(is_file).unwrap_or(0);
        let path = (!there.is_empty()).then(|| there.swap_remove(first))?;
        Some(
            self.read(&path)
                .map_err(|e| format!("{}: {e}", path.display()))
                .map(|bytes| (path, bytes)),
        )
    }

    /// The drop-ins that apply, in order. One that cannot be read is left out: the manager does so
    /// too, and says why.
    fn dropins(&self, name: &UnitName, directories: &[PathBuf]) -> Vec<Text> {
        let kinds = dropin_directories(name);
        let mut found = Vec::new();
        for (path_rank, directory) in directories.iter().enumerate() {
            for (name_rank, kind) in kinds.iter().enumerate() {
                let entries = fs::read_dir(directory.join(kind)).into_iter().flatten().flatten();
                for path in entries.map(|e| e.path()) {
                    let Some(file_name) = path.file_name().and_then(|n| n.to_str()) else {
                        continue;
                    };
                    let file_name = file_name.to_owned();
                    let Ok(bytes) = self.read(&path) else { continue };
                    found.push(Dropin {
                        alias_rank: 0,
                        name_rank,
                        of_type: name_rank + 1 == kinds.len(),
                        path_rank,
                        file_name,
                        masks: bytes.is_empty(),
                        item: (path, bytes),
                    });
                }
            }
        }
        select_dropins(found)
    }

    /// A template is checked as an instance of it would be.
    fn check(&self, name: &UnitName, fragment: Option<Text>, dropins: Vec<Text>) -> Verdict {
        let mut diagnostics = Vec::new();
        let mut parsed = |path: &Path, bytes: &[u8]| -> Arc<UnitFile> {
            let path: Arc<str> = path.to_string_lossy().into();
            let (file, faults) = parse(path, bytes, name.unit_type());
            diagnostics.extend(faults);
            Arc::new(file)
        };
        let masked = fragment.as_ref().is_some_and(|(path, _)| is_null(path));
        let fragment = fragment.map(|(path, bytes)| parsed(&path, &bytes));
        let dropins: Vec<Arc<UnitFile>> =
            dropins.iter().map(|(path, bytes)| parsed(path, bytes)).collect();
        let sources = Sources {
            fragment: fragment.as_ref(),
            dropins: &dropins,
            masked,
            ..Sources::default()
        };
        let instance = name.is_template().then(|| name.with_instance(TEST_INSTANCE).ok()).flatten();
        let checked = instance.as_ref().unwrap_or(name);
        let (loaded, faults) = load(checked, &sources, &self.context, &self.defaults);
        diagnostics.extend(faults);
        let compiler = Compiler {
            name: checked,
            sources: &sources,
            context: &self.context,
            defaults: &self.defaults,
        };
        diagnostics.extend(compiler.check());
        if checked.unit_type() == UnitType::Timer {
            diagnostics.extend(unknown_zones(checked, &compiler));
        }
        diagnostics.sort();
        diagnostics.dedup();
        Verdict { name: name.to_string(), load: loaded.load_state.as_str(), diagnostics }
    }
}

/// Zones that a timer's calendar expressions name and that there are none of.
fn unknown_zones(name: &UnitName, compiler: &Compiler<'_>) -> Vec<Diagnostic> {
    let (config, _) = compiler.timer();
    // What is as short as `CEST` may name local time of the host.
    let is_word = |zone: &str| zone.len() <= 5 && zone.bytes().all(|b| b.is_ascii_uppercase());
    let is_there = |zone: &&str| is_word(zone) || Path::new(ZONES).join(zone).is_file();
    let zones = config.calendars().filter_map(|calendar| calendar.needs_zone());
    let fault = |zone: &str| Diagnostic {
        path: compiler.sources.fragment.map_or_else(|| name.as_str().into(), |f| f.path().clone()),
        line: 0,
        column: 0,
        severity: Severity::Warning,
        code: Code::BadValue,
        message: format!("OnCalendar=: there is no time zone {zone}, ignored"),
    };
    zones.filter(|zone| !is_there(zone)).map(fault).collect()
}

/// Does what the command line says; of a machine the files inside are looked at. Returns the exit status.
pub(crate) fn run(args: &VerifyArgs, global: &Global) -> Result<i32> {
    if let Some(name) = &global.machine {
        crate::nest::enter_namespaces(&own_machine(name, global)?)?;
    }
    for directory in &args.units_in {
        ensure!(directory.is_dir(), "{}: not a directory", directory.display());
    }
    let verifier = Verifier::new(global.user, &args.units_in);
    let mut status = 0;
    let mut progress = Progress::begin(global.quiet);
    for (at, unit) in args.units.iter().enumerate() {
        progress.tell(|| format!("Checked {at} of {} units, at {unit}", args.units.len()));
        let verdict = verifier.verify(unit).map_err(Error::msg)?;
        if !verdict.diagnostics.is_empty() || verdict.load == "not-found" {
            progress.clear();
        }
        for fault in &verdict.diagnostics {
            match global.json {
                true => print_json(&told(fault)),
                false => print(&format!("{}\n", clean_lines(&fault.to_string()))),
            }
        }
        if verdict.load == "not-found" {
            complain!("Unit {} could not be found.", verdict.name);
        }
        status = status.max(i32::from(verdict.has_errors()));
    }
    Ok(status)
}

/// A fault as the manager tells of it.
fn told(fault: &Diagnostic) -> wire::Diagnostic {
    wire::Diagnostic {
        path: fault.path.to_string(),
        line: fault.line,
        column: fault.column,
        severity: fault.severity.to_string().as_str().into(),
        code: fault.code.as_str().to_owned(),
        message: fault.message.to_string(),
    }
}

/// Where the manager has units of its own: in `system` beside it. It is installed beside this program, in
/// `../lib/warren`, or in the usual place.
fn own_units() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap_or_default();
    let here = own.parent().map(Path::to_path_buf).unwrap_or_default();
    let places = [here.clone(), here.join("../lib/warren"), PathBuf::from("/usr/lib/warren")];
    let manager = places.into_iter().find_map(|p| p.join("warrend").canonicalize().ok())?;
    manager.parent().map(|directory| directory.join("system"))
}

fn parse_name(text: &str) -> Result<UnitName, String> {
    let name = crate::names::with_suffix(text);
    UnitName::parse(&name).map_err(|e| format!("{name}: {e}"))
}

fn is_null(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|p| p == Path::new("/dev/null"))
}

/// The same path, with a name for the directory that the file is in, which `./a.conf` has not.
fn with_parent(path: &Path) -> std::io::Result<PathBuf> {
    let parent = path.parent().unwrap_or(path);
    match (parent.file_name(), path.file_name()) {
        (None, Some(name)) => Ok(fs::canonicalize(parent)?.join(name)),
        _ => Ok(path.to_path_buf()),
    }
}

/// A unit that the drop-in directory `kind.d` is for: `foo.service`, one of all `foo-.service` or one of all
/// of a type (systemd.unit(5)).
fn owner_of(kind: &str) -> Option<UnitName> {
    let (stem, suffix) = kind.rsplit_once('.').unwrap_or(("", kind));
    let (stem, at) = stem.strip_suffix('@').map_or((stem, ""), |stem| (stem, "@"));
    let is_prefix = stem.is_empty() || stem.ends_with('-') && stem != "-";
    let rest = if is_prefix { TEST_NAME } else { "" };
    UnitName::parse(&format!("{stem}{rest}{at}.{suffix}")).ok()
}
