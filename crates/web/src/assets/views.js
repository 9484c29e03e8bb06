// Views of what is asked for when a person opens it: a unit, timers, sessions, charts, a plan.
// Each is a function that fills a box and returns what ends it.

import { el, span, bytes, count, moment, state, unitLink, groupLink } from './table.js';

const LOG_LINES_MAX = 1000;
const NUMBERS = ['In', 'Took', 'Missed', 'Size', 'Memory', 'CPU time', 'Tasks'];

const headings = (titles) => titles.map((title) => el('th', { scope: 'col', class: NUMBERS.includes(title) ? 'number' : null }, title));
const AGAIN_MS = 3000;
const ROWS = 100;

/** Asks for JSON; an `error` in it is thrown for people to read. */
export async function ask(path) {
  const answer = await fetch(path).catch(() => null);
  if (!answer) throw new Error('The server does not answer.');
  if (answer.status === 401) { location.reload(); throw new Error('Log in first.'); }
  if (!answer.ok) throw new Error((await answer.text()).trim());
  const value = await answer.json();
  if (value.error) throw new Error(value.error);
  return value;
}

/** Asks at once and then again and again while the page is in sight. */
function again(path, show, box) {
  let timer = null;
  let isOver = false;
  const trouble = el('p', { role: 'alert', class: 's-failed' });
  box.append(trouble);
  const turn = async () => {
    if (!document.hidden) {
      try {
        const value = await ask(path);
        if (isOver) return;
        trouble.textContent = '';
        show(value);
      } catch (error) {
        trouble.textContent = error.message;
      }
    }
    if (!isOver) timer = setTimeout(turn, AGAIN_MS);
  };
  turn();
  return () => { isOver = true; clearTimeout(timer); };
}

const facts = (pairs) => el('dl', { class: 'facts' }, pairs.filter(([, value]) => value !== null).map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));

function list(units) {
  return units.map(([name, active], n) => [n ? ', ' : '', unitLink(name), ` ${active}`]).flat();
}

/** Exchanges a text only where it differs, so that what is selected in it stays. */
function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function unit(box, page, name) {
  const head = el('h1', {}, name);
  const about = el('div', {});
  const buttons = el('div', { class: 'buttons' }, ['start', 'stop', 'restart', 'clear'].map((verb) => el('button', {
    type: 'button', onclick: () => page.act(verb, [name]),
  }, verb[0].toUpperCase() + verb.slice(1))));
  const why = el('pre', { tabindex: '0', 'aria-label': 'Why' });
  const status = el('pre', { tabindex: '0', 'aria-label': 'Status' });
  const processes = el('div', {});
  const filesText = el('pre', { class: 'files', tabindex: '0', 'aria-label': 'Files' }, '...');
  const files = el('details', { ontoggle: () => {
    if (!files.open || filesText.dataset.asked) return;
    filesText.dataset.asked = '1';
    ask(`/api/files?name=${encodeURIComponent(name)}`).then((answer) => put(filesText, answer.text), (error) => put(filesText, error.message));
  } }, el('summary', {}, 'Files'), filesText);
  const whyPart = el('section', {}, el('h2', {}, 'Why'), why);
  const log = el('pre', { class: 'log', hidden: true, role: 'log', tabindex: '0', 'aria-label': `Log of ${name}` });
  const logSaid = el('p', { class: 'dim' }, 'Reading the log...');
  box.replaceChildren(
    head, page.session.may_act ? buttons : '', el('p', {}, el('a', { href: `#/questions/${encodeURIComponent(name)}` }, 'Ask about this unit')), about,
    el('div', { class: 'two' },
      el('div', {}, whyPart, el('section', {}, el('h2', {}, 'Status'), status)),
      el('section', {}, el('h2', {}, 'Log'), logSaid, log)),
    el('section', {}, el('h2', {}, 'Processes'), processes),
    el('section', {}, el('h2', {}, 'Unit files'), page.session.may_read ? files : el('p', {}, 'Unit files are shown to those who have a token, and over a Unix socket.')),
  );
  const stop = again(`/api/unit?name=${encodeURIComponent(name)}`, (told) => {
    const wait = told.cure && told.active === 'failed' ? told.cure : null;
    about.replaceChildren(
      el('p', {}, state(told.active, told.sub), told.description && told.description !== told.name ? ` - ${told.description}` : ''),
      facts([
        ['Reason', told.reason ? `${told.reason} (${told.code})` : null],
        ['What clears it', wait],
        ['Since', told.since_us ? moment(told.since_us) : null],
        ['Memory', told.memory === null ? null : bytes(told.memory)],
        ['CPU time', told.cpu_ns === null ? null : span(told.cpu_ns / 1000)],
        ['Tasks', told.tasks === null ? null : count(told.tasks)],
        ['Restarts', told.restarts ? count(told.restarts) : null],
        ['Main process', told.main_pid ? String(told.main_pid) : null],
        ['Starts', told.triggers.length ? list(told.triggers) : null],
        ['Started by', told.triggered_by.length ? list(told.triggered_by) : null],
      ]),
    );
    whyPart.hidden = !told.why.trim();
    put(why, told.why.trimEnd());
    put(status, told.status.trimEnd());
    processes.replaceChildren(told.processes.length
      ? el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Processes' }, el('table', {}, el('thead', {}, el('tr', {}, el('th', { scope: 'col', class: 'number pid' }, 'PID'), el('th', { scope: 'col' }, 'Command'))),
        el('tbody', {}, told.processes.map(([pid, command]) => el('tr', {}, el('td', { class: 'number' }, String(pid)), el('td', { class: 'mono' }, command))))))
      : el('p', { class: 'dim' }, 'No process.'));
  }, about);
  const endLog = page.session.may_read ? follow(name, log, logSaid) : () => {};
  if (!page.session.may_read) {
    logSaid.textContent = 'Logs are shown to those who have a token, and over a Unix socket.';
  }
  return () => { stop(); endLog(); };
}

/** A log that goes on. Who has scrolled up stays where they are. */
function follow(name, log, said) {
  let source = null;
  let lines = [];
  let paints = 0;
  const paint = () => {
    paints = 0;
    const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    log.hidden = false;
    log.textContent = lines.join('\n');
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  };
  const open = () => {
    lines = [];
    source = new EventSource(`/api/log?name=${encodeURIComponent(name)}`);
    source.addEventListener('lines', (event) => {
      lines.push(...JSON.parse(event.data));
      lines = lines.slice(-LOG_LINES_MAX);
      said.textContent = 'It follows while it is scrolled to its end.';
      if (!paints) paints = requestAnimationFrame(paint);
    });
    source.addEventListener('rest', () => { if (!lines.length) said.textContent = 'No line yet.'; });
    source.addEventListener('trouble', (event) => { said.textContent = JSON.parse(event.data); source.close(); });
    source.addEventListener('open', () => { lines = []; });
  };
  const look = () => {
    if (document.hidden) { source.close(); } else { open(); }
  };
  open();
  document.addEventListener('visibilitychange', look);
  return () => { document.removeEventListener('visibilitychange', look); source.close(); };
}

const DAYS = 7;

export function timers(box) {
  const calendar = el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Calendar' });
  const filter = el('input', { type: 'search', id: 'timer-filter', oninput: () => show() });
  const table = el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Table of timers' });
  const said = el('p', { role: 'status' });
  let told = null;
  let hour = null;
  let drawn = '';
  const about = el('div', {});
  box.replaceChildren(el('h1', {}, 'Timers'), about,
    el('p', { class: 'dim' }, `When each timer elapses next, in the time of this browser (${Intl.DateTimeFormat().resolvedOptions().timeZone}). Choose an hour to see its timers.`),
    calendar, el('h2', {}, 'All timers'), el('div', { class: 'tools' }, el('label', { for: 'timer-filter' }, 'Filter', filter)), said, table);
  const slot = (us) => {
    const date = new Date(us / 1000);
    return new Date(date.getFullYear(), date.getMonth(), date.getDate(), date.getHours()).getTime();
  };
  const show = () => {
    if (!told) return;
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = told.timers.filter((timer) => (hour === null || (timer.next_us && slot(timer.next_us) === hour))
      && words.every((word) => timer.name.toLowerCase().includes(word) || timer.unit.toLowerCase().includes(word) || timer.active === word));
    const key = JSON.stringify([fits.slice(0, ROWS), Math.floor(told.now_us / 1e7)]);
    said.textContent = `${count(Math.min(fits.length, ROWS))} of ${count(fits.length)} shown`
      + (hour === null ? '' : `, those of ${moment(hour * 1000).slice(0, 13)}:00`) + (told.total > told.timers.length ? `; there are ${count(told.total)}` : '');
    if (key === drawn) return;
    drawn = key;
    const heads = ['Timer', 'Next', 'In', 'Last', 'Took', 'Missed', 'Starts'];
    table.replaceChildren(el('table', {}, el('thead', {}, el('tr', {}, headings(heads))),
      el('tbody', {}, fits.slice(0, ROWS).map((timer) => el('tr', {},
        el('td', { class: 'name' }, unitLink(timer.name)),
        el('td', {}, timer.next_us ? moment(timer.next_us) : state(timer.active, timer.sub)),
        el('td', { class: 'number' }, timer.next_us ? span(Math.max(0, timer.next_us - told.now_us)) : '-'),
        el('td', {}, timer.last_us ? moment(timer.last_us) : '-'),
        el('td', { class: 'number' }, span(timer.took_us)),
        el('td', { class: 'number' }, timer.missed ? count(timer.missed) : '-'),
        el('td', {}, unitLink(timer.unit), ' ', state(timer.unit_active)))))));
  };
  const draw = () => {
    const first = new Date(told.now_us / 1000);
    const by = new Map();
    for (const timer of told.timers) {
      if (timer.next_us) by.set(slot(timer.next_us), [...(by.get(slot(timer.next_us)) || []), timer.name]);
    }
    const key = JSON.stringify([...by].map(([at, names]) => [at, names.length])) + hour + first.getHours();
    if (calendar.dataset.key === key) return;
    calendar.dataset.key = key;
    const active = document.activeElement && document.activeElement.dataset.at;
    const hours = [...Array(24).keys()];
    const now = slot(told.now_us);
    const day = (n) => new Date(first.getFullYear(), first.getMonth(), first.getDate() + n);
    const line = (n) => el('tr', {}, el('th', { scope: 'row' }, day(n).toLocaleDateString('en-GB', { weekday: 'short', day: '2-digit', month: 'short' })), hours.map((h) => {
      const at = new Date(day(n).getFullYear(), day(n).getMonth(), day(n).getDate(), h).getTime();
      const names = by.get(at);
      if (!names) return el('td', { class: at < now ? 'past' : null });
      return el('td', {}, el('button', {
        type: 'button', 'aria-pressed': String(hour === at), 'data-at': String(at), title: names.slice(0, 8).join('\n'),
        'aria-label': `${names.length} ${names.length === 1 ? 'timer' : 'timers'} on ${day(n).toDateString()} at ${h}:00`,
        onclick: () => { hour = hour === at ? null : at; draw(); show(); },
      }, String(names.length)));
    }));
    calendar.replaceChildren(el('table', { class: 'calendar' }, el('caption', {}, 'Timers in each hour of the next 7 days'),
      el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Day'), hours.map((h) => el('th', { scope: 'col' }, String(h))))),
      el('tbody', {}, [...Array(DAYS).keys()].map(line))));
    const button = active && calendar.querySelector(`[data-at="${active}"]`);
    if (button) button.focus({ preventScroll: true });
  };
  return again('/api/timers', (answer) => { told = answer; draw(); show(); }, about);
}

export function sessions(box) {
  const about = el('div', {});
  const table = el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Table of users' });
  box.replaceChildren(el('h1', {}, 'Sessions of users'), about, table);
  return again('/api/sessions', ({ users, total }) => {
    const heads = ['User', 'Sessions and managers', 'Memory', 'CPU time', 'Tasks', 'All units'];
    const words = (row) => el('div', {}, unitLink(row[0]), ' ', state(row[2], row[3]), row[1] && row[1] !== row[0] ? el('span', { class: 'dim' }, ` ${row[1]}`) : '');
    table.replaceChildren(total ? el('table', {}, el('caption', {}, `${count(total)} ${total === 1 ? 'user has' : 'users have'} a session or a manager of their own`),
      el('thead', {}, el('tr', {}, headings(heads))),
      el('tbody', {}, users.map((user) => el('tr', {},
        el('th', { scope: 'row' }, user.name ? `${user.name} (${user.uid})` : String(user.uid)),
        el('td', {}, user.units.map(words)),
        el('td', { class: 'number' }, bytes(user.memory)),
        el('td', { class: 'number' }, user.cpu_ns === null ? '-' : span(user.cpu_ns / 1000)),
        el('td', { class: 'number' }, user.tasks === null ? '-' : count(user.tasks)),
        el('td', {}, groupLink('slices', `user-${user.uid}.slice`)))))) : el('p', {}, 'No user has a session or a manager of their own.'));
  }, about);
}

export function charts(box, page, which) {
  const about = el('div', {});
  const table = el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Table of recordings' });
  const frame = el('div', {});
  const show = (query, title) => {
    frame.replaceChildren(el('h2', {}, title), el('p', {}, el('a', { href: `/chart?${query}`, target: '_blank', rel: 'noopener' }, 'Open it on a page of its own')),
      el('iframe', { src: `/chart?${query}`, title, sandbox: 'allow-scripts allow-downloads' }));
    frame.scrollIntoView({ block: 'nearest' });
  };
  const of = (minutes) => (minutes === 1 ? 'The last minute' : `The last ${minutes} minutes`);
  const last = (minutes) => el('button', { type: 'button', onclick: () => show(`last=${minutes * 60}`, of(minutes)) }, of(minutes));
  box.replaceChildren(el('h1', {}, 'Charts'),
    el('p', { class: 'dim' }, 'What ran when, what waited for what, and the critical path: of each boot, reload and shutdown, and of the last minutes.'),
    el('div', { class: 'buttons' }, last(1), last(5), last(30)), about, table, frame);
  const stop = again('/api/records', ({ records, trouble, under_way }) => {
    const heads = ['What', 'When', 'Size', 'Chart'];
    const key = JSON.stringify([records, trouble, under_way]);
    if (table.dataset.key === key) return;
    table.dataset.key = key;
    table.replaceChildren(records.length ? el('table', {}, el('caption', {}, 'Recordings that are kept'),
      el('thead', {}, el('tr', {}, headings(heads))),
      el('tbody', {}, records.map((record) => el('tr', {},
        el('td', {}, record.subject), el('td', {}, moment(record.began_us)), el('td', { class: 'number' }, bytes(record.bytes)),
        el('td', {}, el('button', {
          type: 'button', 'aria-label': `Draw the ${record.subject} of ${moment(record.began_us)}`,
          onclick: () => show(`name=${encodeURIComponent(record.name)}`, `${record.subject} of ${moment(record.began_us)}`),
        }, 'Draw')))))) : el('p', {}, 'No recording is kept yet.'),
    ...(trouble ? [el('p', { class: 's-failed' }, `The last recording could not be saved: ${trouble}`)] : []),
    ...(under_way ? [el('p', {}, `A ${under_way.subject} is being recorded.`)] : []));
  }, about);
  if (which) show(`name=${encodeURIComponent(which)}`, which);
  return stop;
}

export function plan(box, page) {
  const result = el('div', {});
  const said = el('p', { role: 'status' });
  const button = el('button', { type: 'button', class: 'strong', onclick: async () => {
    button.disabled = true;
    said.textContent = 'The manager evaluates all rules...';
    result.replaceChildren();
    try {
      const told = await ask('/api/plan');
      said.textContent = `Units: ${count(told.counts[0])} added, ${count(told.counts[1])} changed, ${count(told.counts[2])} removed.`;
      result.replaceChildren(el('h2', {}, 'Plan'), el('pre', { tabindex: '0', 'aria-label': 'Plan' }, told.plan.trimEnd()),
        el('h2', {}, 'Unit files'), told.diff ? diff(told.diff) : el('p', {}, 'No unit file of a rule differs.'));
    } catch (error) {
      said.textContent = `No plan: ${error.message}`;
    }
    button.disabled = false;
  } }, 'Make the plan');
  box.replaceChildren(el('h1', {}, 'Plan of the fleet'),
    el('p', { class: 'dim' }, 'What the rules as they lie on the disk would change, as warren fleet plan and warren fleet diff say it. Nothing is put into force.'),
    page.session.may_read ? el('div', { class: 'buttons' }, button) : el('p', {}, 'Plans are shown to those who have a token, and over a Unix socket.'), said, result);
  return () => {};
}

/** What operators ask, and the command that answers it; `about` is a unit that is asked about. */
export function questions(box, page, about) {
  const input = el('input', { id: 'about', type: 'text', spellcheck: 'false', autocapitalize: 'none', value: about || '' });
  const said = el('p', { role: 'status' });
  const answer = el('pre', { tabindex: '0', 'aria-label': 'Answer', hidden: true });
  const list = el('ul', { class: 'questions' });
  let asked = 0;
  const put = async (question) => {
    const turn = (asked += 1);
    said.textContent = `${question.command} ...`;
    answer.hidden = true;
    const query = new URLSearchParams({ question: question.word });
    if (question.needs) query.set('about', input.value.trim());
    if (question.needs && !input.value.trim()) {
      said.textContent = `Say what it is about: ${question.needs}.`;
      input.focus();
      return;
    }
    try {
      const told = await ask(`/api/ask?${query}`);
      if (turn !== asked) return;
      answer.textContent = told.text.trimEnd();
      answer.hidden = false;
      said.textContent = question.command;
      answer.focus({ preventScroll: true });
      answer.scrollIntoView({ block: 'nearest' });
    } catch (error) {
      if (turn === asked) said.textContent = `${question.command}: ${error.message}`;
    }
  };
  box.replaceChildren(el('h1', {}, 'Questions'),
    el('div', { class: 'tools' }, el('label', { for: 'about' }, 'About: a unit, a unit and since when (web 10:00), or the number of a process', input)),
    list, said, answer);
  ask('/api/questions').then((all) => list.replaceChildren(...all.map((question) => el('li', {},
    el('button', { type: 'button', onclick: () => put(question) }, question.text), ' ', el('code', {}, question.command)))),
  (error) => { said.textContent = error.message; });
  return () => { asked += 1; };
}

function diff(text) {
  const kind = (line) => {
    if (line.startsWith('+++') || line.startsWith('---')) return 'head';
    return { '+': 'plus', '-': 'minus' }[line[0]] || null;
  };
  return el('pre', { class: 'diff', tabindex: '0', 'aria-label': 'Differences of unit files' }, text.trimEnd().split('\n').map((line) => el('span', { class: kind(line) }, line)));
}
