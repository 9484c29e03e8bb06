"use strict";
// Units and the rows that show them: which, in which order, in which groups. Nothing here touches
// the page.

/** Members from which on likes become one row. */
const GROUP_MEMBERS_MIN = 5;

/** The largest of many values; as arguments of Math.max they could be more than a call takes. */
function largest(values, least) {
  return values.reduce((most, value) => Math.max(most, value), least);
}

/** One unit of one or two runs: what rows are made of. */
function makeUnits(runs) {
  const byName = new Map();
  runs.forEach((run, which) => {
    run.names.forEach((name, row) => {
      if (run.barsOfRow[row].length === 0 && !run.upsOfRow.has(row)) return;
      if (!byName.has(name)) byName.set(name, { name, rows: runs.map(() => NONE) });
      byName.get(name).rows[which] = row;
    });
  });
  return [...byName.values()].map((unit) => ({ ...unit, ...measure(runs, unit) }));
}

/** What units are sorted and filtered by. The last run counts; the first where it has none. */
function measure(runs, unit) {
  const own = runs.map((run, which) => ownOf(run, unit.rows[which]));
  const which = unit.rows[runs.length - 1] !== NONE ? runs.length - 1 : 0;
  const run = runs[which];
  const bars = run.barsOfRow[unit.rows[which]] ?? [];
  const slice = run.slices[unit.rows[which]];
  return {
    own: own[which],
    delta: runs.length > 1 ? own[1] - own[0] : 0,
    differs: runs.length > 1 && unit.rows.includes(NONE),
    wait: largest(bars.map((bar) => run.bars.wait[bar]), 0),
    begin: bars.length > 0 ? run.bars.queued[bars[0]] : 0,
    // What was only found to be up says least: last.
    start: bars.length > 0 ? run.bars.start[bars[0]] : Number.MAX_SAFE_INTEGER,
    slack: bars.map((bar) => run.bars.slack[bar]).filter((us) => us !== NONE)
      .reduce((least, us) => Math.min(least, us), Infinity),
    critical: runs.some((r, w) => (r.barsOfRow[unit.rows[w]] ?? []).some((b) => r.onPath.has(b))),
    failed: bars.some((bar) => hasFailed(run, bar)),
    killed: bars.some((bar) => run.bars.kills[bar] > 0),
    again: bars.length > 1,
    range: rangeOf(run, unit.rows[which]),
    slice: slice === NONE || slice === undefined ? "no slice" : run.names[slice],
    template: templateOf(unit.name),
  };
}

/** How far the unit's own times in many recordings lie apart. */
function rangeOf(run, row) {
  const repeats = run.repeats?.rows[row];
  return repeats ? repeats[2] - repeats[0] : 0;
}

function ownOf(run, row) {
  const bars = row === NONE ? [] : run.barsOfRow[row];
  return bars.reduce((sum, bar) => sum + ownTime(run.bars, bar), 0);
}

/** Endings 1, 2, 6, 9 and 10 are done, canceled, skipped, unsupported and collected; 0 is none yet. */
function hasFailed(run, bar) {
  return run.bars.leftFailed[bar] === 1 || ![0, 1, 2, 6, 9, 10].includes(run.bars.ending[bar]);
}

/** A function that says whether a name is searched for; words must all occur. */
function matcher(text) {
  const pattern = text.match(/^\/(.+)\/$/);
  if (pattern) {
    try {
      const expression = new RegExp(pattern[1], "i");
      return (name) => expression.test(name);
    } catch {
      return () => false;
    }
  }
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  return (name) => words.every((word) => name.toLowerCase().includes(word));
}

const ORDERS = {
  begin: (a, b) => a.start - b.start,
  own: (a, b) => b.own - a.own,
  wait: (a, b) => b.wait - a.wait,
  slack: (a, b) => a.slack - b.slack,
  delta: (a, b) => Math.abs(b.delta) - Math.abs(a.delta),
  range: (a, b) => b.range - a.range,
  name: () => 0,
};

/**
 * The rows to be shown. `choice` has the search text and what is chosen in the menus; `open` the
 * keys of groups that are open.
 */
function makeRows(model, choice, open) {
  const matches = matcher(choice.search);
  const shown = choice.show === "all" ? () => true : (unit) => unit[
    choice.show === "waited" ? "wait" : choice.show];
  const units = model.units.filter((unit) => shown(unit) && matches(unit.name));
  const order = ORDERS[choice.sort];
  units.sort((a, b) => order(a, b) || a.start - b.start || (a.name < b.name ? -1 : 1));
  const rows = [];
  const plain = choice.search === "" && choice.show === "all";
  if (plain) rows.push(...managerRows(model), ...pathRows(model));
  const title = plain ? "All units" : "Found units";
  const listed = choice.group === "none" ? units.map(unitRow) : groupRows(units, choice.group, open);
  const grouped = model.runs.length === 1 && listed.some((row) => row.kind === "group");
  const note = grouped ? "median / 95 % / longest" : "";
  const section = { kind: "section", label: `${title} (${countText(units.length)})`, note };
  return { rows: [...rows, section, ...listed], found: units.length };
}

function unitRow(unit) {
  return { kind: "unit", unit, depth: 0 };
}

function managerRows(model) {
  const rows = [];
  model.runs.forEach((run, which) => {
    run.spans.forEach((span) => rows.push({ kind: "span", span, which, depth: span[1] }));
  });
  return rows.length > 0 ? [{ kind: "section", label: "Phases" }, ...rows] : [];
}

function pathRows(model) {
  const runs = model.runs;
  const byName = new Map(model.units.map((unit) => [unit.name, unit]));
  const section = (label, names, key) => (names.length === 0 ? []
    : [{ kind: "section", label: `${label} (${countText(names.length)})` },
      ...names.map((name) => ({ ...unitRow(byName.get(name)), section: key }))]);
  const left = runs.length > 1 ? pathChange(runs).left : [];
  return [...section("Critical path", pathNames(runs[runs.length - 1]), "path"),
    ...section("No longer on the critical path", left, "left")];
}

/** Groups stand where their first unit would; few likes stay single, each in its own place. */
function groupRows(units, by, open) {
  const groups = new Map();
  for (const unit of units) {
    const key = unit[by];
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(unit);
  }
  const rows = [];
  for (const unit of units) {
    const key = unit[by];
    const members = groups.get(key);
    if (members.length < GROUP_MEMBERS_MIN) {
      rows.push(unitRow(unit));
      continue;
    }
    if (members[0] !== unit) continue;
    const isOpen = open.has(key);
    rows.push({ kind: "group", key, members, isOpen, stats: groupStats(members), depth: 0 });
    if (isOpen) members.forEach((unit) => rows.push({ ...unitRow(unit), depth: 1 }));
  }
  return rows;
}

function groupStats(members) {
  const own = members.map((unit) => unit.own).sort((a, b) => a - b);
  const at = (share) => own[Math.min(own.length - 1, Math.floor(own.length * share))];
  const deltas = members.map((unit) => unit.delta).sort((a, b) => a - b);
  return {
    p50: at(0.5), p95: at(0.95), max: own[own.length - 1],
    delta: deltas[Math.floor(deltas.length / 2)],
    bad: members.filter((unit) => unit.failed || unit.killed),
  };
}

/** Changes of how many bars run at once, by the members whose bars they are and the number of the run. */
const SWEEPS = new WeakMap();

/** The changes of some units, computed once for where their bars are shown now. */
function sweepOf(run, which, members) {
  if (!SWEEPS.has(members)) SWEEPS.set(members, []);
  const kept = SWEEPS.get(members);
  if (kept[which]?.shown !== run.shown) kept[which] = sweep(run, which, members);
  return kept[which];
}

/**
 * At each of `times`, how many bars run at most and how many do from then on. What ends at a moment
 * does not run beside what begins then, and what took no time was over before the next began.
 */
function sweep(run, which, members) {
  const { shown, bars } = run;
  const ran = members.flatMap((unit) => (unit.rows[which] === NONE ? []
    : run.barsOfRow[unit.rows[which]].filter((bar) => bars.wait[bar] !== NONE)));
  const begins = Float64Array.from(ran, (bar) => shown.start[bar]).sort();
  const ends = Float64Array.from(ran, (bar) => shown.end[bar]).sort();
  const instants = Float64Array.from(ran.filter((bar) => shown.start[bar] === shown.end[bar]),
    (bar) => shown.start[bar]).sort();
  const [times, most, after] = [[], [], []];
  let [begin, end, instant, running] = [0, 0, 0, 0];
  while (end < ends.length) {
    const time = Math.min(begins[begin] ?? Infinity, ends[end]);
    const [began, ended, passed] = [begin, end, instant];
    while (begins[begin] === time) begin++;
    while (ends[end] === time) end++;
    while (instants[instant] === time) instant++;
    const passing = instant - passed;
    const left = running - (end - ended - passing);
    running = left + (begin - began - passing);
    times.push(time);
    most.push(Math.max(running, passing > 0 ? left + 1 : 0));
    after.push(running);
  }
  return { shown, times: Float64Array.from(times), most, after };
}

/** The position of the first of sorted values that is not less. */
function firstFrom(values, least) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How many bars of units run at once at most within each of `columns` columns of the view. */
function density(run, which, members, view, columns) {
  const { times, most, after } = sweepOf(run, which, members);
  const scale = columns / (view.until - view.from);
  const counts = new Int32Array(columns);
  let at = firstFrom(times, view.from);
  let running = at > 0 ? after[at - 1] : 0;
  let column = 0;
  counts[0] = running;
  for (; at < times.length; at++) {
    const next = Math.floor((times[at] - view.from) * scale);
    if (next >= columns) break;
    counts.fill(running, column + 1, next + 1);
    counts[next] = Math.max(counts[next], most[at]);
    [running, column] = [after[at], next];
  }
  return counts.fill(running, column + 1);
}
