//! What administrators said of units: comments on stops, marks, and comments on disabling and
//! masking.
//!
//! What is said of a stop or a mark is run state and ends with it. What is said of a file outlives
//! boots: it lies beside the links that the verb makes, as `.UNIT.remark`, a name that no manager
//! takes for a unit. It goes when the unit is enabled or unmasked again.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use warren_core::model::admin_marks::{Remark, remark_text};
use warren_core::model::ids::UnitId;
use warren_core::protocol::request::Asker;
use warren_core::view::View;
use warren_unit::UnitName;
use warren_wire::control::{self as wire, CauseKind, UnitFileVerb, UnitFiles};

use crate::control::answer::{cause, moment};
use crate::published::shared::Shared;

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// What was said of a unit, as `status` and `why` show it.
pub(crate) fn answers(view: &View, shared: &Shared, unit: UnitId) -> Vec<wire::Remark> {
    let mut out = Vec::new();
    if let Some(notes) = view.run(unit).notes() {
        if let Some((marked, remark)) = &notes.mark {
            out.push(one(view, marked.as_str(), remark));
        }
        out.extend(notes.comment.as_ref().map(|remark| one(view, "stop", remark)));
    }
    out.extend(of_files(shared, view.graph.name(unit)));
    out
}

fn one(view: &View, of: &str, remark: &Remark) -> wire::Remark {
    wire::Remark {
        of: of.to_owned(),
        text: remark.text.clone(),
        by: cause(view, remark.by),
        at: moment(remark.at),
    }
}

/// The directories in which a unit's file can be enabled and masked: for good, until the next boot.
fn directories(shared: &Shared) -> [PathBuf; 2] {
    let path: Vec<String> =
        shared.unit_path.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let (persistent, runtime) =
        warren_unit_files::config_directories(&path, shared.settings().context.scope);
    [persistent.into(), runtime.into()]
}

fn file_name(unit: &UnitName) -> String {
    format!(".{unit}.remark")
}

fn of_files(shared: &Shared, unit: &UnitName) -> Vec<wire::Remark> {
    let read = |directory: PathBuf| {
        let path = directory.join(file_name(unit));
        let small =
            fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= FILE_BYTES_MAX);
        let text = small.then(|| fs::read_to_string(&path).ok()).flatten()?;
        serde_json::from_str::<wire::Remark>(&text).ok()
    };
    let mut found: Vec<wire::Remark> = directories(shared).into_iter().filter_map(read).collect();
    found.dedup();
    found
}

/// A verb on unit files was done: keeps what was said with it, and forgets what was said with one
/// that it undoes.
pub(crate) fn unit_files(shared: &Shared, asker: Asker, request: &UnitFiles) -> Result<(), String> {
    let (verb, said) = (&request.verb, request.comment.as_deref());
    let names = request
        .files
        .iter()
        .filter_map(|file| UnitName::parse(file.rsplit('/').next().unwrap_or_default()).ok());
    let [persistent, transient] = directories(shared);
    for unit in names {
        let name = file_name(&unit);
        match (verb, said) {
            (UnitFileVerb::Disable | UnitFileVerb::Mask, Some(text)) => {
                let directory = if request.runtime { &transient } else { &persistent };
                let written = write(&directory.join(&name), asker, verb.as_str(), text);
                written
                    .map_err(|e| format!("{verb} succeeded, but the comment was not saved: {e}"))?;
            }
            (
                UnitFileVerb::Enable
                | UnitFileVerb::Reenable
                | UnitFileVerb::Unmask
                | UnitFileVerb::Revert,
                _,
            ) => {
                for directory in [&persistent, &transient] {
                    let _ = fs::remove_file(directory.join(&name));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn write(path: &std::path::Path, asker: Asker, verb: &str, text: &str) -> io::Result<()> {
    let at = crate::base::clock::now().realtime_us;
    let by =
        wire::Cause { kind: CauseKind::Request, uid: Some(asker.uid), ..wire::Cause::default() };
    let remark = wire::Remark {
        of: verb.to_owned(),
        text: remark_text(text).to_string(),
        by: Some(by),
        at: Some(at),
    };
    let remark = serde_json::to_string(&remark)?;
    let aside = path.with_extension("remark.tmp");
    // A user may have no directory of the kind yet.
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut file = fs::File::create(&aside)?;
    writeln!(file, "{remark}")?;
    fs::rename(&aside, path)
}
