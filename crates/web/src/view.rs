//! What a client sees, as JSON: a picture of what is in its sight, and what differs between two of them. Pure.
//!
//! There is no queue for a client: whoever has taken the last picture gets what differs from it to the one of now, however
//! many there were between. A difference that is larger than half of the picture is the picture.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use warren_console::model::{Model, Unit, Usage};
use warren_console::numbers::{bytes, percent};
use warren_console::table::{self, Row, Tab, What};
use warren_wire::control::ActiveState;

use crate::query::{Cells, Sight};

/// Cells of a strip at most.
const CELLS_MAX: usize = 100_000;

/// Samples that are kept: ten minutes.
pub const SAMPLES_MAX: usize = 600;

/// Counters at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// When, in ms since 1970.
    pub at_ms: u64,
    /// Jobs there are.
    pub jobs: u64,
    /// Units that have failed.
    pub failed: u64,
    /// Units that changed their state since the sample before.
    pub changes: u64,
    /// Restarts in a second.
    pub restarts: f64,
    /// Percent of one processor that the manager used.
    pub cpu: f64,
}

impl Sample {
    fn json(&self) -> Value {
        let rounded = |n: f64| (n * 100.0).round() / 100.0;
        let (restarts, cpu) = (rounded(self.restarts), rounded(self.cpu));
        json!([self.at_ms, self.jobs, self.failed, self.changes, restarts, cpu])
    }
}

/// The heat strip: a cell for each group, with a letter for its state: `f` failed, `t` on its way, `a` up, `i` down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strip {
    /// Names, sorted.
    pub names: Vec<Arc<str>>,
    /// Letters, in their order.
    pub states: Vec<u8>,
}

fn letter(active: &ActiveState) -> u8 {
    match active {
        ActiveState::Failed => b'f',
        ActiveState::Activating | ActiveState::Deactivating | ActiveState::Reloading => b't',
        ActiveState::Active => b'a',
        _ => b'i',
    }
}

/// Of two units of a group, the one that the group is coloured by.
fn worse(a: u8, b: u8) -> u8 {
    let rank = |letter| b"ftai".iter().position(|known| *known == letter);
    if rank(a) <= rank(b) { a } else { b }
}

/// The cells of all units, however they are grouped.
pub fn strip(model: &Model, cells: Cells) -> Strip {
    let mut groups = BTreeMap::<Arc<str>, u8>::new();
    for (name, unit) in &model.units {
        let group = match cells {
            Cells::None => None,
            Cells::Sets => unit.target.clone(),
            Cells::Slices => unit.slice.clone().filter(|_| !name.ends_with(".slice")),
            Cells::Templates => table::group_of(Tab::Templates, name, unit),
            Cells::Units => Some(name.clone()),
        };
        let Some(group) = group else { continue };
        let state = letter(&unit.active);
        if let Some(known) = groups.get_mut(&group) {
            *known = worse(*known, state);
        } else if groups.len() < CELLS_MAX {
            groups.insert(group, state);
        }
    }
    let (names, states) = groups.into_iter().unzip();
    Strip { names, states }
}

/// A page of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Rows that there are.
    pub total: usize,
    /// The first one of the page.
    pub from: usize,
    /// The page.
    pub rows: Vec<Value>,
}

/// All that a client has in sight.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picture {
    /// Counters.
    pub top: Value,
    /// The strip.
    pub strip: Option<Arc<Strip>>,
    /// The table.
    pub table: Option<Arc<Table>>,
    /// The last minutes.
    pub series: Vec<Sample>,
}

/// The rows that are in sight.
#[derive(Debug, Clone)]
pub struct Page {
    tab: Tab,
    total: usize,
    from: usize,
    rows: Vec<Row>,
}

impl Page {
    /// Takes in what groups use now; where a row stands for several of them, it stays as it is.
    pub fn measure(&mut self, model: &Model) {
        let is_of_one = |row: &Row| row.is_unit() || self.tab == Tab::Slices;
        for row in self.rows.iter_mut().filter(|row| is_of_one(row)) {
            row.usage = model.usage.get(&row.name).copied().unwrap_or_default();
        }
    }

    /// Names of what has a group of its own.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rows.iter().map(|row| &row.name)
    }

    /// As a client gets it.
    pub fn table(&self, model: &Model) -> Table {
        let rows = self.rows.iter().map(|row| row_json(model, self.tab, row)).collect();
        Table { total: self.total, from: self.from, rows }
    }
}

/// The page of the table that is in sight. One behind the end is the last one.
pub fn page(model: &Model, sight: &Sight) -> Option<Page> {
    let wish = sight.wish.as_ref()?;
    let mut all = table::rows(model, wish);
    let total = all.len();
    let last = total.saturating_sub(1) / sight.rows * sight.rows;
    let from = sight.from.min(last);
    all.truncate(from.saturating_add(sight.rows));
    // What is kept has no room for all of them.
    let rows = all.split_off(from);
    Some(Page { tab: wish.tab, total, from, rows })
}

fn row_json(model: &Model, tab: Tab, row: &Row) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| _ = out.insert(name.to_owned(), value);
    put("n", json!(&*row.name));
    if row.depth > 0 {
        put("d", json!(row.depth));
    }
    match &row.what {
        What::Group { units, up, failed, is_unfolded } => {
            put("k", json!("group"));
            put("u", json!([units, up, failed]));
            put("o", json!(is_unfolded));
        }
        What::Cause { holds_back, is_unfolded } => {
            put("k", json!("cause"));
            put("h", json!(holds_back));
            put("o", json!(is_unfolded));
        }
        What::HeldBack => put("k", json!("held")),
        What::Restarting => put("k", json!("restarting")),
        What::Unit => put("k", json!("unit")),
        What::Job(job) => {
            put("k", json!("job"));
            put("j", json!([job.kind.as_str(), job.age_us, job.waits_for, job.waits_on]));
        }
        What::Wait(wait) => {
            put("k", json!("wait"));
            put("j", json!([wait.phase, wait.so_far_us, wait.left_us, wait.unit.is_some()]));
        }
    }
    let unit = model.units.get(&row.name).filter(|_| row.is_unit() || tab == Tab::Slices);
    if let Some(unit) = unit {
        of_unit(model, unit, &mut put);
    }
    of_usage(&row.usage, &mut put);
    if row.restarts > 0 {
        put("r", json!(row.restarts));
    }
    if row.since_us > 0 {
        put("t", json!(row.since_us));
    }
    Value::Object(out)
}

/// What is used, in the console's words: numbers that are read as the same are no difference.
fn of_usage(usage: &Usage, put: &mut impl FnMut(&str, Value)) {
    let Usage { cpu, memory, tasks, read, written, pressure } = usage;
    if let Some(cpu) = cpu {
        put("p", json!(percent(*cpu)));
    }
    if let Some(memory) = memory {
        put("m", json!(bytes(*memory)));
    }
    if let Some(tasks) = tasks {
        put("q", json!(tasks));
    }
    if let (Some(read), Some(written)) = (read, written) {
        put("i", json!([bytes(*read), bytes(*written)]));
    }
    if let Some((share, resource)) = pressure {
        put("z", json!([percent(*share), resource.as_str()]));
    }
}

fn of_unit(model: &Model, unit: &Unit, put: &mut impl FnMut(&str, Value)) {
    put("s", json!(unit.active.as_str()));
    put("b", json!(&*unit.sub));
    let needs_words = unit.active == ActiveState::Failed || unit.cause.is_some();
    let reason = model.reason(unit);
    if !reason.is_empty() && (needs_words || unit.restarts > 0) {
        put("w", json!(reason));
    }
    for (name, group) in [("c", &unit.target), ("l", &unit.slice)] {
        if let Some(group) = group {
            put(name, json!(&**group));
        }
    }
    if let Some(cause) = &unit.cause {
        put("y", json!(&**cause));
    }
}

/// Counters, for the head of the page.
pub fn top(model: &Model, silent: Option<&str>, now_ms: u64) -> Value {
    let top = &model.top;
    let cpu = model.rate(|top| top.cpu_us).map(|us| (us / 100.0).round() / 100.0);
    let waits: Vec<&str> =
        top.waits.iter().filter_map(|wait| wait.unit.as_deref()).take(3).collect();
    json!({
        "now": now_ms, "loaded": model.is_loaded, "silent": silent,
        "units": model.units.len(), "up": top.active, "failed": top.failed_total,
        "restarting": top.restarting.len(), "jobs": top.jobs, "working": top.jobs_running,
        "restarts": top.restarts, "generation": top.generation, "cpu": cpu, "memory": top.resident_bytes,
        "reloading": top.reloading_us, "stopping": top.stopping, "waits": waits,
    })
}

/// The whole picture.
pub fn whole(picture: &Picture) -> Value {
    let mut out = Map::new();
    out.insert("whole".into(), json!(true));
    out.insert("top".into(), picture.top.clone());
    if let Some(strip) = &picture.strip {
        // Objects of rules may be called anything.
        let names: Vec<_> = strip.names.iter().map(|name| name.replace('\n', " ")).collect();
        out.insert(
            "strip".into(),
            json!({"names": names.join("\n"), "states": text(&strip.states)}),
        );
    }
    if let Some(table) = &picture.table {
        out.insert("table".into(), whole_table(table));
    }
    if !picture.series.is_empty() {
        out.insert("series".into(), picture.series.iter().map(Sample::json).collect());
    }
    Value::Object(out)
}

fn whole_table(table: &Table) -> Value {
    json!({"total": table.total, "from": table.from, "rows": table.rows})
}

fn text(letters: &[u8]) -> String {
    letters.iter().map(|letter| char::from(*letter)).collect()
}

/// What differs; none if nothing does but the time.
pub fn difference(before: &Picture, now: &Picture) -> Option<Value> {
    let mut out = Map::new();
    match (&before.strip, &now.strip) {
        (Some(old), Some(new)) if Arc::ptr_eq(old, new) || old == new => {}
        (Some(old), Some(new)) if old.names == new.names => {
            let pairs = old.states.iter().zip(&new.states).enumerate();
            let (places, letters): (Vec<usize>, Vec<u8>) =
                pairs.filter(|(_, (a, b))| a != b).map(|(at, (_, b))| (at, *b)).unzip();
            if places.len() > new.states.len() / 2 {
                return Some(whole(now));
            }
            out.insert("cells".into(), json!([places, text(&letters)]));
        }
        (None, None) => {}
        _ => return Some(whole(now)),
    }
    let is_same = match (&before.table, &now.table) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new) || old == new,
        (old, new) => old.is_none() && new.is_none(),
    };
    if let Some(table) = now.table.as_ref().filter(|_| !is_same) {
        out.insert("table".into(), table_difference(before.table.as_deref(), table));
    }
    let newest = before.series.last().map_or(0, |sample| sample.at_ms);
    let samples: Vec<Value> =
        now.series.iter().filter(|sample| sample.at_ms > newest).map(Sample::json).collect();
    if !samples.is_empty() {
        out.insert("series".into(), Value::Array(samples));
    }
    if out.is_empty() && is_same_but_time(&before.top, &now.top) {
        return None;
    }
    out.insert("top".into(), now.top.clone());
    Some(Value::Object(out))
}

fn is_same_but_time(before: &Value, now: &Value) -> bool {
    let (Value::Object(before), Value::Object(now)) = (before, now) else { return before == now };
    let without = |of: &Map<String, Value>| {
        let mut of = of.clone();
        of.remove("now");
        of
    };
    without(before) == without(now)
}

fn table_difference(before: Option<&Table>, now: &Table) -> Value {
    let Some(before) =
        before.filter(|before| before.from == now.from && before.rows.len() == now.rows.len())
    else {
        return whole_table(now);
    };
    let rows: Vec<Value> = (before.rows.iter().zip(&now.rows).enumerate())
        .filter(|(_, (old, new))| old != new)
        .map(|(at, (_, new))| json!([at, new]))
        .collect();
    match rows.len() > now.rows.len() / 2 {
        true => whole_table(now),
        false => json!({"total": now.total, "from": now.from, "changed": rows}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Route, route};
    use warren_wire::control::{OverviewAnswer, OverviewRow};

    fn model(units: &[(&str, &str)]) -> Model {
        let row = |(name, active): &(&str, &str)| OverviewRow {
            name: (*name).to_owned(),
            active: (*active).into(),
            target: name.starts_with("a-").then_some(0).or(name.starts_with("b-").then_some(1)),
            ..OverviewRow::default()
        };
        let targets = vec!["Container 'a'".to_owned(), "Container 'b'".to_owned()];
        let rows = units.iter().map(row).collect();
        let mut model = Model::default();
        model.take_overview(OverviewAnswer { rows, targets, ..OverviewAnswer::default() }, true);
        model
    }

    fn look(model: &Model, query: &str) -> Picture {
        let Ok(Route::Look(sight)) = route("GET", &format!("/api/look?{query}")) else {
            panic!("{query}")
        };
        Picture {
            top: top(model, None, 0),
            strip: Some(Arc::new(strip(model, sight.cells))),
            table: page(model, &sight).map(|page| Arc::new(page.table(model))),
            series: Vec::new(),
        }
    }

    fn names(picture: &Picture) -> Vec<&str> {
        let rows = picture.table.iter().flat_map(|table| &table.rows);
        rows.filter_map(|row| row["n"].as_str()).collect()
    }

    #[test]
    fn a_group_has_the_colour_of_its_worst_unit() {
        let model = model(&[
            ("a-1.service", "active"),
            ("a-2.service", "failed"),
            ("a-3.service", "activating"),
            ("b-1.service", "inactive"),
            ("b-2.service", "active"),
            ("c.service", "failed"),
        ]);
        let found = strip(&model, Cells::Sets);
        assert_eq!(text(&found.states), "fa");
        assert_eq!(
            found.names.iter().map(|n| &**n).collect::<Vec<_>>(),
            ["Container 'a'", "Container 'b'"]
        );
        assert_eq!(text(&strip(&model, Cells::Units).states), "aftiaf");
        assert!(strip(&model, Cells::None).names.is_empty());
    }

    #[test]
    fn pages_are_cut_from_what_fits_the_filter() {
        let model = model(&[
            ("a-1.service", "active"),
            ("a-2.service", "failed"),
            ("b-1.service", "inactive"),
            ("b-2.service", "active"),
        ]);
        let page = |query: &str| {
            let picture = look(&model, query);
            let table = picture.table.clone().expect("a table");
            (names(&picture).join(" "), table.from, table.total)
        };
        assert_eq!(
            page("table=units&rows=3"),
            ("a-1.service a-2.service b-1.service".into(), 0, 4)
        );
        assert_eq!(page("table=units&rows=3&from=3"), ("b-2.service".into(), 3, 4));
        assert_eq!(
            page("table=units&rows=3&from=900"),
            ("b-2.service".into(), 3, 4),
            "the last page"
        );
        assert_eq!(page("table=units&filter=b-+active").0, "b-2.service");
        assert_eq!(page("table=units&filter=none"), (String::new(), 0, 0));
        assert_eq!(page("table=units&sort=state&rows=1").0, "a-2.service");
        assert_eq!(
            page("table=units&within=containers:Container+'b'").0,
            "b-1.service b-2.service"
        );
        assert_eq!(page("table=containers").0, "Container 'a' Container 'b'");
    }

    /// What groups use is sorted by before the page is cut, and a later look changes the rows and not their order.
    #[test]
    fn what_is_used_is_sorted_by_and_shown() {
        let mut model = model(&[
            ("a-1.service", "active"),
            ("a-2.service", "active"),
            ("b-1.service", "active"),
            ("b-2.service", "inactive"),
        ]);
        let usage = |cpu: f32, memory_mb: u64, tasks: u64| Usage {
            cpu: Some(cpu),
            memory: Some(memory_mb << 20),
            tasks: Some(tasks),
            read: Some(2048),
            written: Some(0),
            pressure: Some((12.5, warren_console::model::Resource::Io)),
        };
        let of = |all: [(&str, Usage); 3]| all.map(|(name, usage)| (name.into(), usage)).into();
        let first = [
            ("a-1.service", usage(1.0, 30, 7)),
            ("a-2.service", usage(50.0, 10, 1)),
            ("b-1.service", usage(5.0, 20, 9)),
        ];
        model.take_usage(of(first), true);
        let order = |query: &str| names(&look(&model, &format!("table=units&{query}"))).join(" ");
        assert_eq!(order("sort=cpu&rows=2"), "a-2.service b-1.service");
        assert_eq!(order("sort=memory&rows=2"), "a-1.service b-1.service");
        assert_eq!(order("sort=tasks&rows=2"), "b-1.service a-1.service");
        assert_eq!(order("sort=cpu&inverted=1&rows=1"), "b-2.service");
        assert_eq!(order("sort=io&rows=1"), "a-1.service");
        assert_eq!(order("sort=waits&rows=1"), "a-1.service");
        let sight = |query: &str| match route("GET", &format!("/api/look?{query}")) {
            Ok(Route::Look(sight)) => sight,
            other => panic!("{other:?}"),
        };
        let mut cut = page(&model, &sight("table=units&sort=cpu&rows=2")).expect("a page");
        let row = |table: &Table, at: usize| {
            let part = |key| table.rows[at][key].to_string();
            ["n", "p", "m", "q", "i", "z"].map(part).join(" ")
        };
        let expected = r#""a-2.service" "50.0" "10M" 1 ["2.0K","0B"] ["12.5","io"]"#;
        assert_eq!(row(&cut.table(&model), 0), expected);
        model.take_usage([("a-2.service".into(), usage(0.0, 11, 2))].into(), false);
        cut.measure(&model);
        let expected = r#""a-2.service" "0.0" "11M" 2 ["2.0K","0B"] ["12.5","io"]"#;
        assert_eq!(row(&cut.table(&model), 0), expected);
        let mut sets = page(&model, &sight("table=containers&sort=memory")).expect("a page");
        sets.measure(&model);
        assert_eq!(sets.table(&model).rows[0]["m"], "41M", "a sum stays");
    }

    #[test]
    fn what_differs_is_cells_and_rows_by_their_places() {
        let units = ["a-1.service", "a-2.service", "b-1.service", "b-2.service"];
        let with = |states: [&str; 4]| {
            let pairs: Vec<_> = units.into_iter().zip(states).collect();
            look(&model(&pairs), "table=units&cells=units")
        };
        let before = with(["active"; 4]);
        assert_eq!(difference(&before, &before), None);
        let later = Picture { top: top(&model(&[]), None, 7), ..before.clone() };
        let same = Picture { top: top(&model(&[]), None, 9), ..before.clone() };
        assert_eq!(difference(&later, &same), None, "only time has passed");
        let now = with(["active", "failed", "active", "active"]);
        let told = difference(&before, &now).expect("it differs");
        assert_eq!(told["cells"], json!([[1], "f"]));
        assert_eq!(told["table"]["changed"][0][0], 1);
        assert_eq!(told["table"]["changed"][0][1]["s"], "failed");
        assert!(told["whole"].is_null());
        let most = difference(&before, &with(["failed", "failed", "failed", "active"]));
        assert_eq!(most.expect("it differs")["whole"], true);
        let other = look(&model(&[("a-1.service", "active")]), "table=units&cells=units");
        assert_eq!(difference(&before, &other).expect("it differs")["whole"], true, "another set");
    }

    /// What a client holds that took every difference is what the picture is, whichever pictures it missed.
    #[test]
    fn differences_add_up_to_the_picture() {
        const STATES: [&str; 4] = ["active", "failed", "inactive", "activating"];
        let mut dice = warren_testkit::Dice(7);
        let mut held: Option<(Picture, Value)> = None;
        for _ in 0..300 {
            let names: Vec<String> =
                (0..dice.roll(12) + 1).map(|n| format!("a-{n}.service")).collect();
            let units: Vec<(&str, &str)> =
                names.iter().map(|name| (&**name, STATES[dice.roll(4) as usize])).collect();
            let now = look(&model(&units), "table=units&cells=units&rows=5");
            let state = match &held {
                None => whole(&now),
                Some((before, state)) => match difference(before, &now) {
                    None => state.clone(),
                    Some(told) => apply(state, &told),
                },
            };
            for part in ["strip", "table"] {
                assert_eq!(state[part], whole(&now)[part]);
            }
            held = Some((now, state));
        }
    }

    /// What the page does with a difference.
    fn apply(state: &Value, told: &Value) -> Value {
        if told["whole"] == true {
            return told.clone();
        }
        let mut state = state.clone();
        if let Some(places) = told["cells"][0].as_array() {
            let mut letters =
                state["strip"]["states"].as_str().expect("letters").as_bytes().to_vec();
            let new = told["cells"][1].as_str().expect("letters").as_bytes();
            for (place, letter) in places.iter().zip(new) {
                letters[place.as_u64().expect("a place") as usize] = *letter;
            }
            state["strip"]["states"] = json!(text(&letters));
        }
        if told["table"].is_object() {
            if told["table"]["rows"].is_array() {
                state["table"] = told["table"].clone();
            }
            for pair in told["table"]["changed"].as_array().into_iter().flatten() {
                let place = pair[0].as_u64().expect("a place") as usize;
                state["table"]["rows"][place] = pair[1].clone();
            }
            state["table"]["total"] = told["table"]["total"].clone();
        }
        state
    }

    #[test]
    fn samples_are_told_once() {
        let sample =
            |at_ms| Sample { at_ms, jobs: 1, failed: 2, changes: 3, restarts: 0.5, cpu: 1.25 };
        let with = |of: std::ops::Range<u64>| Picture {
            series: of.map(sample).collect(),
            ..Picture::default()
        };
        let told = difference(&with(1..3), &with(2..5)).expect("new ones");
        assert_eq!(told["series"], json!([[3, 1, 2, 3, 0.5, 1.25], [4, 1, 2, 3, 0.5, 1.25]]));
    }
}
