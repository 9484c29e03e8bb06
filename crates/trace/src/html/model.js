"use strict";
// The recording as the page holds it: typed columns, what-if, and texts. Nothing here touches the
// page. The other side of the columns is export/data.rs.

const NONE = -1;

/** The number of `Release::AtOnce` in words.rs. */
const RELEASE_AT_ONCE = 1;

/** What is shown of time when all of it is, as a part of the recording: there is room for texts behind bars. */
const WHOLE = 1.04;

/** Inflates the data of the page and decodes it. */
async function readData(base64) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is too old to unpack it. "
      + "A picture needs no more than an image viewer: warren chart ... -o FILE.svg");
  }
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = JSON.parse(await new Response(stream).text());
  return { words: data.words, runs: data.runs.map((run) => decodeRun(run, data.words)) };
}

/**
 * Columns of lengths become columns of times. `at` and `shown` say where times are shown: as they
 * are, or as align.js has it.
 */
function decodeRun(run, words) {
  const bars = {};
  for (const [name, values] of Object.entries(run.bars)) {
    bars[name] = name === "waited" ? values : Float64Array.from(values);
  }
  const count = bars.row.length;
  bars.count = count;
  bars.start = new Float64Array(count);
  bars.end = new Float64Array(count);
  // How long it ran as far as is known, and when what it waited for let it go.
  bars.took = new Float64Array(count).fill(NONE);
  bars.letGo = new Float64Array(count).fill(NONE);
  bars.waitedFrom = new Uint32Array(count + 1);
  let queued = 0;
  for (let bar = 0; bar < count; bar++) {
    queued += bars.queued[bar];
    bars.queued[bar] = queued;
    bars.start[bar] = queued + Math.max(0, bars.wait[bar]);
    const isOver = bars.own[bar] !== NONE;
    const wasWaitedFor = run.inTheMidst || words.work[bars.work[bar]] !== "by itself";
    const openUntil = wasWaitedFor && run.openUntil >= bars.start[bar] ? run.openUntil : NONE;
    bars.end[bar] = isOver ? bars.start[bar] + bars.own[bar]
      : openUntil !== NONE ? openUntil : Math.max(run.total, bars.start[bar]);
    if (bars.wait[bar] !== NONE) {
      bars.letGo[bar] = bars.start[bar];
      if (isOver || openUntil !== NONE) bars.took[bar] = bars.end[bar] - bars.start[bar];
    } else if (isOver && words.ending[bars.ending[bar]] === "dependency") {
      [bars.letGo[bar], bars.took[bar]] = [bars.end[bar], 0];
    }
    bars.waitedFrom[bar + 1] = bars.waitedFrom[bar] + bars.waitedCount[bar];
  }
  bars.waited = Uint32Array.from(expandWaited(bars));
  const onPath = new Set(run.path);
  const counters = new Map(run.counters.map((row) => [row[0], row.slice(1)]));
  return { ...run, bars, onPath, counters, barsOfRow: barsOfRow(run.names.length, bars),
    upsOfRow: upsOfRow(run), order: endOrder(bars), at: (us) => us, shown: bars,
    lane: decodeLane(run, bars, words) };
}

/** Units of the run's critical path, each once, in its order. */
function pathNames(run) {
  return [...new Set(run.path.map((bar) => run.names[run.bars.row[bar]]))];
}

/** Who came onto the critical path from the first run to the second, and who left it: nobody, if one of
    them has none, as one that was cut may. */
function pathChange(runs) {
  if (runs.some((run) => run.path.length === 0)) return { came: [], left: [] };
  const [before, after] = runs.map(pathNames);
  const [was, is] = [new Set(before), new Set(after)];
  return { came: after.filter((name) => !was.has(name)), left: before.filter((name) => !is.has(name)) };
}

function* expandWaited(bars) {
  for (let bar = 0; bar < bars.count; bar++) {
    for (let at = bars.waitedFrom[bar]; at < bars.waitedFrom[bar + 1]; at++) {
      yield bar - bars.waited[at];
    }
  }
}

function barsOfRow(rows, bars) {
  const out = Array.from({ length: rows }, () => []);
  for (let bar = 0; bar < bars.count; bar++) out[bars.row[bar]].push(bar);
  return out;
}

function upsOfRow(run) {
  const out = new Map();
  run.ups.row.forEach((row, at) => {
    const from = run.ups.from[at];
    const length = run.ups.length[at];
    const until = length === NONE ? Infinity : from + length;
    if (!out.has(row)) out.set(row, []);
    out.get(row).push([from, until]);
  });
  return out;
}

/** Whether the bar ran, to its end or to that of a recording in whose midst it is. */
function hasRun(bars, bar) {
  return bars.wait[bar] !== NONE && bars.took[bar] !== NONE;
}

/** Its own time: none when it never ran. */
function ownTime(bars, bar) {
  return hasRun(bars, bar) ? bars.took[bar] : 0;
}

/** Of what is not over: for how long it has run, where that is known. */
function openText(bars, bar) {
  return hasRun(bars, bar) ? `${timeText(ownTime(bars, bar))}, not over` : "not over";
}

/** Bars that ran, and those that failed with another, each after all that it waited for. */
function endOrder(bars) {
  const ran = [];
  for (let bar = 0; bar < bars.count; bar++) if (bars.took[bar] !== NONE) ran.push(bar);
  const before = new Uint32Array(bars.count);
  const after = Array.from({ length: bars.count }, () => []);
  for (const bar of ran) {
    for (const held of waitedFor(bars, bar)) {
      if (bars.took[held] === NONE) continue;
      before[bar]++;
      after[held].push(bar);
    }
  }
  const order = ran.filter((bar) => before[bar] === 0);
  for (let at = 0; at < order.length; at++) {
    for (const next of after[order[at]]) if (--before[next] === 0) order.push(next);
  }
  return order;
}

function waitedFor(bars, bar) {
  return bars.waited.subarray(bars.waitedFrom[bar], bars.waitedFrom[bar + 1]);
}

/** Whether a word of `words.release` tells of something that is not a unit. */
function isOutside(words, by) {
  return ["a timer", "a condition", "a device"].includes(words.release[by]);
}

/** What a bar waited for last, a unit's name or words; nothing when it could run at once. */
function heldBy(run, bar, words) {
  const edge = run.bars.edge[bar];
  if (edge !== NONE) return run.names[edge];
  const by = words.release[run.bars.by[bar]] ?? "";
  return by === words.release[RELEASE_AT_ONCE] ? "" : by;
}

/** Whether the whole waits for such a bar, as path.rs has it. */
function counts(run, words, bar) {
  const work = words.work[run.bars.work[bar]];
  const stops = ["stop", "restart"].includes(work);
  const ends = stops || work === "start";
  const waited = run.subject === "boot" ? !stops : run.subject === "shutdown" ? ends : true;
  return waited && hasRun(run.bars, bar) && run.bars.end[bar] >= 0 && run.bars.end[bar] <= run.total;
}

/** How much earlier the last of all that was waited for would have ended without a row's own time, in µs. */
function savedWithout(run, words, row) {
  const { bars } = run;
  const ends = Float64Array.from(bars.end);
  for (const bar of run.order) {
    let released = NONE;
    let was = NONE;
    for (const held of waitedFor(bars, bar)) {
      released = Math.max(released, ends[held]);
      was = Math.max(was, bars.end[held]);
    }
    let begin = bars.letGo[bar];
    if (was !== NONE) {
      begin = isOutside(words, bars.by[bar]) ? Math.max(released, begin)
        : released + Math.max(0, begin - was);
    }
    ends[bar] = begin + (bars.row[bar] === row ? 0 : bars.took[bar]);
  }
  let [now, then] = [0, 0];
  for (let bar = 0; bar < bars.count; bar++) {
    if (!counts(run, words, bar)) continue;
    now = Math.max(now, bars.end[bar]);
    then = Math.max(then, ends[bar]);
  }
  return Math.max(0, now - then);
}

/** The bars that held this one, the last first: what one waits for in turn. */
function waitingChain(run, bar) {
  const chain = [];
  for (let held = run.bars.holder[bar]; held !== NONE; held = run.bars.holder[held]) {
    chain.push(held);
    if (chain.length > run.bars.count) break;
  }
  return chain;
}

/** A name without what distinguishes its many like: instance and numbers. */
function templateOf(name) {
  const at = name.indexOf("@");
  const dot = name.lastIndexOf(".");
  if (at > 0 && dot > at + 1) return name.slice(0, at + 1) + "*" + name.slice(dot);
  return name.replace(/[0-9]+/g, "*");
}

/** A length of time; the same text as show.rs makes, rounded as it does there. */
function timeText(us) {
  const size = Math.abs(us);
  const sign = us < 0 ? "-" : "";
  const rounded = (unit, digits) =>
    (Math.floor((size + unit / 2) / unit) / 10 ** digits).toFixed(digits);
  if (size < 1e3) return `${Math.round(us)} us`;
  if (size < 99950) return `${sign}${rounded(100, 1)} ms`;
  if (size < 999500) return `${sign}${rounded(1e3, 0)} ms`;
  if (size < 12e7) return `${sign}${rounded(1e3, 3)} s`;
  return `${Math.trunc(us / 6e7)} min ${Math.trunc(size / 1e6) % 60} s`;
}

function signedText(us) {
  if (us === 0) return timeText(0);
  return us < 0 ? `\u2212${timeText(-us)}` : `+${timeText(us)}`;
}

/** Bytes with a power of 1,024. */
function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (bytes >= 1024 && power < units.length - 1) { bytes /= 1024; power++; }
  return `${power === 0 ? bytes : bytes.toFixed(1)} ${units[power]}`;
}

function countText(count) {
  return count.toLocaleString("en-US");
}
