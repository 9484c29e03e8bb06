"use strict";
// The words beside the chart: headline, the chosen row, the waiting chain, the tip. Text is set as
// text, never as HTML.

/** An element with a class, a text and children. */
function element(name, { text, kind, children = [] } = {}) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

/** A table of two columns; rows without a value are left out. */
function pairs(rows) {
  const made = rows.filter(([, value]) => value !== undefined && value !== "").map(
    ([name, value]) => element("tr", { children: [element("th", { text: name }),
      value instanceof Node ? element("td", { children: [value] }) : element("td", { text: value })] }));
  return element("table", { children: made });
}

/** A name that chooses its unit. */
function unitLink(name, page) {
  const made = element("button", { kind: "link", text: name });
  made.addEventListener("click", () => page.chooseName(name));
  return made;
}

/** What the parts of a run are called, in their order. */
function partNames(run) {
  return ["units of the critical path", run.outside, run.before, "no unit was requested", "the manager"];
}

const PART_COLORS = ["critical", "wait", "before", "grid", "manager"];

/** A text that breaks at its spaces only, as browsers also break names at their hyphens. */
function words(text) {
  return text.split(/( )/).map((word) =>
    (word === " " ? word : element("span", { text: word, kind: "word" })));
}

/** The top of the page. */
function showHead(model, colors) {
  const headline = document.getElementById("headline");
  const host = document.getElementById("host");
  const last = model.runs[model.runs.length - 1];
  headline.replaceChildren(...model.runs.map((run, which) => element("div", {
    children: words(model.runs.length > 1 ? `${"AB"[which]}: ${run.headline}` : run.headline) })));
  host.replaceChildren(document.createTextNode(hostsOf(model)), ...remarksOf(model));
  showParts(last, colors);
  showLegend(model, colors);
}

/** Where it was recorded; of two places both. */
function hostsOf(model) {
  const hosts = [...new Set(model.runs.map((run) => run.host))];
  return hosts.length === 1 ? hosts[0]
    : hosts.map((host, which) => `${"AB"[which]}: ${host}`).join("; ");
}

/** What is to be known of each recording before its numbers are believed. */
function remarksOf(model) {
  return model.runs.flatMap((run, which) => run.remarks.map((text) => element("div", { kind: "bad",
    text: model.runs.length > 1 ? `${"AB"[which]}: ${text}` : text })));
}

/** Where the total went, as one bar. */
function showParts(run, colors) {
  const parts = document.getElementById("parts");
  const total = run.parts.reduce((a, b) => a + b, 0) || 1;
  const texts = run.parts.map((us, at) =>
    `${partNames(run)[at]} ${timeText(us)} (${((us * 100) / total).toFixed(1)} %)`);
  parts.setAttribute("aria-label", texts.join(", "));
  parts.replaceChildren(...run.parts.flatMap((us, at) => {
    if (us === 0) return [];
    const made = element("div");
    made.style.width = `${(us * 100) / total}%`;
    made.style.background = colors[PART_COLORS[at]];
    made.title = texts[at];
    return [made];
  }));
}

function showLegend(model, colors) {
  const run = model.runs[model.runs.length - 1];
  const parts = run.parts.map((us, at) => [PART_COLORS[at], partNames(run)[at], us])
    .filter(([, , us]) => us > 0)
    .map(([color, name, us]) => [color, `${name} ${timeText(us)}`]);
  const bars = [["run", "starts"], ["stop", "stops"], ["wait", "waits"], ["own", "by itself"],
    ["up", "active"], ["bad", "failed or killed"]];
  const lane = [["manager", "the manager's CPU", run.lane.cpu.length], ["queue", "clients that wait for it",
    run.lane.queue.length], ["bad", "the path waits for it", run.lane.away.length]]
    .filter(([, , count]) => count > 0);
  const before = model.runs.length > 1 ? [["before", "A, before"]] : [];
  const repeats = run.repeats
    ? [["fg", `least, median, most of ${countText(run.repeats.count)}`]] : [];
  const legend = document.getElementById("legend");
  legend.replaceChildren(...[...parts, ...bars, ...lane, ...before, ...repeats].map(([color, text]) => {
    const swatch = element("i");
    swatch.style.background = colors[color];
    return element("span", { children: [swatch, document.createTextNode(text)] });
  }));
}

/** Units for which is computed what would be without them; each costs a walk over all bars. */
const SAVED_MAX = 100;

/** Rows with most time on the critical path: without one no more can be saved than that. */
function longestOfPath(run) {
  const took = new Map();
  for (const bar of run.path) {
    const row = run.bars.row[bar];
    took.set(row, (took.get(row) ?? 0) + ownTime(run.bars, bar));
  }
  return [...took].sort((a, b) => b[1] - a[1]).slice(0, SAVED_MAX).map(([row]) => row);
}

/** Without whom most would be saved, computed once: with very many bars it takes most of a second. */
function worthOf(run, words) {
  run.worth ??= longestOfPath(run).map((row) => ({ row, saved: savedWithout(run, words, row) }))
    .filter(({ saved }) => saved > 0).sort((a, b) => b.saved - a.saved).slice(0, 15);
  return run.worth;
}

/** What the panel shows when nothing is chosen. */
function showPath(panel, page) {
  const { model } = page;
  const which = model.runs.length - 1;
  const run = model.runs[which];
  const lines = worthOf(run, model.words).map(({ row, saved }) => element("tr", { children: [
    element("td", { kind: "n", text: signedText(-saved) }),
    element("td", { children: [unitLink(run.names[row], page)] })] }));
  const saved = lines.length === 0 ? [] : [element("h2", { text: "What would be saved" }),
    element("p", { text: "Without the time that one unit of the critical path took itself:" }),
    element("table", { children: lines })];
  panel.replaceChildren(...saved, ...pathDifferences(page), ...ranges(page), ...laneFigures(page),
    ...phases(model), ...comparison(page));
}

/** Names that are listed of those who came or left, or whose times lie furthest apart. */
const NAMES_MAX = 15;

/** Who came onto the critical path and who left it. */
function pathDifferences(page) {
  const { runs, units } = page.model;
  if (runs.length < 2 || runs.some((run) => run.path.length === 0)) return [];
  const { came, left } = pathChange(runs);
  const byName = new Map(units.map((unit) => [unit.name, unit]));
  const line = (name, which) => {
    const unit = byName.get(name);
    const one = unit.rows.includes(NONE) ? (which === 0 ? "gone" : "new") : "";
    const took = timeText(ownOf(runs[which], unit.rows[which]));
    const note = element("div", { kind: "note", text: one });
    return element("tr", { children: [element("td", { kind: "n", text: took }),
      element("td", { children: [unitLink(name, page), note] })] });
  };
  const list = (title, names, which) => (names.length === 0 ? [] : [element("h3", { text: title }),
    element("table", { children: names.slice(0, NAMES_MAX).map((name) => line(name, which)) }),
    ...moreThan(NAMES_MAX, names.length)]);
  if (came.length + left.length === 0) {
    return [element("p", { text: "The critical path leads through the same units." })];
  }
  return [...list("Came onto the critical path", came, 1), ...list("Left the critical path", left, 0)];
}

function moreThan(most, all) {
  return all > most ? [element("p", { text: `${countText(all - most)} more` })] : [];
}

const rangeText = ([least, median, most]) =>
  `${timeText(least)} / ${timeText(median)} / ${timeText(most)}`;

/** How much times differ from one recording to the other. */
function ranges(page) {
  const run = page.model.runs[page.model.runs.length - 1];
  if (!run.repeats) return [];
  const { count, whole, remark, total, path, manager } = run.repeats;
  const units = page.model.units.filter((unit) => unit.range > 0).sort(ORDERS.range);
  const lines = units.slice(0, NAMES_MAX).map((unit) => element("tr", { children: [
    element("td", { kind: "n", text: timeText(unit.range) }),
    element("td", { children: [unitLink(unit.name, page)] })] }));
  const all = [["total", total], ["critical path", path], ["the manager", manager]];
  return [element("h3", { text: `Least, median, most of ${countText(count)} recordings` }),
    ...(remark === "" ? [] : [element("p", { text: remark })]),
    ...(whole === 0 ? [] : [pairs(all.map(([name, spread]) => [name, rangeText(spread)]))]),
    ...(lines.length === 0 ? [] : [element("h3", { text: "Their times lie furthest apart" }),
      element("table", { children: lines })]), ...moreThan(NAMES_MAX, units.length)];
}

/** The same of one unit. */
function rangeDetails(run, row) {
  const repeats = run.repeats?.rows[row];
  if (!repeats) return [];
  const { count } = run.repeats;
  return [element("h3", { text: `In ${countText(count)} recordings` }), pairs([
    ["own time", rangeText(repeats)], ["ran in", countText(repeats[3])],
    ["on the critical path", repeats[4] > 0 ? `in ${countText(repeats[4])}` : "never"]])];
}

/** What the manager did itself: with its share of the whole, or against the other run. */
function phases(model) {
  const run = model.runs[model.runs.length - 1];
  if (model.runs.every((one) => one.spans.length === 0)) return [];
  const lines = model.runs.length > 1 ? phaseDifferences(model.runs) : phaseShares(run);
  const most = 40;
  const rest = lines.length > most
    ? [element("p", { text: `${countText(lines.length - most)} more` })] : [];
  return [element("h3", { text: model.runs.length > 1 ? "Phases, B against A" : "Phases" }),
    element("table", { children: lines.slice(0, most) }), ...rest];
}

function phaseShares(run) {
  const whole = largest(run.spans.map(([, , from, until]) => until - from), 1);
  return run.spans.map(([text, depth, from, until, detail]) => element("tr", { children: [
    element("td", { kind: "n", text: timeText(until - from) }),
    element("td", { kind: "n", text: `${(((until - from) * 100) / whole).toFixed(1)} %` }),
    element("td", { text: `${"\u2003".repeat(depth)}${text}` }),
    element("td", { text: detail > 0 ? detailText(text, detail) : "" })] }));
}

/** Phases of both, in the order of the first; all turns of one together. */
function phaseDifferences(runs) {
  const took = new Map();
  runs.forEach((run, which) => run.spans.forEach(([text, , from, until]) => {
    if (!took.has(text)) took.set(text, [undefined, undefined]);
    took.get(text)[which] = (took.get(text)[which] ?? 0) + until - from;
  }));
  const shown = (us) => (us === undefined ? "-" : timeText(us));
  return [...took].map(([text, [a, b]]) => element("tr", { children: [
    element("td", { kind: "n", text: signedText((b ?? 0) - (a ?? 0)) }),
    element("td", { kind: "n", text: shown(a) }), element("td", { kind: "n", text: shown(b) }),
    element("td", { text })] }));
}

/** The largest differences between two runs. */
function comparison(page) {
  const { model } = page;
  if (model.runs.length < 2) return [];
  const units = model.units.filter((unit) => unit.delta !== 0 || unit.differs)
    .sort((a, b) => Math.abs(b.delta) - Math.abs(a.delta));
  const lines = groupRows(units, "template", new Set()).slice(0, 20).map((row) => {
    const unit = row.kind === "group" ? row.members[0] : row.unit;
    const likes = row.kind === "group" ? `first of ${countText(row.members.length)} likes` : "";
    const one = unit.rows[0] === NONE ? "new" : unit.rows[1] === NONE ? "gone" : "";
    // The note stands below the name: beside it, it would break the name where it has a hyphen.
    const note = element("div", { kind: "note", text: likes === "" ? one : likes });
    return element("tr", { children: [element("td", { kind: "n", text: signedText(unit.delta) }),
      element("td", { children: [unitLink(unit.name, page), note] })] });
  });
  if (lines.length === 0) return [];
  return [element("h3", { text: "Largest differences, B against A" }),
    element("table", { children: lines })];
}

/** What the panel shows of a group. */
function showGroup(panel, row) {
  const { p50, p95, max, bad } = row.stats;
  panel.replaceChildren(element("h2", { text: row.key }), pairs([
    ["units", countText(row.members.length)],
    ["own time, median", timeText(p50)],
    ["95 % below", timeText(p95)],
    ["longest", timeText(max)],
    ["failed or killed", bad.length > 0 ? countText(bad.length) : ""],
  ]), element("p", { text: "Enter opens and closes the group." }));
}

/** What the panel shows of a unit. */
function showUnit(panel, unit, page) {
  const { model } = page;
  const which = unit.rows[model.runs.length - 1] === NONE ? 0 : model.runs.length - 1;
  const run = model.runs[which];
  const row = unit.rows[which];
  const saved = savedWithout(run, model.words, row);
  const text = saved > 0 ? `Without it: ${signedText(-saved)}` : "Without it nothing would end earlier.";
  const bars = run.barsOfRow[row];
  panel.replaceChildren(element("h2", { text: unit.name }),
    element("p", { kind: saved > 0 ? "saved" : "", text }),
    ...differenceOf(unit, model), ...bars.slice(0, 20).flatMap((bar) => barDetails(run, bar, page)),
    ...(bars.length > 20 ? [element("p", { text: `${bars.length - 20} more bars` })] : []),
    ...rangeDetails(run, row), ...counterDetails(run, row));
}

function differenceOf(unit, model) {
  if (model.runs.length < 2) return [];
  const text = unit.rows[0] === NONE ? "New: it is not in A." : unit.rows[1] === NONE
    ? "Gone: it is not in B." : `Own time ${signedText(unit.delta)} against A.`;
  const { came, left } = pathChange(model.runs);
  const path = came.includes(unit.name) ? " It came onto the critical path."
    : left.includes(unit.name) ? " It left the critical path." : "";
  return [element("p", { text: text + path })];
}

function barDetails(run, bar, page) {
  const { bars } = run;
  const { words } = page.model;
  const cause = bars.cause[bar] === NONE ? "" : ` (${run.names[bars.cause[bar]]})`;
  // Nobody asks for what a unit does by itself.
  const asked = words.asked[bars.asked[bar]];
  const by = asked === "unknown" ? cause : ` by ${asked}${cause}`;
  const ending = bars.own[bar] === NONE ? "not yet" : words.ending[bars.ending[bar]];
  const table = pairs([
    ["asked for at", `${timeText(bars.queued[bar])}${by}`],
    ["waited", bars.wait[bar] === NONE ? "never ran" : timeText(bars.wait[bar])],
    ["own time", hasRun(bars, bar) ? timeText(ownTime(bars, bar)) : ""],
    ["ended", ending],
    ["reason", reasonText(run, bar)],
    ["slack", bars.slack[bar] === NONE ? "" : timeText(bars.slack[bar])],
    ["last process", bars.pid[bar] > 0 ? String(bars.pid[bar]) : ""],
    ["", bars.kills[bar] > 0 ? element("span", { kind: "bad", text: "KILLED" }) : ""],
  ]);
  return [element("h3", { text: words.work[bars.work[bar]] }), table, ...chainDetails(run, bar, page)];
}

function reasonText(run, bar) {
  const code = run.bars.reason[bar];
  if (code === 0) return "";
  return `WR-${String(code).padStart(4, "0")} ${run.reasons[code] ?? ""}`;
}

/** Who was waited for in turn. */
function chainDetails(run, bar, page) {
  const chain = waitingChain(run, bar).slice(0, 30);
  if (chain.length === 0) return [];
  const items = chain.map((held) => element("li", { children: [
    unitLink(run.names[run.bars.row[held]], page),
    document.createTextNode(` ${timeText(ownTime(run.bars, held))}`)] }));
  return [element("h3", { text: "It waited for, the last first" }), element("ol", { children: items })];
}

function counterDetails(run, row) {
  const counters = run.counters.get(row);
  if (counters === undefined) return [];
  const [cpu, memory, read, written, tasks] = counters;
  const known = (value, text) => (value === NONE ? "" : text(value));
  return [element("h3", { text: "Counters of its cgroup" }), pairs([
    ["CPU time", known(cpu, timeText)], ["memory peak", known(memory, bytesText)],
    ["read", known(read, bytesText)], ["written", known(written, bytesText)],
    ["tasks", known(tasks, String)]])];
}

/** The few lines of the tip at the pointer. */
function tipText(page, row, us) {
  const { model } = page;
  if (row.kind === "span") {
    const [text, , from, until] = row.span;
    return `${text}\nfrom ${timeText(from)} to ${timeText(until)}: ${timeText(until - from)}`;
  }
  if (row.kind === "group") {
    const { p50, p95, max } = row.stats;
    return `${row.key}: ${countText(row.members.length)} units\n` +
      `own time: median ${timeText(p50)}, 95 % below ${timeText(p95)}, longest ${timeText(max)}`;
  }
  if (row.kind !== "unit") return "";
  const which = row.unit.rows[model.runs.length - 1] === NONE ? 0 : model.runs.length - 1;
  const run = model.runs[which];
  const bars = run.barsOfRow[row.unit.rows[which]];
  const bar = bars.find((bar) => run.shown.end[bar] >= us) ?? bars[bars.length - 1];
  const repeats = run.repeats?.rows[row.unit.rows[which]];
  const range = repeats ? `\nin ${countText(repeats[3])} recordings ${rangeText(repeats)}` : "";
  return bar === undefined ? row.unit.name
    : `${row.unit.name}\n${barTip(run, bar, model.words)}${range}`;
}

function barTip(run, bar, words) {
  const { bars } = run;
  const own = bars.wait[bar] === NONE ? "never ran"
    : bars.own[bar] === NONE ? openText(bars, bar) : `own time ${timeText(bars.own[bar])}`;
  const lines = [`${words.work[bars.work[bar]]}: ${own}`];
  const held = heldBy(run, bar, words);
  const holder = held === "" ? "" : `, at last for ${held}`;
  if (bars.wait[bar] > 0) lines.push(`waited ${timeText(bars.wait[bar])}${holder}`);
  const chain = waitingChain(run, bar).slice(1, 5).map((at) => run.names[run.bars.row[at]]);
  if (chain.length > 0) lines.push(`which waited for ${chain.join(", which waited for ")}`);
  const last = bars.pid[bar] > 0 ? `, last process ${bars.pid[bar]}` : "";
  if (bars.kills[bar] > 0) lines.push(`KILLED${last}`);
  const reason = reasonText(run, bar);
  if (reason !== "") lines.push(reason);
  return lines.join("\n");
}
