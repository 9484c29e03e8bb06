//! Methods of unit and job objects, and the verbs that the manager's methods share with them.

use super::listing::neighbours;
use super::method::{Invocation, Refusal, Step, Then, methods};
use crate::backend::{Call, MountInto};
use crate::error::BusError;
use crate::wire::Writer;
use crate::{refusals, transient};
use std::collections::BTreeSet;
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::model::job::{JobMode, JobType};
use warren_core::protocol::request::{CleanKind, KillWhom, Refusal as CoreRefusal};
use warren_core::settings::TypeSettings;
use warren_sys::signal::SIGRTMIN;
use warren_unit::{LoadState, UnitName, UnitType};

type Out = Result<Step, Refusal>;

methods! {
    /// org.freedesktop.systemd1.Unit
    UNIT_METHODS:
    Start "s:mode" -> "o:job" Units = |c| own_job(c, START);
    Stop "s:mode" -> "o:job" Units = |c| own_job(c, STOP);
    Reload "s:mode" -> "o:job" Units = |c| own_job(c, RELOAD);
    Restart "s:mode" -> "o:job" Units = |c| own_job(c, RESTART);
    TryRestart "s:mode" -> "o:job" Units = |c| own_job(c, TRY_RESTART);
    ReloadOrRestart "s:mode" -> "o:job" Units = |c| own_job(c, RELOAD_OR_RESTART);
    ReloadOrTryRestart "s:mode" -> "o:job" Units = |c| own_job(c, RELOAD_OR_TRY_RESTART);
    EnqueueJob "s:job_type s:job_mode" ->
        "u:job_id o:job_path s:unit_id o:unit_path s:job_type a(uosos):affected_jobs"
        Units = |c| { let name = c.own_name(); enqueue(c, name) };
    Kill "s:whom i:signal" -> "" Units = |c| { let unit = c.own_unit(); kill(c, unit) };
    KillSubgroup "s:whom s:subgroup i:signal" -> "" Units = |c| { let unit = c.own_unit(); kill_subgroup(c, unit) };
    QueueSignal "s:whom i:signal i:value" -> "" Units = |c| { let unit = c.own_unit(); queue_signal(c, unit) };
    ResetFailed "" -> "" Units = |c| Ok(Step::Ask(Call::ResetFailed(c.unit), Then::Nothing));
    SetProperties "b:runtime a(sv):properties" -> "" Units = |c| { let unit = c.own_unit(); set_properties(c, unit) };
    Ref "" -> "" Units = |c| { let name = c.own_name(); refer(c, name) };
    Unref "" -> "" Read = |c| Ok(Step::Refer(c.own_unit(), false));
    Clean "as:mask" -> "" Units = |c| { let unit = c.own_unit(); clean(c, unit) };
    Freeze "" -> "" Units = |c| freeze(c.own_unit(), true);
    Thaw "" -> "" Units = |c| freeze(c.own_unit(), false);
}

methods! {
    /// What all interfaces of types with processes have.
    PROCESS_METHODS:
    GetProcesses "" -> "a(sus):processes" Read = |c| { let unit = c.own_unit(); processes(c, unit) };
    AttachProcesses "s:subcgroup au:pids" -> "" Write = |c| { let unit = c.own_unit(); attach(c, unit) };
    RemoveSubgroup "s:subcgroup t:flags" -> "" Write = |c| { let unit = c.own_unit(); remove_subgroup(c, unit) };
}

methods! {
    /// What only org.freedesktop.systemd1.Service has.
    SERVICE_METHODS:
    BindMount "s:source s:destination b:read_only b:mkdir" -> "" Units =
        |c| { let unit = c.own_unit(); mount_into(c, unit, false) };
    MountImage "s:source s:destination b:read_only b:mkdir a(ss):options" -> "" Units =
        |c| { let unit = c.own_unit(); mount_into(c, unit, true) };
    DumpFileDescriptorStore "" -> "a(suuutuusu):entries" Read = |c| { let unit = c.own_unit(); dump_stored(c, unit) };
}

methods! {
    /// org.freedesktop.systemd1.Scope
    SCOPE_METHODS:
    Abandon "" -> "" Units = |c| { let unit = c.own_unit(); abandon(c, unit) };
}

methods! {
    /// org.freedesktop.systemd1.Job
    JOB_METHODS:
    Cancel "" -> "" Units = |c| Ok(Step::Ask(Call::CancelJob(own_id(c)), Then::Nothing));
    GetAfter "" -> "a(usssoo):jobs" Read = |c| neighbours(c.view, own_id(c), true);
    GetBefore "" -> "a(usssoo):jobs" Read = |c| neighbours(c.view, own_id(c), false);
}

/// A verb: the job type, whether a reload is tried first, and the word for errors.
#[derive(Clone, Copy)]
pub struct Verb {
    job_type: JobType,
    reload_if_possible: bool,
    word: &'static str,
}

impl Verb {
    /// The word for errors.
    pub const fn word(self) -> &'static str {
        self.word
    }
}

const fn verb(job_type: JobType, reload_if_possible: bool, word: &'static str) -> Verb {
    Verb { job_type, reload_if_possible, word }
}

pub const START: Verb = verb(JobType::Start, false, "start");
pub const STOP: Verb = verb(JobType::Stop, false, "stop");
pub const RELOAD: Verb = verb(JobType::Reload, false, "reload");
pub const RESTART: Verb = verb(JobType::Restart, false, "restart");
pub const TRY_RESTART: Verb = verb(JobType::TryRestart, false, "try-restart");
pub const RELOAD_OR_RESTART: Verb = verb(JobType::Restart, true, "restart");
pub const RELOAD_OR_TRY_RESTART: Verb = verb(JobType::TryRestart, true, "try-restart");

/// This version does not do it: says so.
pub fn not_done(what: &str) -> Out {
    Err(BusError::not_supported(format!("{what} is not supported by this manager.")).into())
}

/// Ref and RefUnit: the unit stays in memory for as long as the client is connected.
pub fn refer(call: &mut Invocation<'_>, name: UnitName) -> Out {
    let Some(unit) = call.view.lookup(&name).filter(|unit| is_there(call, *unit, &name)) else {
        return match call.done.tried.contains(&name) {
            true => Err(refusals::not_found(name.as_str()).into()),
            false => Ok(Step::Load(vec![name])),
        };
    };
    match refusals::of_load_state(call.view.definition(unit)) {
        Some(error) => Err(error.into()),
        None => Ok(Step::Refer(unit, true)),
    }
}

/// The file of a unit that others name may have been written since.
fn is_there(call: &Invocation<'_>, unit: UnitId, name: &UnitName) -> bool {
    let is_absent = call.view.definition(unit).load_state == LoadState::NotFound;
    !is_absent || call.done.tried.contains(name)
}

fn own_id(call: &Invocation<'_>) -> JobId {
    call.job.expect("methods of jobs are called on jobs")
}

fn own_job(call: &mut Invocation<'_>, verb: Verb) -> Out {
    let mode = refusals::job_mode(call.body.str()?)?;
    let name = call.own_name();
    enqueue_verb(call, name, verb, mode, false)
}

/// The question that makes a job. What systemd refuses before it looks at any other unit is
/// refused here, with its words.
pub fn enqueue_verb(
    call: &Invocation<'_>,
    unit: UnitName,
    verb: Verb,
    mode: JobMode,
    in_full: bool,
) -> Out {
    let stops = verb.job_type == JobType::Stop;
    if mode == JobMode::Triggering && !stops {
        return refuse("--job-mode=triggering is only valid for stop.");
    }
    if mode == JobMode::Isolate && verb.job_type != JobType::Start {
        return refuse("Isolate is only valid for start.");
    }
    let first = match stops {
        true => look_before_stop(call, &unit)?,
        false => look_before_start(call, &unit, mode)?,
    };
    if let Some(step) = first {
        return Ok(step);
    }
    let then = if in_full { Then::JobDetails } else { Then::Job };
    let (job_type, reload_if_possible) = (verb.job_type, verb.reload_if_possible);
    let question = Call::Enqueue { unit: unit.clone(), job_type, mode, reload_if_possible };
    Ok(Step::Ask(question, then(verb.word, unit)))
}

/// A stop is for what is in memory, or has a file: a unit that nothing has led to is loaded to see.
fn look_before_stop(call: &Invocation<'_>, name: &UnitName) -> Result<Option<Step>, BusError> {
    match refusals::stoppable(call.view, name.as_str()) {
        Err(_) if !call.done.tried.contains(name) => Ok(Some(Step::Load(vec![name.clone()]))),
        stoppable => stoppable.map(|()| None),
    }
}

/// Verbs other than stop are for units that there are: one that is not in memory is loaded to
/// see. Everything else is the manager's to refuse.
fn look_before_start(
    call: &Invocation<'_>,
    name: &UnitName,
    mode: JobMode,
) -> Result<Option<Step>, BusError> {
    let Some(unit) = call.view.lookup(name) else {
        return match call.done.tried.contains(name) {
            true => Err(refusals::not_found(name.as_str())),
            false => Ok(Some(Step::Load(vec![name.clone()]))),
        };
    };
    let definition = call.view.definition(unit);
    match definition.load_state {
        // Its file may have been written since others named it.
        LoadState::NotFound if !call.done.tried.contains(name) => {
            Ok(Some(Step::Load(vec![name.clone()])))
        }
        LoadState::NotFound => Err(refusals::not_found(name.as_str())),
        _ if mode == JobMode::Isolate && !definition.flags.allow_isolate() => {
            Err(BusError::no_isolation("Operation refused, unit may not be isolated."))
        }
        // Before what the verb means for such a unit.
        LoadState::BadSetting | LoadState::Error => {
            Err(refusals::of_load_state(definition).expect("it is not loaded"))
        }
        _ => Ok(None),
    }
}

fn refuse(text: &str) -> Out {
    Err(BusError::invalid_args(text).into())
}

/// EnqueueJob and EnqueueUnitJob.
pub fn enqueue(call: &mut Invocation<'_>, unit: UnitName) -> Out {
    let (verb, mode) = (verb_of(call.body.str()?)?, refusals::job_mode(call.body.str()?)?);
    enqueue_verb(call, unit, verb, mode, true)
}

/// What a client's word means: those for types are more than job types.
fn verb_of(word: &str) -> Result<Verb, BusError> {
    Ok(match word {
        "reload-or-restart" => RELOAD_OR_RESTART,
        "reload-or-try-restart" => RELOAD_OR_TRY_RESTART,
        _ => {
            let job_type = refusals::job_type(word)?;
            Verb { job_type, reload_if_possible: false, word: job_type.as_str() }
        }
    })
}

/// Units of one EnqueueUnitJobMany.
const UNITS_MAX: usize = 4096;

/// EnqueueUnitJobMany: units, type, mode, no flags. All of the jobs are made, or none. What is said of one unit may
/// have any mode; `isolate` and `flush` have no meaning for several that others do not have.
pub fn enqueue_many(call: &mut Invocation<'_>) -> Out {
    let names = call.body.strs()?;
    let (verb, mode) = (verb_of(call.body.str()?)?, refusals::job_mode(call.body.str()?)?);
    if call.body.u64()? != 0 {
        return refuse("Invalid flags parameter, must be 0.");
    }
    if names.is_empty() {
        return refuse("No units specified.");
    }
    if mode == JobMode::Isolate && names.len() > 1 {
        let text = "Isolating more than one unit is not supported.";
        return Err(BusError::not_supported(text).into());
    }
    if names.len() > UNITS_MAX {
        let text = format!("More than {UNITS_MAX} units are named.");
        return Err(BusError::limits_exceeded(text).into());
    }
    let (mut units, mut missing) = (Vec::with_capacity(names.len()), Vec::new());
    for name in names {
        let name = refusals::unit_name(name)?;
        match enqueue_verb(call, name.clone(), verb, mode, false)? {
            Step::Load(name) => missing.extend(name),
            _ => units.extend(call.view.lookup(&name)),
        }
    }
    if !missing.is_empty() {
        return Ok(Step::Load(missing));
    }
    let mut seen = BTreeSet::new();
    units.retain(|unit| seen.insert(*unit));
    let (job_type, reload_if_possible) = (verb.job_type, verb.reload_if_possible);
    if let ([unit], JobMode::Isolate | JobMode::Flush) = (&units[..], mode) {
        let unit = call.view.definition(*unit).name.clone();
        let question = Call::Enqueue { unit, job_type, mode, reload_if_possible };
        return Ok(Step::Ask(question, Then::JobsOf));
    }
    Ok(Step::Ask(Call::EnqueueMany { units, job_type, mode, reload_if_possible }, Then::JobsOf))
}

/// Kill and KillUnit: whom, signal.
pub fn kill(call: &mut Invocation<'_>, unit: UnitId) -> Out {
    let (whom, must_hit) = refusals::kill_whom(call.body.str()?)?;
    let signal = refusals::signal(call.body.i32()?)?;
    if !has_processes(call.view.definition(unit).unit_type()) {
        return Err(BusError::not_supported("Operation not supported").into());
    }
    has_process(call, unit, whom)?;
    if must_hit && !has_any_process(call, unit) {
        return Err(BusError::no_such_process("No matching processes to kill").into());
    }
    Ok(Step::Ask(Call::Kill { unit, whom, signal }, Then::Nothing))
}

/// Freeze, FreezeUnit and their opposites.
pub fn freeze(unit: UnitId, frozen: bool) -> Out {
    Ok(Step::Ask(Call::Freeze { unit, frozen }, Then::Nothing))
}

/// Abandon and AbandonScope.
pub fn abandon(call: &Invocation<'_>, unit: UnitId) -> Out {
    let definition = call.view.definition(unit);
    if definition.unit_type() != UnitType::Scope {
        let text = format!("Unit {} is not a scope unit.", definition.name);
        return Err(BusError::invalid_args(text).into());
    }
    Ok(Step::Ask(Call::AbandonScope(unit), Then::Nothing))
}

/// AttachProcesses and AttachProcessesToUnit: a cgroup below the unit's, or nothing, and processes.
pub fn attach(call: &mut Invocation<'_>, unit: UnitId) -> Out {
    let (subgroup, mut pids) = (call.body.str()?, call.body.array(b'u', |r| r.u32())?);
    pids.iter_mut().filter(|pid| **pid == 0).for_each(|pid| *pid = call.peer_pid);
    let subgroup = normal_subgroup(subgroup)?;
    if !matches!(call.view.definition(unit).unit_type(), UnitType::Service | UnitType::Scope) {
        let text = "Processes can be attached to services and scopes only.";
        return Err(BusError::invalid_args(text).into());
    }
    if call.view.run(unit).active_state().is_down() {
        let text = "Unit not running, cannot attach processes.";
        return Err(BusError::unit_inactive(text).into());
    }
    Ok(Step::Ask(Call::Attach { unit, subgroup, pids }, Then::Nothing))
}

/// The path of a cgroup below a unit's, without a slash before it; empty for that itself.
fn normal_subgroup(subgroup: &str) -> Result<String, BusError> {
    let below = subgroup.trim_start_matches('/');
    let is_normal = |part: &str| !matches!(part, "" | "." | "..");
    match subgroup.is_empty() || below.split('/').all(is_normal) {
        true => Ok(below.to_owned()),
        false => {
            let text = format!("Control group path not normalized: {subgroup}");
            Err(BusError::invalid_args(text))
        }
    }
}

/// KillSubgroup and KillUnitSubgroup: whom, a cgroup below the unit's, signal. The cgroup says which processes are meant.
pub fn kill_subgroup(call: &mut Invocation<'_>, unit: UnitId) -> Out {
    let (whom, subgroup) = (call.body.str()?, normal_subgroup(call.body.str()?)?);
    let signal = refusals::signal(call.body.i32()?)?;
    let must_hit = match whom {
        "" | "cgroup" | "all" => false,
        "cgroup-fail" | "all-fail" => true,
        _ => return refuse("With a subgroup, only all of its processes can be killed."),
    };
    if subgroup.is_empty() {
        return refuse("The subgroup is the unit's own control group.");
    }
    if !has_processes(call.view.definition(unit).unit_type()) {
        return Err(BusError::not_supported("Operation not supported").into());
    }
    Ok(Step::Ask(Call::KillSubgroup { unit, subgroup, signal, must_hit }, Then::Nothing))
}

/// RemoveSubgroup and RemoveSubgroupFromUnit: a cgroup below the unit's, and no flags.
pub fn remove_subgroup(call: &mut Invocation<'_>, unit: UnitId) -> Out {
    let subgroup = normal_subgroup(call.body.str()?)?;
    if call.body.u64()? != 0 {
        return refuse("Flags must be zero.");
    }
    if subgroup.is_empty() {
        return refuse("The subgroup is the unit's own control group.");
    }
    Ok(Step::Ask(Call::RemoveSubgroup { unit, subgroup }, Then::Nothing))
}

/// QueueSignal and QueueSignalUnit: whom, signal, value (systemctl(1), `--kill-value=`).
pub fn queue_signal(call: &mut Invocation<'_>, unit: UnitId) -> Out {
    let (whom, must_hit) = refusals::kill_whom(call.body.str()?)?;
    let signal = refusals::signal(call.body.i32()?)?;
    let value = call.body.i32()?;
    if signal < SIGRTMIN {
        return refuse("Value parameter only accepted for realtime signals.");
    }
    if !has_processes(call.view.definition(unit).unit_type()) {
        return Err(BusError::not_supported("Operation not supported").into());
    }
    has_process(call, unit, whom)?;
    let run = call.view.run(unit);
    if must_hit && run.main_process().is_none() && run.control_pid().is_none() {
        return Err(BusError::no_such_process("No matching processes to kill").into());
    }
    Ok(Step::Ask(Call::QueueSignal { unit, whom, signal, value }, Then::Nothing))
}

/// DumpFileDescriptorStore and DumpUnitFileDescriptorStore.
pub fn dump_stored(call: &Invocation<'_>, unit: UnitId) -> Out {
    if call.view.definition(unit).unit_type() != UnitType::Service {
        return refuse("Unit is not of type .service");
    }
    Ok(Step::Ask(Call::DumpStoredFds(unit), Then::StoredFds))
}

/// BindMount, MountImage and their relatives of the manager: source, destination, whether it is read-only, whether the
/// destination is made; options of an image.
pub fn mount_into(call: &mut Invocation<'_>, unit: UnitId, is_image: bool) -> Out {
    let (source, destination) = (call.body.str()?, call.body.str()?);
    let (read_only, makes) = (call.body.bool()?, call.body.bool()?);
    let mut options = Vec::new();
    if is_image {
        call.body.array(b'(', |body| {
            body.align(8)?;
            options.push((body.str()?.to_owned(), body.str()?.to_owned()));
            Ok(())
        })?;
    }
    if call.view.definition(unit).unit_type() != UnitType::Service {
        return refuse("Unit is not of type .service");
    }
    if !is_normal_path(source) {
        return refuse("Source path must be absolute and normalized.");
    }
    // What is bound without a place is seen where it is.
    let destination = if destination.is_empty() && !is_image { source } else { destination };
    if !is_normal_path(destination) {
        return refuse("Destination path must be absolute and normalized.");
    }
    if options.len() > IMAGE_OPTIONS_MAX {
        return refuse("An image has no such number of parts.");
    }
    if call.view.run(unit).main_process().is_none() {
        return refuse("Unit is not running");
    }
    let mount = MountInto {
        source: source.to_owned(),
        destination: destination.to_owned(),
        read_only,
        makes,
        image: is_image.then_some(options),
    };
    Ok(Step::Ask(Call::MountInto { unit, mount: Box::new(mount) }, Then::Nothing))
}

/// Options of parts of an image in one call.
const IMAGE_OPTIONS_MAX: usize = 64;

/// An absolute path of one way of writing it, but for a slash at its end.
fn is_normal_path(path: &str) -> bool {
    let below = path.strip_prefix('/').map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    let is_normal = |part: &str| !matches!(part, "" | "." | "..");
    below.is_some_and(|rest| rest.is_empty() || rest.split('/').all(is_normal))
}

/// SetProperties and SetUnitProperties: whether only until the next boot, and what.
pub fn set_properties(call: &mut Invocation<'_>, unit: UnitId) -> Out {
    let runtime = call.body.bool()?;
    let definition = call.view.definition(unit);
    let properties = transient::read(definition.unit_type(), &mut call.body)?;
    if let Some(name) = properties.fault_of_live() {
        let text = format!("Cannot set property {name}, or unknown property.");
        return Err(BusError::read_only(text).into());
    }
    if definition.load_state != LoadState::Loaded {
        return Err(refusals::of_load_state(definition)
            .unwrap_or_else(|| refusals::not_found(definition.name.as_str()))
            .into());
    }
    if let Some(change) = properties.markers {
        if !properties.written.is_empty() {
            return refuse("Markers are set in a call of their own.");
        }
        return Ok(Step::Ask(Call::SetMarkers { unit, change }, Then::Nothing));
    }
    let dropins = properties.written.iter().map(|written| (written.name, written.dropin()));
    let dropins = dropins.collect();
    let unit = definition.name.clone();
    Ok(Step::Ask(Call::SetProperties { unit, runtime, dropins }, Then::Nothing))
}

/// Whether units of this type can have processes, in a group or of commands that run for them.
fn has_processes(unit_type: UnitType) -> bool {
    use UnitType::{Mount, Scope, Service, Slice, Socket, Swap};
    matches!(unit_type, Service | Socket | Mount | Swap | Slice | Scope)
}

fn has_process(call: &Invocation<'_>, unit: UnitId, whom: KillWhom) -> Result<(), BusError> {
    let unit_type = call.view.definition(unit).unit_type();
    let run = call.view.run(unit);
    let has_main = unit_type == UnitType::Service;
    let has_control = matches!(
        unit_type,
        UnitType::Service | UnitType::Socket | UnitType::Mount | UnitType::Swap
    );
    let text = match whom {
        KillWhom::Main if !has_main => format!("{unit_type} units have no main processes"),
        KillWhom::Main if run.main_process().is_none() => "No main process to kill".to_owned(),
        KillWhom::Control if !has_control => format!("{unit_type} units have no control processes"),
        KillWhom::Control if run.control_pid().is_none() => "No control process to kill".to_owned(),
        _ => return Ok(()),
    };
    Err(BusError::no_such_process(text))
}

/// Without cgroups only those that the manager has started itself are known.
fn has_any_process(call: &Invocation<'_>, unit: UnitId) -> bool {
    let run = call.view.run(unit);
    run.main_process().is_some()
        || run.control_pid().is_some()
        || !call.backend.processes(unit).is_empty()
}

/// Clean and CleanUnit: which kinds of directories. A timer has the file with the time of its last run.
pub fn clean(call: &mut Invocation<'_>, unit: UnitId) -> Out {
    let mut kinds = Vec::new();
    for word in call.body.strs()? {
        match CleanKind::ALL.into_iter().find(|kind| kind.as_str() == word) {
            Some(kind) => kinds.push(kind),
            None if word == "all" => kinds.extend(CleanKind::ALL),
            // What a service leaves with the manager is not kept for one that is down.
            None if word == "fdstore" => {}
            None => return refuse(&format!("Invalid resource type: {word}")),
        }
    }
    let definition = call.view.definition(unit);
    match definition.unit_type() {
        UnitType::Service => Ok(Step::Ask(Call::Clean { unit, kinds }, Then::Nothing)),
        UnitType::Timer => forget_stamp(call, unit, &kinds),
        _ => {
            let text = format!("Unit '{}' does not support cleaning.", definition.name);
            Err(BusError::not_supported(text).into())
        }
    }
}

fn forget_stamp(call: &Invocation<'_>, unit: UnitId, kinds: &[CleanKind]) -> Out {
    let run = call.view.run(unit);
    if run.active_state() != ActiveState::Inactive || run.job.is_some() {
        return Err(BusError::from(CoreRefusal::NotAtRest).into());
    }
    let is_stamped = matches!(
        &call.backend.compiled(call.view.definition(unit)).own,
        TypeSettings::Timer(config) if config.persistent
    );
    match is_stamped && kinds.contains(&CleanKind::State) {
        true => Ok(Step::Ask(Call::ForgetStamp(unit), Then::Nothing)),
        false => Err(BusError::from(CoreRefusal::NothingToClean).into()),
    }
}

/// GetProcesses and GetUnitProcesses.
pub fn processes(call: &Invocation<'_>, unit: UnitId) -> Out {
    let mut w = Writer::default();
    w.array(b'(', |w| {
        for (group, pid, command) in call.backend.processes(unit) {
            w.structure().str(&group).u32(pid).str(&command);
        }
    });
    Ok(Step::Reply(w))
}
