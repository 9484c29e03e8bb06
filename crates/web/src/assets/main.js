// The page: which view is open, one stream of what is in its sight, and what a person does.

import { Strip, STATES, sample } from './strip.js';
import { Minutes } from './minutes.js';
import { Table, el, count, bytes } from './table.js';
import * as views from './views.js';

const byId = (id) => document.getElementById(id);
const TABLES = { trouble: 'Trouble', jobs: 'Jobs', units: 'Units', containers: 'Containers', slices: 'Slices', templates: 'Templates' };
const OTHERS = { timers: 'Timers', sessions: 'Sessions', charts: 'Charts', plan: 'Plan', questions: 'Questions', unit: 'Unit' };
const CELLS = { containers: 'containers', slices: 'slices', templates: 'templates', units: 'units' };
const ROWS = 100;
const TYPING_MS = 250;
const AGAIN_MS = 3000;

const page = {
  session: {}, picture: {}, route: null, source: null, close: () => {}, took: [], act, painted: null,
};
window.page = page;

function parse() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const slash = path.indexOf('/');
  const view = (slash < 0 ? path : path.slice(0, slash)) || 'overview';
  const name = slash < 0 ? null : decodeURIComponent(path.slice(slash + 1));
  return { view: view in TABLES || view in OTHERS ? view : 'overview', name, params: new URLSearchParams(query || '') };
}

/** Changes parameters of the view; those of value null go. */
function set(changes, replace) {
  const { view, params } = page.route;
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') params.delete(name);
    else params.set(name, value);
  }
  const hash = `#/${view}${params.size ? `?${params}` : ''}`;
  if (replace) {
    history.replaceState(null, '', hash);
    open();
  } else {
    location.hash = hash;
  }
}

/** What the server is asked to keep in sight. */
function sight() {
  const { view, params } = page.route;
  const query = new URLSearchParams();
  if (view === 'overview') {
    query.set('cells', params.get('by') || page.cells || 'containers');
    query.set('table', 'trouble');
    query.set('rows', '5');
    query.set('series', '1');
  } else if (view in TABLES) {
    query.set('table', view);
    query.set('rows', String(ROWS));
    for (const name of ['filter', 'sort', 'inverted', 'from', 'within']) {
      if (params.has(name)) query.set(name, params.get(name));
    }
    for (const name of params.getAll('open')) query.append('open', name);
  }
  return query;
}

function connect() {
  disconnect();
  if (document.hidden) return;
  const source = new EventSource(`/api/events?${sight()}`);
  page.source = source;
  source.addEventListener('picture', (event) => {
    const began = performance.now();
    take(JSON.parse(event.data));
    page.took.push(performance.now() - began);
    page.took = page.took.slice(-100);
  });
  source.addEventListener('error', () => {
    if (page.source !== source) return;
    say('The connection to the server is lost. The page shows what was known.');
    if (source.readyState !== EventSource.CLOSED) return;
    disconnect();
    // The stream does not say why it was refused.
    fetch('/api/session').then((answer) => { if (answer.status === 401) location.reload(); }, () => {});
    page.again = setTimeout(connect, AGAIN_MS);
  });
}

function disconnect() {
  clearTimeout(page.again);
  if (page.source) page.source.close();
  page.source = null;
}

function say(text) {
  const box = byId('trouble');
  box.hidden = !text;
  if (box.textContent !== text) box.textContent = text;
}

/** Takes a picture, or what differs from the last one. */
function take(told) {
  const before = page.picture.top;
  page.picture.top = told.top;
  counts(told.top, before);
  const { strip, table, minutes } = page.parts;
  if (strip && told.strip) {
    const names = told.strip.names ? told.strip.names.split('\n') : [];
    if (!names.length && !page.route.params.has('by') && told.top.loaded && page.route.view === 'overview' && next()) return;
    page.names = names;
    strip.show(names, [...told.strip.states], cellsOf());
    legend();
  } else if (strip && told.cells) {
    strip.change(told.cells[0], told.cells[1]);
    legend();
  }
  if (table && told.table) {
    if (told.table.rows) table.show(told.table, told.top.now);
    else table.change(told.table, told.top.now);
  } else if (table) {
    table.tick(told.top.now);
  }
  if (minutes && told.series) {
    if (told.whole) minutes.samples = [];
    minutes.add(told.series);
  }
  if (page.painted === null && told.top.loaded) requestAnimationFrame(() => { page.painted = performance.now(); });
}

const cellsOf = () => page.route.params.get('by') || page.cells || 'containers';

/** A host without containers is shown by slices, one without slices of their own by units. */
function next() {
  const order = Object.keys(CELLS);
  const at = order.indexOf(cellsOf());
  if (at + 1 >= order.length) return false;
  page.cells = at === 0 ? 'slices' : 'units';
  byId('cells').value = page.cells;
  connect();
  return true;
}

function counts(top, before) {
  if (top.silent) say(`The manager does not answer: ${top.silent}`);
  else if (top.stopping) say(`Everything is being stopped${top.waits.length ? `; it waits for ${top.waits.join(', ')}` : ''}.`);
  else say('');
  const part = (text, href, kind) => (href ? el('a', { href, class: kind }, text) : text);
  const parts = top.loaded ? [
    part(`${count(top.units)} units`, '#/units'), `${count(top.up)} up`,
    part(top.failed ? `✖ ${count(top.failed)} failed` : 'none failed', '#/trouble', top.failed ? 's-failed' : null),
    part(`${count(top.jobs)} jobs`, '#/jobs'),
    `manager ${top.cpu === null ? '-' : `${top.cpu.toFixed(1)}%`} CPU, ${bytes(top.memory)}`,
    top.reloading ? 'reloading' : null,
  ].filter(Boolean) : ['Waiting for the manager...'];
  const key = parts.map((it) => it.textContent || it).join();
  const box = byId('counts');
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  const active = document.activeElement && document.activeElement.parentNode === box ? document.activeElement.getAttribute('href') : null;
  box.replaceChildren(...parts.flatMap((it, n) => (n ? [', ', it] : [it])));
  if (active) box.querySelector(`[href="${active}"]`)?.focus({ preventScroll: true });
  if (before && before.loaded && before.failed !== top.failed) byId('live').textContent = `${count(top.failed)} units have failed.`;
}

function legend() {
  const { strip, legendBox } = page.parts;
  const by = { f: 0, t: 0, a: 0, i: 0 };
  for (const letter of strip.states) by[letter] += 1;
  const key = JSON.stringify(by);
  if (legendBox.dataset.key === key) return;
  legendBox.dataset.key = key;
  for (const [letter, node] of Object.entries(page.parts.legendCounts)) node.textContent = `${count(by[letter])} ${STATES[letter].word}`;
}

function overview(main) {
  const select = el('select', { id: 'cells', onchange: () => set({ by: select.value }) }, Object.entries(CELLS).map(([value, text]) => el('option', { value }, text)));
  select.value = cellsOf();
  const box = el('div', { class: 'strip' });
  const under = el('p', { class: 'under', id: 'strip-under' }, ' ');
  const legendCounts = {};
  const legendBox = el('ul', { class: 'legend', 'aria-label': 'What the cells mean' }, Object.keys(STATES).map((letter) => {
    legendCounts[letter] = el('span', {}, STATES[letter].word);
    return el('li', {}, sample(letter), legendCounts[letter]);
  }));
  const strip = new Strip(box, (index, isSpoken) => {
    const text = `${page.names[index]}: ${STATES[strip.states[index]].word}, ${count(index + 1)} of ${count(page.names.length)}`;
    under.textContent = text;
    if (isSpoken) byId('live').textContent = text;
  }, (index) => {
    const [by, name] = [cellsOf(), encodeURIComponent(page.names[index])];
    location.hash = by === 'units' ? `#/unit/${name}` : `#/units?within=${by}:${name}`;
  });
  const table = el('div', {});
  const minutes = el('div', { class: 'minutes' });
  const asTable = el('a', { href: `#/${cellsOf() === 'units' ? 'units' : cellsOf()}?sort=state` }, 'The same as a table, failed ones first');
  main.replaceChildren(el('h1', {}, 'Overview'),
    el('h2', {}, 'Trouble, root causes first'), table,
    el('h2', { id: 'strip-head' }, 'State of all'),
    el('div', { class: 'tools' }, el('label', { for: 'cells' }, 'A cell for each of the', select), asTable),
    el('p', { class: 'unseen', id: 'strip-help' }, 'Arrow keys move between cells, n goes to the next failed one, Enter opens a cell.'),
    legendBox, box, under,
    el('h2', {}, 'The last 10 minutes'), minutes);
  page.parts = { strip, legendBox, legendCounts, minutes: new Minutes(minutes) };
  page.parts.table = new Table(table, { kind: 'trouble', fixed: true, rows: 5, what: 'What has failed, and what is started again and again', unfold, may_act: false });
  return () => strip.close();
}

function unfold(name) {
  const { view, params } = page.route;
  if (view === 'overview') { location.hash = `#/trouble?open=${encodeURIComponent(name)}`; return; }
  const names = params.getAll('open');
  params.delete('open');
  (names.includes(name) ? names.filter((it) => it !== name) : [...names, name]).forEach((it) => params.append('open', it));
  set({}, true);
}

function tableView(main, view) {
  let timer = null;
  const filter = el('input', { id: 'filter', type: 'search', value: page.route.params.get('filter') || '', spellcheck: 'false', oninput: () => {
    clearTimeout(timer);
    timer = setTimeout(() => set({ filter: filter.value.trim(), from: null }, true), TYPING_MS);
  } });
  const head = el('h1', {});
  const box = el('div', {});
  const within = el('p', {});
  main.replaceChildren(head, within, el('div', { class: 'tools' }, el('label', { for: 'filter' }, 'Filter: words of the name, the slice, the container, or a state', filter)), box);
  page.parts = { head, box, within, filter };
  return () => clearTimeout(timer);
}

function rebuildTable() {
  const { view, params } = page.route;
  const { head, box, within, filter } = page.parts;
  const group = params.get('within');
  const name = group && group.slice(group.indexOf(':') + 1);
  head.textContent = group ? name : TABLES[view];
  within.replaceChildren(...(group ? [el('a', { href: `#/${group.slice(0, group.indexOf(':'))}` }, `All ${group.slice(0, group.indexOf(':'))}`), ' / ', name] : []));
  within.hidden = !group;
  if (document.activeElement !== filter) filter.value = params.get('filter') || '';
  page.parts.table = new Table(box, {
    kind: view, rows: ROWS, what: TABLES[view], sort: params.get('sort') || 'name', inverted: params.get('inverted') === '1',
    fixed: false, may_act: page.session.may_act, set, unfold, act,
  });
}

/** Shows what the address says. */
function open() {
  const route = parse();
  const isSame = page.route && page.route.view === route.view && page.route.name === route.name;
  const isFirst = !page.route;
  page.route = route;
  const title = route.name || TABLES[route.view] || OTHERS[route.view] || 'Overview';
  document.title = `${title} - ${page.session.host || 'Warrener'}`;
  const main = byId('main');
  const wasChosen = document.activeElement === byId('cells');
  if (!isSame || route.view === 'overview') {
    page.close();
    page.parts = {};
    if (route.view === 'overview') page.close = overview(main);
    else if (route.view in TABLES) page.close = tableView(main, route.view);
    else page.close = views[route.view](main, page, route.name);
    if (isSame && wasChosen) byId('cells').focus();
    if (!isFirst && !isSame) { main.focus({ preventScroll: true }); scrollTo(0, 0); }
  }
  if (route.view in TABLES) rebuildTable();
  for (const link of byId('nav').querySelectorAll('a')) {
    if (link.getAttribute('href') === `#/${route.view}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  connect();
}

/** Asks, then has it done. */
async function act(verb, units) {
  const dialog = byId('question');
  byId('question-text').textContent = `${verb[0].toUpperCase() + verb.slice(1)} ${units.length === 1 ? 'this unit' : `these ${units.length} units`}?`;
  byId('question-units').replaceChildren(...units.map((unit) => el('li', {}, unit)));
  byId('question-yes').textContent = verb[0].toUpperCase() + verb.slice(1);
  const isMeant = await new Promise((done) => {
    page.answer = done;
    dialog.showModal();
    byId('question-no').focus();
  });
  if (!isMeant) return;
  const query = new URLSearchParams([['verb', verb], ...units.map((unit) => ['unit', unit])]);
  const answer = await fetch(`/api/act?${query}`, { method: 'POST', headers: { 'X-Warren-Secret': page.session.secret } }).catch(() => null);
  let text = 'the server does not answer';
  if (answer && !answer.ok) text = (await answer.text()).trim();
  if (answer && answer.ok) {
    const told = await answer.json();
    const refused = told.refusals ? told.refusals.length : 0;
    text = told.error || `asked for ${told.asked - refused} of ${told.asked}${refused ? `; refused: ${told.refusals.slice(0, 2).join('; ')}` : ''}`;
  }
  byId('live').textContent = `${verb}: ${text}`;
  notice(`${verb}: ${text}`);
}

function notice(text) {
  let box = byId('notice');
  if (!box) {
    box = el('div', { id: 'notice', class: 'notice' }, el('span', {}), el('button', { type: 'button', onclick: () => box.remove() }, 'Close'));
    document.querySelector('header').append(box);
  }
  box.firstChild.textContent = text;
}

async function begin() {
  page.session = await views.ask('/api/session').catch((error) => { say(error.message); return {}; });
  if (page.session.host) byId('host').textContent = page.session.host;
  byId('logout').hidden = !page.session.has_token || !page.session.may_read;
  byId('logout').addEventListener('click', async () => { await fetch('/logout', { method: 'POST' }); location.reload(); });
  const answer = (isMeant) => { byId('question').close(); page.answer(isMeant); };
  byId('question-no').addEventListener('click', () => answer(false));
  byId('question-yes').addEventListener('click', () => answer(true));
  // By Escape. Its `close` comes later, maybe when the next question is open already.
  byId('question').addEventListener('cancel', () => page.answer(false));
  addEventListener('hashchange', open);
  document.addEventListener('visibilitychange', () => (document.hidden ? disconnect() : connect()));
  open();
}

begin();
