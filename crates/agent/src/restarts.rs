//! Units that end and are started again by themselves, since the rules in force were applied: a service in such a loop
//! never counts as failed. Units of rules that files of the host hide are learnt from the same answers.
//!
//! - Owns: what the manager has counted of restarts, as far as it was asked.
//! - Must not: say of a unit that it does well.
//! - Runs on the thread of its caller. Start at [`Restarts::report`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use warren_hosts::host::{HIDDEN_MAX, Hidden, RESTARTED_MAX, Restarted};
use warren_wire::control::{ActiveState, OverviewAnswer, OverviewRow, ReasonCode, StatusAnswer};

use crate::manager::{Manager, without_number};
use crate::rules;

/// A unit that was started again counts for so long after it, µs.
const STAYS: u64 = 600_000_000;

/// A unit that ends by itself with success and is started again is a loop from so many times on, ...
const CLEAN_MIN: u32 = 3;

/// ... if it does so this often on average, µs. A login on a console, or a job written that way, does not.
const CLEAN_EVERY: u64 = 60_000_000;

/// The agent asks the manager how so many units ended. All restarts of further ones count.
const ASKED_MAX: usize = 64;

/// The agent's own unit: its restarts do not make the release fail.
const OWN_UNIT: &str = "warren-agent.service";

/// The agent keeps the earlier counts of so many units. Further ones count from 0.
const BEFORE_MAX: usize = 1_000;

/// What the manager had counted when the rules in force were applied.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Before {
    /// When that was, µs since 1970.
    pub at: u64,
    /// How often each unit had been started again; those that never were are left out.
    counts: BTreeMap<String, u32>,
}

/// A unit that was started again, or waits for it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    /// How often, since somebody asked for it.
    times: u32,
    /// Since when it is in its state, µs since 1970.
    since: u64,
    waits: bool,
    app: String,
    code: ReasonCode,
}

/// What the manager has counted of restarts.
#[derive(Debug, Default)]
pub struct Restarts {
    /// When it was asked last, µs on its clock, and for which units.
    asked: Option<(u64, u32)>,
    rows: BTreeMap<String, Row>,
    /// Units of rules that files of the host hide, and by which.
    hidden: BTreeMap<String, String>,
}

impl Restarts {
    /// Units of rules that files of the host hide: the first ones, and how many there are besides.
    pub fn hidden(&self) -> (Vec<Hidden>, u32) {
        let hidden = |(unit, by): (&String, &String)| Hidden { unit: unit.clone(), by: by.clone() };
        let first: Vec<Hidden> = self.hidden.iter().take(HIDDEN_MAX).map(hidden).collect();
        let more = (self.hidden.len() - first.len()) as u32;
        (first, more)
    }

    /// Asks the manager for what has changed.
    ///
    /// # Errors
    /// It does not answer: what is known stands.
    pub fn refresh(&mut self, manager: &Manager) -> Result<(), String> {
        if let Some((since, set)) = self.asked {
            let answer = manager.overview(Some(since))?;
            if answer.set == set {
                self.note(answer);
                return Ok(());
            }
        }
        // Units have come or gone.
        let answer = manager.overview(None)?;
        self.rows.clear();
        self.hidden.clear();
        self.note(answer);
        Ok(())
    }

    fn note(&mut self, answer: OverviewAnswer) {
        let OverviewAnswer { now_us, set, targets, rows, .. } = answer;
        self.asked = Some((now_us, set));
        for row in rows {
            match &row.hidden_by {
                Some(by) => self.hidden.insert(row.name.clone(), by.clone()),
                None => self.hidden.remove(&row.name),
            };
            match counted(&row, &targets) {
                Some(counted) => self.rows.insert(row.name, counted),
                None => self.rows.remove(&row.name),
            };
        }
    }

    /// What is counted now, to count from later; `now` in µs since 1970.
    pub fn before(&self, now: u64) -> Before {
        let counted = self.rows.iter().filter(|(_, row)| row.times > 0).take(BEFORE_MAX);
        Before { at: now, counts: counted.map(|(unit, row)| (unit.clone(), row.times)).collect() }
    }

    /// Units that are started again and again, the most often first, and how many further ones there are. How each of
    /// them ended last is asked of the manager.
    pub fn report(&self, manager: &Manager, before: &Before, now: u64) -> (Vec<Restarted>, u32) {
        let all = self.since(before, now);
        let asked = all.iter().take(ASKED_MAX);
        let asked = asked.map(|(unit, times, row)| {
            let status = manager.status(unit).unwrap_or_default();
            let (code, ended) = last_end(row, &status);
            let restarted = Restarted {
                unit: (*unit).to_owned(),
                app: row.app.clone(),
                times: *times,
                code: code.to_string(),
                ended,
                log: manager.last_line(&status.log),
                last: row.since,
            };
            (is_trouble(&code, *times, before, now), restarted)
        });
        let in_trouble = asked.filter(|(is_trouble, _)| *is_trouble);
        let mut named: Vec<Restarted> = in_trouble.map(|(_, restarted)| restarted).collect();
        let more = named.split_off(named.len().min(RESTARTED_MAX)).len();
        (named, (more + all.len().saturating_sub(ASKED_MAX)) as u32)
    }

    /// Units that were started again since then and not long ago, or wait for it, with how often.
    fn since(&self, before: &Before, now: u64) -> Vec<(&str, u32, &Row)> {
        let of = |(unit, row): (&'_ String, &'_ Row)| {
            let counted = before.counts.get(unit).copied().unwrap_or_default();
            // A manager that was asked to start it has counted from 0 on.
            row.times.checked_sub(counted).unwrap_or(row.times)
        };
        let mut all: Vec<(&str, u32, &Row)> =
            self.rows.iter().map(|entry| (entry.0.as_str(), of(entry), entry.1)).collect();
        all.retain(|(_, times, row)| {
            row.waits || *times > 0 && now.saturating_sub(row.since) < STAYS
        });
        all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all
    }
}

/// What is counted of a unit: nothing of one that is not started again, or has failed and stays so.
fn counted(row: &OverviewRow, targets: &[String]) -> Option<Row> {
    let waits = row.sub == "auto-restart";
    if row.name == OWN_UNIT || row.active == ActiveState::Failed || !waits && row.restarts == 0 {
        return None;
    }
    let target = row.target.and_then(|at| targets.get(at as usize));
    Some(Row {
        times: row.restarts,
        since: row.since_us.unwrap_or_default(),
        waits,
        app: rules::app(&row.name, target.map(String::as_str)).to_owned(),
        code: row.code.clone(),
    })
}

/// By which reason, and how, a unit ended last.
fn last_end(row: &Row, status: &StatusAnswer) -> (ReasonCode, String) {
    let before = status.restart.as_ref().and_then(|restart| restart.before.as_ref());
    let (code, ended, text) = match before.filter(|_| !row.waits) {
        Some(before) => (&before.reason.code, before.ended.as_deref(), &*before.reason.text),
        None => (&row.code, status.ended.as_deref(), &*status.reason.text),
    };
    let ended = ended.map_or_else(|| text.to_owned(), without_number);
    (code.clone(), ended)
}

/// Whether a unit that ended so and was started again is in trouble: one that ended with success only if it does so in
/// a row.
fn is_trouble(code: &ReasonCode, times: u32, before: &Before, now: u64) -> bool {
    let elapsed = now.saturating_sub(before.at);
    let is_loop = times >= CLEAN_MIN && u64::from(times).saturating_mul(CLEAN_EVERY) >= elapsed;
    *code != ReasonCode::FINISHED || is_loop
}

#[cfg(test)]
mod tests {
    use warren_wire::control::{ReasonAnswer, RestartAnswer, RestartBefore};

    use super::*;

    const MINUTE: u64 = 60_000_000;

    /// `NAME SUB TIMES SINCE`, SINCE in minutes.
    fn rows(text: &str) -> Restarts {
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<u64>().expect("a number");
            OverviewRow {
                name: words[0].to_owned(),
                active: if words[1] == "failed" {
                    ActiveState::Failed
                } else {
                    ActiveState::Active
                },
                sub: words[1].to_owned(),
                restarts: number(2) as u32,
                since_us: Some(number(3) * MINUTE),
                target: Some(0),
                ..OverviewRow::default()
            }
        };
        let mut restarts = Restarts::default();
        restarts.note(OverviewAnswer {
            targets: vec!["Container 'shop'".to_owned()],
            rows: text.lines().map(row).collect(),
            ..OverviewAnswer::default()
        });
        restarts
    }

    fn since(restarts: &Restarts, before: &Before, minute: u64) -> String {
        let all = restarts.since(before, minute * MINUTE);
        all.iter().map(|(unit, times, _)| format!("{unit}={times}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn restarts_count_from_when_the_rules_were_applied() {
        let before = rows("old running 5 1\nboth running 2 1\nagain running 9 1").before(MINUTE);
        let now = rows(
            "old running 5 1\nboth running 4 20\nagain running 1 20\nnew running 7 20\n\
             steady running 3 10\nwaits auto-restart 0 1\nfailed failed 6 20\nfine running 0 20\n\
             warren-agent.service running 3 20",
        );
        assert_eq!(since(&now, &before, 21), "new=7 both=2 again=1 waits=0");
        assert_eq!(since(&now, &before, 31), "waits=0", "what has held for 10 min is well again");
        assert_eq!(now.rows["new"].app, "shop");
    }

    #[test]
    fn a_unit_that_fails_or_is_well_again_is_no_longer_counted() {
        let mut restarts = rows("a running 5 1");
        let gone = rows("a failed 5 2");
        assert!(gone.rows.is_empty());
        restarts.note(OverviewAnswer {
            rows: vec![OverviewRow { name: "a".into(), ..OverviewRow::default() }],
            ..OverviewAnswer::default()
        });
        assert!(restarts.rows.is_empty());
    }

    #[test]
    fn units_of_rules_that_files_hide_are_known_until_they_do_not() {
        let row = |name: &str, by: Option<&str>| OverviewRow {
            name: name.to_owned(),
            hidden_by: by.map(str::to_owned),
            ..OverviewRow::default()
        };
        let mut restarts = Restarts::default();
        let mut note = |rows: &[OverviewRow]| {
            restarts.note(OverviewAnswer { rows: rows.to_vec(), ..OverviewAnswer::default() });
            restarts.hidden()
        };
        let many: Vec<OverviewRow> = (0..HIDDEN_MAX + 2)
            .map(|n| row(&format!("u{n:02}.service"), Some("/etc/x")))
            .chain([row("z.service", None)])
            .collect();
        let (first, more) = note(&many);
        assert_eq!((&*first[0].words(), more), ("u00.service is by /etc/x, and not by rules", 2));
        assert_eq!(note(&[row("u00.service", None)]).1, 1);
    }

    #[test]
    fn how_it_ended_last_is_told_without_the_number_of_the_process() {
        let restarts = rows("a running 5 1\nb auto-restart 0 1");
        let before = RestartBefore {
            reason: ReasonAnswer { code: "WR-0040".to_owned().into(), ..ReasonAnswer::default() },
            ended: Some("main process 44 exited with code 7".to_owned()),
            at: None,
        };
        let status = StatusAnswer {
            restart: Some(RestartAnswer { before: Some(before), ..RestartAnswer::default() }),
            ended: Some("main process could not be started, exit code 203".to_owned()),
            ..StatusAnswer::default()
        };
        let (code, ended) = last_end(&restarts.rows["a"], &status);
        assert_eq!((code.as_str(), &*ended), ("WR-0040", "exited with code 7"));
        let (_, ended) = last_end(&restarts.rows["b"], &status);
        assert_eq!(ended, "could not be started, exit code 203");
    }

    /// A console whose user logs out is started again, too.
    #[test]
    fn what_ends_with_success_is_a_loop_only_in_a_row() {
        let before = Before { at: 0, ..Before::default() };
        let is_trouble =
            |code: &ReasonCode, times, minute| is_trouble(code, times, &before, minute * MINUTE);
        let failed = ReasonCode::from("WR-0040".to_owned());
        assert!(is_trouble(&failed, 1, 30) && is_trouble(&failed, 0, 30));
        let finished = ReasonCode::FINISHED;
        assert!(!is_trouble(&finished, 2, 1) && !is_trouble(&finished, 5, 6));
        assert!(is_trouble(&finished, 3, 1) && is_trouble(&finished, 5, 5));
    }
}
