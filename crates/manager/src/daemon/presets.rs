//! The first boot of a machine (machine-id(5), "FIRST BOOT SEMANTICS"): whether it is one is found by process 1.

use crate::base::first_boot::is_first_boot;
use crate::base::host::{ends_container, is_nested, owns_machine};
use crate::base::say::say;
use crate::options::Options;
use std::sync::Arc;
use warren_unit::install::{Options as How, PresetMode, Tree};
use warren_unit::{Context, Scope};
use warren_unit_files::Root;

/// What presets have enabled is enabled, as nobody has chosen yet (systemd.preset(5)); nothing is disabled. For the first
/// manager of a boot, before it loads units.
pub fn enable_presets(options: &Options, context: &Arc<Context>) {
    let is_own = owns_machine(options.scope) || ends_container(options.scope) && !is_nested();
    if !is_own || options.unit_path.is_some() || !is_first_boot() {
        return;
    }
    let path = options.search_path().into_iter().map(|path| path.to_string_lossy().into_owned());
    let tree = warren_unit_files::tree(&Root::OWN, path.collect(), context.clone());
    match preset_all(&Root::OWN, &tree) {
        (links, None) => say!("first boot: presets created {links} links to enable units"),
        (_, Some(error)) => say!("first boot: cannot apply all presets: {error}"),
    }
}

/// How many links were made, and what could not be.
fn preset_all(root: &Root, tree: &Tree) -> (usize, Option<String>) {
    let rules = warren_unit_files::presets_for(root, Scope::System);
    let how = How { runtime: false, force: false };
    let plan = tree.preset_all(&rules, PresetMode::EnableOnly, how);
    let (changes, failed) = warren_unit_files::carry_out(root, &plan);
    let error = plan.left_out.first().map(ToString::to_string);
    (changes.len(), failed.or(error))
}
