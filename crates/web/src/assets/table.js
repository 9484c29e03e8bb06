// A page of a table that the server has filtered, sorted and cut. Rows that change are exchanged one by one.

import { STATES } from './strip.js';

/** An element with attributes, handlers (`onclick`) and children; texts stay texts. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** `1h2m`, as the command prints it. */
export function span(us) {
  if (us === null || us === undefined) return '-';
  const seconds = us / 1e6;
  if (seconds < 1) return `${Math.round(us / 1000)}ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)}s`;
  const whole = Math.floor(seconds);
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']];
  const first = parts.findIndex(([size]) => whole >= size);
  return parts.slice(first, first + 2).map(([size, letter], n) => {
    const count = Math.floor(whole / size) % (n ? parts[first][0] / size : Infinity);
    return count || !n ? `${count}${letter}` : '';
  }).join('');
}

export function bytes(n) {
  if (n === null || n === undefined) return '-';
  const units = ['B', 'K', 'M', 'G', 'T'];
  let at = 0;
  let value = n;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${value >= 10 || at === 0 ? Math.round(value) : value.toFixed(1)}${units[at]}`;
}

export const count = (n) => Number(n).toLocaleString('en');

export function moment(us) {
  const date = new Date(us / 1000);
  const two = (n) => String(n).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

const LETTER = { failed: 'f', active: 'a', activating: 't', deactivating: 't', reloading: 't' };

/** A state in words, with its mark. */
export function state(active, sub) {
  const letter = LETTER[active] || 'i';
  const more = sub && sub !== active ? ` (${sub})` : '';
  return el('span', { class: `s-${active}` }, el('span', { class: 'whole' }, el('span', { class: 'mark', 'aria-hidden': 'true' }, STATES[letter].mark), ` ${active}`), more);
}

export const unitLink = (name) => el('a', { href: `#/unit/${encodeURIComponent(name)}` }, name);

const GROUPS = { containers: 'container', slices: 'slice', templates: 'template' };

/** What a row's cgroups use, in the console's words; `-` where nothing is known of it. */
const USED = [
  ['CPU %', 'cpu', (row) => row.p ?? '-', 'number'],
  ['Memory', 'memory', (row) => row.m ?? '-', 'number'],
  ['Tasks', 'tasks', (row) => (row.q === undefined ? '-' : count(row.q)), 'number wide'],
  ['Read, written / s', 'io', (row) => (row.i ? row.i.join(', ') : '-'), 'number wide'],
  ['Waits %', 'waits', (row) => (row.z ? row.z.join(' ') : '-'), 'number wide'],
];

/** What tables there are: their columns are a title, how to sort by it, and a cell. */
const COLUMNS = {
  units: [
    ['Unit', 'name', (row) => unitLink(row.n), 'name'],
    ['State', 'state', (row) => state(row.s, row.b)],
    ...USED,
    ['In it for', 'since', (row, now) => (row.t ? span(Math.max(0, now * 1000 - row.t)) : '-'), 'number'],
    ['Restarts', 'restarts', (row) => (row.r ? count(row.r) : '-'), 'number'],
    ['Container', null, (row) => (row.c ? groupLink('containers', row.c) : '-'), 'wide whole'],
    ['Why', null, (row) => row.w || '', 'why wide'],
  ],
  trouble: [
    ['Root cause', null, (row, now, view) => [unfolder(row, view), unitLink(row.n)], 'name'],
    ['State', null, (row) => state(row.s, row.b)],
    ['Blocks', null, (row) => (row.h ? count(row.h) : '-'), 'number'],
    ['For', null, (row, now) => (row.t ? span(Math.max(0, now * 1000 - row.t)) : '-'), 'number'],
    ['Why', null, (row) => (row.k === 'restarting' ? `started again ${count(row.r || 0)} times: ${row.w || 'it ends'}` : row.w || ''), 'why'],
  ],
  jobs: [
    ['Unit', null, (row) => (row.k === 'wait' && !row.j[3] ? row.n : unitLink(row.n)), 'name'],
    ['Job', null, (row) => (row.k === 'wait' ? `the shutdown waits: ${row.j[0]}` : row.j[0])],
    ['For', null, (row) => span(row.j[1]), 'number'],
    ['Waits for', null, waitsFor, 'why'],
  ],
  groups: [
    ['Name', 'name', (row, now, view) => groupLink(view, row.n), 'name'],
    ['Units', null, (row) => count(row.u[0]), 'number'],
    ['Up', null, (row) => count(row.u[1]), 'number'],
    ['Failed', 'state', (row) => (row.u[2] ? el('span', { class: 's-failed' }, `✖ ${count(row.u[2])}`) : '-'), 'number'],
    ...USED,
    ['Restarts', 'restarts', (row) => (row.r ? count(row.r) : '-'), 'number'],
    ['Last change', 'since', (row, now) => (row.t ? `${span(Math.max(0, now * 1000 - row.t))} ago` : '-'), 'number'],
  ],
};

function waitsFor(row) {
  if (row.k === 'wait') return row.j[2] === null ? 'no limit' : `${span(row.j[2])} left`;
  if (!row.j[2]) return 'nothing: it is at work';
  const more = row.j[2] - 1;
  return [row.j[3] ? unitLink(row.j[3]) : 'another job', more > 0 ? ` and ${count(more)} more` : ''];
}

export function groupLink(view, name) {
  return el('a', { href: `#/units?within=${view}:${encodeURIComponent(name)}` }, name);
}

function unfolder(row, view) {
  if (row.k !== 'cause' || !row.h) return null;
  const label = row.o ? `Hide what ${row.n} blocks` : `Show what ${row.n} blocks`;
  return el('button', { type: 'button', class: 'fold', 'aria-expanded': String(row.o), 'aria-label': label, onclick: () => view.unfold(row.n) }, row.o ? '−' : '+');
}

export class Table {
  /** `view` has: kind, sort, inverted, may_act, set(parameters), unfold(name), act(verb, names). */
  constructor(box, view) {
    this.box = box;
    this.view = view;
    this.columns = COLUMNS[view.kind in GROUPS ? 'groups' : view.kind];
    this.marked = new Set();
    this.can = view.may_act && (view.kind === 'units' || view.kind === 'trouble');
    this.body = el('tbody');
    this.caption = el('caption');
    const heads = this.columns.map(([title, sort, , kind]) => this.head(title, sort, kind));
    if (this.can) heads.unshift(el('th', { scope: 'col', class: 'tick' }, el('span', { class: 'unseen' }, 'Mark')));
    this.table = el('table', {}, this.caption, el('thead', {}, el('tr', {}, heads)), this.body);
    this.pager = el('div', { class: 'buttons' });
    this.actions = this.can ? el('div', { class: 'tools' }, ['start', 'stop', 'restart', 'clear'].map((verb) => el('button', {
      type: 'button', onclick: () => this.marked.size && this.view.act(verb, [...this.marked]),
    }, verb[0].toUpperCase() + verb.slice(1))), el('span', { class: 'dim' }, '')) : null;
    box.replaceChildren(...[this.actions, el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Table of ${view.kind}` }, this.table), this.pager].filter(Boolean));
    this.remark();
  }

  head(title, sort, kind) {
    const { view } = this;
    if (!sort || view.fixed) return el('th', { scope: 'col', class: kind }, title);
    const isThis = view.sort === sort;
    const order = !isThis ? 'none' : view.inverted ? 'descending' : 'ascending';
    return el('th', { scope: 'col', class: kind, 'aria-sort': order }, el('button', {
      type: 'button', onclick: () => view.set({ sort, inverted: isThis && !view.inverted ? '1' : null, from: null }),
    }, title + (isThis ? (view.inverted ? ' ▲' : ' ▼') : '')));
  }

  /** Takes a whole page of rows. */
  show({ total, from, rows }, now) {
    this.rows = rows;
    this.now = now;
    const focused = this.focused();
    this.body.replaceChildren(...rows.map((row) => this.row(row)));
    this.refocus(focused);
    this.count(total, from);
  }

  /** Takes rows that changed. */
  change({ total, from, changed }, now) {
    this.now = now;
    const focused = this.focused();
    for (const [place, row] of changed) {
      this.rows[place] = row;
      this.body.children[place].replaceWith(this.row(row));
    }
    this.refocus(focused);
    this.count(total, from);
  }

  /** Ages go on though nothing has changed. */
  tick(now) {
    if (!this.rows || Math.abs(now - this.now) < 5000) return;
    this.show({ total: this.total, from: this.from, rows: this.rows }, now);
  }

  focused() {
    const active = document.activeElement;
    const line = active && active.closest && active.closest('tr');
    if (!line || line.parentNode !== this.body) return null;
    return { name: line.dataset.name, at: [...line.querySelectorAll('a, button, input')].indexOf(active) };
  }

  refocus(focused) {
    if (!focused || document.activeElement !== document.body) return;
    const line = [...this.body.children].find((it) => it.dataset.name === focused.name);
    const node = line && line.querySelectorAll('a, button, input')[focused.at];
    if (node) node.focus({ preventScroll: true });
  }

  row(row) {
    const of = this.view.kind in GROUPS ? this.view.kind : this.view;
    const cells = this.columns.map(([, , cell, kind]) => el('td', { class: kind }, cell(row, this.now, of)));
    if (this.can) {
      const box = el('input', { type: 'checkbox', 'aria-label': `Mark ${row.n}`, onchange: (event) => {
        this.marked[event.target.checked ? 'add' : 'delete'](row.n);
        this.remark();
      } });
      box.checked = this.marked.has(row.n);
      cells.unshift(el('td', { class: 'tick' }, box));
    }
    return el('tr', { class: row.d ? 'below' : null, 'data-name': row.n }, cells);
  }

  remark() {
    if (!this.actions) return;
    for (const button of this.actions.querySelectorAll('button')) button.disabled = !this.marked.size;
    this.actions.lastChild.textContent = this.marked.size ? `${this.marked.size} marked` : 'Mark units to act on them.';
  }

  count(total, from) {
    this.total = total;
    this.from = from;
    const size = this.view.rows;
    const last = from + this.rows.length;
    const what = this.view.what;
    this.caption.textContent = total ? `${what}: ${count(from + 1)} to ${count(last)} of ${count(total)}` : `${what}: nothing`;
    this.table.tHead.hidden = !total;
    if (this.view.fixed) return;
    const key = `${total} ${from}`;
    if (this.paged === key) return;
    this.paged = key;
    const go = (title, to, enabled) => {
      const button = el('button', { type: 'button', onclick: () => this.view.set({ from: to || null }) }, title);
      button.disabled = !enabled;
      return button;
    };
    const end = Math.floor(Math.max(total - 1, 0) / size) * size;
    this.pager.replaceChildren(...(total > size ? [
      go('First', 0, from > 0), go('Previous', Math.max(from - size, 0), from > 0),
      go('Next', from + size, last < total), go('Last', end, last < total),
    ] : []));
  }
}
