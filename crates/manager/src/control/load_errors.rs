//! What is wrong with the files of a unit, looked for when somebody asks: all that is kept is whether they can be
//! used.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_core::graph::{Definition, Files};
use warren_core::protocol::request::Asker;
use warren_unit::compile::Compiler;
use warren_unit::load::load;
use warren_unit::parse::{UnitFile, parse, refused};
use warren_unit::{Code, Diagnostic, LoadState, Severity};

use crate::config::snapshot::said;
use crate::control::caller::is_privileged;
use crate::control::files::bytes_for;
use crate::published::shared::Shared;

/// Of a broken file in which the asker finds nothing broken.
const UNTOLD: &str = "it had errors when it was last read: see the log; a reload reads it again";

/// Everything, in the order of the files.
pub(crate) fn all(asker: Asker, shared: &Shared, definition: &Definition) -> Vec<Diagnostic> {
    let (files, mut found) = read_again(asker, shared, definition);
    let (settings, name) = (shared.settings(), &definition.name);
    let sources = files.sources();
    found.extend(no_file(&shared.unit_path, definition));
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
        LoadState::Error => {
            let mut found = read_again(asker, shared, definition).1;
            found.extend(no_file(&shared.unit_path, definition));
            found
        }
        _ => return None,
    };
    let is_missing = |fault: &&Diagnostic| is_error(fault) && fault.code == Code::MissingSetting;
    found.iter().rfind(is_missing).or_else(|| found.iter().find(|fault| is_error(fault))).cloned()
}

/// The files as they lie on the disk by now, with why they cannot be used and what is wrong with their
/// syntax; those that the asker could not read, and those that are gone, as they are in force.
fn read_again(asker: Asker, shared: &Shared, definition: &Definition) -> (Files, Vec<Diagnostic>) {
    let mut found = Vec::new();
    let mut again = |file: &Arc<UnitFile>| {
        let path = file.path();
        let made = shared
            .made_text(path, is_privileged(asker))
            .map(|text| Ok(text.map(String::into_bytes)));
        let (read, faults) = match made.unwrap_or_else(|| bytes_for(asker, Path::new(&**path))) {
            Ok(Some(bytes)) => parse(path.clone(), &bytes, definition.unit_type()),
            Err(e) if file.is_broken() => refused(
                path.clone(),
                Code::Unreadable,
                format!("the file cannot be read: {}", said(&e)),
            ),
            Ok(None) | Err(_) => ((**file).clone(), Vec::new()),
        };
        // It was edited, or the reason lies outside of it.
        let is_told = faults.iter().any(is_error);
        found.extend(faults);
        if file.is_broken() && !is_told {
            found.extend(refused(path.clone(), Code::Unreadable, UNTOLD.to_owned()).1);
        }
        Arc::new(read)
    };
    let files = &definition.files;
    let fragment = files.fragment.as_ref().map(&mut again);
    let dropins = files.dropins().iter().map(&mut again).collect();
    (Files::new(fragment, dropins, files.links().to_vec(), files.masked()), found)
}

fn is_error(fault: &Diagnostic) -> bool {
    fault.severity == Severity::Error
}

/// What is wrong with an entry of the search directories that is there in place of a unit file.
fn no_file(unit_path: &[PathBuf], definition: &Definition) -> Option<Diagnostic> {
    if definition.load_state != LoadState::Error || definition.files.iter().next().is_some() {
        return None;
    }
    let names = [Some(definition.name.clone()), definition.name.template()];
    let names: Vec<_> = names.into_iter().flatten().collect();
    let mut places =
        unit_path.iter().flat_map(|place| names.iter().map(|name| place.join(name.as_str())));
    let (path, why) =
        places.find_map(|path| Some((path.to_str()?.to_owned(), why_no_file(&path)?)))?;
    refused(path.into(), Code::Unreadable, why).1.pop()
}

/// Nothing, if there is nothing, or a file that could be one.
fn why_no_file(path: &Path) -> Option<String> {
    let is_link = path.symlink_metadata().ok()?.is_symlink();
    let verb = if is_link { "leads to" } else { "is" };
    Some(match path.metadata() {
        Ok(found) if found.is_file() => return None,
        Ok(found) if found.is_dir() => format!("it {verb} a directory"),
        Ok(_) => format!("it {verb} what is not a regular file"),
        Err(e) => format!("it cannot be followed: {}", said(&e)),
    })
}
