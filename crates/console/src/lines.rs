//! The news as plain lines, for a screen reader, a log or a terminal without a cursor: a change a line. Pure.

use std::collections::BTreeSet;

use warren_wire::control::{ActiveState, OverviewAnswer};

use crate::model::{Model, Unit};
use crate::text::plain;

/// Lines for one answer: of more it is said how many there are.
const LINES_MAX: usize = 50;

/// Root causes in the first lines, and as many jobs that wait.
const CAUSES_MAX: usize = 20;

/// What there is to say at the begin: how many units, what has failed with its root causes, and what waits for what.
pub fn first(model: &Model) -> Vec<String> {
    let top = &model.top;
    let mut lines = vec![format!(
        "{} units: {} up, {} failed; {} jobs. Each change follows, Ctrl-C ends.",
        top.loaded, top.active, top.failed_total, top.jobs
    )];
    let causes = model.root_causes();
    for (name, held_back) in causes.iter().take(CAUSES_MAX) {
        let Some(unit) = model.units.get(name) else { continue };
        let blocks = match held_back.len() {
            0 => String::new(),
            count => format!("; it blocks {count} units"),
        };
        lines.push(format!("{} failed: {}{blocks}", plain(name), plain(model.reason(unit))));
    }
    if let Some(more) = causes.len().checked_sub(CAUSES_MAX).filter(|more| *more > 0) {
        lines.push(format!("and {more} more root causes"));
    }
    for job in top.job_rows.iter().take(CAUSES_MAX) {
        let Some(on) = job.waits_on.as_deref().filter(|_| job.waits_for > 0) else { continue };
        let (unit, kind, on) = (plain(&job.unit), plain(job.kind.as_str()), plain(on));
        lines.push(format!("{unit} waits to {kind} for {on}"));
    }
    lines
}

/// What an answer changes of what was known: called before the model takes it. One of all units also tells which are
/// gone: a unit that nothing needs may be forgotten before it is told that it went down.
pub fn changes(model: &Model, answer: &OverviewAnswer, is_all: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut more = 0;
    for row in &answer.rows {
        let known = model.units.get(&*row.name);
        let differs = |unit: &Unit| {
            unit.active != row.active || *unit.sub != *row.sub || unit.restarts != row.restarts
        };
        if !known.is_none_or(differs) || (known.is_none() && row.active == ActiveState::Inactive) {
            continue;
        }
        if lines.len() == LINES_MAX {
            more += 1;
            continue;
        }
        let restarted = known.filter(|unit| row.restarts > unit.restarts);
        let restarted =
            restarted.map_or(String::new(), |_| format!(", restarted {} times", row.restarts));
        let why = match row.active {
            ActiveState::Failed | ActiveState::Inactive | ActiveState::Deactivating => {
                answer.texts.get(row.code.as_str())
            }
            _ => None,
        };
        let why = why.map_or(String::new(), |why| format!(": {}", plain(why)));
        let blocked = row.cause.as_deref().filter(|_| row.active == ActiveState::Failed);
        let cause = blocked.map_or(String::new(), |cause| format!(" (through {})", plain(cause)));
        let (name, active, sub) = (plain(&row.name), plain(row.active.as_str()), plain(&row.sub));
        let state = if active == sub { active.into_owned() } else { format!("{active}, {sub}") };
        lines.push(format!("{name} {state}{restarted}{why}{cause}"));
    }
    let told: BTreeSet<&str> = answer.rows.iter().map(|row| &*row.name).collect();
    let known = model.units.iter().filter(|_| is_all);
    let was_up = |unit: &Unit| !matches!(unit.active, ActiveState::Inactive);
    for (name, _) in known.filter(|(name, unit)| was_up(unit) && !told.contains(&***name)) {
        match lines.len() < LINES_MAX {
            true => lines.push(format!("{} gone", plain(name))),
            false => more += 1,
        }
    }
    if more > 0 {
        lines.push(format!("and {more} more units changed"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use warren_wire::control::{OverviewRow, TopJob};

    use super::*;

    fn row(name: &str, active: &str, sub: &str, restarts: u32) -> OverviewRow {
        let (name, sub) = (name.to_owned(), sub.to_owned());
        let code = "WR-0040".to_owned().into();
        OverviewRow { name, active: active.into(), sub, restarts, code, ..OverviewRow::default() }
    }

    fn answer(rows: Vec<OverviewRow>) -> OverviewAnswer {
        let texts = [("WR-0040".to_owned(), "it \x1b[2Jleft".to_owned())].into();
        OverviewAnswer { rows, texts, ..OverviewAnswer::default() }
    }

    #[test]
    fn a_change_is_a_line_and_what_did_not_change_is_none() {
        let mut model = Model::default();
        model.take_overview(answer(vec![row("a.service", "active", "running", 0)]), true);
        let same = answer(vec![row("a.service", "active", "running", 0)]);
        assert_eq!(changes(&model, &same, true), Vec::<String>::new());
        let news = answer(vec![
            row("a.service", "failed", "failed", 0),
            row("b.service", "activating", "start", 0),
            row("idle.service", "inactive", "dead", 0),
        ]);
        let expected = ["a.service failed: it  [2Jleft", "b.service activating, start"];
        assert_eq!(changes(&model, &news, false), expected);
        let again = answer(vec![row("a.service", "active", "running", 3)]);
        assert_eq!(
            changes(&model, &again, false),
            ["a.service active, running, restarted 3 times"]
        );
        assert_eq!(changes(&model, &answer(Vec::new()), true), ["a.service gone"]);
    }

    #[test]
    fn a_storm_is_a_bounded_number_of_lines() {
        let rows =
            (0..5000).map(|n| row(&format!("u{n}.service"), "failed", "failed", 0)).collect();
        let lines = changes(&Model::default(), &answer(rows), true);
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert_eq!(lines[LINES_MAX], "and 4950 more units changed");
    }

    #[test]
    fn the_first_lines_have_the_root_causes() {
        let mut model = Model::default();
        let held = OverviewRow {
            cause: Some("db.service".into()),
            ..row("web.service", "failed", "failed", 0)
        };
        model.take_overview(answer(vec![row("db.service", "failed", "failed", 0), held]), true);
        let (unit, waits_on) = ("a.service".to_owned(), Some("b.mount".to_owned()));
        model.top.job_rows = vec![TopJob {
            unit,
            kind: "start".into(),
            waits_for: 1,
            waits_on,
            ..TopJob::default()
        }];
        let lines = first(&model);
        let expected = [
            "db.service failed: it  [2Jleft; it blocks 1 units",
            "a.service waits to start for b.mount",
        ];
        assert_eq!(lines[1..], expected);
    }
}
