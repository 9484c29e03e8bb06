//! What clients want done with unit files: enabled, masked, linked, by policy or by name.
//!
//! Runs on the loader's thread, which has the ground state: nothing is read again that a watch has
//! not reported, and the loop does not wait for a disk. Links count from the next reload on, as
//! systemctl knows.

use std::sync::Arc;

use warren_bus::backend::{Answer, FileChange, PresetMode, UnitFileOp, UnitFileVerb};
use warren_bus::{BusError, Outcome};
use warren_unit::install::{
    Change, Options, Plan, PlanError, PresetMode as PlanPreset, Remark, Tree,
};
use warren_unit::{Context, UnitName};
use warren_unit_files::Root;

use crate::config::fleet::Applied;
use crate::config::snapshot::Snapshot;

/// What is asked.
#[derive(Debug)]
pub enum Question {
    /// Change something.
    Do(UnitFileOp),
    /// Name the links that disabling this file would remove.
    Links {
        /// The unit's name, or a path.
        file: String,
        /// Those below /run rather than those below /etc.
        runtime: bool,
    },
    /// Have what is told of this unit's file, or of all, be what lies on the disk.
    Look {
        /// The unit.
        unit: Option<UnitName>,
        /// Also behind its links to where no configuration lies, where a server may not answer.
        goes_far: bool,
    },
}

impl Question {
    /// The units that something is to be done with.
    pub fn changed_units(&self) -> Vec<UnitName> {
        let of = |file: &String| UnitName::parse(file.rsplit('/').next().unwrap_or_default()).ok();
        match self {
            Question::Do(operation) => operation.files.iter().filter_map(of).collect(),
            Question::Links { .. } | Question::Look { .. } => Vec::new(),
        }
    }
}

/// What it is answered from.
pub struct Ground<'a> {
    /// The unit directories, looked at just now.
    pub snapshot: &'a Snapshot,
    /// What specifiers refer to.
    pub context: &'a Arc<Context>,
    /// What rules made.
    pub rules: &'a Applied,
}

impl Ground<'_> {
    /// Answers, and does what is asked; whether any file changed, which it may also if not all could be
    /// done.
    pub fn answer(&self, question: &Question) -> (Outcome, bool) {
        match question {
            Question::Do(operation) => match self.plan_of(operation) {
                Ok(plan) => carry_out(&plan),
                Err(error) => (Err(error), false),
            },
            Question::Links { file, runtime } => {
                let options = Options { runtime: *runtime, force: false };
                let plan = self.tree(&[]).disable(&[file], options);
                let paths = plan.changes.into_iter().filter_map(|change| match change {
                    Change::Unlink { path } => Some(path),
                    Change::Symlink { .. } => None,
                });
                (Ok(Answer::Texts(paths.collect())), false)
            }
            Question::Look { .. } => (Ok(Answer::Done), false),
        }
    }

    fn tree(&self, names: &[&str]) -> Tree {
        let mut tree = crate::config::install::tree_on_disk(self.snapshot, self.context);
        warren_unit_files::add_named_files(&Root::OWN, &mut tree, names);
        tree
    }

    /// What is to be done.
    ///
    /// # Errors
    /// Nothing is.
    fn plan_of(&self, operation: &UnitFileOp) -> Result<Plan, BusError> {
        let names: Vec<&str> = operation.files.iter().map(String::as_str).collect();
        self.refuse_made_units(operation, &names)?;
        let mut plan = plan(&self.tree(&names), operation, &names);
        plan.remarks.retain(|remark| !self.is_of_made_unit(remark));
        match plan.errors.first() {
            Some(error) => Err(on_bus(error)),
            None => Ok(plan),
        }
    }

    /// Whether it says that a unit is not there which rules make, of whose files the plan knows nothing.
    fn is_of_made_unit(&self, remark: &Remark) -> bool {
        let Remark::DestinationNotPresent { target, .. } = remark else { return false };
        let mut names = target.template().into_iter().chain([target.clone()]);
        names.any(|name| self.rules.contains_key(name.as_str()))
    }

    /// What rules make is enabled by them, and is no file that a link could lead to. It can be
    /// masked: the mask is a file that hides it.
    fn refuse_made_units(&self, operation: &UnitFileOp, names: &[&str]) -> Result<(), BusError> {
        if matches!(operation.verb, UnitFileVerb::Mask | UnitFileVerb::Unmask) {
            return Ok(());
        }
        let made = names.iter().find_map(|name| Some((name, self.rules.get(*name)?)));
        made.map_or(Ok(()), |(name, product)| {
            let (path, origin) = (product.file.path(), &product.origin);
            let message =
                format!("Unit {path} is transient or generated: {name} is made by {origin}");
            Err(BusError::failed(message))
        })
    }
}

fn on_bus(error: &PlanError) -> BusError {
    let text = error.to_string();
    match error {
        PlanError::Missing { .. } => BusError::no_such_unit(text),
        PlanError::Masked { .. } => BusError::masked(text),
        PlanError::Linked { .. } => BusError::linked(text),
        PlanError::InTheWay { .. } => BusError::unit_exists(text),
        PlanError::Other(_) => BusError::failed(text),
    }
}

/// The answer, and whether anything was changed.
fn carry_out(plan: &Plan) -> (Outcome, bool) {
    let (made, failed) = warren_unit_files::carry_out(&Root::OWN, plan);
    let has_changed = !made.is_empty();
    let failed = failed.map(BusError::failed);
    if let Some(error) = failed.or_else(|| plan.left_out.first().map(on_bus)) {
        return (Err(error), has_changed);
    }
    let changes = made.into_iter().map(|change| match change {
        Change::Symlink { path, target } => FileChange { kind: "symlink", path, source: target },
        Change::Unlink { path } => FileChange { kind: "unlink", path, source: String::new() },
    });
    let answer = Answer::Changes {
        carries_install_info: plan.carries_install_info,
        changes: changes.collect(),
        remarks: plan.remarks.iter().cloned().collect(),
    };
    (Ok(answer), has_changed)
}

fn plan(tree: &Tree, operation: &UnitFileOp, names: &[&str]) -> Plan {
    let options = Options { runtime: operation.runtime, force: operation.force };
    let target = || operation.target.as_deref().unwrap_or_default();
    let preset = |mode: PresetMode| match mode {
        PresetMode::Full => PlanPreset::Full,
        PresetMode::EnableOnly => PlanPreset::EnableOnly,
        PresetMode::DisableOnly => PlanPreset::DisableOnly,
    };
    let rules = || warren_unit_files::presets_for(&Root::OWN, tree.context.scope);
    match operation.verb {
        UnitFileVerb::Enable => tree.enable(names, options),
        UnitFileVerb::Disable => tree.disable(names, options),
        UnitFileVerb::Reenable => tree.reenable(names, options),
        UnitFileVerb::Link => tree.link(names, options),
        UnitFileVerb::Mask => tree.mask(names, options),
        UnitFileVerb::Unmask => tree.unmask(names, options),
        UnitFileVerb::Revert => tree.revert(names),
        UnitFileVerb::SetDefault => tree.set_default(names.first().copied().unwrap_or_default()),
        UnitFileVerb::AddWants => tree.add_dependency(target(), names, "wants", options),
        UnitFileVerb::AddRequires => tree.add_dependency(target(), names, "requires", options),
        UnitFileVerb::Preset(mode) => tree.preset(names, &rules(), preset(mode), options),
        UnitFileVerb::PresetAll(mode) => tree.preset_all(&rules(), preset(mode), options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::scratch::Scratch;

    #[test]
    fn what_fails_halfway_has_changed_files() {
        let scratch = Scratch::new("halfway");
        std::fs::write(scratch.0.join("file"), "").expect("a file");
        let link = |directory: &str| Change::Symlink {
            path: scratch.0.join(directory).join("a.service").to_string_lossy().into_owned(),
            target: "/lib/systemd/system/a.service".to_owned(),
        };
        for (directories, works, has_changed) in [
            (["x.wants", "y.wants"].as_slice(), true, true),
            (["z.wants", "file", "w.wants"].as_slice(), false, true),
            (["file", "w.wants"].as_slice(), false, false),
            ([].as_slice(), true, false),
        ] {
            let changes = directories.iter().copied().map(link).collect();
            let (outcome, changed) = carry_out(&Plan { changes, ..Plan::default() });
            assert_eq!((outcome.is_ok(), changed), (works, has_changed), "{directories:?}");
        }
        assert!(scratch.0.join("z.wants/a.service").is_symlink());
        assert!(!scratch.0.join("w.wants").exists(), "the first failure is the last thing done");
        let left_out = vec![PlanError::Other("x.service has no file".to_owned())];
        let (outcome, changed) =
            carry_out(&Plan { changes: vec![link("v.wants")], left_out, ..Plan::default() });
        assert_eq!((outcome.is_ok(), changed), (false, true));
    }

    /// The rows of the table that is also asked of a played manager (`warren-bus`), and what it has none for.
    #[test]
    fn what_cannot_be_done_has_the_name_that_systemd_gives_it() {
        let table = include_str!("../../../bus/tests/answers.txt");
        let of_files = |line: &&str| {
            line.starts_with("M EnableUnitFiles as:") || line.starts_with("M SetDefaultTarget s:")
        };
        let rows = table.lines().filter(of_files).filter_map(|line| line.split_once(" => "));
        let rows: Vec<(&str, &str)> = rows.filter(|(_, answer)| answer.contains(": ")).collect();
        assert_eq!(rows.len(), 2, "{rows:?}");
        let scratch = Scratch::new("names-of-errors");
        let write = |name: &str, text: &str| {
            std::fs::write(scratch.0.join(name), text).expect("a file");
        };
        write("masked.service", "");
        write("other.service", "[Service]\n");
        write("a.service", "[Install]\nAlias=other.service\n");
        let [mask, other] = ["masked.service", "other.service"].map(|name| scratch.0.join(name));
        let own = [
            ("M EnableUnitFiles as:masked.service", "UnitMasked", mask, "is masked."),
            ("M EnableUnitFiles as:a.service", "UnitExists", other, "already exists."),
        ];
        let own = own.map(|(call, name, path, what)| {
            let file = if name == "UnitMasked" { "Unit file" } else { "File" };
            (call, format!("{name}: {file} {} {what}", path.display()))
        });
        let rows = rows.into_iter().map(|(call, answer)| (call, answer.to_owned())).chain(own);
        let snapshot = Snapshot::read_unwatched(vec![scratch.0.clone()]);
        let (context, rules) = (Arc::new(Context::system()), Applied::default());
        let ground = Ground { snapshot: &snapshot, context: &context, rules: &rules };
        for (call, answer) in rows {
            let words: Vec<&str> = call.split([' ', ':']).collect();
            let verb = match words[1] {
                "EnableUnitFiles" => UnitFileVerb::Enable,
                _ => UnitFileVerb::SetDefault,
            };
            let files = vec![words[3].to_owned()];
            let operation = UnitFileOp { verb, files, target: None, runtime: false, force: false };
            let (outcome, has_changed) = ground.answer(&Question::Do(operation));
            let error = outcome.expect_err(call);
            assert_eq!(error.to_string(), format!("org.freedesktop.systemd1.{answer}"), "{call}");
            assert!(!has_changed);
        }
    }
}
