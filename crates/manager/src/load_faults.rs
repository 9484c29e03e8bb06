//! What is wrong with the files of a unit, looked for when somebody asks: all that is kept is whether they can be
//! used.

use std::path::Path;
use std::sync::Arc;

use warren_core::graph::{Definition, Files};
use warren_core::request::Asker;
use warren_unit::compile::Compiler;
use warren_unit::load::load;
use warren_unit::parse::{UnitFile, parse};
use warren_unit::{Code, Diagnostic, LoadState, Severity};

use crate::control_files::text_for;
use crate::shared::Shared;

/// Everything, in the order of the files.
pub(crate) fn all(asker: Asker, shared: &Shared, definition: &Definition) -> Vec<Diagnostic> {
    let (files, mut found) = read_again(asker, shared, definition);
    let (settings, name) = (shared.settings(), &definition.name);
    let sources = files.sources();
    found.extend(load(name, &sources, &settings.context, &settings.defaults).1);
    let compiler = Compiler {
        name,
        sources: &sources,
        context: &settings.context,
        defaults: &settings.defaults,
    };
    found.extend(compiler.check());
    found.sort();
    found.dedup();
    found
}

/// Why a unit that has files cannot be used.
pub(crate) fn reason(asker: Asker, shared: &Shared, definition: &Definition) -> Option<Diagnostic> {
    let settings = shared.settings();
    let found = match definition.load_state {
        LoadState::BadSetting => {
            let sources = definition.files.sources();
            load(&definition.name, &sources, &settings.context, &settings.defaults).1
        }
        LoadState::Error => read_again(asker, shared, definition).1,
        _ => return None,
    };
    let is_error = |fault: &&Diagnostic| fault.severity == Severity::Error;
    let is_missing = |fault: &&Diagnostic| is_error(fault) && fault.code == Code::MissingSetting;
    found.iter().rfind(is_missing).or_else(|| found.iter().find(is_error)).cloned()
}

/// The files as they lie on the disk by now, with what is wrong with their syntax; those that the asker could not
/// read, and those that are gone, as they are in force.
fn read_again(asker: Asker, shared: &Shared, definition: &Definition) -> (Files, Vec<Diagnostic>) {
    let mut found = Vec::new();
    let mut again = |file: &Arc<UnitFile>| {
        let path = file.path();
        let on_disk = || text_for(asker, Path::new(&**path)).ok().flatten();
        match shared.made_text(path).or_else(on_disk) {
            None => file.clone(),
            Some(text) => {
                let (file, faults) = parse(path.clone(), text.as_bytes(), definition.unit_type());
                found.extend(faults);
                Arc::new(file)
            }
        }
    };
    let files = &definition.files;
    let fragment = files.fragment.as_ref().map(&mut again);
    let dropins = files.dropins().iter().map(&mut again).collect();
    (Files::new(fragment, dropins, files.links().to_vec(), files.masked()), found)
}
