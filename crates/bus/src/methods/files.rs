//! Methods that change or read the installation of unit files.

use crate::backend::{Call, PresetMode, UnitFileOp, UnitFileVerb};
use crate::error::BusError;
use crate::methods::filter::Filter;
use crate::methods::method::{Invocation, Refusal, Step, Then};
use crate::wire::Writer;
use warren_unit::UnitName;

type Out = Result<Step, Refusal>;

/// The flags of EnableUnitFilesWithFlags (org.freedesktop.systemd1(5)).
const RUNTIME: u64 = 1;
const FORCE: u64 = 2;
const PORTABLE: u64 = 4;

fn op(verb: UnitFileVerb, files: Vec<&str>) -> UnitFileOp {
    UnitFileOp {
        verb,
        files: files.into_iter().map(str::to_owned).collect(),
        target: None,
        runtime: false,
        force: false,
    }
}

fn ask(op: UnitFileOp, with_install_info: bool) -> Out {
    Ok(Step::Ask(Call::UnitFiles(op), Then::Changes { with_install_info }))
}

/// files, runtime, force
fn with_force(call: &mut Invocation<'_>, verb: UnitFileVerb, install_info: bool) -> Out {
    let op = op(verb, call.body.strs()?);
    let (runtime, force) = (call.body.bool()?, call.body.bool()?);
    ask(UnitFileOp { runtime, force, ..op }, install_info)
}

/// files, runtime
fn without_force(call: &mut Invocation<'_>, verb: UnitFileVerb) -> Out {
    let op = op(verb, call.body.strs()?);
    let runtime = call.body.bool()?;
    ask(UnitFileOp { runtime, ..op }, false)
}

/// files, flags
fn with_flags(call: &mut Invocation<'_>, verb: UnitFileVerb, install_info: bool) -> Out {
    let op = op(verb, call.body.strs()?);
    let flags = call.body.u64()?;
    if flags & !(RUNTIME | FORCE | PORTABLE) != 0 {
        return Err(BusError::invalid_args("Invalid argument").into());
    }
    if flags & PORTABLE != 0 {
        let text = "Links below the .attached directories are not made.";
        return Err(BusError::not_supported(text).into());
    }
    let (runtime, force) = (flags & RUNTIME != 0, flags & FORCE != 0);
    ask(UnitFileOp { runtime, force, ..op }, install_info)
}

pub fn enable(call: &mut Invocation<'_>) -> Out {
    with_force(call, UnitFileVerb::Enable, true)
}

pub fn enable_with_flags(call: &mut Invocation<'_>) -> Out {
    with_flags(call, UnitFileVerb::Enable, true)
}

pub fn disable(call: &mut Invocation<'_>) -> Out {
    without_force(call, UnitFileVerb::Disable)
}

pub fn disable_with_flags(call: &mut Invocation<'_>) -> Out {
    with_flags(call, UnitFileVerb::Disable, false)
}

/// What systemctl(1) of 253 and later asks for.
pub fn disable_with_install_info(call: &mut Invocation<'_>) -> Out {
    with_flags(call, UnitFileVerb::Disable, true)
}

pub fn reenable(call: &mut Invocation<'_>) -> Out {
    with_force(call, UnitFileVerb::Reenable, true)
}

pub fn link(call: &mut Invocation<'_>) -> Out {
    with_force(call, UnitFileVerb::Link, false)
}

/// A name that a unit file can have, or a path.
fn check_file(name: &str) -> Result<(), BusError> {
    match name.contains('/') || UnitName::parse(name).is_ok() {
        true => Ok(()),
        false => Err(BusError::invalid_args("Invalid argument")),
    }
}

pub fn mask(call: &mut Invocation<'_>) -> Out {
    call.body.clone().strs()?.into_iter().try_for_each(check_file)?;
    with_force(call, UnitFileVerb::Mask, false)
}

pub fn unmask(call: &mut Invocation<'_>) -> Out {
    without_force(call, UnitFileVerb::Unmask)
}

pub fn revert(call: &mut Invocation<'_>) -> Out {
    let op = op(UnitFileVerb::Revert, call.body.strs()?);
    ask(op, false)
}

pub fn preset(call: &mut Invocation<'_>) -> Out {
    with_force(call, UnitFileVerb::Preset(PresetMode::Full), true)
}

pub fn preset_with_mode(call: &mut Invocation<'_>) -> Out {
    let files = call.body.strs()?;
    let mode = preset_mode(call.body.str()?)?;
    let (runtime, force) = (call.body.bool()?, call.body.bool()?);
    ask(UnitFileOp { runtime, force, ..op(UnitFileVerb::Preset(mode), files) }, true)
}

pub fn preset_all(call: &mut Invocation<'_>) -> Out {
    let mode = preset_mode(call.body.str()?)?;
    let (runtime, force) = (call.body.bool()?, call.body.bool()?);
    ask(UnitFileOp { runtime, force, ..op(UnitFileVerb::PresetAll(mode), Vec::new()) }, false)
}

fn preset_mode(word: &str) -> Result<PresetMode, BusError> {
    match word {
        "" | "full" => Ok(PresetMode::Full),
        "enable-only" => Ok(PresetMode::EnableOnly),
        "disable-only" => Ok(PresetMode::DisableOnly),
        _ => Err(BusError::invalid_args("Invalid argument")),
    }
}

pub fn add_dependency(call: &mut Invocation<'_>) -> Out {
    let (files, target) = (call.body.strs()?, call.body.str()?.to_owned());
    let verb = match call.body.str()? {
        "Wants" => UnitFileVerb::AddWants,
        "Requires" => UnitFileVerb::AddRequires,
        _ => return Err(BusError::invalid_args("Invalid argument").into()),
    };
    let (runtime, force) = (call.body.bool()?, call.body.bool()?);
    ask(UnitFileOp { target: Some(target), runtime, force, ..op(verb, files) }, false)
}

pub fn set_default_target(call: &mut Invocation<'_>) -> Out {
    let op = op(UnitFileVerb::SetDefault, vec![call.body.str()?]);
    let force = call.body.bool()?;
    ask(UnitFileOp { force, ..op }, false)
}

pub fn get_default_target(call: &mut Invocation<'_>) -> Out {
    let unit = UnitName::parse("default.target").expect("a valid name");
    if !call.done.has_looked && !call.backend.knows_unit_files(Some(&unit)) {
        return Ok(Step::LookAtFiles(Some(unit)));
    }
    let none = || BusError::no_such_unit("Unit default.target not found.");
    reply_text(&call.backend.default_target().ok_or_else(none)?)
}

fn reply_text(text: &str) -> Out {
    let mut w = Writer::new();
    w.str(text);
    Ok(Step::Reply(w))
}

pub fn get_state(call: &mut Invocation<'_>) -> Out {
    let file = call.body.str()?;
    check_file(file)?;
    if let Ok(unit) = UnitName::parse(file)
        && !call.done.has_looked
        && !call.backend.knows_unit_files(Some(&unit))
    {
        return Ok(Step::LookAtFiles(Some(unit)));
    }
    let none = || BusError::file_not_found("No such file or directory");
    reply_text(call.backend.unit_file_state(file).ok_or_else(none)?)
}

pub fn get_links(call: &mut Invocation<'_>) -> Out {
    let (file, runtime) = (call.body.str()?.to_owned(), call.body.bool()?);
    Ok(Step::Ask(Call::GetUnitFileLinks { file, runtime }, Then::Texts))
}

pub fn list(call: &mut Invocation<'_>) -> Out {
    write_files(call, &Filter::default())
}

pub fn list_by_patterns(call: &mut Invocation<'_>) -> Out {
    let (states, patterns) = (call.body.strs()?, call.body.strs()?);
    write_files(call, &Filter::new(call, &states, &patterns)?)
}

fn write_files(call: &Invocation<'_>, filter: &Filter<'_>) -> Out {
    if !call.done.has_looked && !call.backend.knows_unit_files(None) {
        return Ok(Step::LookAtFiles(None));
    }
    let mut w = Writer::new();
    w.array(b'(', |w| {
        call.backend.each_unit_file(&mut |file, state| {
            let name = file.rsplit('/').next().unwrap_or(file);
            if filter.has_state(&[state]) && filter.has_name(name) {
                w.structure().str(file).str(state);
            }
        });
    });
    Ok(Step::Reply(w))
}
