"use strict";
// The page: state, pointer and keys. Changes state, then asks for one repaint.

/** The narrowest view, in us. */
const VIEW_US_MIN = 10;

class Page {
  constructor(model) {
    this.model = model;
    this.painter = new Painter(model);
    this.state = { view: this.whole(), top: 0, rows: [], selected: NONE, overview: undefined };
    this.open = new Set();
    this.scroll = document.getElementById("scroll");
    this.tall = document.getElementById("tall");
    this.canvas = document.getElementById("rows");
    this.overview = document.getElementById("overview");
    this.panel = document.getElementById("panel");
    this.tip = document.getElementById("tip");
    this.asked = false;
    document.getElementById("sort").value = model.runs.length > 1 ? "delta" : "begin";
    document.getElementById("align").hidden = !canAlign(model);
    document.getElementById("range").hidden = !model.runs.some((run) => run.repeats);
    showHead(model, this.painter.colors);
    this.listen();
    this.rebuild();
    this.choose(NONE);
  }

  /** Everything, with a little room behind it for the last texts. */
  whole() {
    return { from: 0, until: this.model.total * WHOLE };
  }

  value(id) {
    return document.getElementById(id).value;
  }

  /** Makes the rows again after a change of search, menus or groups. */
  rebuild() {
    const chosen = this.state.rows[this.state.selected];
    const choice = { search: this.value("search").trim(), show: this.value("show"),
      group: this.value("group"), sort: this.value("sort") };
    const { rows, found } = makeRows(this.model, choice, this.open);
    this.state.rows = rows;
    this.state.selected = chosen === undefined ? NONE : rows.findIndex((row) => sameRow(row, chosen));
    // One row of room at the end. The canvas lies within: never less than what is visible.
    this.tall.style.height = `${(rows.length + 1) * ROW_HEIGHT + AXIS_HEIGHT}px`;
    document.getElementById("count").textContent =
      `${countText(found)} of ${countText(this.model.units.length)} units`;
    this.repaint();
  }

  /** Paints once before the next frame, however often it is asked for. */
  repaint() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.paintNow(); });
  }

  paintNow() {
    const { clientWidth, clientHeight } = this.scroll;
    this.state.top = this.scroll.scrollTop;
    this.painter.paint(this.canvas, this.state, clientWidth, clientHeight);
    paintOverview(this.overview, this.painter, this.state, clientWidth);
  }

  /** How wide a view may be: not narrower than can be told apart, not wider than twice the whole. */
  widthOf(us) {
    return Math.min(Math.max(us, VIEW_US_MIN), this.model.total * 2);
  }

  /** Shows from..until, as far as it may be as wide as that. */
  setView(from, until) {
    const widest = this.model.total * 2;
    const width = this.widthOf(until - from);
    const middle = (from + until) / 2;
    const left = Math.min(Math.max(middle - width / 2, -widest / 2), this.model.total);
    this.state.view = { from: left, until: left + width };
    this.repaint();
  }

  /** What is at `at` stays in its place. */
  zoom(factor, at = (this.state.view.from + this.state.view.until) / 2) {
    const { from, until } = this.state.view;
    const by = this.widthOf((until - from) * factor) / (until - from);
    this.setView(at - (at - from) * by, at + (until - at) * by);
  }

  pan(share) {
    const { from, until } = this.state.view;
    const by = (until - from) * share;
    this.setView(from + by, until + by);
  }

  usAt(x) {
    const { from, until } = this.state.view;
    return from + ((x - NAME_WIDTH) / (this.scroll.clientWidth - NAME_WIDTH)) * (until - from);
  }

  /** Chooses a row by its position and shows what is known of it. */
  choose(at) {
    this.state.selected = at;
    const row = this.state.rows[at];
    if (row?.kind === "unit") showUnit(this.panel, row.unit, this);
    else if (row?.kind === "group") showGroup(this.panel, row);
    else showPath(this.panel, this);
    if (row !== undefined) this.reveal(at);
    this.repaint();
  }

  /** Scrolls so that the row is visible. */
  reveal(at) {
    const [top, bottom] = [at * ROW_HEIGHT, (at + 2) * ROW_HEIGHT + AXIS_HEIGHT];
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    const height = this.scroll.clientHeight;
    if (bottom > this.scroll.scrollTop + height) this.scroll.scrollTop = bottom - height;
  }

  /** Chooses a unit by its name, opening its group when need be. */
  chooseName(name) {
    const find = () => this.state.rows.findIndex((row) => row.kind === "unit" && row.unit.name === name);
    let at = find();
    if (at === NONE) {
      const unit = this.model.units.find((unit) => unit.name === name);
      if (unit === undefined) return;
      this.value("group") !== "none" && this.open.add(unit[this.value("group")]);
      document.getElementById("search").value = "";
      document.getElementById("show").value = "all";
      this.rebuild();
      at = find();
    }
    this.choose(at);
  }

  /** Opens or closes a group; zooms to a unit. */
  enter(at) {
    const row = this.state.rows[at];
    if (row?.kind === "group") {
      if (!this.open.delete(row.key)) this.open.add(row.key);
      this.rebuild();
      this.choose(this.state.selected);
    } else if (row?.kind === "unit") {
      const which = row.unit.rows.findLastIndex((unit) => unit !== NONE);
      const run = this.model.runs[which];
      const bars = run.barsOfRow[row.unit.rows[which]];
      if (bars.length === 0) return;
      const from = run.shown.queued[bars[0]];
      const until = run.shown.end[bars[bars.length - 1]];
      const room = Math.max((until - from) * 0.2, VIEW_US_MIN);
      this.setView(from - room, until + room * 2);
    }
  }

  /** Goes to what held the chosen unit last. */
  holder() {
    const row = this.state.rows[this.state.selected];
    if (row?.kind !== "unit") return;
    const which = row.unit.rows.findLastIndex((unit) => unit !== NONE);
    const run = this.model.runs[which];
    const bar = run.barsOfRow[row.unit.rows[which]].find((bar) => run.bars.holder[bar] !== NONE);
    if (bar !== undefined) this.chooseName(run.names[run.bars.row[run.bars.holder[bar]]]);
  }

  listen() {
    for (const id of ["search", "show", "group", "sort"]) {
      document.getElementById(id).addEventListener("input", () => {
        this.scroll.scrollTop = 0;
        this.rebuild();
      });
    }
    const click = (id, action) => document.getElementById(id).addEventListener("click", action);
    click("in", () => this.zoom(1 / 1.6));
    click("out", () => this.zoom(1.6));
    click("fit", () => this.fit());
    click("align", () => this.toggleAlign());
    click("keys", () => document.getElementById("help").showModal());
    this.scroll.addEventListener("scroll", () => this.repaint());
    new ResizeObserver(() => this.repaint()).observe(this.scroll);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.painter.colors = readColors();
      showHead(this.model, this.painter.colors);
      this.repaint();
    });
    document.addEventListener("keydown", (event) => this.key(event));
    this.pointer();
  }

  fit() {
    this.state.view = this.whole();
    this.repaint();
  }

  /** Begins each phase of both runs at the same place, or both runs at their own begins. */
  toggleAlign() {
    const button = document.getElementById("align");
    if (button.hidden) return;
    const isAligned = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(isAligned));
    align(this.model, isAligned);
    this.state.overview = undefined;
    this.fit();
  }

  pointer() {
    this.scroll.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.press(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.lift(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("dblclick", (event) => this.enter(this.rowAt(event.offsetY)));
    this.overview.addEventListener("pointerdown", (event) => this.jump(event));
    this.overview.addEventListener("pointermove", (event) => {
      if (event.buttons === 1) this.jump(event);
    });
  }

  wheel(event) {
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    const { from, until } = this.state.view;
    // Over the names, which no time belongs to, the first moment stays where it is.
    const at = Math.min(Math.max(this.usAt(event.offsetX), from), until);
    if (event.ctrlKey) this.zoom(Math.exp(event.deltaY / 300), at);
    else if (sideways !== 0) this.pan(sideways / this.scroll.clientWidth);
    else return;
    event.preventDefault();
  }

  rowAt(y) {
    const at = Math.floor((y - AXIS_HEIGHT + this.state.top) / ROW_HEIGHT);
    return y >= AXIS_HEIGHT && at < this.state.rows.length ? at : NONE;
  }

  press(event) {
    this.drag = { x: event.offsetX, view: this.state.view, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (this.drag === undefined) return this.hover(event);
    const by = event.offsetX - this.drag.x;
    this.drag.moved ||= Math.abs(by) > 3;
    if (!this.drag.moved) return;
    const { from, until } = this.drag.view;
    const us = (by / (this.scroll.clientWidth - NAME_WIDTH)) * (until - from);
    this.setView(from - us, until - us);
  }

  lift(event) {
    const { moved } = this.drag ?? { moved: true };
    this.drag = undefined;
    if (moved) return;
    const at = this.rowAt(event.offsetY);
    this.choose(at);
    if (this.state.rows[at]?.kind === "group" && event.offsetX < NAME_WIDTH) this.enter(at);
  }

  hover(event) {
    const us = this.usAt(event.offsetX);
    const row = this.state.rows[this.rowAt(event.offsetY)];
    const isLane = event.offsetY >= TIMES_HEIGHT && event.offsetY < AXIS_HEIGHT;
    const text = isLane ? laneTip(this, us) : row === undefined ? "" : tipText(this, row, us);
    this.tip.hidden = text === "";
    this.tip.textContent = text;
    const left = Math.min(event.clientX + 14, window.innerWidth - this.tip.offsetWidth - 8);
    const top = Math.min(event.clientY + 16, window.innerHeight - this.tip.offsetHeight - 8);
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${top}px`;
  }

  /** Moves the view to where the overview was pressed. */
  jump(event) {
    const plot = this.scroll.clientWidth - NAME_WIDTH;
    const middle = ((event.offsetX - NAME_WIDTH) / plot) * this.model.total * WHOLE;
    const half = (this.state.view.until - this.state.view.from) / 2;
    this.setView(middle - half, middle + half);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.getElementById("help").open) return;
    if (event.key === "Escape") return this.escape();
    if (["INPUT", "SELECT", "BUTTON"].includes(event.target.tagName)) return;
    const action = this.keys()[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  }

  escape() {
    this.scroll.focus();
    this.choose(NONE);
  }

  keys() {
    const page = Math.max(1, Math.floor(this.scroll.clientHeight / ROW_HEIGHT) - 2);
    return {
      ArrowUp: () => this.step(-1), ArrowDown: () => this.step(1),
      PageUp: () => this.step(-page), PageDown: () => this.step(page),
      Home: () => this.step(-Infinity), End: () => this.step(Infinity),
      ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15),
      "+": () => this.zoom(1 / 1.6), "=": () => this.zoom(1 / 1.6), "-": () => this.zoom(1.6),
      0: () => this.fit(), Enter: () => this.enter(this.state.selected),
      "/": () => document.getElementById("search").focus(),
      c: () => this.cycle("show", ["all", "critical"]),
      g: () => this.cycle("group", ["template", "slice", "none"]),
      s: () => this.cycle("sort", this.orders()),
      h: () => this.holder(), a: () => this.toggleAlign(),
      "?": () => document.getElementById("help").showModal(),
    };
  }

  orders() {
    const ranged = this.model.runs.some((run) => run.repeats);
    return Object.keys(ORDERS).filter((order) => order !== "range" || ranged);
  }

  cycle(id, values) {
    const at = values.indexOf(this.value(id));
    document.getElementById(id).value = values[(at + 1) % values.length];
    this.rebuild();
  }

  /** Chooses a row further up or down; headings are passed over. */
  step(by) {
    const { rows, selected } = this.state;
    const last = rows.length - 1;
    let at = Math.min(Math.max((selected === NONE ? 0 : selected) + by, 0), last);
    const onward = by < 0 && at > 0 ? -1 : 1;
    while (rows[at]?.kind === "section" && at + onward <= last && at + onward >= 0) at += onward;
    this.choose(at);
  }
}

/** Whether two rows show the same thing. */
function sameRow(a, b) {
  if (a.kind !== b.kind || a.section !== b.section) return false;
  return a.kind === "unit" ? a.unit === b.unit : a.kind === "group" ? a.key === b.key : false;
}

async function main() {
  const headline = document.getElementById("headline");
  try {
    const model = await readData(document.getElementById("data").textContent);
    align(model, false);
    model.units = makeUnits(model.runs);
    window.page = new Page(model);
  } catch (error) {
    headline.textContent = `This chart cannot be shown: ${error.message}`;
    throw error;
  }
}

main();
