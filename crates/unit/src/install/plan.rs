//! The verbs.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ALSO_MAX, Change, Installable, NameTarget, Node, Options, Plan, PlanError, PresetAction,
    PresetRules, Remark, Tree,
};
use crate::name::{UnitName, UnitType};
use crate::search::check_alias;
use crate::settings::id;

/// Which hooks of a unit are made.
#[derive(Clone, Copy)]
enum Hooks {
    /// All: one that cannot be is an error.
    All,
    /// Those that a template without an instance can have too: a policy that says `enable` means
    /// instances, and there may be none yet.
    WithInstance,
}

/// Which units `preset` may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetMode {
    /// Both ways.
    Full,
    /// Only enable.
    EnableOnly,
    /// Only disable.
    DisableOnly,
}

impl Tree {
    /// `enable UNIT...`: the links that \[Install\] of the units, and of those in Also=, says.
    /// A name that starts with a slash is a file to be linked first.
    pub fn enable(&self, names: &[&str], options: Options) -> Plan {
        self.enable_with(names, options, Hooks::All)
    }

    fn enable_with(&self, names: &[&str], options: Options, hooks: Hooks) -> Plan {
        let mut plan = Plan::default();
        let mut asked: Vec<Installable> = Vec::new();
        for name in names {
            let before = plan.left_out.len();
            match self.to_enable(name, options, &mut plan) {
                // A file that cannot be linked is not this name's.
                Ok(unit) if plan.left_out.len() == before => asked.push(unit),
                Ok(_) => {}
                Err(error) => plan.errors.push(error),
            }
        }
        self.enable_all(asked, options, hooks, &mut plan);
        plan
    }

    fn to_enable(
        &self,
        name: &str,
        options: Options,
        plan: &mut Plan,
    ) -> Result<Installable, PlanError> {
        if name.starts_with('/') {
            return self.link_one(name, options, plan);
        }
        self.installable_by_own_name(&parsed(name)?)
    }

    /// The same, but not by a link that is itself what enabling makes.
    fn installable_by_own_name(&self, name: &UnitName) -> Result<Installable, PlanError> {
        match self.installable(name)? {
            _ if self.is_alias_by_hand(name) => Err(PlanError::Linked { name: name.clone() }),
            unit => Ok(unit),
        }
    }

    fn installable(&self, name: &UnitName) -> Result<Installable, PlanError> {
        match self.find(name) {
            NameTarget::Unit(unit) => Ok(unit),
            NameTarget::Masked(path) => Err(PlanError::Masked { path }),
            NameTarget::Nothing => Err(missing(name.as_str())),
        }
    }

    fn enable_all(&self, asked: Vec<Installable>, options: Options, hooks: Hooks, plan: &mut Plan) {
        let mut met = PlannedUnits::of(asked.iter().map(|unit| unit.name.clone()));
        let mut queue = asked;
        queue.reverse();
        while let Some(unit) = queue.pop() {
            match met.is_new(&unit.name) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => return plan.errors.push(error.into()),
            }
            plan.carries_install_info |= unit.has_install_info();
            self.hook_in(&unit, options, hooks, plan);
            for word in unit.words(id!(Install "Also")).into_iter().rev() {
                match UnitName::parse(&word).map(|name| (self.find(&name), name)) {
                    Ok((NameTarget::Unit(_), name)) if self.is_alias_by_hand(&name) => {
                        plan.remark(Remark::AuxiliaryFailed { name });
                    }
                    Ok((NameTarget::Unit(also), _)) => queue.push(also),
                    Ok((NameTarget::Masked(path), _)) => plan.remark(Remark::Masked { path }),
                    Ok((NameTarget::Nothing, name)) => {
                        plan.remark(Remark::AuxiliaryFailed { name })
                    }
                    Err(error) => plan.other(format!("'{word}': {error}")),
                }
            }
        }
    }

    /// The links of one unit.
    fn hook_in(&self, unit: &Installable, options: Options, hooks: Hooks, plan: &mut Plan) {
        let directory = self.config_directory(options);
        for word in unit.words(id!(Install "Alias")) {
            match alias_name(unit, &word) {
                Ok(alias) => {
                    self.symlink(format!("{directory}/{alias}"), &unit.path, options, plan)
                }
                Err(error) => plan.leave_out(error),
            }
        }
        let kinds = [
            (id!(Install "WantedBy"), "wants"),
            (id!(Install "RequiredBy"), "requires"),
            (id!(Install "UpheldBy"), "upholds"),
        ];
        for (setting, suffix) in kinds {
            for word in unit.words(setting) {
                match UnitName::parse(&word) {
                    Ok(target) => self.hook_into(unit, (&target, suffix), options, hooks, plan),
                    Err(_) => plan.leave_out(format!("'{word}' is not a valid unit name")),
                }
            }
        }
    }

    fn hook_into(
        &self,
        unit: &Installable,
        (target, suffix): (&UnitName, &str),
        options: Options,
        hooks: Hooks,
        plan: &mut Plan,
    ) {
        let name = unit.instance_name();
        if unit.lacks_instance_for(target) {
            return match hooks {
                Hooks::All => plan.leave_out(non_template("enable", &name, target)),
                Hooks::WithInstance => {}
            };
        }
        let directory = self.config_directory(options);
        self.symlink(format!("{directory}/{target}.{suffix}/{name}"), &unit.path, options, plan);
        if !self.exists(target) {
            let (path, target) = (unit.path.clone(), target.clone());
            plan.remark(Remark::DestinationNotPresent { path, target });
        }
    }

    /// Plans a link, unless it is there or something is in its way. In a directory of dependencies the name says
    /// all, so that a link that leads elsewhere is replaced, as by systemctl 252.
    fn symlink(&self, path: String, target: &str, options: Options, plan: &mut Plan) {
        let before = plan.links.get(&path);
        if path == target || before.is_some_and(|before| before == target) {
            return;
        }
        let in_the_way = |target: Option<&String>| PlanError::InTheWay {
            path: path.clone(),
            target: target.cloned(),
        };
        let replaces = options.force || is_dependency_link(&path);
        match (self.nodes.get(&path), before) {
            (Some(Node::Link(there)), _) if self.is_same_unit(there, target) => {}
            (Some(Node::File(_)), _) => plan.left_out.push(in_the_way(None)),
            (Some(Node::Link(there)), _) if !replaces => {
                plan.left_out.push(in_the_way(Some(there)));
            }
            (_, Some(there)) if !replaces => plan.left_out.push(in_the_way(Some(there))),
            _ => plan.link(path, target.to_owned()),
        }
    }

    /// Whether links to both mean one unit: by name, wherever below the search path it is or was, as with
    /// systemctl 252. `/lib` may be `/usr/lib`, and files move.
    fn is_same_unit(&self, one: &str, other: &str) -> bool {
        let is_found = |path: &str| {
            let below = |directory: &String| {
                path.strip_prefix(directory.as_str()).is_some_and(|rest| rest.starts_with('/'))
            };
            self.search_path.iter().any(below)
        };
        one == other || last_part(one) == last_part(other) && is_found(one) && is_found(other)
    }

    /// `disable UNIT...`: removes every link by one of the units' names or to one of them, also
    /// those that were not made by `enable`, and the same for the units in Also=. An alias stands for
    /// the unit that it leads to. A name that has neither a file nor links is an error.
    pub fn disable(&self, names: &[&str], options: Options) -> Plan {
        let mut plan = Plan::default();
        let mut queue: Vec<UnitName> = Vec::new();
        for name in names {
            match parsed(name) {
                Ok(name) => queue.push(name),
                Err(error) => plan.errors.push(error),
            }
        }
        let mut met = PlannedUnits::of(queue.iter().cloned());
        let mut main_names = BTreeSet::new();
        while let Some(name) = queue.pop() {
            match met.is_new(&name) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    plan.other(error);
                    return plan;
                }
            }
            if let NameTarget::Unit(unit) = self.find(&name) {
                plan.carries_install_info |= unit.has_install_info();
                let also = unit.words(id!(Install "Also"));
                queue.extend(also.iter().filter_map(|word| UnitName::parse(word).ok()));
                main_names.insert(unit.name);
            }
        }
        main_names.append(&mut met.seen);
        self.unhook(main_names, options, &mut plan);
        let is_missing = |name: &UnitName| matches!(self.find(name), NameTarget::Nothing);
        let asked = names.iter().filter_map(|name| UnitName::parse(name).ok());
        if plan.changes.is_empty() {
            plan.errors.extend(asked.filter(is_missing).map(|name| missing(name.as_str())));
        }
        plan
    }

    /// Removes links until nothing more follows: a removed alias is a name too.
    fn unhook(&self, mut units: BTreeSet<UnitName>, options: Options, plan: &mut Plan) {
        let directory = format!("{}/", self.config_directory(options));
        let links: Vec<(&String, UnitName, Option<UnitName>)> = self
            .nodes
            .range(directory.clone()..)
            .take_while(|(path, _)| path.starts_with(&directory))
            .filter_map(|(path, node)| match node {
                Node::Link(target) if target != "/dev/null" => Some((
                    path,
                    UnitName::parse(last_part(path)).ok()?,
                    UnitName::parse(last_part(target)).ok(),
                )),
                _ => None,
            })
            .collect();
        let mut removed = BTreeSet::new();
        loop {
            let before = removed.len();
            for (path, name, target) in &links {
                let by_name =
                    units.contains(name) || name.template().is_some_and(|t| units.contains(&t));
                let by_target = target.as_ref().is_some_and(|t| units.contains(t));
                if (by_name || by_target) && removed.insert(*path) && !is_dependency_link(path) {
                    units.insert(name.clone());
                }
            }
            if removed.len() == before {
                break;
            }
        }
        plan.changes.extend(removed.into_iter().map(|path| Change::Unlink { path: path.clone() }));
    }

    /// `reenable UNIT...`: disable, then enable. An alias that goes stands for its unit all the same.
    pub fn reenable(&self, names: &[&str], options: Options) -> Plan {
        let mut plan = self.disable(names, options);
        let main_name = |name: &&str| self.main_name(&UnitName::parse(name).ok()?);
        let main_names: Vec<Option<UnitName>> = names.iter().map(main_name).collect();
        let names = names.iter().zip(&main_names);
        let names: Vec<&str> =
            names.map(|(name, main)| main.as_ref().map_or(*name, UnitName::as_str)).collect();
        plan.then(self.after(&plan.changes).enable(&names, options));
        plan
    }

    /// The tree as it is when changes have been made.
    #[must_use]
    pub fn after(&self, changes: &[Change]) -> Tree {
        let mut tree = self.clone();
        for change in changes {
            match change {
                Change::Symlink { path, target } => {
                    tree.nodes.insert(path.clone(), Node::Link(target.clone()));
                }
                Change::Unlink { path } => {
                    tree.nodes.remove(path);
                }
            }
        }
        tree
    }

    /// `mask UNIT...`
    pub fn mask(&self, names: &[&str], options: Options) -> Plan {
        let directory = self.config_directory(options);
        let mut plan = Plan::default();
        for name in names {
            match parsed(name) {
                Ok(name) => {
                    self.symlink(format!("{directory}/{name}"), "/dev/null", options, &mut plan)
                }
                Err(error) => plan.errors.push(error),
            }
        }
        plan
    }

    /// `unmask UNIT...`: removes links to /dev/null, and empty files, by these names.
    pub fn unmask(&self, names: &[&str], options: Options) -> Plan {
        let directory = self.config_directory(options);
        let mut plan = Plan::default();
        for name in names {
            let path = format!("{directory}/{name}");
            let masks = match self.nodes.get(&path) {
                Some(Node::Link(target)) => target == "/dev/null",
                Some(Node::File(file)) => file.is_empty(),
                None => false,
            };
            plan.changes.extend(masks.then_some(Change::Unlink { path }));
        }
        plan
    }

    /// `link PATH...`: makes files outside the search path known by links.
    pub fn link(&self, paths: &[&str], options: Options) -> Plan {
        let mut plan = Plan::default();
        for path in paths {
            if let Err(error) = self.link_one(path, options, &mut plan) {
                plan.errors.push(error);
            }
        }
        plan
    }

    fn link_one(
        &self,
        path: &str,
        options: Options,
        plan: &mut Plan,
    ) -> Result<Installable, PlanError> {
        let name = UnitName::parse(last_part(path)).map_err(|e| format!("'{path}': {e}"))?;
        let Some(Node::File(file)) = self.nodes.get(path) else {
            return Err(missing(path));
        };
        let directory = path.strip_suffix(name.as_str()).unwrap_or(path).trim_end_matches('/');
        if !self.search_path.iter().any(|d| d == directory) {
            let link = format!("{}/{name}", self.config_directory(options));
            self.symlink(link, path, options, plan);
        }
        Ok(self.installable_at(name, path.to_owned(), file, None))
    }

    /// `set-default TARGET`: links default.target to it, over whatever is there.
    pub fn set_default(&self, target: &str) -> Plan {
        let mut plan = Plan::default();
        let is_target = |name: &UnitName| {
            name.unit_type() == UnitType::Target && name.as_str() != "default.target"
        };
        let Some(name) = UnitName::parse(target).ok().filter(is_target) else {
            plan.other(format!("'{target}' cannot be the default target"));
            return plan;
        };
        match self.installable_by_own_name(&name) {
            Ok(unit) => {
                let path = format!("{}/default.target", self.persistent);
                let force = Options { force: true, ..Options::default() };
                self.symlink(path, &unit.path, force, &mut plan);
            }
            Err(error) => plan.errors.push(error),
        }
        plan
    }

    /// `add-wants TARGET UNIT...` (`suffix` wants) and `add-requires` (`suffix` requires).
    pub fn add_dependency(
        &self,
        target: &str,
        names: &[&str],
        suffix: &str,
        options: Options,
    ) -> Plan {
        let mut plan = Plan::default();
        let directory = self.config_directory(options);
        let Ok(target) = UnitName::parse(target) else {
            plan.other(format!("'{target}' is not a valid unit name"));
            return plan;
        };
        if !self.exists(&target) {
            plan.errors.push(missing(target.as_str()));
            return plan;
        }
        for name in names {
            match parsed(name).and_then(|name| self.installable(&name)) {
                // DefaultInstance= is for `enable`.
                Ok(unit) if unit.name.is_template() && !has_instances(&target) => {
                    plan.leave_out(non_template("add a dependency on", &unit.name, &target));
                }
                Ok(unit) => {
                    let path = format!("{directory}/{target}.{suffix}/{}", unit.name);
                    self.symlink(path, &unit.path, options, &mut plan);
                }
                Err(error) => plan.errors.push(error),
            }
        }
        plan
    }

    /// `preset UNIT...`: enables or disables by policy (systemd.preset(5)). Units without
    /// \[Install\] are left alone.
    pub fn preset(
        &self,
        names: &[&str],
        rules: &PresetRules,
        mode: PresetMode,
        options: Options,
    ) -> Plan {
        // One that is masked cannot be enabled, and need not be disabled.
        let refusal = |name: &&str| {
            let name = UnitName::parse(name).ok()?;
            let is_to_be_on = matches!(rules.action(&name), PresetAction::Enable(_));
            let refusal = self.installable(&name).err()?;
            (is_to_be_on || !matches!(refusal, PlanError::Masked { .. })).then_some(refusal)
        };
        let errors: Vec<PlanError> = names.iter().filter_map(refusal).collect();
        let mut plan = self.preset_known(names, rules, mode, options);
        plan.errors.extend(errors);
        plan
    }

    fn preset_known(
        &self,
        names: &[&str],
        rules: &PresetRules,
        mode: PresetMode,
        options: Options,
    ) -> Plan {
        let (mut on, mut off) = (Vec::new(), Vec::new());
        for name in names {
            let Ok(parsed) = UnitName::parse(name) else { continue };
            let NameTarget::Unit(unit) = self.find(&parsed) else { continue };
            if unit.name != parsed || !unit.has_install_info() {
                continue;
            }
            match rules.action(&parsed) {
                PresetAction::Enable(instances) if instances.is_empty() => {
                    on.push((*name).to_owned());
                }
                PresetAction::Enable(instances) => on.extend(instances),
                PresetAction::Disable => off.push((*name).to_owned()),
                PresetAction::Ignore => {}
            }
        }
        let mut plan = Plan::default();
        if mode != PresetMode::EnableOnly {
            let off: Vec<&str> = off.iter().map(String::as_str).collect();
            plan = self.disable(&off, options);
        }
        if mode != PresetMode::DisableOnly {
            let on: Vec<&str> = on.iter().map(String::as_str).collect();
            let tree = self.after(&plan.changes);
            plan.then(tree.enable_with(&on, options, Hooks::WithInstance));
        }
        plan
    }

    /// `preset-all`: every unit file of the search path but those that are masked. What stands in the way
    /// of one keeps none of the others from what the policy says.
    pub fn preset_all(&self, rules: &PresetRules, mode: PresetMode, options: Options) -> Plan {
        let names: BTreeMap<&str, ()> = self
            .nodes
            .iter()
            .filter(|(_, node)| matches!(node, Node::File(_)))
            .filter_map(|(path, _)| path.rsplit_once('/'))
            .filter(|(directory, name)| {
                self.search_path.iter().any(|d| d == directory) && UnitName::parse(name).is_ok()
            })
            .map(|(_, name)| (name, ()))
            .collect();
        let names: Vec<&str> = names.into_keys().collect();
        let mut plan = self.preset_known(&names, rules, mode, options);
        plan.left_out.append(&mut plan.errors);
        plan
    }

    /// `revert UNIT...`: removes drop-ins of the administrator, files that override the
    /// vendor's, and masks; below both /etc and /run.
    pub fn revert(&self, names: &[&str]) -> Plan {
        let mut plan = Plan::default();
        for name in names {
            let has_vendor_file = self.search_path.iter().any(|directory| {
                directory.starts_with("/usr/")
                    && self.nodes.contains_key(&format!("{directory}/{name}"))
                    || directory.starts_with("/lib/")
                        && self.nodes.contains_key(&format!("{directory}/{name}"))
            });
            for directory in [&self.persistent, &self.runtime] {
                for parent in [directory.clone(), format!("{directory}.control")] {
                    let dropins = format!("{parent}/{name}.d/");
                    let found = self
                        .nodes
                        .range(dropins.clone()..)
                        .take_while(|(p, _)| p.starts_with(&dropins));
                    plan.changes
                        .extend(found.map(|(path, _)| Change::Unlink { path: path.clone() }));
                }
                let path = format!("{directory}/{name}");
                match self.nodes.get(&path) {
                    Some(Node::Link(target)) if target == "/dev/null" => {
                        plan.changes.push(Change::Unlink { path })
                    }
                    Some(_) if has_vendor_file => plan.changes.push(Change::Unlink { path }),
                    _ => {}
                }
            }
        }
        plan
    }
}

/// Which units a request has come to.
struct PlannedUnits {
    /// Those asked for, which are as many as they are.
    asked: BTreeSet<UnitName>,
    seen: BTreeSet<UnitName>,
    /// How many of those seen only Also= names.
    dragged: usize,
}

impl PlannedUnits {
    fn of(asked: impl Iterator<Item = UnitName>) -> PlannedUnits {
        PlannedUnits { asked: asked.collect(), seen: BTreeSet::new(), dragged: 0 }
    }

    /// Whether the unit was not met before. An error if Also= drags along more than [`ALSO_MAX`].
    fn is_new(&mut self, name: &UnitName) -> Result<bool, String> {
        if !self.seen.insert(name.clone()) {
            return Ok(false);
        }
        self.dragged += usize::from(!self.asked.contains(name));
        match self.dragged > ALSO_MAX {
            true => Err(format!("Also= names more than {ALSO_MAX} units besides those asked for")),
            false => Ok(true),
        }
    }
}

impl Plan {
    fn other(&mut self, error: String) {
        self.errors.push(PlanError::Other(error));
    }

    fn leave_out(&mut self, error: String) {
        self.left_out.push(PlanError::Other(error));
    }

    fn remark(&mut self, remark: Remark) {
        self.remarks.insert(remark);
    }

    fn link(&mut self, path: String, target: String) {
        self.links.insert(path.clone(), target.clone());
        self.changes.push(Change::Symlink { path, target });
    }

    /// What follows, of a plan made for the time after this one.
    fn then(&mut self, next: Plan) {
        self.changes.extend(next.changes);
        self.links.extend(next.links);
        self.remarks.extend(next.remarks);
        self.errors.extend(next.errors);
        self.left_out.extend(next.left_out);
        self.carries_install_info |= next.carries_install_info;
    }
}

pub(super) fn last_part(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, last)| last)
}

/// Whether a link lies in a `.wants` directory or its like.
pub(super) fn is_dependency_link(path: &str) -> bool {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    [".wants", ".requires", ".upholds"].iter().any(|suffix| directory.ends_with(suffix))
}

/// The alias that a word of Alias= means; a template's takes the instance that was asked for, if one was.
fn alias_name(unit: &Installable, word: &str) -> Result<UnitName, String> {
    let written =
        UnitName::parse(word).map_err(|_| format!("'{word}' is not a valid unit name"))?;
    let name = &unit.name;
    let alias = match name.instance() {
        Some(instance) if written.is_template() => {
            written.with_instance(instance).map_err(|e| e.to_string())?
        }
        _ => written,
    };
    check_alias(&alias, name)
        .map(|()| alias.clone())
        .map_err(|_| format!("cannot alias {name} as {alias}"))
}

/// Whether instances of a template may be hooked into this unit by the template's name.
pub(super) fn has_instances(target: &UnitName) -> bool {
    target.is_template() || target.is_instance()
}

fn non_template(verb: &str, name: &UnitName, target: &UnitName) -> String {
    format!("cannot {verb} {name}, {target} is a non-template unit")
}

fn missing(file: &str) -> PlanError {
    PlanError::Missing { file: file.to_owned() }
}

fn parsed(name: &str) -> Result<UnitName, PlanError> {
    UnitName::parse(name).map_err(|e| PlanError::Other(format!("'{name}': {e}")))
}
