//! Why units are as they are: from each unit along what explains it, down to what nothing else
//! explains. All of it comes from the reasons that the machine keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use warren_bus::backend::Backend;
use warren_core::features::cleanup;
use warren_core::model::active_state::ActiveState::{Activating, Deactivating, Reloading};
use warren_core::model::admin_marks::Marked;
use warren_core::model::ids::UnitId;
use warren_core::model::job::{Job, JobKind, JobResult};
use warren_core::model::process::Outcome;
use warren_core::model::reason::{Cause, Code, Reason};
use warren_core::model::state::{CommandEnd, History, LostJob, Tested};
use warren_core::model::time::Monotonic;
use warren_core::protocol::request::Asker;
use warren_core::view::View;
use warren_unit::{Loaded, Relation, UnitType};
use warren_wire::control::{
    self as wire, Refusal, Removal, UnderWay, Why, WhyAnswer, WhyStep, WhyUnit,
};

use crate::base::clock::now;
use crate::base::unmet;
use crate::control::answer::{
    Answered, all_log_tails, cause, diagnostic, find, log_tail, log_tails, micros, moment, name,
    planned, reason, row, rules_of,
};
use crate::control::caller::{Caller, is_privileged};
use crate::control::condition_probe::Looks;
use crate::control::device_report;
use crate::control::held_starts;
use crate::control::load_errors;
use crate::control::restarts;
use crate::control::rules_user;
use crate::control::timers;
use crate::peer::log_tail::Tails;
use crate::published::shared::Shared;
use crate::shutdown::sweep;
use crate::shutdown::waits;

/// Units that are looked at for what one unit holds back.
const IMPACT_MAX: usize = 10_000;

/// A start, stop or reload that takes longer is told of though nobody waits for it.
const LONG_JOB: Duration = Duration::from_secs(2);

/// Further units that one waits for and that are named.
const BLOCKERS_MAX: usize = 5;

/// What stands for the unit in the texts of cures.
const UNIT: &str = "UNIT";

/// What ends the wait for a unit when everything is stopped.
const SKIP: &str = "if you do not want to wait for it: `warren shutdown skip UNIT`";

/// What an answer is made with.
struct WhyContext<'a> {
    shared: &'a Arc<Shared>,
    asker: Asker,
    /// Nobody for who may not read the log.
    tails: Option<Tails<'a>>,
    /// For who may read the logs of units that rules make, and no others.
    tails_of_rules: Option<Tails<'a>>,
    looks: Looks<'a>,
}

/// What stood in the way of a unit, in the words of its file.
struct UnmetCondition {
    /// Nothing where that did not turn out in time.
    now: Option<Vec<String>>,
    then: Vec<String>,
}

/// Answers `Why`: one unit, or all trouble by its root causes, those that hold back most first.
pub(crate) fn why(request: &Why, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<WhyAnswer> {
    let asker = caller.asker;
    let (tails, looks) = (log_tails(shared, asker), Looks::new(shared));
    let is_of_rules = tails.is_none() && rules_user::reads_logs_of_rules(asker);
    let tails_of_rules = is_of_rules.then(|| all_log_tails(shared));
    let mut asked = WhyContext { shared, asker, tails, tails_of_rules, looks };
    let view = shared.view();
    let log_withheld = Some(!is_privileged(asker));
    if let Some(unit) = request.unit.as_deref() {
        let unit = find(&view, Some(unit))?;
        let units = vec![one(&view, &mut asked, unit)];
        return Ok(WhyAnswer { units, log_withheld, ..WhyAnswer::default() });
    }
    let mut roots: Vec<(UnitId, BTreeSet<UnitId>)> =
        roots(&view, now().monotonic).into_iter().collect();
    roots.sort_by_key(|(root, held)| (std::cmp::Reverse(held.len()), view.graph.name(*root)));
    let units = roots.iter().map(|(root, held)| cause_of(&view, &mut asked, *root, held)).collect();
    let waits = match view.is_going_down() {
        true => waits::answers(shared, &view, now().monotonic),
        false => Vec::new(),
    };
    Ok(WhyAnswer {
        units,
        log_withheld,
        stopping: Some(view.is_going_down()),
        waits: Some(waits),
        unwritten_bytes: Some(waits::unwritten_bytes(&view)),
        planned: Some(shared.plan().as_ref().map(planned)),
        inhibitors: Some(crate::published::locks::answers(&shared.locks())),
    })
}

/// One unit with the path to its root cause.
fn one(view: &View, asked: &mut WhyContext<'_>, unit: UnitId) -> WhyUnit {
    let path = path(view, unit).into_iter().map(|unit| explained(view, asked, unit)).collect();
    let impact = names(view, &held_back(view, unit));
    WhyUnit { unit: name(view, unit), path, impact }
}

/// A root cause with all that it holds back.
fn cause_of(
    view: &View,
    asked: &mut WhyContext<'_>,
    root: UnitId,
    held: &BTreeSet<UnitId>,
) -> WhyUnit {
    let path = vec![explained(view, asked, root)];
    WhyUnit { unit: name(view, root), path, impact: names(view, held) }
}

/// Every unit in trouble, under what explains it.
fn roots(view: &View, now: Monotonic) -> BTreeMap<UnitId, BTreeSet<UnitId>> {
    let mut roots: BTreeMap<UnitId, BTreeSet<UnitId>> = BTreeMap::new();
    let mut add = |of: UnitId, unit: UnitId| {
        let root = path(view, of).pop().unwrap_or(of);
        let held = roots.entry(root).or_insert_with(|| held_back(view, root));
        if unit != root {
            held.insert(unit);
        }
    };
    for unit in view.graph.definitions().map(|d| d.id).filter(|&unit| in_trouble(view, unit, now)) {
        add(unit, unit);
        // Each of those that it waits for has to end.
        view.blockers(unit).filter(|&other| view.is_at_work(other)).for_each(|o| add(o, unit));
    }
    roots
}

fn in_trouble(view: &View, unit: UnitId, now: Monotonic) -> bool {
    let waits = view.waited_for(unit).is_some();
    let history = view.run(unit).history.as_deref();
    let refused = history.is_some_and(|h| h.reason.code.is_refusal());
    let is_down = view.active_state(unit).is_down();
    let is_lost = history.and_then(|h| h.lost_job).is_some_and(|lost| is_lost_start(&lost));
    let is_unusable = || match view.reason(unit).code {
        Code::AssertFailed => true,
        // Nobody misses it whom no unit wants.
        Code::BadSetting => is_wanted(view, unit),
        _ => false,
    };
    let fails = view.active_state(unit).as_str() == "failed";
    let is_long = view.job(unit).is_some_and(|j| j.running && now.since(j.since) >= LONG_JOB);
    fails
        || waits
        || is_long
        || is_down && (refused || is_lost || is_unusable())
        || restarts::is_unsteady(view, unit, now)
}

/// Whether the job was a start that came to nothing for what the unit needs, and nobody has taken away.
fn is_lost_start(lost: &LostJob) -> bool {
    let starts = matches!(lost.kind, JobKind::Start | JobKind::Restart);
    let fails = matches!(
        lost.result,
        JobResult::Dependency | JobResult::Assert | JobResult::Timeout | JobResult::Invalid
    );
    starts && fails
}

/// Whether a unit that is up, or is to come up, pulls this one in.
fn is_wanted(view: &View, unit: UnitId) -> bool {
    let pulled_by = Loaded::PULLS_IN.iter().map(|relation| relation.inverse());
    let mut by = pulled_by.flat_map(|relation| view.graph.related(unit, relation));
    by.any(|other| !view.active_state(other).is_down())
}

/// The unit, then what explains it, and so on.
fn path(view: &View, unit: UnitId) -> Vec<UnitId> {
    let mut path = vec![unit];
    while let Some(next) = next_cause(view, path[path.len() - 1], &path) {
        path.push(next);
    }
    path
}

/// The unit that explains this one's state or waiting, if another does.
fn next_cause(view: &View, unit: UnitId, seen: &[UnitId]) -> Option<UnitId> {
    let told = told_reason(view, unit);
    let waited_for = view.waited_for(unit);
    // Who is up or comes up explains others by being there, not by who wanted it; and so does whose
    // own job has begun, or who is at a stop that everybody is at.
    let is_under_way = match view.active_state(unit) {
        Deactivating => view.is_going_down(),
        _ => view.is_at_work(unit),
    };
    let is_up = !view.active_state(unit).is_down() && waited_for.is_none();
    // Whoever is up was brought up: what else they wait for who asked for it has no part in that.
    if seen.len() > 1 && is_up_for_good(view, seen[0]) {
        return None;
    }
    let is_explanation = is_up && seen.len() > 1 || is_under_way;
    let by_reason = match told.cause {
        _ if is_explanation => None,
        // Whoever asked for one start too many did not make it end so often.
        _ if told.code == Code::StartLimit => None,
        // Nor did who asked for a start make a condition fail.
        _ if explains_itself(told.code) => None,
        Cause::Dependency(other) | Cause::Trigger(other) | Cause::Outcome(other) => Some(other),
        _ => None,
    };
    let by_trigger = || idle_trigger(view, unit, view.reason(unit).code);
    // Who waits for this one explains nothing of how far it is.
    let by_reason = by_reason.filter(|&other| view.waited_for(other) != Some(unit));
    waited_for
        .or(by_reason)
        .or_else(by_trigger)
        .filter(|other| !seen.contains(other) && view.graph.get(*other).is_some())
}

/// Whether the unit is up and nothing else is asked of it.
fn is_up_for_good(view: &View, unit: UnitId) -> bool {
    view.active_state(unit).is_up() && view.job(unit).is_none()
}

/// Whether the unit's own file is what kept it from being started.
fn explains_itself(code: Code) -> bool {
    use Code::{AssertFailed, BadSetting, ConditionFailed, Masked, NotSupported};
    matches!(code, ConditionFailed | AssertFailed | BadSetting | Masked | NotSupported)
}

/// What would have started a unit that nothing has asked for, had it not failed.
fn idle_trigger(view: &View, unit: UnitId, code: Code) -> Option<UnitId> {
    let mut triggers = view.graph.related(unit, Relation::TriggeredBy);
    triggers
        .find(|&other| view.active_state(other).as_str() == "failed")
        .filter(|_| code == Code::NeverStarted)
}

/// Conditions, or assertions, of a unit that was not started for them: those that are not met now, and
/// those that were not then.
fn unmet(view: &View, asked: &mut WhyContext<'_>, unit: UnitId) -> Option<UnmetCondition> {
    let compiled = asked.shared.compiled(view.definition(unit));
    let history = view.run(unit).history.as_deref();
    let account = history.and_then(|history| history.account.as_deref());
    let (prefix, list, tested) = match view.reason(unit).code {
        Code::ConditionFailed => (
            unmet::CONDITION,
            &compiled.section.conditions,
            account.map(|account| &account.conditions),
        ),
        Code::AssertFailed => {
            (unmet::ASSERT, &compiled.section.asserts, account.map(|account| &account.asserts))
        }
        _ => return None,
    };
    let by_command = history.is_some_and(|history| history.outcome == Outcome::ExecCondition)
        && tested.is_none_or(|tested| tested.is_empty());
    if list.is_empty() || by_command {
        return None;
    }
    let now = asked.looks.at(list);
    // After an edit of the file the list may be another one.
    let then = tested.filter(|tested| tested.len() == list.len());
    let words = |tested: &[Tested]| unmet::words(prefix, list, tested);
    let then = then.map_or(Vec::new(), |tested| words(tested));
    Some(UnmetCondition { now: now.map(|now| words(&now)), then })
}

fn explained(view: &View, asked: &mut WhyContext<'_>, unit: UnitId) -> WhyStep {
    let empty = History::default();
    let history = view.run(unit).history.as_deref().unwrap_or(&empty);
    let definition = view.definition(unit);
    // What is in maintenance stays there though its fault is over: one thing clears it.
    let is_put_aside = view.run(unit).marked() == Some(Marked::Maintenance);
    let code = if is_put_aside { Code::Maintenance } else { told_reason(view, unit).code };
    let cure = if view.holds_up_the_end(unit) { SKIP } else { code.cure() };
    let unmet = unmet(view, asked, unit);
    // A command of an earlier run has nothing to do with it.
    let is_of_run = unmet.is_none();
    let (unmet, unmet_then) = unmet.map_or((None, None), |unmet| (unmet.now, Some(unmet.then)));
    let WhyContext { shared, tails, tails_of_rules, .. } = asked;
    let made_by = rules_of(shared, definition);
    let tails = if made_by.is_empty() || tails.is_some() { tails } else { tails_of_rules };
    let load_fault = load_errors::reason(asked.asker, shared, definition);
    let standing = device_report::standing(view, &shared.devices(), definition);
    let settings = shared.compiled(definition);
    let (main, command) = history.telling_ends(&settings);
    let waited_for = view.waited_for(unit);
    let others = view.blockers(unit).filter(|&other| Some(other) != waited_for);
    let (named, more): (Vec<UnitId>, usize) = first_of(others, BLOCKERS_MAX);
    WhyStep {
        row: row(view, definition),
        reason: wire::ReasonAnswer {
            cure: cure.replace(UNIT, definition.name.as_str()),
            ..reason(view, told_reason(view, unit))
        },
        unmet,
        unmet_then,
        load_fault: load_fault.as_ref().map(diagnostic),
        made_by,
        refusal: history.refusal.as_deref().map(|refusal| Refusal {
            text: refusal.text.clone(),
            by: cause(view, refusal.by),
            at: moment(refusal.at),
        }),
        detail: history.status_text.clone(),
        device: standing.or_else(|| device_report::taken_for_plugged_in(view, unit)),
        timer: timers::of_unit(view, unit),
        remarks: crate::control::comments::answers(view, shared, unit),
        ended: main.map(restarts::ended),
        command_ended: command.filter(|_| is_of_run).map(command_ended),
        restart: restarts::answer(view, shared, unit, now()),
        since: moment(history.state_change),
        result: history.outcome.as_str().to_owned(),
        under_way: under_way(view, shared, unit, now().monotonic),
        lost_job: history.lost_job.map(|job| lost_job(view, job)),
        waits_for: waited_for.map(|other| name(view, other)),
        waits_for_also: named.into_iter().map(|other| name(view, other)).collect(),
        waits_for_more: more,
        removal: removal(view, shared, unit),
        left_over: left_over(view, shared, unit),
        log: log_tail(tails, definition.name.as_str()),
    }
}

/// Processes of a service that is down: what `KillMode=` spared, or the kernel holds.
fn left_over(view: &View, shared: &Shared, unit: UnitId) -> Vec<String> {
    let is_service = view.graph.name(unit).unit_type() == UnitType::Service;
    if !is_service || !view.active_state(unit).is_down() {
        return Vec::new();
    }
    sweep::left_over(&shared.processes(view, unit))
}

/// The first of them, and how many more there are.
fn first_of(mut units: impl Iterator<Item = UnitId>, count: usize) -> (Vec<UnitId>, usize) {
    let first = units.by_ref().take(count).collect();
    (first, units.count())
}

/// What a start waits for that no job stands against: that something of the last run is removed, its own
/// or another unit's that lies in the same place.
fn removal(view: &View, shared: &Shared, unit: UnitId) -> Option<Removal> {
    let waits = |job: &Job| job.blockers == 0 && !job.running && !job.kind.is_stopping();
    if !view.job(unit).is_some_and(waits) {
        return None;
    }
    let is_cleared = |unit: UnitId| {
        view.run(unit).history.as_ref().is_some_and(|history| history.clearing.is_some())
    };
    let context = &shared.settings().context;
    let own = shared.compiled(view.definition(unit));
    if !cleanup::may_meet(&own, context) {
        return None;
    }
    let all = (0..view.units.len() as u32).map(UnitId);
    let met =
        std::iter::once(unit).chain(all).filter(|&other| is_cleared(other)).find_map(|other| {
            let removed = shared.compiled(view.definition(other));
            cleanup::met(&own, &removed, context).map(|path| (other, path))
        });
    met.map(|(other, path)| Removal {
        unit: name(view, other),
        path: path.to_string_lossy().into_owned(),
    })
}

fn command_ended(end: CommandEnd) -> String {
    restarts::ended_as(&format!("{}= command", end.list.setting()), end.ended)
}

/// The reason of the unit's state; of one that never began to start, that of the job which is to do so,
/// or which came to nothing.
fn told_reason(view: &View, unit: UnitId) -> Reason {
    let of_state = view.reason(unit);
    if of_state.code != Code::NeverStarted {
        return of_state;
    }
    let lost = view.run(unit).history.as_deref().and_then(|history| history.lost_job);
    let of_job = view.job(unit).map(|job| job.reason).or(lost.map(|job| job.reason));
    of_job.unwrap_or(of_state)
}

/// How long a unit is at its start, stop or reload, and how long yet until that is given up; nothing if
/// it is at none of them. One that waits for another has its job's time.
fn under_way(view: &View, shared: &Shared, unit: UnitId, now: Monotonic) -> Option<UnderWay> {
    let run = view.run(unit);
    let job = view.job(unit);
    let limit_of_job = job.and_then(|job| job.deadline);
    let is_between = matches!(run.active_state(), Activating | Deactivating | Reloading)
        && !restarts::waits(run);
    let (since, limit) = match (is_between, job) {
        (true, _) => {
            let limits = [waits::deadline(&run.state), limit_of_job];
            let changed = run.history.as_ref().map(|history| history.state_change.monotonic);
            (changed.unwrap_or(now), limits.into_iter().flatten().min())
        }
        (false, Some(job)) => (job.since, limit_of_job),
        (false, None) => return None,
    };
    let main = run.main_process().map(|process| process.pid);
    let pid = run.control_pid().or(main).filter(|_| is_between);
    let server = waits::server(view, unit).filter(|_| is_between);
    Some(UnderWay {
        so_far_us: micros(now.since(since)),
        left_us: limit.map(|at| micros(at.since(now))),
        process: pid.map(crate::base::process_name::process),
        server: server.or_else(|| held_starts::server(view, shared, unit)),
    })
}

fn lost_job(view: &View, job: LostJob) -> wire::LostJob {
    wire::LostJob {
        kind: job.kind.as_str().into(),
        result: job.result.as_str().into(),
        at: moment(job.at),
        reason: reason(view, job.reason),
    }
}

/// Units that cannot be up without this one, directly or through others, are not, and were to be.
fn held_back(view: &View, unit: UnitId) -> BTreeSet<UnitId> {
    const STAYING: [Relation; 2] = [Relation::BoundBy, Relation::RequisiteOf];
    const NEEDED_BY: [Relation; 4] =
        [Relation::RequiredBy, Relation::MountsForOf, STAYING[0], STAYING[1]];
    let mut held = BTreeSet::new();
    if view.active_state(unit).is_up() {
        return held;
    }
    // Who has done what it was started for keeps nobody from starting but those for whom it is to stay up.
    let is_through = matches!(view.reason(unit).code, Code::Finished | Code::Unneeded);
    let mut to_do = vec![unit];
    while let Some(next) = to_do.pop() {
        let relations = if next == unit && is_through { &STAYING[..] } else { &NEEDED_BY[..] };
        for other in relations.iter().flat_map(|&r| view.graph.related(next, r)) {
            let counts = other != unit && is_kept_down(view, other);
            if counts && held.len() < IMPACT_MAX && held.insert(other) {
                to_do.push(other);
            }
        }
    }
    held
}

/// Whether the unit is down though it was to be up: its start waits, came to nothing or was refused, or it
/// went down with what it needs.
fn is_kept_down(view: &View, unit: UnitId) -> bool {
    let history = view.run(unit).history.as_deref();
    let by_another = |lost: &LostJob| {
        is_lost_start(lost) && matches!(lost.result, JobResult::Dependency | JobResult::Timeout)
    };
    let is_lost = history.and_then(|h| h.lost_job).is_some_and(|lost| by_another(&lost));
    let code = view.reason(unit).code;
    let went_with_it = matches!(code, Code::StoppedWithDependency | Code::BoundUnitGone);
    let is_asked = view.job(unit).is_some_and(|job| !job.kind.is_stopping());
    view.active_state(unit).is_down() && (is_asked || is_lost || went_with_it || code.is_refusal())
}

fn names(view: &View, units: &BTreeSet<UnitId>) -> Vec<String> {
    let mut names: Vec<String> =
        units.iter().map(|&unit| view.graph.name(unit).to_string()).collect();
    names.sort();
    names
}
