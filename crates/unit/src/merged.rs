//! A unit's files laid over each other: what was assigned to a setting, in order, with
//! specifiers replaced and the list rules applied. Loading and compiling both read this.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use crate::config::{Listen, PathKind, PathSpec, TimerEvent};
use crate::context::Context;
use crate::diagnostic::{Code, Diagnostic, Severity, Sink};
use crate::load::Sources;
use crate::name::UnitName;
use crate::parse::{Entry, UnitFile};
use crate::settings::{Id, Kind, List, SETTINGS, id};
use crate::specifier::Specifiers;
use crate::value::{self, Fault};

/// What a timer may wait for.
const TIMER_EVENTS: [Id; 6] = [
    id!(Timer "OnActiveSec"),
    id!(Timer "OnBootSec"),
    id!(Timer "OnStartupSec"),
    id!(Timer "OnUnitActiveSec"),
    id!(Timer "OnUnitInactiveSec"),
    id!(Timer "OnCalendar"),
];

/// Where a path unit may wait.
const WATCHED_PATHS: [Id; 5] = [
    id!(Path "PathExists"),
    id!(Path "PathExistsGlob"),
    id!(Path "PathChanged"),
    id!(Path "PathModified"),
    id!(Path "DirectoryNotEmpty"),
];

/// Which settings are assigned to at all: of the hundreds that are asked for when a unit is compiled,
/// few are.
#[derive(Default)]
struct Stated([u64; SETTINGS.len().div_ceil(u64::BITS as usize)]);

impl Stated {
    fn place(id: Id) -> (usize, u64) {
        let index = usize::from(u16::from(id));
        (index / u64::BITS as usize, 1 << (index % u64::BITS as usize))
    }

    fn note(&mut self, id: Id) {
        let (word, bit) = Stated::place(id);
        self.0[word] |= bit;
    }

    fn has(&self, id: Id) -> bool {
        let (word, bit) = Stated::place(id);
        self.0[word] & bit != 0
    }
}

pub(crate) struct Merged<'a> {
    specifiers: Specifiers<'a>,
    fragment: Option<&'a UnitFile>,
    dropins: &'a [Arc<UnitFile>],
    /// Sorted by setting; within one, in the order of the files.
    entries: Vec<Entry<'a>>,
    stated: Stated,
    sink: RefCell<Sink>,
}

impl<'a> Merged<'a> {
    pub fn new(name: &'a UnitName, sources: &Sources<'a>, context: &'a Context) -> Merged<'a> {
        let fragment = sources.fragment.map(|f| &**f);
        let specifiers = Specifiers { name, context, fragment: fragment.map(|f| &**f.path()) };
        let dropins = sources.dropins.iter().map(|f| &**f);
        let mut entries = Vec::with_capacity(16);
        // Of a broken drop-in what was read of it counts, of a broken file of the unit nothing.
        let whole = fragment.filter(|file| !file.is_broken());
        whole.into_iter().chain(dropins).for_each(|file| entries.extend(file.entries()));
        entries.sort_by_key(|e| e.setting);
        let mut stated = Stated::default();
        entries.iter().for_each(|e| stated.note(e.setting));
        let sink = RefCell::default();
        Merged { specifiers, fragment, dropins: sources.dropins, entries, stated, sink }
    }

    pub fn name(&self) -> &'a UnitName {
        self.specifiers.name
    }

    pub fn context(&self) -> &'a Context {
        self.specifiers.context
    }

    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.sink.into_inner().finish()
    }

    /// Everything, sorted by setting.
    pub fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }

    /// Everything in the order of the files.
    pub fn in_file_order(&self) -> Vec<Entry<'a>> {
        let whole = self.fragment.filter(|file| !file.is_broken());
        let files = whole.into_iter().chain(self.dropins.iter().map(|f| &**f));
        files.flat_map(UnitFile::entries).collect()
    }

    /// The same of some settings, whose assignments depend on each other.
    pub fn in_file_order_of(&self, ids: &[Id]) -> Vec<Entry<'a>> {
        if !ids.iter().any(|&id| self.stated.has(id)) {
            return Vec::new();
        }
        let mut all = self.in_file_order();
        all.retain(|entry| ids.contains(&entry.setting));
        all
    }

    /// All assignments of a setting, resets and what they reset included.
    pub fn raw(&self, id: Id) -> &[Entry<'a>] {
        if !self.stated.has(id) {
            return &[];
        }
        let from = self.entries.partition_point(|e| e.setting < id);
        let rest = self.entries.get(from..).unwrap_or_default();
        let length = rest.iter().take_while(|e| e.setting == id).count();
        &rest[..length]
    }

    /// The assignments of a list after its last reset.
    pub fn list(&self, id: Id) -> &[Entry<'a>] {
        let all = self.raw(id);
        let keeps = id.setting().list == List::Keep;
        let reset = all.iter().rposition(|e| e.value.is_empty()).filter(|_| !keeps);
        &all[reset.map_or(0, |at| at + 1)..]
    }

    /// Whether a list has anything in it.
    pub fn has(&self, id: Id) -> bool {
        self.list(id).iter().any(|e| !e.value.is_empty())
    }

    /// The value with its specifiers replaced; reported and `None` if that fails.
    pub fn expand(&self, entry: &Entry<'a>) -> Option<Cow<'a, str>> {
        match self.specifiers.expand(entry.value) {
            Ok(text) => Some(text),
            Err(fault) => {
                self.fault(entry, Code::UnknownSpecifier, &fault);
                None
            }
        }
    }

    /// Replaces specifiers in one word.
    pub fn expand_word<'t>(&self, word: &'t str) -> Result<Cow<'t, str>, Fault> {
        self.specifiers.expand(word)
    }

    /// Reports something about one assignment, which is ignored.
    pub fn fault(&self, entry: &Entry<'_>, code: Code, fault: &Fault) {
        self.remark(entry, code, fault.offset, &format!("{}, ignored", fault.message));
    }

    /// Says something of an assignment that counts.
    pub fn remark(&self, entry: &Entry<'_>, code: Code, offset: usize, text: &str) {
        let message = format!("{}=: {text}", entry.setting.setting().name);
        let diagnostic = entry.diagnostic(Severity::Warning, code, offset, message);
        self.sink.borrow_mut().push(diagnostic);
    }

    /// Reports something about the unit as a whole.
    pub fn report(&self, severity: Severity, code: Code, message: String) {
        let path = self.fragment.map_or_else(|| self.name().as_str().into(), |f| f.path().clone());
        self.sink.borrow_mut().push(Diagnostic {
            path,
            line: 0,
            column: 0,
            severity,
            code,
            message,
        });
    }

    /// Reports something at one assignment.
    pub fn report_at(&self, entry: &Entry<'_>, severity: Severity, code: Code, message: String) {
        self.sink.borrow_mut().push(entry.diagnostic(severity, code, 0, message));
    }

    /// Whether an assignment stands in the unit's own file: only there can it be fatal.
    pub fn is_fatal_in(&self, entry: &Entry<'_>) -> bool {
        self.fragment.is_some_and(|fragment| std::ptr::eq(fragment, entry.file))
    }

    /// Whether the unit has a file of its own on a disk, and is no text that was made in memory.
    pub fn is_of_file(&self) -> bool {
        self.fragment.is_some_and(|fragment| !fragment.path().is_empty())
    }

    /// The last valid value. An empty assignment goes back to the default where the setting has
    /// that; wrong values are ignored.
    pub fn value<T>(&self, id: Id, parse: impl Fn(&str) -> Result<T, Fault>) -> Option<T> {
        let assigned = self.raw(id);
        if assigned.is_empty() {
            return None;
        }
        let empty_resets = id.setting().empty_resets();
        let mut last = None;
        for entry in assigned {
            if entry.value.is_empty() && empty_resets {
                last = None;
                continue;
            }
            last = self.one(entry, &parse).or(last);
        }
        last
    }

    /// The value of one assignment; reported and `None` if it is wrong.
    pub fn one<T>(&self, entry: &Entry<'a>, parse: impl Fn(&str) -> Result<T, Fault>) -> Option<T> {
        let text = self.expand(entry)?;
        parse(&text).map_err(|fault| self.fault(entry, Code::BadValue, &fault)).ok()
    }

    /// The last text; an empty one goes back to none, where the setting has that.
    pub fn text(&self, id: Id) -> Option<Cow<'a, str>> {
        let empty_resets = id.setting().empty_resets();
        let mut last = None;
        for entry in self.raw(id) {
            match entry.value {
                "" if empty_resets => last = None,
                "" => {}
                _ => last = self.expand(entry).or(last),
            }
        }
        last
    }

    pub fn flag(&self, id: Id, default: bool) -> bool {
        self.optional_flag(id).unwrap_or(default)
    }

    pub fn optional_flag(&self, id: Id) -> Option<bool> {
        self.value(id, value::boolean)
    }

    /// The last word that an enum knows.
    pub fn word<T>(&self, id: Id, from_word: fn(&str) -> Option<T>) -> Option<T> {
        self.value(id, |text| known_word(id, text, from_word))
    }

    /// Every word of a list, unquoted, specifiers replaced, with the assignment it is from.
    pub fn words(&self, id: Id) -> Vec<(Entry<'a>, usize, String)> {
        let mut out = Vec::new();
        for entry in self.list(id) {
            for word in value::split(entry.value) {
                let word = word.and_then(|(at, word)| {
                    let text = self.specifiers.expand(&word);
                    text.map(|t| (at, t.into_owned())).map_err(|f| Fault::new(at, f.message))
                });
                match word {
                    Ok((at, text)) => out.push((*entry, at, text)),
                    Err(fault) => self.fault(entry, Code::BadValue, &fault),
                }
            }
        }
        out
    }

    /// What a socket listens on, in the order of the files, across the kinds; an empty assignment of
    /// any kind drops all before it (systemd.socket(5), ListenStream=).
    pub fn listens(&self) -> Vec<Listen> {
        let mut out = Vec::new();
        for entry in self.in_file_order() {
            let Kind::Listen(kind) = entry.setting.setting().kind else {
                continue;
            };
            if entry.value.is_empty() {
                out.clear();
                continue;
            }
            let Some(text) = self.expand(&entry) else { continue };
            match value::listen_address(kind, value::below_run(&text)) {
                Ok(listen) => out.push(listen),
                Err(fault) => self.fault(&entry, Code::BadValue, &fault),
            }
        }
        out
    }

    /// What a timer waits for, in the order of the files, across the kinds; an empty assignment of any kind drops
    /// all before it (systemd.timer(5), OnActiveSec=).
    pub fn timer_events(&self) -> Vec<TimerEvent> {
        let mut out = Vec::new();
        for entry in self.in_file_order_of(&TIMER_EVENTS) {
            if entry.value.is_empty() {
                out.clear();
                continue;
            }
            let event = |text: &str| value::timer_event(entry.setting.setting().name, text);
            out.extend(self.one(&entry, event));
        }
        out
    }

    /// Where a path unit waits and for what, in the order of the files, across the kinds; an empty assignment of any
    /// kind drops all before it (systemd.path(5), PathExists=).
    pub fn watched_paths(&self) -> Vec<PathSpec> {
        let mut out = Vec::new();
        for entry in self.in_file_order_of(&WATCHED_PATHS) {
            if entry.value.is_empty() {
                out.clear();
                continue;
            }
            let kind = PathKind::from_word(entry.setting.setting().name);
            let path = self.one(&entry, value::path);
            out.extend(kind.zip(path).map(|(kind, path)| PathSpec { kind, path: path.into() }));
        }
        out
    }

    /// The words only.
    pub fn plain_words(&self, id: Id) -> Vec<Box<str>> {
        self.words(id).into_iter().map(|(_, _, word)| word.into()).collect()
    }
}

/// The word of a setting that knows some.
pub(crate) fn known_word<T>(
    id: Id,
    text: &str,
    from_word: fn(&str) -> Option<T>,
) -> Result<T, Fault> {
    from_word(text).ok_or_else(|| {
        let known = match id.setting().kind {
            Kind::Word(words) | Kind::BoolOr(words) => words.join(", "),
            _ => String::new(),
        };
        Fault { offset: 0, message: format!("'{text}' is not one of: {known}") }
    })
}
