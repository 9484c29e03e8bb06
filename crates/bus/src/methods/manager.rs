//! Methods of the manager.

use super::files;
use super::filter::Filter;
use super::listing::{self, find_job, neighbours};
use super::method::{Invocation, Refusal, Step, Then, methods};
use super::unit::*;
use crate::backend::{Call, Leave, ManagerSetting, Transient};
use crate::descriptors::Descriptors;
use crate::error::BusError;
use crate::wire::{Reader, Writer};
use crate::{path, refusals, transient};
use rustix::fd::BorrowedFd;
use std::fmt::Write as _;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::view::View;
use warren_sys::{memfd, process};
use warren_unit::value::show_status;
use warren_unit::{UnitName, UnitType};

type Out = Result<Step, Refusal>;

methods! {
    /// org.freedesktop.systemd1.Manager
    MANAGER_METHODS:
    GetUnit "s:name" -> "o:unit" Read = get_unit;
    GetUnitByPID "u:pid" -> "o:unit" Read = get_unit_by_pid;
    GetUnitByInvocationID "ay:invocation_id" -> "o:unit" Read = get_unit_by_invocation;
    GetUnitByControlGroup "s:cgroup" -> "o:unit" Read = get_unit_by_cgroup;
    GetUnitByPIDFD "h:pidfd" -> "o:unit s:unit_id ay:invocation_id" Read = get_unit_by_pidfd;
    LoadUnit "s:name" -> "o:unit" Read = load_unit;
    StartUnit "s:name s:mode" -> "o:job" Units = |c| job(c, START);
    StartUnitWithFlags "s:name s:mode t:flags" -> "o:job" Units = start_with_flags;
    StartUnitReplace "s:old_unit s:new_unit s:mode" -> "o:job" Units = start_replace;
    StopUnit "s:name s:mode" -> "o:job" Units = |c| job(c, STOP);
    ReloadUnit "s:name s:mode" -> "o:job" Units = |c| job(c, RELOAD);
    RestartUnit "s:name s:mode" -> "o:job" Units = |c| job(c, RESTART);
    TryRestartUnit "s:name s:mode" -> "o:job" Units = |c| job(c, TRY_RESTART);
    ReloadOrRestartUnit "s:name s:mode" -> "o:job" Units = |c| job(c, RELOAD_OR_RESTART);
    ReloadOrTryRestartUnit "s:name s:mode" -> "o:job" Units = |c| job(c, RELOAD_OR_TRY_RESTART);
    EnqueueUnitJob "s:name s:job_type s:job_mode" ->
        "u:job_id o:job_path s:unit_id o:unit_path s:job_type a(uosos):affected_jobs"
        Units = |c| { let unit = named(c)?; enqueue(c, unit) };
    EnqueueUnitJobMany "as:names s:job_type s:job_mode t:flags" -> "a(uosos):jobs" Units = enqueue_many;
    KillUnit "s:name s:whom i:signal" -> "" Units = |c| { let unit = loaded(c)?; kill(c, unit) };
    KillUnitSubgroup "s:name s:whom s:subgroup i:signal" -> "" Units =
        |c| { let unit = loaded(c)?; kill_subgroup(c, unit) };
    QueueSignalUnit "s:name s:whom i:signal i:value" -> "" Units = |c| { let unit = loaded(c)?; queue_signal(c, unit) };
    CleanUnit "s:name as:mask" -> "" Units = |c| { let unit = loaded(c)?; clean(c, unit) };
    FreezeUnit "s:name" -> "" Units = |c| { let unit = loaded(c)?; freeze(unit, true) };
    ThawUnit "s:name" -> "" Units = |c| { let unit = loaded(c)?; freeze(unit, false) };
    ResetFailedUnit "s:name" -> "" Units = reset_failed_unit;
    SetUnitProperties "s:name b:runtime a(sv):properties" -> "" Units =
        |c| { let unit = loaded(c)?; set_properties(c, unit) };
    BindMountUnit "s:name s:source s:destination b:read_only b:mkdir" -> "" Units =
        |c| { let unit = loaded(c)?; mount_into(c, unit, false) };
    MountImageUnit "s:name s:source s:destination b:read_only b:mkdir a(ss):options" -> "" Units =
        |c| { let unit = loaded(c)?; mount_into(c, unit, true) };
    RefUnit "s:name" -> "" Units = |c| { let unit = named(c)?; refer(c, unit) };
    UnrefUnit "s:name" -> "" Read = |c| { let unit = loaded(c)?; Ok(Step::Refer(unit, false)) };
    StartTransientUnit "s:name s:mode a(sv):properties a(sa(sv)):aux" -> "o:job" Units = start_transient;
    GetUnitProcesses "s:name" -> "a(sus):processes" Read = |c| { let unit = loaded(c)?; processes(c, unit) };
    AttachProcessesToUnit "s:unit_name s:subcgroup au:pids" -> "" Write =
        |c| { let unit = loaded(c)?; attach(c, unit) };
    RemoveSubgroupFromUnit "s:unit_name s:subcgroup t:flags" -> "" Write =
        |c| { let unit = loaded(c)?; remove_subgroup(c, unit) };
    AbandonScope "s:name" -> "" Units = |c| { let unit = loaded(c)?; abandon(c, unit) };
    GetJob "u:id" -> "o:job" Read = get_job;
    GetJobAfter "u:id" -> "a(usssoo):jobs" Read = |c| { let id = job_id(c)?; neighbours(c.view, id, true) };
    GetJobBefore "u:id" -> "a(usssoo):jobs" Read = |c| { let id = job_id(c)?; neighbours(c.view, id, false) };
    CancelJob "u:id" -> "" Units = cancel_job;
    ClearJobs "" -> "" Units = |_| Ok(Step::Ask(Call::ClearJobs, Then::Nothing));
    ResetFailed "" -> "" Units = |_| Ok(Step::Ask(Call::ResetFailed(None), Then::Nothing));
    SetShowStatus "s:mode" -> "" Environment = set_show_status;
    ListUnits "" -> "a(ssssssouso):units" Read = listing::list_units;
    ListUnitsFiltered "as:states" -> "a(ssssssouso):units" Read = listing::list_units_filtered;
    ListUnitsByPatterns "as:states as:patterns" -> "a(ssssssouso):units" Read =
        listing::list_units_by_patterns;
    ListUnitsByNames "as:names" -> "a(ssssssouso):units" Read = listing::list_units_by_names;
    ListJobs "" -> "a(usssoo):jobs" Read = listing::list_jobs;
    Subscribe "" -> "" Read = |_| Ok(Step::Subscribe(true));
    Unsubscribe "" -> "" Read = |_| Ok(Step::Subscribe(false));
    Dump "" -> "s:output" Read = |c| reply_text(&dump(c.view, Some(&Filter::default())));
    DumpUnitsMatchingPatterns "as:patterns" -> "s:output" Read =
        |c| { let text = dump_of_matching(c)?; reply_text(&text) };
    DumpByFileDescriptor "" -> "h:fd" Write =
        |c| dump_to_fd(&dump(c.view, Some(&Filter::default())));
    DumpUnitsMatchingPatternsByFileDescriptor "as:patterns" -> "h:fd" Write =
        |c| { let text = dump_of_matching(c)?; dump_to_fd(&text) };
    Reload "" -> "" Reload = |_| Ok(Step::Ask(Call::ReloadConfiguration, Then::Nothing));
    Reexecute "" -> "" Reload = |_| Ok(Step::Ask(Call::Reexecute, Then::HangUp));
    Exit "" -> "" Write = |_| leave(Leave::Exit);
    Reboot "" -> "" Write = |_| leave(Leave::Reboot);
    PowerOff "" -> "" Write = |_| leave(Leave::PowerOff);
    Halt "" -> "" Write = |_| leave(Leave::Halt);
    KExec "" -> "" Write = |_| leave(Leave::KExec);
    SoftReboot "s:new_root" -> "" Write = soft_reboot;
    SwitchRoot "s:new_root s:init" -> "" Write = |_| switch_root();
    SetEnvironment "as:assignments" -> "" Environment = |c| { let set = assignments(c)?; environment(Vec::new(), set) };
    UnsetEnvironment "as:names" -> "" Environment = |c| { let unset = variables(c)?; environment(unset, Vec::new()) };
    UnsetAndSetEnvironment "as:names as:assignments" -> "" Environment =
        |c| { let unset = variables(c)?; let set = assignments(c)?; environment(unset, set) };
    EnqueueMarkedJobs "" -> "ao:jobs" Units = |_| Ok(Step::Ask(Call::EnqueueMarked, Then::Jobs));
    ListUnitFiles "" -> "a(ss):unit_files" Read = files::list;
    ListUnitFilesByPatterns "as:states as:patterns" -> "a(ss):unit_files" Read =
        files::list_by_patterns;
    GetUnitFileState "s:file" -> "s:state" Read = files::get_state;
    EnableUnitFiles "as:files b:runtime b:force" -> "b:carries_install_info a(sss):changes"
        Files = files::enable;
    DisableUnitFiles "as:files b:runtime" -> "a(sss):changes" Files = files::disable;
    EnableUnitFilesWithFlags "as:files t:flags" -> "b:carries_install_info a(sss):changes"
        Files = files::enable_with_flags;
    DisableUnitFilesWithFlags "as:files t:flags" -> "a(sss):changes"
        Files = files::disable_with_flags;
    DisableUnitFilesWithFlagsAndInstallInfo "as:files t:flags" ->
        "b:carries_install_info a(sss):changes" Files = files::disable_with_install_info;
    ReenableUnitFiles "as:files b:runtime b:force" -> "b:carries_install_info a(sss):changes"
        Files = files::reenable;
    LinkUnitFiles "as:files b:runtime b:force" -> "a(sss):changes" Files = files::link;
    PresetUnitFiles "as:files b:runtime b:force" -> "b:carries_install_info a(sss):changes"
        Files = files::preset;
    PresetUnitFilesWithMode "as:files s:mode b:runtime b:force" ->
        "b:carries_install_info a(sss):changes" Files = files::preset_with_mode;
    MaskUnitFiles "as:files b:runtime b:force" -> "a(sss):changes" Files = files::mask;
    UnmaskUnitFiles "as:files b:runtime" -> "a(sss):changes" Files = files::unmask;
    RevertUnitFiles "as:files" -> "a(sss):changes" Files = files::revert;
    SetDefaultTarget "s:name b:force" -> "a(sss):changes" Files = files::set_default_target;
    GetDefaultTarget "" -> "s:name" Read = files::get_default_target;
    PresetAllUnitFiles "s:mode b:runtime b:force" -> "a(sss):changes" Files = files::preset_all;
    AddDependencyUnitFiles "as:files s:target s:type b:runtime b:force" -> "a(sss):changes"
        Files = files::add_dependency;
    GetUnitFileLinks "s:name b:runtime" -> "as:links" Read = files::get_links;
    SetExitCode "y:number" -> "" Write =
        |c| { let code = c.body.byte()?; Ok(Step::Ask(Call::SetExitCode(code), Then::Nothing)) };
    LookupDynamicUserByName "s:name" -> "u:uid" Read = dynamic_user_of_name;
    LookupDynamicUserByUID "u:uid" -> "s:name" Read = dynamic_user_of_uid;
    GetDynamicUsers "" -> "a(us):users" Read = dynamic_users;
    DumpUnitFileDescriptorStore "s:name" -> "a(suuutuusu):entries" Read =
        |c| { let unit = loaded(c)?; dump_stored(c, unit) };
}

/// The unit that the next argument names.
fn named(call: &mut Invocation<'_>) -> Result<UnitName, Refusal> {
    Ok(refusals::unit_name(call.body.str()?)?)
}

/// The unit in memory that the next argument names; an empty name is the caller's own unit.
fn loaded(call: &mut Invocation<'_>) -> Result<UnitId, Refusal> {
    match call.body.str()? {
        "" => Ok(unit_of_pid(call, call.peer_pid)?),
        name => Ok(refusals::loaded(call.view, name)?),
    }
}

fn job_id(call: &mut Invocation<'_>) -> Result<JobId, Refusal> {
    Ok(JobId(call.body.u32()?))
}

fn unit_path(view: &View, unit: UnitId) -> Out {
    let mut w = Writer::new();
    w.str(&path::unit(view.definition(unit).name.as_str()));
    Ok(Step::Reply(w))
}

fn get_unit(call: &mut Invocation<'_>) -> Out {
    let unit = loaded(call)?;
    unit_path(call.view, unit)
}

fn unit_of_pid(call: &Invocation<'_>, pid: u32) -> Result<UnitId, BusError> {
    let text = || format!("PID {pid} does not belong to any loaded unit.");
    call.backend.unit_of_process(pid).ok_or_else(|| BusError::no_unit_for_pid(text()))
}

fn get_unit_by_pid(call: &mut Invocation<'_>) -> Out {
    let asked = call.body.u32()?;
    let unit = unit_of_pid(call, if asked == 0 { call.peer_pid } else { asked })?;
    unit_path(call.view, unit)
}

/// The process that it is, not one that has its number by now: it is alive when the unit is known.
fn get_unit_by_pidfd(call: &mut Invocation<'_>) -> Out {
    let index = call.body.u32()?;
    let pid = process_of(call, index)?;
    let unit = unit_of_pid(call, pid)?;
    if process_of(call, index)? != pid {
        let text = format!("The process of file descriptor {index} has ended.");
        return Err(BusError::no_unit_for_pid(text).into());
    }
    let name = &call.view.definition(unit).name;
    let invocation = call.view.run(unit).history.as_ref().map_or(0, |history| history.invocation);
    let mut w = Writer::new();
    w.str(&path::unit(name.as_str())).str(name.as_str());
    match invocation {
        0 => w.bytes(&[]),
        invocation => w.bytes(&invocation.to_be_bytes()),
    };
    Ok(Step::Reply(w))
}

/// Only the manager of an initrd hands over to another root, and this one is none.
fn switch_root() -> Out {
    let text = "Not in initrd, refusing switch-root operation. A soft reboot takes the root at /run/nextroot.";
    Err(BusError::invalid_args(text).into())
}

fn get_unit_by_invocation(call: &mut Invocation<'_>) -> Out {
    let bytes = call.body.bytes()?;
    let Ok(id) = <[u8; 16]>::try_from(bytes) else {
        return Err(BusError::invalid_args("Invalid invocation ID").into());
    };
    let id = u128::from_be_bytes(id);
    let text = format!("No unit with the specified invocation ID {id:032x} known.");
    match unit_of_invocation(call.view, id) {
        Some(unit) => unit_path(call.view, unit),
        None => Err(BusError::no_unit_for_invocation(text).into()),
    }
}

/// The unit of this run; looks at every unit.
pub fn unit_of_invocation(view: &View, id: u128) -> Option<UnitId> {
    let is_it = |run: &std::sync::Arc<warren_core::model::state::UnitRun>| {
        id != 0 && run.history.as_ref().is_some_and(|history| history.invocation == id)
    };
    let at = view.units.iter().position(is_it)?;
    Some(UnitId(u32::try_from(at).expect("ids are 32 bits")))
}

/// The path's last part that is a unit's name decides, as cgroups are named after their units.
fn get_unit_by_cgroup(call: &mut Invocation<'_>) -> Out {
    let group = call.body.str()?;
    let names = group.rsplit('/').filter_map(|part| UnitName::parse(part).ok());
    let unit = names.filter_map(|name| call.view.lookup(&name)).next();
    let text = format!("Control group '{group}' is not valid or not managed by this instance");
    match unit {
        Some(unit) => unit_path(call.view, unit),
        None => Err(BusError::no_such_unit(text).into()),
    }
}

fn load_unit(call: &mut Invocation<'_>) -> Out {
    let name = named(call)?;
    match call.view.lookup(&name) {
        Some(unit) => unit_path(call.view, unit),
        None => Ok(Step::Ask(Call::LoadUnit(name), Then::Unit)),
    }
}

fn job(call: &mut Invocation<'_>, verb: Verb) -> Out {
    let unit = named(call)?;
    let mode = refusals::job_mode(call.body.str()?)?;
    enqueue_verb(call, unit, verb, mode, false)
}

fn start_with_flags(call: &mut Invocation<'_>) -> Out {
    let unit = named(call)?;
    let mode = refusals::job_mode(call.body.str()?)?;
    if call.body.u64()? != 0 {
        return Err(BusError::invalid_args("Flags must be zero.").into());
    }
    enqueue_verb(call, unit, START, mode, false)
}

fn start_replace(call: &mut Invocation<'_>) -> Out {
    let old = call.body.str()?;
    let unit = refusals::loaded(call.view, old).ok();
    if unit.is_none_or(|unit| call.view.job(unit).is_none()) {
        return Err(BusError::no_such_job(format!("No job queued for unit {old}")).into());
    }
    job(call, START)
}

/// The unit and those beside it are made of what is said of them, and the first is started.
fn start_transient(call: &mut Invocation<'_>) -> Out {
    let unit = named(call)?;
    let mode = refusals::job_mode(call.body.str()?)?;
    transient_type(&unit)?;
    let mut properties = transient::read(unit.unit_type(), &mut call.body)?;
    if properties.markers.is_some() {
        let text = "Cannot set property Markers, or unknown property.";
        return Err(BusError::read_only(text).into());
    }
    if unit.unit_type() == UnitType::Scope {
        // Number 0 is the client's own process.
        let own = call.peer_pid;
        properties.pids.iter_mut().filter(|pid| **pid == 0).for_each(|pid| *pid = own);
        for &index in &properties.pidfds {
            properties.pids.push(process_of(call, index)?);
        }
        if properties.pids.is_empty() {
            return Err(BusError::invalid_args("A scope is made with processes (PIDs).").into());
        }
    }
    let mut auxiliary = Vec::new();
    let mut fault = None;
    call.body.array(b'(', |body| {
        body.align(8)?;
        let name = body.str()?;
        let made = auxiliary_unit(name, body);
        match made {
            Ok(unit) => auxiliary.push(unit),
            Err(Refusal::Garbage(error)) => return Err(error),
            Err(refused) => fault = fault.take().or(Some(refused)),
        }
        Ok(())
    })?;
    if let Some(refused) = fault {
        return Err(refused);
    }
    let then = if properties.has_ref { Then::JobAndReference } else { Then::Job };
    let then = then(START.word(), unit.clone());
    for (_, index) in &properties.places {
        descriptor(call, *index)?;
    }
    let (text, pids, places) = (properties.file(), properties.pids, properties.places);
    let fds = if places.is_empty() { Descriptors::default() } else { call.fds.clone() };
    let made = Transient { unit, mode, text, pids, auxiliary, places, fds };
    Ok(Step::Ask(Call::StartTransient(Box::new(made)), then))
}

/// The file descriptor of the call that a value of type `h` names.
fn descriptor<'a>(call: &Invocation<'a>, index: u32) -> Result<BorrowedFd<'a>, BusError> {
    let missing = || BusError::invalid_args(format!("File descriptor {index} did not come along."));
    call.fds.get(index).ok_or_else(missing)
}

/// The process of a pidfd. From here on its number stands for it.
fn process_of(call: &Invocation<'_>, index: u32) -> Result<u32, BusError> {
    let pidfd = descriptor(call, index)?;
    let pid = process::pidfd_pid(pidfd).ok().and_then(|pid| u32::try_from(pid).ok());
    let pid = pid.filter(|pid| *pid > 0);
    pid.ok_or_else(|| BusError::invalid_args(format!("File descriptor {index} is not a process.")))
}

fn auxiliary_unit(name: &str, body: &mut Reader<'_>) -> Result<(UnitName, String), Refusal> {
    let unit = refusals::unit_name(name);
    let unit_type = unit.as_ref().map_or(UnitType::Service, UnitName::unit_type);
    let properties = transient::read(unit_type, body)?;
    let unit = unit?;
    transient_type(&unit)?;
    if unit_type == UnitType::Scope {
        return Err(BusError::invalid_args("A scope cannot be an auxiliary unit.").into());
    }
    if !properties.places.is_empty() {
        let text = "An auxiliary unit cannot have file descriptors.";
        return Err(BusError::invalid_args(text).into());
    }
    Ok((unit, properties.file()))
}

fn transient_type(unit: &UnitName) -> Result<(), BusError> {
    match transient::can_be_transient(unit) {
        true => Ok(()),
        false => Err(BusError::invalid_args(format!(
            "Unit type {} does not support transient units.",
            unit.unit_type()
        ))),
    }
}

fn reset_failed_unit(call: &mut Invocation<'_>) -> Out {
    let unit = loaded(call)?;
    Ok(Step::Ask(Call::ResetFailed(Some(unit)), Then::Nothing))
}

fn get_job(call: &mut Invocation<'_>) -> Out {
    let id = job_id(call)?;
    find_job(call.view, id)?;
    let mut w = Writer::new();
    w.str(&path::job(id.0));
    Ok(Step::Reply(w))
}

fn cancel_job(call: &mut Invocation<'_>) -> Out {
    let id = job_id(call)?;
    find_job(call.view, id)?;
    Ok(Step::Ask(Call::CancelJob(id), Then::Nothing))
}

fn leave(how: Leave) -> Out {
    Ok(Step::Ask(Call::Leave(how), Then::Nothing))
}

/// The one new root that can be is at the place that the manual names.
fn soft_reboot(c: &mut Invocation<'_>) -> Out {
    match c.body.str()? {
        "" | "/run/nextroot" | "/run/nextroot/" => leave(Leave::SoftReboot),
        _ => not_done("A new root directory other than what /run/nextroot is or leads to"),
    }
}

fn is_variable(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `NAME=value` each.
fn assignments(call: &mut Invocation<'_>) -> Result<Vec<String>, Refusal> {
    let texts = call.body.strs()?;
    let is_assignment =
        |text: &&str| text.split_once('=').is_some_and(|(name, _)| is_variable(name));
    if !texts.iter().all(is_assignment) {
        return Err(BusError::invalid_args("Invalid environment assignments").into());
    }
    Ok(texts.into_iter().map(str::to_owned).collect())
}

/// Names, or assignments.
fn variables(call: &mut Invocation<'_>) -> Result<Vec<String>, Refusal> {
    let texts = call.body.strs()?;
    let is_fine = |text: &&str| is_variable(text.split_once('=').map_or(text, |(name, _)| name));
    if !texts.iter().all(is_fine) {
        let text = "Invalid environment variable names or assignments";
        return Err(BusError::invalid_args(text).into());
    }
    Ok(texts.into_iter().map(str::to_owned).collect())
}

fn environment(unset: Vec<String>, set: Vec<String>) -> Out {
    Ok(Step::Ask(Call::Environment { unset, set }, Then::Nothing))
}

/// An empty word is for what the manager began with.
fn set_show_status(call: &mut Invocation<'_>) -> Out {
    let word = call.body.str()?;
    let shown = match word {
        "" => None,
        word => Some(
            show_status(word)
                .map_err(|_| BusError::invalid_args(format!("Invalid show status '{word}'")))?,
        ),
    };
    Ok(Step::Ask(Call::SetProperty(ManagerSetting::ShowStatus(shown)), Then::Nothing))
}

fn dump_of_matching(call: &mut Invocation<'_>) -> Result<String, Refusal> {
    let patterns = call.body.strs()?;
    let filter = Filter::new(call, &[], &patterns)?;
    let filter = Some(&filter).filter(|filter| !filter.is_of_all_names());
    Ok(dump(call.view, filter))
}

fn reply_text(text: &str) -> Out {
    let mut w = Writer::new();
    w.str(text);
    Ok(Step::Reply(w))
}

/// A file in memory of ours each: for those alone who may have what we have.
fn dump_to_fd(text: &str) -> Out {
    let file = memfd::sealed("dump", text.as_bytes());
    let file = file.map_err(|e| BusError::failed(e.to_string()))?;
    let mut w = Writer::new();
    w.u32(0);
    Ok(Step::ReplyWithFd(w, file))
}

/// Most bytes of a dump.
const DUMP_BYTES_MAX: usize = 16 << 20;

/// One line a unit that is asked for: for people in trouble, not for programs.
fn dump(view: &View, filter: Option<&Filter<'_>>) -> String {
    let mut text = String::new();
    for definition in view.graph.definitions() {
        let name = definition.name.as_str();
        if text.len() > DUMP_BYTES_MAX || !filter.is_some_and(|f| f.has_name(name)) {
            continue;
        }
        let run = view.run(definition.id);
        let (load, active) = (&definition.load_state, run.active_state().as_str());
        let job = run.job.as_ref().map_or("-", |job| job.kind.as_str());
        writeln!(text, "-> Unit {name}: {load} {active} {} job {job}", run.sub_state())
            .expect("writing to a String does not fail");
    }
    text
}

fn dynamic_user_of_name(call: &mut Invocation<'_>) -> Out {
    let name = call.body.str()?;
    let Some(uid) = call.view.dynamic_users.number(name) else {
        let text = format!("Dynamic user {name} does not exist.");
        return Err(BusError::no_such_dynamic_user(text).into());
    };
    let mut w = Writer::new();
    w.u32(uid);
    Ok(Step::Reply(w))
}

fn dynamic_user_of_uid(call: &mut Invocation<'_>) -> Out {
    let uid = call.body.u32()?;
    let Some(name) = call.view.dynamic_users.name(uid) else {
        let text = format!("Dynamic user ID {uid} does not exist.");
        return Err(BusError::no_such_dynamic_user(text).into());
    };
    let mut w = Writer::new();
    w.str(name);
    Ok(Step::Reply(w))
}

fn dynamic_users(call: &mut Invocation<'_>) -> Out {
    let mut w = Writer::new();
    w.array(b'(', |w| {
        for (name, uid) in call.view.dynamic_users.all() {
            w.structure().u32(uid).str(name);
        }
    });
    Ok(Step::Reply(w))
}
