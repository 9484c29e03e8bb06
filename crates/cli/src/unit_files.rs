//! What is done with unit files: by the manager, or in the root of an image that is not running
//! (`--root`), by the same planner.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::json;
use warren_unit::install::{Change, Options, Plan, PlanError, PresetMode, Tree, UnitFileState};
use warren_unit::search::search_path;
use warren_unit::{Scope, UnitName};
use warren_unit_files::Root;
use warren_wire::control::{FileChange, UnitFiles as Request, UnitFilesAnswer};

use crate::args::{Command, Global, PresetArgs, UnitFiles};
use crate::names::{is_pattern, with_suffix};
use crate::output::print;
use crate::output::{print_json, tell_json};

/// A verb on unit files with what it is to be done to.
#[derive(Debug)]
pub(crate) struct FileRequest {
    /// systemctl's word for it.
    pub(crate) verb: &'static str,
    /// Names with their suffix, or paths; of what is disabled the names.
    files: Vec<String>,
    /// Which half of a policy.
    mode: String,
    /// All else that the command line says.
    pub(crate) args: UnitFiles,
}

impl FileRequest {
    /// What a command means, if it is about unit files. An error if a path cannot be made absolute.
    pub(crate) fn of(command: &Command) -> Result<Option<FileRequest>> {
        let (verb, args) = match command {
            Command::Enable(args) => ("enable", args),
            Command::Disable(args) => ("disable", args),
            Command::Reenable(args) => ("reenable", args),
            Command::Mask(args) => ("mask", args),
            Command::Unmask(args) => ("unmask", args),
            Command::Link(args) => ("link", args),
            Command::Preset(args) => return FileRequest::preset(args).map(Some),
            _ => return Ok(None),
        };
        FileRequest::new(verb, String::new(), args.clone()).map(Some)
    }

    fn new(verb: &'static str, mode: String, args: UnitFiles) -> Result<FileRequest> {
        if let Some(pattern) = args.units.iter().find(|unit| is_pattern(unit)) {
            bail!("{pattern} is a pattern; name each unit to {verb}");
        }
        let is_here = args.root.is_none();
        let file = |unit: &String| match (verb, unit.contains('/')) {
            (_, false) => Ok(with_suffix(unit)),
            ("disable", true) => Ok(last_part(unit).to_owned()),
            (_, true) if is_here => absolute(unit),
            (_, true) => Ok(unit.clone()),
        };
        let files = args.units.iter().map(file).collect::<Result<_>>()?;
        Ok(FileRequest { verb, files, mode, args })
    }

    /// What is to be masked, of which the manager is asked whether it exists: who masks a typo is told.
    pub(crate) fn masked(&self) -> &[String] {
        if self.verb == "mask" { &self.files } else { &[] }
    }

    /// The names of the units that jobs are for: of a path, its last part.
    pub(crate) fn units(&self) -> Vec<String> {
        self.files.iter().map(|file| last_part(file).to_owned()).collect()
    }

    fn preset(args: &PresetArgs) -> Result<FileRequest> {
        let PresetArgs { units, all, mode, runtime, force, root } = args.clone();
        let files = UnitFiles { units, runtime, force, now: false, comment: None, root };
        FileRequest::new(if all { "preset-all" } else { "preset" }, mode, files)
    }

    /// What the manager is asked for.
    pub(crate) fn request(&self) -> Request {
        Request {
            verb: self.verb.into(),
            files: self.files.clone(),
            mode: Some(self.mode.clone()),
            runtime: self.args.runtime,
            force: self.args.force,
            comment: self.args.comment.clone(),
        }
    }

    /// Does it in a root, without a manager; the answer is what the manager's would be, besides why part of
    /// it could not be done.
    pub(crate) fn in_root(&self, directory: &Path) -> Result<(UnitFilesAnswer, Vec<String>)> {
        let root = open(directory)?;
        let mut tree = tree(&root);
        let files: Vec<&str> = self.files.iter().map(String::as_str).collect();
        warren_unit_files::add_named_files(&root, &mut tree, &files);
        let plan = self.plan(&root, &tree, &files);
        let in_words =
            |errors: &[PlanError]| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        if !plan.errors.is_empty() {
            bail!("{}", one_by_one(&in_words(&plan.errors)));
        }
        let (changes, failed) = warren_unit_files::carry_out(&root, &plan);
        let absent = |file: &&str| {
            self.verb == "mask"
                && UnitName::parse(file).is_ok_and(|name| tree.state(&name).is_none())
        };
        let absent = files.into_iter().filter(absent).map(does_not_exist);
        let answer = UnitFilesAnswer {
            changes: changes.iter().map(change).collect(),
            carries_install_info: Some(plan.carries_install_info),
            remarks: plan.remarks.iter().map(ToString::to_string).chain(absent).collect(),
        };
        Ok((answer, in_words(&plan.left_out).into_iter().chain(failed).collect()))
    }

    fn plan(&self, root: &Root, tree: &Tree, files: &[&str]) -> Plan {
        let options = Options { runtime: self.args.runtime, force: self.args.force };
        let rules = || warren_unit_files::presets(root);
        let mode = match self.mode.as_str() {
            "enable-only" => PresetMode::EnableOnly,
            "disable-only" => PresetMode::DisableOnly,
            _ => PresetMode::Full,
        };
        match self.verb {
            "enable" => tree.enable(files, options),
            "disable" => tree.disable(files, options),
            "reenable" => tree.reenable(files, options),
            "mask" => tree.mask(files, options),
            "unmask" => tree.unmask(files, options),
            "link" => tree.link(files, options),
            "preset" => tree.preset(files, &rules(), mode, options),
            _ => tree.preset_all(&rules(), mode, options),
        }
    }

    /// Says what was changed and what was passed over, in the words of systemctl.
    pub(crate) fn print(&self, answer: &UnitFilesAnswer, json: bool, quiet: bool) {
        if json {
            return tell_json(answer);
        }
        for change in answer.changes.iter().filter(|_| !quiet) {
            complain!("{}", changed(change));
        }
        for remark in answer.remarks.iter().filter(|_| !quiet) {
            complain!("{remark}");
        }
        if self.verb == "enable" && answer.carries_install_info == Some(false) {
            complain!("The unit files have no [Install] section: there is nothing to enable.");
        }
    }
}

/// Errors as lines that each say who says so, but for the first, of which that is said anyway.
pub(crate) fn one_by_one(errors: &[String]) -> String {
    errors.join("\nwarren: ")
}

/// In the words of systemctl 252.
pub(crate) fn does_not_exist(unit: &str) -> String {
    format!("Unit {unit} does not exist, proceeding anyway.")
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The path from the root on: the manager's working directory is another one.
fn absolute(path: &str) -> Result<String> {
    let absolute = std::path::absolute(path).with_context(|| path.to_owned())?;
    absolute.into_os_string().into_string().ok().with_context(|| format!("{path}: not UTF-8"))
}

fn open(directory: &Path) -> Result<Root> {
    Root::open(directory).with_context(|| directory.display().to_string())
}

/// The unit directories of an image: the system's, as no environment of ours speaks of it.
fn tree(root: &Root) -> Tree {
    let context = warren_unit_files::context(root, Scope::System);
    let path = search_path(Scope::System, &Default::default());
    warren_unit_files::tree(root, path, Arc::new(context))
}

fn change(change: &Change) -> FileChange {
    let (kind, path, source) = match change {
        Change::Symlink { path, target } => ("symlink", path, target.clone()),
        Change::Unlink { path } => ("unlink", path, String::new()),
    };
    FileChange { kind: kind.to_owned(), path: path.clone(), source }
}

fn changed(change: &FileChange) -> String {
    let FileChange { kind, path, source } = change;
    match kind.as_str() {
        "symlink" => format!("Created symlink {path} → {source}."),
        "unlink" => format!("Removed {path}."),
        other => format!("{other}: {path}"),
    }
}

/// Whether a unit with this installation state counts as enabled (systemctl(1), "is-enabled").
fn counts_as_enabled(state: &str) -> bool {
    matches!(
        state,
        "enabled" | "enabled-runtime" | "static" | "alias" | "indirect" | "generated" | "transient"
    )
}

/// Prints the states of units; returns 0 if one of them is enabled, else 1.
pub(crate) fn print_states(states: impl Iterator<Item = (String, String)>, global: &Global) -> i32 {
    let mut status = 1;
    for (unit, state) in states {
        if counts_as_enabled(&state) {
            status = 0;
        }
        match global {
            Global { quiet: true, .. } => {}
            Global { json: true, .. } => print_json(&json!({"unit": unit, "state": state})),
            _ => print(&format!("{state}\n")),
        }
    }
    status
}

/// `is-enabled --root`.
pub(crate) fn states_in_root(units: &[String], directory: &Path, global: &Global) -> Result<i32> {
    let tree = tree(&open(directory)?);
    let state = |unit: &String| {
        let unit = with_suffix(unit);
        let state = UnitName::parse(&unit).ok().and_then(|name| tree.state(&name));
        (unit, state.map_or("not-found", UnitFileState::as_str).to_owned())
    };
    Ok(print_states(units.iter().map(state), global))
}
