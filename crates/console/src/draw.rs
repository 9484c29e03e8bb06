//! Screens: the state into a buffer. Pure; a screen costs what is on it, not how many units there are.

use std::sync::Arc;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use warren_wire::control::ActiveState;

use crate::asking::{self, About, Asking};
use crate::model::{Model, Usage};
use crate::numbers::{bytes, percent, span};
use crate::page::{Page, Part};
use crate::questions::{ALL, Question};
use crate::state::{Mode, PAGE_ROWS_OTHER, State, Target, page_rows, words_for};
use crate::table::{Row, Sort, Tab, What};
use crate::text::{cut, fit, plain, width, wrap};

/// Columns that a name has before a column of numbers is left out.
const NAME_COLUMNS_MIN: usize = 24;

/// Columns that a name has at most: numbers are to be near it.
const NAME_COLUMNS_MAX: usize = 60;

/// Columns from which on it is shown what a unit is in.
const PLACE_COLUMNS_MIN: usize = 20;

/// Columns of numbers with their widths, the most important first.
const COLUMNS: [(Sort, usize); 8] = [
    (Sort::State, 14),
    (Sort::Cpu, 7),
    (Sort::Memory, 8),
    (Sort::Tasks, 7),
    (Sort::Io, 8),
    (Sort::Pressure, 9),
    (Sort::Restarts, 10),
    (Sort::Since, 9),
];

/// Columns of the terminal from which on reading and writing are told apart.
const WIDE: usize = 130;

/// A tone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Plain,
    Strong,
    Bad,
    Warn,
    Dim,
    Reversed,
}

struct Pen<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    has_colour: bool,
}

impl Pen<'_> {
    fn style(&self, tone: Tone) -> Style {
        let colour = |style: Style, colour| if self.has_colour { style.fg(colour) } else { style };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        match tone {
            Tone::Plain => Style::new(),
            Tone::Strong => bold,
            Tone::Bad => colour(bold, Color::Red),
            Tone::Warn => colour(bold, Color::Yellow),
            Tone::Dim => colour(Style::new(), Color::DarkGray),
            Tone::Reversed => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// Writes a plain text at a place; returns the column after it.
    fn put(&mut self, x: usize, y: usize, text: &str, tone: Tone) -> usize {
        let (columns, rows) = (usize::from(self.area.width), usize::from(self.area.height));
        if x >= columns || y >= rows {
            return columns;
        }
        let style = self.style(tone);
        let (end, _) = self.buffer.set_stringn(x as u16, y as u16, text, columns - x, style);
        usize::from(end)
    }

    fn whole_row(&mut self, y: usize, tone: Tone) {
        if y < usize::from(self.area.height) {
            let style = self.style(tone);
            self.buffer.set_style(Rect::new(0, y as u16, self.area.width, 1), style);
        }
    }

    fn columns(&self) -> usize {
        usize::from(self.area.width)
    }
}

/// Draws all of it; the state must be settled.
pub fn draw(state: &State, buffer: &mut Buffer) {
    let area = *buffer.area();
    let mut pen = Pen { buffer, area, has_colour: state.look.has_colour };
    if area.width == 0 || area.height == 0 {
        return;
    }
    match (&state.asking, &state.mode, &state.page) {
        (Some(asking), ..) => questions(state, asking, &mut pen),
        (None, Mode::Help, _) => help(state, &mut pen),
        (None, _, Some(page)) => unit_page(state, page, &mut pen),
        (None, _, None) => table(state, &mut pen),
    }
    foot(state, &mut pen);
}

fn table(state: &State, pen: &mut Pen<'_>) {
    let mut y = 0;
    if pen.area.height >= 12 {
        let (line, tone) = summary(state);
        pen.put(0, 0, &cut(&line, pen.columns()), tone);
        pen.put(0, 1, &cut(&doing(state), pen.columns()), Tone::Plain);
        y = 2;
    }
    if pen.area.height >= 6 {
        tabs(state, y, pen);
        y += 1;
    }
    if state.head_rows() > y {
        narrowed(state, y, pen);
        y += 1;
    }
    heading(state, y, pen);
    y += 1;
    let room = state.table_rows();
    if state.rows.is_empty() && room > 0 {
        pen.put(0, y, &cut(empty(state), pen.columns()), Tone::Plain);
    }
    for (index, row) in state.rows.iter().enumerate().skip(state.first).take(room) {
        let at = y + index - state.first;
        table_row(state, row, at, pen);
        if index == state.cursor {
            pen.whole_row(at, Tone::Reversed);
            // Seen without attributes, too.
            pen.put(0, at, ">", Tone::Reversed);
        }
    }
    detail(state, pen);
}

/// What the row under the cursor has no room for.
fn detail(state: &State, pen: &mut Pen<'_>) {
    let rows = state.detail_rows();
    let Some(row) = state.current().filter(|_| rows > 0) else { return };
    let text = match &row.what {
        What::Job(job) if job.waits_for > 0 => {
            let on = job.waits_on.as_deref().unwrap_or("others");
            let others = match job.waits_for {
                1 => String::new(),
                more => format!(" and {} more", more - 1),
            };
            format!("{} waits to {} for {on}{others}.", job.unit, job.kind.as_str())
        }
        What::Job(job) => format!("{} is at work: {}.", job.unit, job.kind.as_str()),
        What::Cause { .. } | What::HeldBack | What::Restarting => {
            format!("{}: {}.", row.name, why(state, row))
        }
        _ => return,
    };
    let lines = wrap(&plain(&text), pen.columns());
    let y = usize::from(pen.area.height).saturating_sub(1 + rows);
    for (index, line) in lines.iter().take(rows).enumerate() {
        pen.put(0, y + index, line, Tone::Strong);
    }
}

fn summary(state: &State) -> (String, Tone) {
    let top = &state.model.top;
    let restarts = state.model.rate(|top| top.restarts);
    let restarts = restarts.map_or("-".to_owned(), |each| format!("{:.0}", each * 60.0));
    let cpu = state
        .model
        .rate(|top| top.cpu_us)
        .map(|us| format!(" {}% CPU,", percent((us / 1e4) as f32)));
    let line = format!(
        "warren top  {} units, {} up, {} failed; {restarts} restarts/min; manager{} {}",
        top.loaded,
        top.active,
        top.failed_total,
        cpu.unwrap_or_default(),
        bytes(top.resident_bytes),
    );
    (line, if top.failed_total > 0 { Tone::Bad } else { Tone::Strong })
}

fn doing(state: &State) -> String {
    if let Some((why, ticks)) = &state.silent {
        return format!("{} (for {ticks} s); what you see is the last it said", plain(why));
    }
    let top = &state.model.top;
    let waits = top.jobs.saturating_sub(top.jobs_running);
    let jobs = match (top.stopping, top.jobs) {
        (true, jobs) => {
            format!("shutting down: {jobs} jobs left, {} units waited for", top.waits_total)
        }
        (false, 0) => "no job".to_owned(),
        (false, jobs) => format!("{jobs} jobs: {} at work, {waits} wait", top.jobs_running),
    };
    let reload = top.reloading_us.map(|us| format!("; reloads for {}", span(us)));
    let paused = if state.is_paused { "; PAUSED, p resumes" } else { "" };
    format!("{jobs}{}{paused}", reload.unwrap_or_default())
}

fn tabs(state: &State, y: usize, pen: &mut Pen<'_>) {
    let mut x = 0;
    for (tab, count, text) in tab_texts(state) {
        let tone = match tab == state.wish.tab {
            true => Tone::Reversed,
            false if tab == Tab::Trouble && count > 0 => Tone::Bad,
            false => Tone::Plain,
        };
        x = pen.put(x, y, &text, tone);
    }
}

/// The names of the tables with what they have of it, one behind the other.
fn tab_texts(state: &State) -> impl Iterator<Item = (Tab, u64, String)> + '_ {
    Tab::ALL.into_iter().enumerate().map(|(index, tab)| {
        let top = &state.model.top;
        let count = match tab {
            Tab::Trouble => top.failed_total + top.restarting.len() as u64,
            Tab::Jobs => top.jobs,
            _ => 0,
        };
        let shown = if count > 0 { format!(" {count}") } else { String::new() };
        let (open, close) = if tab == state.wish.tab { ('[', ']') } else { (' ', ' ') };
        (tab, count, format!("{open}{} {}{shown}{close}", index + 1, tab.title()))
    })
}

/// What is at a place of the screen that shows this state, which must be settled.
pub fn target(state: &State, x: usize, y: usize) -> Target {
    if state.page.is_some() || state.mode == Mode::Help || state.asking.is_some() {
        return Target::Nothing;
    }
    let height = usize::from(state.size.1);
    let tabs_at = match height {
        0..6 => None,
        6..12 => Some(0),
        _ => Some(2),
    };
    let heading_at = state.head_rows();
    let found = if Some(y) == tabs_at {
        tab_at(state, x)
    } else if y == heading_at {
        heading_under(state, x)
    } else {
        let row = y.checked_sub(heading_at + 1).filter(|row| *row < state.table_rows());
        let row = row.map(|row| state.first + row).filter(|row| *row < state.rows.len());
        row.map(Target::Row)
    };
    found.unwrap_or(Target::Nothing)
}

fn tab_at(state: &State, x: usize) -> Option<Target> {
    let mut end = 0;
    tab_texts(state).find_map(|(tab, _, text)| {
        end += width(&text);
        (x < end).then_some(Target::Tab(tab))
    })
}

fn heading_under(state: &State, x: usize) -> Option<Target> {
    if matches!(state.wish.tab, Tab::Trouble | Tab::Jobs) {
        return None;
    }
    let (name, numbers) = layout(state, usize::from(state.size.0));
    let mut end = name + 2;
    let name = (x < end).then_some(Target::Heading(Sort::Name));
    name.or_else(|| {
        numbers.into_iter().find_map(|(sort, columns)| {
            end += columns;
            (x < end).then_some(Target::Heading(sort))
        })
    })
}

fn narrowed(state: &State, y: usize, pen: &mut Pen<'_>) {
    let within = state.wish.within.as_ref();
    let within = within.map(|(_, group)| format!("in {}  ", plain(group))).unwrap_or_default();
    let caret = if state.mode == Mode::Filter { "_" } else { "" };
    let filter = format!("/{}{caret}", plain(&state.wish.filter));
    let filter =
        if state.wish.filter.is_empty() && caret.is_empty() { String::new() } else { filter };
    let count = format!("  {} rows", state.rows.len());
    pen.put(0, y, &cut(&format!("{within}{filter}{count}"), pen.columns()), Tone::Strong);
}

/// What there is to say where there is no row.
fn empty(state: &State) -> &'static str {
    if !state.model.is_loaded {
        return "Waiting for the manager's first answer.";
    }
    match state.wish.tab {
        _ if !state.wish.filter.is_empty() => "Nothing matches the filter. Esc clears it.",
        Tab::Trouble => "No unit has failed, and no service is started again and again.",
        Tab::Jobs => "No job: nothing waits.",
        Tab::Sets => "No rules made units here: warren fleet. 5 shows slices, 6 templates.",
        Tab::Templates => "No unit is an instance of a template.",
        Tab::Units | Tab::Slices => "No unit.",
    }
}

/// Columns of numbers that there is room for, and what the name has.
fn layout(state: &State, columns: usize) -> (usize, Vec<(Sort, usize)>) {
    let mut left = columns.saturating_sub(2 + NAME_COLUMNS_MIN);
    let mut shown = Vec::new();
    for (sort, mut width) in COLUMNS {
        if sort == Sort::Io && columns >= WIDE {
            width *= 2;
        }
        // What rows are sorted by is always there.
        if width > left && sort != state.wish.sort {
            continue;
        }
        left = left.saturating_sub(width);
        shown.push((sort, width));
    }
    let numbers: usize = shown.iter().map(|(_, width)| width).sum();
    (columns.saturating_sub(2 + numbers).min(NAME_COLUMNS_MAX), shown)
}

fn heading(state: &State, y: usize, pen: &mut Pen<'_>) {
    let line = match state.wish.tab {
        Tab::Trouble => trouble_line(pen.columns(), "  ROOT CAUSE", "BLOCKS", "SINCE", "WHY"),
        Tab::Jobs => jobs_line(pen.columns(), "  UNIT", "AGE", "JOB", "WAITS FOR"),
        _ => {
            let (name, numbers) = layout(state, pen.columns());
            let arrow = |sort| match (state.wish.sort == sort, state.wish.is_inverted) {
                (true, false) => "v",
                (true, true) => "^",
                (false, _) => "",
            };
            let title = |sort: Sort| format!("{}{}", sort.title(), arrow(sort));
            let mut line = fit(&format!("  {}", title(Sort::Name)), name + 2);
            for (sort, columns) in numbers {
                match sort {
                    Sort::State => line.push_str(&fit(&format!(" {}", title(sort)), columns)),
                    Sort::Io if columns > 8 => {
                        line.push_str(&format!("{:>8}{:>8}", "READ/s", "WRITE/s"))
                    }
                    _ => line.push_str(&format!("{:>columns$}", title(sort))),
                }
            }
            if width(&line) + PLACE_COLUMNS_MIN <= pen.columns() {
                line.push_str("  IN");
            }
            line
        }
    };
    pen.put(0, y, &cut(&line, pen.columns()), Tone::Strong);
}

fn trouble_line(columns: usize, name: &str, blocks: &str, since: &str, why: &str) -> String {
    let name_columns = (columns * 2 / 5).clamp(12, 50);
    let numbers = if columns >= 60 { format!("{blocks:>7}{since:>9}") } else { String::new() };
    format!("{}{numbers}  {why}", fit(name, name_columns))
}

fn jobs_line(columns: usize, name: &str, age: &str, job: &str, waits: &str) -> String {
    format!("{}{age:>8}  {job:<9}{waits}", fit(name, (columns * 2 / 5).clamp(12, 60)))
}

fn table_row(state: &State, row: &Row, y: usize, pen: &mut Pen<'_>) {
    let columns = pen.columns();
    let mark = if state.marked.contains(&row.name) { "*" } else { " " };
    let fold = match row.is_unfolded() {
        Some(true) => "- ",
        Some(false) => "+ ",
        None if row.depth > 0 => "  ",
        None => "",
    };
    let indent = "  ".repeat(usize::from(row.depth).min(columns / 4));
    let name = format!(" {mark}{indent}{fold}{}", plain(&row.name));
    let (line, tone) = match &row.what {
        What::Cause { .. } | What::HeldBack | What::Restarting => {
            trouble_row(state, row, &name, columns)
        }
        What::Job(job) => {
            let waits = match (&job.waits_on, job.waits_for) {
                (_, 0) => "at work".to_owned(),
                (Some(unit), 1) => plain(unit).into_owned(),
                (Some(unit), more) => format!("{} and {} more", plain(unit), more - 1),
                (None, others) => format!("{others} others"),
            };
            let line =
                jobs_line(columns, &name, &span(job.age_us), &plain(job.kind.as_str()), &waits);
            (line, if job.waits_for > 0 { Tone::Plain } else { Tone::Warn })
        }
        What::Wait(wait) => {
            let what = [Some(&wait.phase), wait.process.as_ref(), wait.server.as_ref()];
            let what: Vec<&str> = what.into_iter().flatten().map(|text| &**text).collect();
            let left =
                wait.left_us.map_or("no limit".to_owned(), |us| format!("{} left", span(us)));
            let what = format!("{left}; {}", plain(&what.join(", ")));
            (jobs_line(columns, &name, &span(wait.so_far_us), "shutdown", &what), Tone::Warn)
        }
        What::Unit | What::Group { .. } => number_row(state, row, &name, columns),
    };
    pen.put(0, y, &cut(&line, columns), tone);
}

fn trouble_row(state: &State, row: &Row, name: &str, columns: usize) -> (String, Tone) {
    let (blocks, tone) = match row.what {
        What::Cause { holds_back, .. } => (holds_back, Tone::Bad),
        What::HeldBack => (0, Tone::Plain),
        _ => (0, Tone::Warn),
    };
    let blocks = if blocks > 0 { blocks.to_string() } else { "-".to_owned() };
    let (since, why) = (since(state, row.since_us), why(state, row));
    (trouble_line(columns, name, &blocks, &since, &plain(&why)), tone)
}

fn why(state: &State, row: &Row) -> String {
    let model = &state.model;
    let unit = model.units.get(&row.name);
    let reason = unit.map_or("", |unit| model.reason(unit));
    match row.what {
        What::HeldBack => {
            let cause = unit.and_then(|unit| unit.cause.as_deref()).unwrap_or_default();
            format!("{reason} ({cause})")
        }
        What::Restarting => {
            let told = model.top.restarting.iter().find(|told| *told.unit == *row.name);
            let why = told.map_or("", |told| &told.text);
            format!("started again {} times: {why}", told.map_or(0, |told| told.restarts))
        }
        _ => reason.to_owned(),
    }
}

fn number_row(state: &State, row: &Row, name: &str, columns: usize) -> (String, Tone) {
    let (name_columns, numbers) = layout(state, columns);
    let (word, tone) = state_word(&state.model, row);
    let mut line = fit(name, name_columns + 2);
    for (sort, columns) in numbers {
        let text = match sort {
            Sort::State => fit(&format!(" {word}"), columns - 1) + " ",
            Sort::Io if columns > 8 => {
                format!("{:>8}{:>8}", rate(row.usage.read), rate(row.usage.written))
            }
            _ => format!("{:>columns$}", number(state, row, sort)),
        };
        line.push_str(&text);
    }
    if width(&line) + PLACE_COLUMNS_MIN <= columns && row.is_unit() {
        let unit = state.model.units.get(&row.name);
        let place = unit.and_then(|unit| unit.target.as_deref().or(unit.slice.as_deref()));
        line.push_str(&format!("  {}", plain(place.unwrap_or_default())));
    }
    (line, tone)
}

fn state_word(model: &Model, row: &Row) -> (String, Tone) {
    if let What::Group { units, up, failed, .. } = row.what {
        return match failed {
            0 => (format!("{up}/{units} up"), Tone::Plain),
            _ => (format!("{failed}/{units} failed"), Tone::Bad),
        };
    }
    let Some(unit) = model.units.get(&row.name) else { return ("gone".to_owned(), Tone::Dim) };
    let tone = match unit.active {
        ActiveState::Failed => Tone::Bad,
        ActiveState::Active => Tone::Plain,
        ActiveState::Inactive => Tone::Dim,
        _ => Tone::Warn,
    };
    (plain(&unit.sub).into_owned(), tone)
}

fn number(state: &State, row: &Row, sort: Sort) -> String {
    let none = || "-".to_owned();
    let Usage { cpu, memory, tasks, read, written, pressure } = row.usage;
    match sort {
        Sort::Cpu => cpu.map_or_else(none, percent),
        Sort::Memory => memory.map_or_else(none, bytes),
        Sort::Tasks => tasks.map_or_else(none, |count| count.to_string()),
        Sort::Io => rate(read.zip(written).map(|(read, written)| read.saturating_add(written))),
        Sort::Pressure => match pressure {
            Some((share, resource)) if share >= 0.05 => format!("{share:.1} {}", resource.as_str()),
            Some(_) => "0".to_owned(),
            None => none(),
        },
        Sort::Restarts => row.restarts.to_string(),
        Sort::Since => since(state, row.since_us),
        Sort::Name | Sort::State => String::new(),
    }
}

fn rate(each: Option<u64>) -> String {
    each.map_or("-".to_owned(), bytes)
}

fn since(state: &State, us: u64) -> String {
    match us {
        0 => "-".to_owned(),
        _ => span(state.now_us.saturating_sub(us) / 1_000_000 * 1_000_000),
    }
}

fn unit_page(state: &State, page: &Page, pen: &mut Pen<'_>) {
    let columns = pen.columns();
    let unit = state.model.units.get(&page.unit);
    let word = unit.map_or("not loaded", |unit| unit.active.as_str());
    let tone = if word == "failed" { Tone::Bad } else { Tone::Strong };
    let usage = state.model.usage.get(&page.unit).copied().unwrap_or_default();
    let used = match (usage.cpu, usage.memory) {
        (Some(cpu), Some(memory)) => format!("  {}% CPU, {}", percent(cpu), bytes(memory)),
        _ => String::new(),
    };
    pen.put(0, 0, &cut(&format!("{}  {}{used}", plain(&page.unit), plain(word)), columns), tone);
    let mut x = 0;
    for (index, part) in Part::ALL.into_iter().enumerate() {
        let (open, close) = if part == page.part { ('[', ']') } else { (' ', ' ') };
        let tone = if part == page.part { Tone::Reversed } else { Tone::Plain };
        x = pen.put(x, 1, &format!("{open}{} {}{close}", index + 1, part.title()), tone);
    }
    let lines = page.lines(columns, state.look.has_unicode);
    let room =
        page_rows(state.size).min(usize::from(pen.area.height).saturating_sub(PAGE_ROWS_OTHER));
    let most = lines.len().saturating_sub(room);
    let first = match page.part {
        Part::Log => most.saturating_sub(page.scrolled),
        _ => page.scrolled.min(most),
    };
    for (index, line) in lines.iter().skip(first).take(room).enumerate() {
        pen.put(0, index + 2, &cut(line, columns), Tone::Plain);
    }
}

/// The keys, on one screen of 80 columns and 24 rows.
const HELP: [&str; 23] = [
    "Keys                                     (any key closes this)",
    "",
    "1..6, Tab     Trouble, Jobs, Units, Containers, Slices, Templates",
    "arrows, j k   move            PgUp PgDn Home End",
    "Enter         page of the unit, or units of the group      Esc  back",
    "Right, Left   unfold, fold       t  tree, or unfold all",
    "/             filter: words that the name, the slice, the container",
    "              or the state must have; Enter keeps it, Esc clears it",
    "< >           sort by another column       i  the other way round",
    "Space         mark            *  mark all shown      u  unmark all",
    "S X R C       start, stop, restart, clear failed: the marked units,",
    "              or the one under the cursor; you are asked before",
    "a             questions: what restarts most, what a stop takes with it, ...",
    "p             pause           ?  this             q, Ctrl-C  quit",
    "Mouse         a click chooses a row (again: opens it), a table, or what to",
    "              sort by; the wheel scrolls; with Shift the terminal selects",
    "On a unit's page: 1..5 or Tab for status, log, processes, starts, files;",
    "arrows scroll; the log follows until you scroll up, End follows again.",
    "",
    "CPU% is of one processor. WAITS% is how much of the last 10 s some task",
    "waited for a processor, memory (mem) or a device (io): the worst of them.",
    "RESTARTS counts restarts by Restart=. BLOCKS counts units held back.",
    "Numbers are read from cgroups; a dash says that the kernel counts none.",
];

fn help(state: &State, pen: &mut Pen<'_>) {
    let room = usize::from(state.size.1).saturating_sub(1);
    for (y, line) in HELP.iter().take(room).enumerate() {
        let tone = if y == 0 { Tone::Strong } else { Tone::Plain };
        pen.put(0, y, &cut(line, pen.columns()), tone);
    }
}

/// The list of questions, or an answer under the command that gives the same.
fn questions(state: &State, asking: &Asking, pen: &mut Pen<'_>) {
    let columns = pen.columns();
    match asking {
        Asking::List(at) | Asking::About(About { question: at, .. }) => {
            pen.put(
                0,
                0,
                &cut("Questions, and the commands that answer them", columns),
                Tone::Strong,
            );
            // Under the cursor also where there are fewer rows than questions.
            let room = usize::from(state.size.1).saturating_sub(3).max(1);
            let first = (at + 1).saturating_sub(room);
            for (row, (place, question)) in
                ALL.iter().enumerate().skip(first).take(room).enumerate()
            {
                let text = format!(
                    "{} {}  {}",
                    if place == *at { ">" } else { " " },
                    Question::key(place),
                    question.text
                );
                let wide = format!("{}  {}", fit(&text, 66), question.command);
                let line = if columns >= 110 { wide } else { text };
                pen.put(0, row + 1, &cut(&line, columns), Tone::Plain);
                if place == *at {
                    pen.whole_row(row + 1, Tone::Reversed);
                }
            }
        }
        Asking::Answer(answer) => {
            let question = &ALL[answer.question];
            pen.put(
                0,
                0,
                &cut(&plain(&question.command_for(&answer.subject)), columns),
                Tone::Strong,
            );
            let lines = answer.lines(state.size);
            let shown = lines.iter().skip(answer.scrolled).take(asking::rows(state.size));
            for (row, line) in shown.enumerate() {
                pen.put(0, row + 2, &cut(line, columns), Tone::Plain);
            }
        }
    }
}

/// What there is to say of a question: keys, what is typed, or what is wrong with that.
fn questions_foot(asking: &Asking, columns: usize) -> (String, Tone) {
    match asking {
        Asking::List(at) => {
            let command = ALL[*at].command;
            (format!("a letter or Enter asks ({command})  Esc back"), Tone::Dim)
        }
        Asking::About(About { trouble: Some(trouble), .. }) => (trouble.clone(), Tone::Warn),
        Asking::About(about) => {
            let prompt = ALL[about.question].needs.prompt().unwrap_or_default();
            let prompt = format!("{prompt}: ");
            // The end of what is typed is seen.
            let typed = plain(&about.typed);
            let room = columns.saturating_sub(width(&prompt) + 1).max(1);
            let over = typed.chars().count().saturating_sub(room);
            let typed: String = typed.chars().skip(over).collect();
            (format!("{prompt}{typed}_"), Tone::Reversed)
        }
        Asking::Answer(_) => {
            ("arrows scroll  r ask again  a other questions  Esc back".to_owned(), Tone::Dim)
        }
    }
}

fn foot(state: &State, pen: &mut Pen<'_>) {
    let y = usize::from(pen.area.height) - 1;
    let columns = pen.columns();
    if let Some(asking) = &state.asking {
        let (line, tone) = questions_foot(asking, columns);
        pen.put(0, y, &fit(&cut(&line, columns), columns), tone);
        return;
    }
    let (line, tone) = match (&state.mode, &state.page, &state.message) {
        (Mode::Question(verb, units), ..) => {
            (question(verb.title(), units, columns), Tone::Reversed)
        }
        (Mode::Filter, ..) => {
            ("type words; Enter keeps the filter, Esc clears it".to_owned(), Tone::Reversed)
        }
        (_, _, Some((text, _))) => (plain(text).into_owned(), Tone::Warn),
        (Mode::Help, ..) => ("any key goes back".to_owned(), Tone::Dim),
        (_, Some(_), None) => {
            let silent = state.silent.as_ref().map_or("", |_| "NO ANSWER  ");
            (
                format!("{silent}Tab part  arrows scroll  a ask  S X R C act  Esc back  ? keys"),
                Tone::Dim,
            )
        }
        (_, None, None) => {
            let marked = match state.marked.len() {
                0 => String::new(),
                count => format!("{count} marked  "),
            };
            let keys =
                "? keys  a ask  / filter  Enter open  Space mark  S X R C act  < > sort  q quit";
            (format!("{marked}{keys}"), Tone::Dim)
        }
    };
    pen.put(0, y, &fit(&cut(&line, columns), columns), tone);
}

/// What is asked: the answer keys are seen however narrow the terminal is.
fn question(verb: &str, units: &[Arc<str>], columns: usize) -> String {
    let keys = " y/n ";
    let asked = format!("{verb} {}?", plain(&words_for(units)));
    format!("{}{keys}", cut(&asked, columns.saturating_sub(width(keys))))
}
