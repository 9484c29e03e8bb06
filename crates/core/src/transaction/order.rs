//! What stops nothing, waits in no circle, and gets along with the installed jobs.

use super::{Circle, Draft, Half};
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobMode};
use crate::protocol::request::Refusal;
use std::collections::BTreeSet;

impl Draft<'_> {
    pub(super) fn check_order(&mut self) -> Result<(), Refusal> {
        if self.anchor.mode == JobMode::IgnoreDependencies {
            return Ok(());
        }
        while !self.open_circles()? {}
        Ok(())
    }

    /// Breaks circles through a job of this transaction, smallest names first, until a job was dropped over it; whether
    /// there is none left. Depth-first over 'waits for', through installed jobs too: where nobody is waited for in a
    /// circle need not be looked at again for as long as no job goes.
    fn open_circles(&mut self) -> Result<bool, Refusal> {
        let mut starts: Vec<UnitId> = self.jobs.keys().copied().collect();
        starts.sort_unstable_by_key(|&u| self.graph.name(u));
        let restarts = |unit: &UnitId| self.coming_kind(*unit) == Some(JobKind::Restart);
        let again: BTreeSet<UnitId> = starts.iter().copied().filter(restarts).collect();
        let halves = starts
            .into_iter()
            .flat_map(|unit| [Some((unit, false)), again.contains(&unit).then_some((unit, true))]);
        let mut done: BTreeSet<Half> = BTreeSet::new();
        for start in halves.flatten() {
            while let Some(units) = self.search_circle(start, &mut done) {
                if !self.break_circle(units)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The kind that a unit will have installed when the plan is carried out.
    fn coming_kind(&self, unit: UnitId) -> Option<JobKind> {
        let installed = self.world.installed(unit).map(|(kind, _)| kind);
        match (self.jobs.get(&unit), installed) {
            (Some(&new), Some(old)) => {
                let up = self.world.active_state(unit).is_up_or_coming();
                Some(new.merge(old, up).unwrap_or(new))
            }
            (Some(&new), None) => Some(new),
            (None, old) => old.filter(|_| !self.cancelled.contains(&unit)),
        }
    }

    /// The halves of other jobs that one half of the job of a unit would wait for. Every job has a
    /// first half; a restart has a second, the start that it becomes, which waits for its first.
    fn waits_for(&self, (unit, second): Half) -> Vec<Half> {
        let Some(kind) = self.coming_kind(unit) else { return Vec::new() };
        if self.out_of_turn(unit) {
            return Vec::new();
        }
        let installed = self.world.installed(unit).map(|(kind, _)| kind);
        if !second && installed == Some(kind) && self.world.has_begun(unit) {
            return Vec::new();
        }
        let kind = if second { JobKind::Start } else { kind };
        let mut halves = if second { vec![(unit, false)] } else { Vec::new() };
        for other in self.graph.ordered_with(unit) {
            let Some(other_kind) = self.coming_kind(other) else { continue };
            if self.graph.may_wait(unit, kind, other, other_kind) {
                halves.push((other, false));
            }
            let starts_again = other_kind == JobKind::Restart;
            if starts_again && self.graph.may_wait(unit, kind, other, JobKind::Start) {
                halves.push((other, true));
            }
        }
        halves.sort_unstable();
        halves.dedup();
        halves
    }

    fn search_circle(&self, start: Half, done: &mut BTreeSet<Half>) -> Option<Vec<UnitId>> {
        if done.contains(&start) {
            return None;
        }
        let mut on_path: BTreeSet<Half> = BTreeSet::from([start]);
        let mut path = vec![(start, self.ordered_waits(start))];
        while let Some((half, waits)) = path.last_mut() {
            match waits.pop() {
                Some(next) if on_path.contains(&next) => {
                    let halves = path.iter().map(|(half, _)| *half);
                    let mut units: Vec<UnitId> =
                        halves.skip_while(|&half| half != next).map(|(unit, _)| unit).collect();
                    units.dedup();
                    return Some(units);
                }
                Some(next) if !done.contains(&next) => {
                    on_path.insert(next);
                    path.push((next, self.ordered_waits(next)));
                }
                Some(_) => {}
                None => {
                    on_path.remove(half);
                    done.insert(*half);
                    path.pop();
                }
            }
        }
        None
    }

    /// [`Self::waits_for`], so that popping gives the smallest name first.
    fn ordered_waits(&self, half: Half) -> Vec<Half> {
        let mut waits = self.waits_for(half);
        if waits.len() > 1 {
            let key = |half: &Half| (self.graph.name(half.0), half.1);
            waits.sort_unstable_by(|a, b| key(b).cmp(&key(a)));
        }
        waits
    }

    fn out_of_turn(&self, unit: UnitId) -> bool {
        self.circles.iter().any(|circle| circle.at == unit && circle.is_kept)
    }

    /// The rule: of the circle's jobs that are not required, the one whose unit name sorts last
    /// goes. If all are required there is no way out. A circle with a stop in it is one of stops, as they
    /// wait for nothing else: an administrator must be able to stop what was started, so the last of them does not
    /// wait. Returns whether all jobs are kept.
    fn break_circle(&mut self, units: Vec<UnitId>) -> Result<bool, Refusal> {
        let stops = units.iter().copied().filter(|unit| {
            self.jobs.contains_key(unit) && self.coming_kind(*unit) == Some(JobKind::Stop)
        });
        if let Some(at) = stops.max_by_key(|&u| self.graph.name(u)) {
            self.circles.push(Circle { units, at, is_kept: true });
            return Ok(true);
        }
        let may_go = units.iter().copied().filter(|&u| {
            u != self.anchor.unit && self.jobs.contains_key(&u) && !self.is_required(u)
        });
        let Some(dropped) = may_go.max_by_key(|&u| self.graph.name(u)) else {
            return Err(Refusal::Cycle(
                units.iter().map(|&u| self.graph.name(u).clone()).collect(),
            ));
        };
        self.drop_job(dropped)?;
        self.circles.push(Circle { units, at: dropped, is_kept: false });
        Ok(false)
    }

    /// Drops the job of one unit, and those that cannot be without it.
    fn drop_job(&mut self, unit: UnitId) -> Result<(), Refusal> {
        let of_unit = (0..self.entries.len())
            .filter(|&i| self.entries[i].live && self.entries[i].unit == unit);
        let losers = of_unit.chain(self.starts_against(unit)).collect();
        self.end_entries(losers)?;
        let alive = self.merged();
        self.jobs.retain(|unit, _| alive.contains_key(unit));
        for (unit, kind) in &mut self.jobs {
            *kind = alive[unit];
        }
        Ok(())
    }

    fn contradicts_installed(&self, unit: UnitId) -> Option<bool> {
        let (old, irreversible) = self.world.installed(unit)?;
        let up = self.world.active_state(unit).is_up_or_coming();
        self.jobs[&unit].merge(old, up).is_none().then_some(irreversible)
    }

    pub(super) fn minimise(&mut self) -> Result<(), Refusal> {
        if self.anchor.mode != JobMode::Fail {
            return Ok(());
        }
        loop {
            let harmful = |&unit: &UnitId| {
                let stops_it = self.jobs[&unit].is_stopping()
                    && self.world.active_state(unit).is_up_or_coming();
                (stops_it || self.contradicts_installed(unit).is_some()) && !self.is_required(unit)
            };
            let first =
                self.jobs.keys().copied().filter(harmful).min_by_key(|&u| self.graph.name(u));
            match first {
                Some(unit) => self.drop_job(unit)?,
                None => return Ok(()),
            }
        }
    }

    pub(super) fn meet_installed(&mut self) -> Result<(), Refusal> {
        let lenient = self.anchor.mode == JobMode::Lenient;
        let fail = lenient || self.anchor.mode == JobMode::Fail;
        let by_name = |&unit: &UnitId| self.graph.name(unit);
        let would_stop = |unit: &UnitId| {
            self.jobs[unit] == JobKind::Stop && self.world.active_state(*unit).is_up_or_coming()
        };
        let stopped = self.jobs.keys().copied().filter(|unit| lenient && would_stop(unit));
        if let Some(unit) = stopped.min_by_key(by_name) {
            return Err(Refusal::WouldStop(self.graph.name(unit).clone()));
        }
        let stands = |&unit: &UnitId| {
            self.contradicts_installed(unit).is_some_and(|irreversible| irreversible || fail)
        };
        let first = self.jobs.keys().copied().filter(stands).min_by_key(|&u| self.graph.name(u));
        if let Some(other) = first {
            return Err(self.destructive(other));
        }
        let jobs = &self.jobs;
        self.cancelled.retain(|unit| !jobs.contains_key(unit));
        Ok(())
    }

    /// The job of `other` stands against the anchor's.
    fn destructive(&self, other: UnitId) -> Refusal {
        let unit = self.anchor.unit;
        let name = |unit: UnitId| self.graph.name(unit).clone();
        let kind = |unit: UnitId| self.jobs.get(&unit).copied().unwrap_or(JobKind::Nop);
        let installed = self.world.installed(other).map_or(JobKind::Nop, |(kind, _)| kind);
        let (kind, included) = (kind(unit), kind(other));
        Refusal::Destructive { unit: name(unit), kind, other: name(other), installed, included }
    }
}
