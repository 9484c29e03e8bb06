//! What the person sees and does: an event in, orders out. Pure.
//!
//! - Owns: the model, the wish, where the cursor is, what is marked, the page that is open.
//! - Must not: read a clock, a file or a terminal. What it orders, [`crate::run`] does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warren_wire::control::{ActiveState, JobType, OverviewAnswer, TopAnswer};

use crate::asking::{Asking, Then};
pub use crate::keys::Key;
use crate::manager::{Start, UnitPage};
use crate::model::{Model, Usage};
use crate::page::{Page, Part};
use crate::questions::Subject;
use crate::table::{Row, Sort, Tab, What, Wish, members, rows, units_of};
use crate::usage::WHOLE_MAX;

/// Units that one action is for, at most.
pub const ACTION_UNITS_MAX: usize = 200;

/// Characters of a filter.
const FILTER_CHARS_MAX: usize = 200;

/// Rows of a page's head and foot.
pub const PAGE_ROWS_OTHER: usize = 3;

/// Rows that the wheel of a mouse moves at once.
const WHEEL_ROWS: usize = 3;

/// Ticks for which a message stays.
const MESSAGE_TICKS: u32 = 10;

/// What there is to look at besides the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// Colours.
    pub has_colour: bool,
    /// Characters beyond ASCII.
    pub has_unicode: bool,
    /// The terminal tells of the mouse.
    pub has_mouse: bool,
}

/// What was clicked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The name of a table.
    Tab(Tab),
    /// The heading of a column.
    Heading(Sort),
    /// A row, by its place among all.
    Row(usize),
    /// Nothing that does anything.
    Nothing,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A key was pressed.
    Key(Key),
    /// The mouse was clicked.
    Click(Target),
    /// The wheel of the mouse was turned, towards the person where that is true.
    Wheel(bool),
    /// The terminal has so many columns and rows.
    Size(u16, u16),
    /// A period is over; the wall clock in µs since 1970.
    Tick(u64),
    /// The manager's counters.
    Top(Box<TopAnswer>),
    /// Units: all, or those that changed.
    Overview(OverviewAnswer, bool),
    /// What groups use: all, or some.
    Usage(BTreeMap<Arc<str>, Usage>, bool),
    /// The manager does not answer, and why; none when it does again.
    Silent(Option<String>),
    /// What the page of a unit shows, or why that is not known.
    Page(Arc<str>, Result<UnitPage, String>),
    /// The files of a unit.
    Files(Arc<str>, Result<String, String>),
    /// New lines of a unit's log.
    Log(Arc<str>, Vec<String>),
    /// The last starts of a unit.
    Starts(Arc<str>, Result<Vec<Start>, String>),
    /// What became of an action.
    Done(String),
    /// The answer of a question, by its place, or why there is none.
    Answer(usize, Subject, Result<String, String>),
}

/// What is to be done to units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// A job.
    Job(JobType),
    /// Failures are taken away.
    Clear,
}

impl Verb {
    /// As the person is asked.
    pub fn title(&self) -> &'static str {
        match self {
            Verb::Job(JobType::Start) => "Start",
            Verb::Job(JobType::Stop) => "Stop",
            Verb::Job(_) => "Restart",
            Verb::Clear => "Clear the failed state of",
        }
    }

    /// Whether it does something for a unit in this state.
    fn changes(&self, active: &ActiveState) -> bool {
        let is_down = matches!(active, ActiveState::Inactive | ActiveState::Failed);
        match self {
            Verb::Job(JobType::Start) => is_down,
            Verb::Job(_) => !is_down,
            Verb::Clear => *active == ActiveState::Failed,
        }
    }

    /// In what is said of it afterwards.
    pub fn word(&self) -> &'static str {
        match self {
            Verb::Clear => "Clear",
            job => job.title(),
        }
    }
}

/// What the runner is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Ask for what the page of this unit shows, again and again, and follow its log.
    Open(Arc<str>),
    /// The page is closed.
    Close,
    /// Read the files of a unit.
    ReadFiles(Arc<str>),
    /// Read the last starts of a unit.
    ReadStarts(Arc<str>),
    /// Do this to these.
    Act(Verb, Vec<Arc<str>>),
    /// Have a question answered, by its place.
    Ask(usize, Subject),
    /// End.
    Quit,
}

/// What keys are for at the moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// The table or the page.
    Browse,
    /// A filter is typed.
    Filter,
    /// The keys are shown.
    Help,
    /// A question is to be answered.
    Question(Verb, Vec<Arc<str>>),
}

/// All of it.
#[derive(Debug, Clone)]
pub struct State {
    /// What is known.
    pub model: Model,
    /// What the person wants to see.
    pub wish: Wish,
    /// The rows.
    pub rows: Vec<Row>,
    /// Where the cursor is among them.
    pub cursor: usize,
    /// The first row that is shown.
    pub first: usize,
    /// Units that are marked.
    pub marked: BTreeSet<Arc<str>>,
    /// What keys are for.
    pub mode: Mode,
    /// The page that is open.
    pub page: Option<Page>,
    /// A question on its way, over all else.
    pub asking: Option<Asking>,
    /// What is to be said, and for how many ticks.
    pub message: Option<(String, u32)>,
    /// Why the manager does not answer, and for how many ticks it has not.
    pub silent: Option<(String, u32)>,
    /// Rows stay as they are.
    pub is_paused: bool,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The wall clock, in µs since 1970.
    pub now_us: u64,
    /// Colours and characters.
    pub look: Look,
    /// The model and the wish that the rows were made of.
    made_of: Option<(u64, Wish)>,
    /// Whether the first table was chosen.
    is_tab_chosen: bool,
}

impl State {
    /// With nothing known yet.
    pub fn new(size: (u16, u16), look: Look) -> State {
        let wish = Wish {
            tab: Tab::Units,
            filter: String::new(),
            within: None,
            sort: Sort::Cpu,
            is_inverted: false,
            is_tree: false,
            unfolded: BTreeSet::new(),
        };
        State {
            model: Model::default(),
            wish,
            rows: Vec::new(),
            cursor: 0,
            first: 0,
            marked: BTreeSet::new(),
            mode: Mode::Browse,
            page: None,
            asking: None,
            message: None,
            silent: None,
            is_paused: false,
            size,
            now_us: 0,
            look,
            made_of: None,
            is_tab_chosen: false,
        }
    }

    /// Takes an event.
    pub fn update(&mut self, event: Event) -> Vec<Order> {
        match event {
            Event::Key(key) => return self.key(key),
            Event::Click(target) => return self.click(target),
            Event::Wheel(is_down) => return self.wheel(is_down),
            Event::Size(columns, rows) => self.size = (columns, rows),
            Event::Tick(now_us) => self.tick(now_us),
            Event::Top(top) => self.model.take_top(*top),
            Event::Overview(answer, is_all) => {
                self.model.take_overview(answer, is_all);
                if is_all {
                    let units = &self.model.units;
                    self.marked.retain(|unit| units.contains_key(unit));
                }
                self.choose_tab();
            }
            Event::Usage(usage, is_all) => self.model.take_usage(usage, is_all),
            Event::Silent(None) => self.silent = None,
            Event::Silent(Some(why)) => {
                let ticks = self.silent.take().map_or(0, |(_, ticks)| ticks);
                self.silent = Some((why, ticks));
            }
            Event::Page(unit, told) => {
                self.with_page(&unit, |page| page.told = Some(told));
            }
            Event::Files(unit, files) => self.with_page(&unit, |page| page.files = Some(files)),
            Event::Log(unit, lines) => self.with_page(&unit, |page| page.take_log(lines)),
            Event::Starts(unit, starts) => self.with_page(&unit, |page| page.starts = Some(starts)),
            Event::Done(text) => self.say(text),
            Event::Answer(question, subject, told) => {
                // What comes late is of a question that is not shown any more.
                if let Some(Asking::Answer(answer)) = &mut self.asking
                    && (answer.question, &answer.subject) == (question, &subject)
                {
                    answer.told = Some(told);
                }
            }
        }
        Vec::new()
    }

    /// Makes the rows anew if they would be others, and are seen.
    pub fn settle(&mut self) {
        if self.page.is_some() {
            return;
        }
        let is_made = self.made_of.as_ref().is_some_and(|(version, wish)| {
            (self.is_paused || *version == self.model.version) && *wish == self.wish
        });
        if !is_made {
            let same_table =
                self.made_of.as_ref().is_some_and(|(_, wish)| wish.tab == self.wish.tab);
            let at = self.rows.get(self.cursor).map(|row| row.name.clone());
            self.rows = rows(&self.model, &self.wish);
            self.made_of = Some((self.model.version, self.wish.clone()));
            // The cursor stays with its unit; at the top it stays there, where the first ones come.
            let found = at.filter(|_| same_table && self.cursor > 0);
            let found = found.and_then(|name| self.rows.iter().position(|row| row.name == name));
            self.cursor = found.unwrap_or(if same_table { self.cursor } else { 0 });
        }
        self.cursor = self.cursor.min(self.rows.len().saturating_sub(1));
        let shown = self.table_rows().max(1);
        self.first = self.first.clamp((self.cursor + 1).saturating_sub(shown), self.cursor);
        self.first = self.first.min(self.rows.len().saturating_sub(shown));
    }

    /// Groups of which all there is to know is to be read, at most [`WHOLE_MAX`]: those of the rows that are shown. Of
    /// rows that stand for groups of units it costs a look at all units ([`State::shows_groups`]).
    pub fn wanted(&self) -> Vec<Arc<str>> {
        if let Some(page) = &self.page {
            return vec![page.unit.clone()];
        }
        let shown = self.rows.iter().skip(self.first).take(self.table_rows());
        if !self.shows_groups() {
            return shown.map(|row| row.name.clone()).take(WHOLE_MAX).collect();
        }
        let shown: BTreeSet<&str> = shown.map(|row| &*row.name).collect();
        members(&self.model, self.wish.tab, &shown).take(WHOLE_MAX).collect()
    }

    /// Whether rows stand for groups that are no cgroups.
    pub fn shows_groups(&self) -> bool {
        matches!(self.wish.tab, Tab::Sets | Tab::Templates) && self.page.is_none()
    }

    /// Rows of the terminal that the table has.
    pub fn table_rows(&self) -> usize {
        usize::from(self.size.1).saturating_sub(self.head_rows() + self.detail_rows() + 2)
    }

    /// Rows below the table, for what a row has no room for.
    pub fn detail_rows(&self) -> usize {
        match (self.wish.tab, self.size.1) {
            (Tab::Trouble | Tab::Jobs, 16..) => 3,
            _ => 0,
        }
    }

    /// Rows above the headings.
    pub fn head_rows(&self) -> usize {
        let is_narrowed = !self.wish.filter.is_empty() || self.wish.within.is_some();
        let filter = usize::from(is_narrowed || self.mode == Mode::Filter);
        match self.size.1 {
            0..6 => filter,
            6..12 => 1 + filter,
            _ => 3 + filter,
        }
    }

    /// The row under the cursor.
    pub fn current(&self) -> Option<&Row> {
        self.rows.get(self.cursor)
    }

    fn say(&mut self, text: String) {
        self.message = Some((text, MESSAGE_TICKS));
    }

    fn tick(&mut self, now_us: u64) {
        self.now_us = now_us;
        self.message = self.message.take().filter(|(_, left)| *left > 0);
        if let Some((_, left)) = &mut self.message {
            *left -= 1;
        }
        if let Some((_, ticks)) = &mut self.silent {
            *ticks += 1;
        }
    }

    fn with_page(&mut self, unit: &str, change: impl FnOnce(&mut Page)) {
        // What comes late is of a page that is closed.
        if let Some(page) = self.page.as_mut().filter(|page| *page.unit == *unit) {
            change(page);
        }
    }

    /// Trouble is shown first, unless the person has chosen.
    fn choose_tab(&mut self) {
        if !self.is_tab_chosen && self.model.is_loaded {
            self.is_tab_chosen = true;
            if !self.model.root_causes().is_empty() {
                self.wish.tab = Tab::Trouble;
            }
        }
    }

    fn key(&mut self, key: Key) -> Vec<Order> {
        if key == Key::Control('c') || key == Key::Control('d') {
            return vec![Order::Quit];
        }
        if let Some(asking) = self.asking.take() {
            return self.asking_key(asking, key);
        }
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            // Any key closes it.
            Mode::Help => Vec::new(),
            Mode::Question(verb, units) => match key {
                Key::Char('y' | 'Y') => {
                    self.say(format!("{} {}: asked", verb.title(), words_for(&units)));
                    self.marked.clear();
                    vec![Order::Act(verb, units)]
                }
                Key::Char('n' | 'N' | 'q') | Key::Escape => {
                    self.say("Nothing was done.".to_owned());
                    Vec::new()
                }
                _ => {
                    self.mode = Mode::Question(verb, units);
                    Vec::new()
                }
            },
            Mode::Filter => {
                self.filter_key(key);
                Vec::new()
            }
            Mode::Browse => {
                self.message = None;
                let orders = match self.page {
                    Some(_) => self.page_key(key),
                    None => self.table_key(key),
                };
                self.stay_in_page();
                orders
            }
        }
    }

    fn asking_key(&mut self, asking: Asking, key: Key) -> Vec<Order> {
        let unit = match &self.page {
            Some(page) => Some(page.unit.to_string()),
            None => self.current().filter(|row| row.is_unit()).map(unit_of),
        };
        match asking.key(key, unit.as_deref(), self.size) {
            Then::Close => Vec::new(),
            Then::Show(asking) => {
                self.asking = Some(asking);
                Vec::new()
            }
            Then::Ask(asking) => {
                let order = match &asking {
                    Asking::Answer(answer) => {
                        Some(Order::Ask(answer.question, answer.subject.clone()))
                    }
                    _ => None,
                };
                self.asking = Some(asking);
                order.into_iter().collect()
            }
        }
    }

    /// A question is answered by keys alone: no click is to do something to units.
    fn click(&mut self, target: Target) -> Vec<Order> {
        if self.asking.is_some() {
            return Vec::new();
        }
        match self.mode {
            Mode::Question(..) => return Vec::new(),
            Mode::Help => return self.key(Key::Escape),
            Mode::Filter | Mode::Browse => self.mode = Mode::Browse,
        }
        if self.page.is_some() {
            return Vec::new();
        }
        self.message = None;
        match target {
            Target::Nothing => {}
            Target::Tab(tab) => self.show(tab),
            Target::Heading(sort) if sort == self.wish.sort => {
                self.wish.is_inverted = !self.wish.is_inverted;
            }
            Target::Heading(sort) => (self.wish.sort, self.wish.is_inverted) = (sort, false),
            // As with Enter, when it is there already.
            Target::Row(row) if row == self.cursor => return self.open(),
            Target::Row(row) => self.cursor = row,
        }
        self.settle();
        Vec::new()
    }

    fn wheel(&mut self, is_down: bool) -> Vec<Order> {
        if let Some(asking) = &mut self.asking {
            if let Asking::Answer(answer) = asking {
                answer.turn(is_down, WHEEL_ROWS, self.size);
            }
            return Vec::new();
        }
        if self.mode != Mode::Browse {
            return Vec::new();
        }
        if self.page.is_some() {
            let key = if is_down { Key::Down } else { Key::Up };
            let orders = (0..WHEEL_ROWS).flat_map(|_| self.page_key(key)).collect();
            self.stay_in_page();
            return orders;
        }
        // The rows move below the cursor, as far as there are some.
        let by = |at: usize| match is_down {
            true => at.saturating_add(WHEEL_ROWS),
            false => at.saturating_sub(WHEEL_ROWS),
        };
        let last = self.rows.len().saturating_sub(self.table_rows().max(1));
        let first = by(self.first).min(last);
        self.cursor = match first == self.first {
            true => by(self.cursor),
            false => (self.cursor + first).saturating_sub(self.first),
        };
        self.first = first;
        self.settle();
        Vec::new()
    }

    fn filter_key(&mut self, key: Key) {
        self.mode = Mode::Filter;
        match key {
            Key::Enter | Key::Down | Key::Tab => self.mode = Mode::Browse,
            Key::Escape => {
                self.wish.filter.clear();
                self.mode = Mode::Browse;
            }
            Key::Backspace if self.wish.filter.is_empty() => self.mode = Mode::Browse,
            Key::Backspace => drop(self.wish.filter.pop()),
            Key::Control('u') => self.wish.filter.clear(),
            Key::Char(c) if self.wish.filter.chars().count() < FILTER_CHARS_MAX => {
                self.wish.filter.push(c);
            }
            _ => {}
        }
    }

    fn table_key(&mut self, key: Key) -> Vec<Order> {
        self.settle();
        let page = self.table_rows().max(1);
        match key {
            Key::Char('q' | 'Q') => return vec![Order::Quit],
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Char('a') => self.asking = Some(Asking::List(0)),
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('p') => self.is_paused = !self.is_paused,
            Key::Up | Key::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            Key::Down | Key::Char('j') => self.cursor += 1,
            Key::PageUp => self.cursor = self.cursor.saturating_sub(page),
            Key::PageDown => self.cursor += page,
            Key::Home | Key::Char('g') => self.cursor = 0,
            Key::End | Key::Char('G') => self.cursor = self.rows.len(),
            Key::Tab => self.turn(1),
            Key::BackTab => self.turn(Tab::ALL.len() - 1),
            Key::Char(c @ '1'..='6') => self.show(Tab::ALL[c as usize - '1' as usize]),
            Key::Char('<' | ',') => self.sort_by(Sort::ALL.len() - 1),
            Key::Char('>' | '.') => self.sort_by(1),
            Key::Char('i') => self.wish.is_inverted = !self.wish.is_inverted,
            Key::Char('t') => self.tree(),
            Key::Right => self.fold(true),
            Key::Left => self.fold(false),
            Key::Char(' ') => self.mark(),
            Key::Char('*') => self.mark_all(),
            Key::Char('u') => self.marked.clear(),
            Key::Escape => self.back(),
            Key::Enter => return self.open(),
            key => self.action(key),
        }
        self.settle();
        Vec::new()
    }

    fn page_key(&mut self, key: Key) -> Vec<Order> {
        let rows = page_rows(self.size);
        let Some(page) = &mut self.page else { return Vec::new() };
        let at = Part::ALL.iter().position(|part| *part == page.part).unwrap_or(0);
        let parts = Part::ALL.len();
        let by = |lines: isize| {
            // The log is scrolled from its end.
            let lines = if page.part == Part::Log { -lines } else { lines };
            page.scrolled.saturating_add_signed(lines)
        };
        let turned = match key {
            Key::Escape | Key::Backspace | Key::Char('q') => {
                self.page = None;
                return vec![Order::Close];
            }
            Key::Char('?' | 'h') => {
                self.mode = Mode::Help;
                return Vec::new();
            }
            Key::Up | Key::Char('k') => return scroll(page, by(-1)),
            Key::Down | Key::Char('j') => return scroll(page, by(1)),
            Key::PageUp => return scroll(page, by(-(rows as isize))),
            Key::PageDown | Key::Char(' ') => return scroll(page, by(rows as isize)),
            Key::Home | Key::Char('g') if page.part == Part::Log => {
                return scroll(page, usize::MAX);
            }
            Key::End | Key::Char('G') if page.part != Part::Log => return scroll(page, usize::MAX),
            Key::Home | Key::End | Key::Char('g' | 'G') => return scroll(page, 0),
            Key::Tab | Key::Right => Part::ALL[(at + 1) % parts],
            Key::BackTab | Key::Left => Part::ALL[(at + parts - 1) % parts],
            Key::Char(c @ '1'..='5') => Part::ALL[c as usize - '1' as usize],
            Key::Char('l') => Part::Log,
            Key::Char('a') => {
                self.asking = Some(Asking::List(0));
                return Vec::new();
            }
            key => {
                self.action(key);
                return Vec::new();
            }
        };
        page.turn_to(turned);
        let unit = page.unit.clone();
        match turned {
            Part::Files => vec![Order::ReadFiles(unit)],
            Part::Starts => vec![Order::ReadStarts(unit)],
            _ => Vec::new(),
        }
    }

    /// Scrolls no further than there are lines.
    fn stay_in_page(&mut self) {
        let (columns, rows) = (usize::from(self.size.0), page_rows(self.size));
        if let Some(page) = &mut self.page {
            let lines = page.lines(columns, self.look.has_unicode).len();
            page.scrolled = page.scrolled.min(lines.saturating_sub(rows));
        }
    }

    fn turn(&mut self, by: usize) {
        let at = Tab::ALL.iter().position(|tab| *tab == self.wish.tab).unwrap_or(0);
        self.show(Tab::ALL[(at + by) % Tab::ALL.len()]);
    }

    fn show(&mut self, tab: Tab) {
        self.is_tab_chosen = true;
        (self.wish.tab, self.wish.within) = (tab, None);
        self.wish.unfolded.clear();
    }

    fn sort_by(&mut self, by: usize) {
        let at = Sort::ALL.iter().position(|sort| *sort == self.wish.sort).unwrap_or(0);
        self.wish.sort = Sort::ALL[(at + by) % Sort::ALL.len()];
        self.wish.is_inverted = false;
    }

    fn tree(&mut self) {
        match self.wish.tab {
            Tab::Units => {
                self.wish.is_tree = !self.wish.is_tree;
                self.wish.unfolded.clear();
            }
            _ if !self.wish.unfolded.is_empty() => self.wish.unfolded.clear(),
            _ => {
                let foldable = self.rows.iter().filter(|row| row.is_unfolded().is_some());
                self.wish.unfolded = foldable.map(|row| row.name.clone()).collect();
            }
        }
    }

    fn fold(&mut self, unfolds: bool) {
        let Some(row) = self.current().filter(|row| row.is_unfolded() == Some(!unfolds)) else {
            return;
        };
        let name = row.name.clone();
        // In the tree of all units those are kept that are folded.
        if !self.wish.unfolded.remove(&name) {
            self.wish.unfolded.insert(name);
        }
    }

    fn mark(&mut self) {
        let Some(row) = self.current() else { return };
        if row.is_unit() {
            let name = row.name.clone();
            if !self.marked.remove(&name) {
                self.marked.insert(name);
            }
        } else {
            let units = units_of(&self.model, self.wish.tab, &row.name);
            let all_marked = units.iter().all(|unit| self.marked.contains(unit));
            for unit in units {
                match all_marked {
                    true => self.marked.remove(&unit),
                    false => self.marked.insert(unit),
                };
            }
        }
        self.cursor += 1;
    }

    fn mark_all(&mut self) {
        let units = self.rows.iter().filter(|row| row.is_unit()).map(|row| row.name.clone());
        self.marked.extend(units);
    }

    /// One step back: the filter, then the group, then the marks.
    fn back(&mut self) {
        if !self.wish.filter.is_empty() {
            self.wish.filter.clear();
        } else if let Some((tab, group)) = self.wish.within.take() {
            self.wish.tab = tab;
            self.settle();
            let at = self.rows.iter().position(|row| row.name == group);
            self.cursor = at.unwrap_or(0);
        } else {
            self.marked.clear();
        }
    }

    fn open(&mut self) -> Vec<Order> {
        let Some(row) = self.current() else { return Vec::new() };
        let name = row.name.clone();
        if row.is_unit() {
            let name: Arc<str> = unit_of(row).into();
            self.page = Some(Page::new(name.clone()));
            return vec![Order::Open(name)];
        }
        let tab = if self.wish.tab == Tab::Units { Tab::Slices } else { self.wish.tab };
        (self.wish.within, self.wish.tab, self.wish.is_tree) =
            (Some((tab, name)), Tab::Units, false);
        self.cursor = 0;
        self.settle();
        Vec::new()
    }

    /// Asks whether it is meant.
    fn action(&mut self, key: Key) {
        let verb = match key {
            Key::Char('S') => Verb::Job(JobType::Start),
            Key::Char('X') => Verb::Job(JobType::Stop),
            Key::Char('R') => Verb::Job(JobType::Restart),
            Key::Char('C') => Verb::Clear,
            _ => return,
        };
        let units: Vec<Arc<str>> = match (&self.page, self.current()) {
            (Some(page), _) => vec![page.unit.clone()],
            (None, _) if !self.marked.is_empty() => self.marked.iter().cloned().collect(),
            (None, Some(row)) if row.is_unit() => vec![row.name.clone()],
            // Of a group those for which it changes something: a restart is not to start what is down.
            (None, Some(row)) => {
                let mut units = units_of(&self.model, self.wish.tab, &row.name);
                units.retain(|unit| {
                    self.model.units.get(unit).is_some_and(|u| verb.changes(&u.active))
                });
                units
            }
            (None, None) => Vec::new(),
        };
        match units.len() {
            0 => self.say(format!("{}: there is no unit here for which it would do something.", verb.word())),
            1..=ACTION_UNITS_MAX => self.mode = Mode::Question(verb, units),
            count => self.say(format!(
                "{count} units are too many at once; at most {ACTION_UNITS_MAX}. Mark fewer with the space bar."
            )),
        }
    }
}

/// The unit that a row stands for.
fn unit_of(row: &Row) -> String {
    match &row.what {
        What::Wait(wait) => wait.unit.clone().unwrap_or_else(|| row.name.to_string()),
        _ => row.name.to_string(),
    }
}

fn scroll(page: &mut Page, to: usize) -> Vec<Order> {
    page.scrolled = to;
    Vec::new()
}

/// Rows of the terminal that the page of a unit has.
pub fn page_rows(size: (u16, u16)) -> usize {
    usize::from(size.1).saturating_sub(PAGE_ROWS_OTHER).max(1)
}

/// The units of a question: their number, and as many names as a line has room for.
pub fn words_for(units: &[Arc<str>]) -> String {
    const NAMES_MAX: usize = 5;
    let names = units.iter().take(NAMES_MAX).map(|unit| &**unit).collect::<Vec<_>>().join(", ");
    match units.len() {
        1 => names,
        count if count <= NAMES_MAX => format!("{count} units ({names})"),
        count => format!("{count} units ({names}, ...)"),
    }
}
