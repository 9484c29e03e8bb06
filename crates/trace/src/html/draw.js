"use strict";
// Painting: the rows that are visible, the axis, the overview. Reads the state, changes nothing.

const ROW_HEIGHT = 20;
const TIMES_HEIGHT = 36;
/** What stands above the rows: the times, and below them the manager's lane. */
const AXIS_HEIGHT = TIMES_HEIGHT + LANE_HEIGHT;
const NAME_WIDTH = 360;
const FONT = "12px system-ui, 'DejaVu Sans', sans-serif";
const BOLD = `bold ${FONT}`;

const COLORS = ["bg", "panel", "fg", "muted", "grid", "zone0", "zone1", "wait", "run", "stop",
  "reload", "own", "up", "critical", "bad", "select", "manager", "before", "queue"];

/** The colours of the page's style, which depend on the reader's theme. */
function readColors() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(COLORS.map((name) => [name, style.getPropertyValue(`--${name}`)]));
}

/** Makes a canvas as fine as the screen; its context works in the page's pixels. */
function fitCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = FONT;
  context.textBaseline = "middle";
  return context;
}

/** Text that is cut with an ellipsis where it does not fit. */
function fitText(context, text, width) {
  if (width < 8) return "";
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}\u2026`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? "" : `${text.slice(0, low)}\u2026`;
}

/** A step of 1, 2 or 5 times a power of ten. */
function tickStep(span, ticks) {
  const rough = span / ticks;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5, 10].find((factor) => power * factor >= rough));
}

function tickText(us, step) {
  const [unit, scale] = step < 1e3 ? ["us", 1] : step < 1e6 ? ["ms", 1e3] : ["s", 1e6];
  return `${Number((us / scale).toFixed(3)).toLocaleString("en-US")} ${unit}`;
}

class Painter {
  constructor(model) {
    this.model = model;
    this.colors = readColors();
  }

  x(us) {
    return NAME_WIDTH + (us - this.view.from) * this.scale;
  }

  /** Paints everything that is visible. `state` is the page's. */
  paint(canvas, state, width, height) {
    this.context = fitCanvas(canvas, width, height);
    this.view = state.view;
    this.width = width;
    this.height = height;
    this.scale = (width - NAME_WIDTH) / (state.view.until - state.view.from);
    this.state = state;
    const { context, colors } = this;
    context.fillStyle = colors.bg;
    context.fillRect(0, 0, width, height);
    this.zones();
    const first = Math.floor(state.top / ROW_HEIGHT);
    const last = Math.min(state.rows.length, Math.ceil((state.top + height) / ROW_HEIGHT));
    this.clipped(NAME_WIDTH, () => {
      this.placed = new Map();
      for (let at = first; at < last; at++) this.row(state.rows[at], at);
      this.connect();
    });
    for (let at = first; at < last; at++) this.label(state.rows[at], at);
    this.axis();
  }

  /** What is painted within does not leave the plot. */
  clipped(left, paint) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(left, AXIS_HEIGHT, this.width - left, this.height - AXIS_HEIGHT);
    context.clip();
    paint();
    context.restore();
  }

  rowTop(at) {
    return AXIS_HEIGHT + at * ROW_HEIGHT - this.state.top;
  }

  /** Phases of the first depth tint the ground. */
  zones() {
    const run = this.model.runs[this.model.runs.length - 1];
    const { context, colors } = this;
    run.spans.filter((span) => span[1] === 1).forEach((span, at) => {
      const from = Math.max(NAME_WIDTH, this.x(run.at(span[2])));
      const until = Math.min(this.width, this.x(run.at(span[3])));
      context.fillStyle = at % 2 === 0 ? colors.zone0 : colors.zone1;
      if (until > from) context.fillRect(from, 0, until - from, this.height);
    });
  }

  axis() {
    const { context, colors, view } = this;
    context.fillStyle = colors.panel;
    context.fillRect(0, 0, this.width, TIMES_HEIGHT);
    const step = tickStep(view.until - view.from, (this.width - NAME_WIDTH) / 110);
    context.textAlign = "center";
    // Aligned zones have times of their own.
    const places = this.model.places ?? [0];
    let free = -Infinity;
    places.forEach((zero, at) => {
      const from = at === 0 ? view.from : Math.max(view.from, zero);
      const until = Math.min(view.until, places[at + 1] ?? Infinity);
      free = this.ticks({ zero, from, until, step }, free);
    });
    context.textAlign = "left";
    this.zoneNames();
    paintLane(this, TIMES_HEIGHT);
  }

  /** Times from `zero` on, right of what is `free`; what is free then. */
  ticks({ zero, from, until, step }, free) {
    const { context, colors } = this;
    for (let tick = Math.ceil((from - zero) / step) * step; zero + tick <= until; tick += step) {
      const x = this.x(zero + tick);
      const text = tickText(tick, step);
      const half = context.measureText(text).width / 2;
      if (x >= NAME_WIDTH && x - half >= free && x + half <= this.width) {
        context.fillStyle = colors.muted;
        context.fillText(text, x, 26);
        free = x + half + 4;
      }
      context.fillStyle = colors.grid;
      context.fillRect(x, TIMES_HEIGHT - 4, 1, 4);
    }
    return free;
  }

  /** Names of the zones, where they fit. */
  zoneNames() {
    const run = this.model.runs[this.model.runs.length - 1];
    this.context.fillStyle = this.colors.muted;
    for (const [text, depth, from, until] of run.spans) {
      if (depth !== 1) continue;
      const left = Math.max(NAME_WIDTH, this.x(run.at(from))) + 4;
      const room = Math.min(this.width, this.x(run.at(until))) - left - 4;
      const shown = fitText(this.context, text, room);
      if (shown.length > 3) this.context.fillText(shown, left, 9);
    }
  }

  row(row, at) {
    const top = this.rowTop(at);
    if (at === this.state.selected) {
      this.context.fillStyle = this.colors.select;
      this.context.fillRect(NAME_WIDTH, top, this.width, ROW_HEIGHT);
    }
    if (row.kind === "section") this.connect();
    else if (row.kind === "unit") this.unit(row, top);
    else if (row.kind === "group") this.group(row, top);
    else if (row.kind === "span") this.span(row, top);
  }

  label(row, at) {
    const { context, colors } = this;
    const top = this.rowTop(at);
    const chosen = at === this.state.selected;
    context.fillStyle = row.kind === "section" ? colors.panel : chosen ? colors.select : colors.bg;
    context.fillRect(0, top, row.kind === "section" ? this.width : NAME_WIDTH, ROW_HEIGHT);
    const left = 12 + (row.depth ?? 0) * 14;
    const [text, note] = labelOf(row, this.model.runs.length);
    context.font = FONT;
    const noteWidth = note === "" ? 0 : context.measureText(note).width + 10;
    context.font = row.kind === "section" ? BOLD : FONT;
    context.fillStyle = row.kind === "unit" && row.unit.critical ? colors.critical : colors.fg;
    if (row.kind === "unit" && (row.unit.failed || row.unit.killed)) context.fillStyle = colors.bad;
    const room = (row.kind === "section" ? this.width : NAME_WIDTH) - left - noteWidth - 6;
    context.fillText(fitText(context, text, room), left, top + ROW_HEIGHT / 2);
    context.fillStyle = colors.muted;
    context.font = FONT;
    if (note !== "") context.fillText(note, NAME_WIDTH - noteWidth, top + ROW_HEIGHT / 2);
  }

  span({ span, which }, top) {
    const [, , from, until, detail] = span;
    const color = which < this.model.runs.length - 1 ? this.colors.before : this.colors.manager;
    const [left, right] = [from, until].map((us) => this.x(this.model.runs[which].at(us)));
    this.block(left, right, top + 5, 10, color);
    const note = detail > 0 ? `${timeText(until - from)}, ${detailText(span[0], detail)}`
      : timeText(until - from);
    this.note(left, right, top, note);
  }

  /** A unit: with two runs the first above the second. */
  unit({ unit }, top) {
    const runs = this.model.runs;
    const height = ROW_HEIGHT / runs.length;
    unit.rows.forEach((row, which) => {
      if (row !== NONE) this.lane(runs[which], row, which, top + which * height, height);
    });
  }

  lane(run, row, which, top, height) {
    for (const [from, until] of run.upsOfRow.get(row) ?? []) {
      const end = Math.min(this.x(run.at(until)), this.width);
      this.block(this.x(run.at(from)), end, top + height - 4, 3, this.colors.up);
    }
    const bars = run.barsOfRow[row];
    bars.forEach((bar, at) => {
      const next = at + 1 < bars.length ? this.x(run.shown.queued[bars[at + 1]]) : this.width;
      const before = at > 0 ? this.x(run.shown.end[bars[at - 1]]) : NAME_WIDTH;
      const faded = which < this.model.runs.length - 1;
      this.bar(run, bar, { top, height, before, next, faded });
    });
    const repeats = run.repeats?.rows[row];
    if (repeats && bars.length > 0) this.whisker(run, bars[0], repeats, top);
  }

  /** From the least to the most of the unit's own times in many recordings, with the median: above the
      bar, whose texts it leaves free. */
  whisker(run, bar, [least, median, most], top) {
    if (most === least) return;
    const [from, between, until] = [least, median, most].map((us) => this.x(run.shown.start[bar] + us));
    this.block(from, until, top + 2, 1, this.colors.fg);
    [from, until].forEach((x) => this.block(x, x + 1, top, 5, this.colors.fg));
    this.block(between - 1, between + 1, top, 7, this.colors.fg);
  }

  bar(run, bar, { top, height, before, next, faded }) {
    const { bars } = run;
    const { shown } = run;
    const [queued, start, end] = [shown.queued[bar], shown.start[bar], shown.end[bar]]
      .map((us) => this.x(us));
    const middle = top + height / 2;
    if (bars.wait[bar] === NONE) {
      return this.neverRan(run, bar, { queued, end, top, height, before, next });
    }
    if (start > queued) this.block(queued, start, middle - 2, 4, this.colors.wait);
    const thick = height - (height > 12 ? 8 : 3);
    const color = faded ? this.colors.before : this.barColor(run, bar);
    this.block(start, end, middle - thick / 2, thick, color);
    if (run.onPath.has(bar) && !faded) this.placed.set(bar, { run, start, end, middle });
    if (height > 12) this.barTexts(run, bar, { queued, start, end, top, before, next });
  }

  /** It waited until it was given up, or still does: how that ended stands behind it. */
  neverRan(run, bar, { queued, end, top, height, before, next }) {
    const failed = hasFailed(run, bar);
    this.block(queued, end, top + height / 2 - 2, 4, this.colors.wait);
    if (failed) this.block(end - 2, end, top + 4, height - 8, this.colors.bad);
    if (height <= 12) return;
    const ending = run.bars.own[bar] === NONE ? "not over"
      : this.model.words.ending[run.bars.ending[bar]];
    this.note(queued, end, top, ending, before, next);
  }

  barColor(run, bar) {
    if (run.bars.kills[bar] > 0 || hasFailed(run, bar)) return this.colors.bad;
    if (run.onPath.has(bar)) return this.colors.critical;
    const work = this.model.words.work[run.bars.work[bar]];
    return { stop: this.colors.stop, restart: this.colors.stop, reload: this.colors.reload,
      "by itself": this.colors.own }[work] ?? this.colors.run;
  }

  /** Who held it, on the waiting part; how long it took, behind it. */
  barTexts(run, bar, { queued, start, end, top, before, next }) {
    const held = heldBy(run, bar, this.model.words);
    const left = Math.max(queued, NAME_WIDTH);
    if (held !== "" && start - left > 60) {
      const text = fitText(this.context, `after ${held}`, start - left - 8);
      const width = this.context.measureText(text).width;
      if (text.length > 8) {
        this.context.fillStyle = this.colors.bg;
        this.context.fillRect(start - width - 7, top + 3, width + 4, ROW_HEIGHT - 6);
        this.context.fillStyle = this.colors.muted;
        this.context.fillText(text, start - width - 5, top + ROW_HEIGHT / 2);
      }
    }
    const killed = run.bars.kills[bar] > 0 ? " KILLED" : "";
    const own = run.bars.own[bar];
    const text = (own === NONE ? openText(run.bars, bar) : timeText(own)) + killed;
    if (!this.note(queued, end, top, text, before, next)) this.noteWithin(start, end, top, text);
  }

  /** A text behind a bar or before it, where nothing else is; whether there was room. */
  note(from, until, top, text, before = NAME_WIDTH, next = this.width) {
    const { context } = this;
    const width = context.measureText(text).width;
    context.fillStyle = this.colors.muted;
    const behind = Math.max(until, NAME_WIDTH) + 5;
    const isBehind = behind + width < Math.min(next, this.width);
    const left = isBehind ? behind : from - width - 5;
    if (!isBehind && left < Math.max(before, NAME_WIDTH)) return false;
    context.fillText(text, left, top + ROW_HEIGHT / 2);
    return true;
  }

  /** A text within the visible part of a bar, when it fits. */
  noteWithin(start, end, top, text) {
    const { context } = this;
    const [left, right] = [Math.max(start, NAME_WIDTH), Math.min(end, this.width)];
    const width = context.measureText(text).width;
    if (right - left < width + 10) return;
    context.fillStyle = this.colors.bg;
    context.fillText(text, right - width - 5, top + ROW_HEIGHT / 2);
  }

  /** A rectangle that is seen even when it is shorter than a pixel. */
  block(from, until, top, height, color) {
    if (until < NAME_WIDTH - 1 || from > this.width) return;
    this.context.fillStyle = color;
    const left = Math.max(from, NAME_WIDTH - 1);
    const right = Math.min(Math.max(until, from + 1), this.width + 1);
    this.context.fillRect(left, top, Math.max(1, right - left), height);
  }

  /** Members of a group as a row of densities; those that failed or were killed in front. */
  group(row, top) {
    const runs = this.model.runs;
    const height = ROW_HEIGHT / runs.length;
    runs.forEach((run, which) => {
      const bottom = top + (which + 1) * height - 2;
      const faded = which < runs.length - 1;
      const color = faded ? this.colors.before : this.groupColor(run);
      const most = this.densities(run, which, row.members, { bottom, height, color });
      if (faded || row.stats.bad.length === 0) return;
      this.densities(run, which, row.stats.bad, { bottom, height, color: this.colors.bad, most });
    });
  }

  /** One column for each pixel; its height is the root of how many run at once there. */
  densities(run, which, members, { bottom, height, color, most }) {
    const columns = Math.max(1, Math.round(this.width - NAME_WIDTH));
    const counts = density(run, which, members, this.view, columns);
    const highest = most ?? Math.max(1, counts.reduce((a, b) => Math.max(a, b), 0));
    this.context.fillStyle = color;
    counts.forEach((count, column) => {
      if (count === 0) return;
      const high = Math.max(1.5, (height - 4) * Math.sqrt(count / highest));
      this.context.fillRect(NAME_WIDTH + column, bottom - high, 1, high);
    });
    return highest;
  }

  groupColor(run) {
    return run.subject === "shutdown" ? this.colors.stop : this.colors.run;
  }

  /** Lines from each bar of the critical path to the next, where one section shows both. */
  connect() {
    const { context } = this;
    context.strokeStyle = this.colors.critical;
    context.lineWidth = 1.2;
    context.beginPath();
    for (const [bar, at] of this.placed) {
      const from = this.placed.get(at.run.bars.holder[bar]);
      if (from === undefined) continue;
      context.moveTo(from.end, from.middle);
      context.lineTo(from.end, at.middle);
      context.lineTo(at.start, at.middle);
    }
    context.stroke();
    this.placed.clear();
  }
}

/** The text of a row's name and the note behind it. */
function labelOf(row, runs) {
  switch (row.kind) {
    case "section": return [row.label, row.note ?? ""];
    case "span": return [`${row.span[0]}${runs > 1 ? (row.which === 0 ? " (A)" : " (B)") : ""}`, ""];
    case "group": {
      const { p50, p95, max, delta } = row.stats;
      const mark = row.isOpen ? "\u25be" : "\u25b8";
      const note = runs > 1 ? deltaText(delta) && `${deltaText(delta)} each`
        : `${timeText(p50)} / ${timeText(p95)} / ${timeText(max)}`;
      return [`${mark} ${countText(row.members.length)} \u00d7 ${row.key}`, note];
    }
    default: {
      const { unit } = row;
      if (runs === 1) return [unit.name, ""];
      const note = unit.rows[0] === NONE ? "new" : unit.rows[1] === NONE ? "gone"
        : deltaText(unit.delta);
      return [unit.name, note];
    }
  }
}

/** What a phase of the manager counts. */
const COUNTED = { "look for changed files": "file", "parse": "file", "compute units": "unit",
  "swap the generation": "unit", "load": "unit" };

/** A count with what it is of. */
function detailText(phase, count) {
  const word = COUNTED[phase];
  return word === undefined ? countText(count) : `${countText(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** A difference; nothing for none. */
function deltaText(us) {
  return us === 0 ? "" : signedText(us);
}

/** The whole recording in one strip, with the part that is shown below. */
function paintOverview(canvas, painter, state, width) {
  const height = 44;
  const context = fitCanvas(canvas, width, height);
  const { model, colors } = painter;
  const plot = Math.max(1, Math.round(width - NAME_WIDTH));
  const run = model.runs[model.runs.length - 1];
  // As wide as all of it is below.
  const whole = model.total * WHOLE;
  context.fillStyle = colors.bg;
  context.fillRect(0, 0, width, height);
  if (state.overview === undefined || state.overview.length !== plot) {
    const all = { from: 0, until: whole };
    state.overview = density(run, model.runs.length - 1, model.units, all, plot);
  }
  const running = state.overview.reduce((a, b) => Math.max(a, b), 0);
  const most = Math.max(1, running);
  context.fillStyle = painter.groupColor(run);
  state.overview.forEach((count, column) => {
    const high = (height - 6) * Math.sqrt(count / most);
    context.fillRect(NAME_WIDTH + column, height - high, 1, high);
  });
  context.fillStyle = colors.muted;
  const atOnce = running === 0 ? "no unit runs" : `running at once: up to ${countText(running)}`;
  context.fillText(atOnce, 12, height / 2);
  const from = NAME_WIDTH + (Math.max(0, state.view.from) / whole) * plot;
  const until = NAME_WIDTH + (Math.min(whole, state.view.until) / whole) * plot;
  context.fillStyle = colors.fg;
  context.globalAlpha = 0.12;
  context.fillRect(NAME_WIDTH, 0, from - NAME_WIDTH, height);
  context.fillRect(until, 0, width - until, height);
  context.globalAlpha = 1;
  context.fillRect(from, 0, 1, height);
  context.fillRect(Math.min(width - 1, until), 0, 1, height);
}
