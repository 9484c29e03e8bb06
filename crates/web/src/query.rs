//! What a request asks for: its path, and its parameters within bounds. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use warren_console::questions::{self, Ask, Subject};
use warren_console::table::{Sort, Tab, Wish};
use warren_http::request::Refusal;

/// Most parameters of a request.
const PARAMETERS_MAX: usize = 512;

/// Longest value, bytes. The longest name of a unit has 255.
const VALUE_BYTES_MAX: usize = 512;

/// Units of one action, as of the console.
pub const ACTION_UNITS_MAX: usize = 200;

/// Rows of a page at most, and when nothing is said.
const ROWS_MAX: usize = 500;
const ROWS_DEFAULT: usize = 100;

/// Longest stretch of time that is drawn, seconds.
const SECONDS_MAX: u64 = 3600;

/// Groups that are unfolded at most.
const UNFOLDED_MAX: usize = 50;

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Route {
    /// A file of the page.
    Asset(String),
    /// A token becomes a cookie.
    Login,
    /// The cookie counts no more.
    Logout,
    /// What the client may do.
    Session,
    /// What is in sight, once.
    Look(Box<Sight>),
    /// What is in sight, and each change of it.
    Events(Box<Sight>),
    /// A unit's state and why.
    Unit(String),
    /// A unit's files.
    Files(String),
    /// A unit's log, and what comes.
    Log(String),
    /// All timers.
    Timers,
    /// Sessions of users.
    Sessions,
    /// Recordings.
    Records,
    /// The chart of a recording.
    Chart(Recorded),
    /// What rules would change.
    Plan,
    /// The questions that can be asked.
    Questions,
    /// The answer of one, about this.
    Ask(Ask, Subject),
    /// Something is done with units.
    Act(Verb, Vec<String>),
}

/// Which recording is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// The one of this name.
    Named(String),
    /// The last so many seconds.
    Last(u64),
}

/// What can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Starts.
    Start,
    /// Stops.
    Stop,
    /// Restarts.
    Restart,
    /// Takes failures away.
    Clear,
}

impl Verb {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Verb::Start => "start",
            Verb::Stop => "stop",
            Verb::Restart => "restart",
            Verb::Clear => "clear",
        }
    }
}

/// What the cells of the heat strip are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cells {
    /// No strip.
    None,
    /// What rules made units for.
    Sets,
    /// Slices.
    Slices,
    /// Templates.
    Templates,
    /// Units.
    Units,
}

/// What a client has in sight.
#[derive(Debug, Clone, PartialEq)]
pub struct Sight {
    /// The table; none if there is none.
    pub wish: Option<Wish>,
    /// Its first row.
    pub from: usize,
    /// Rows of a page.
    pub rows: usize,
    /// The strip.
    pub cells: Cells,
    /// The counters of the last minutes.
    pub has_series: bool,
}

impl Sight {
    /// The table shows what units use.
    pub fn shows_usage(&self) -> bool {
        let of = |tab| matches!(tab, Tab::Units | Tab::Sets | Tab::Slices | Tab::Templates);
        self.wish.as_ref().is_some_and(|wish| of(wish.tab))
    }

    /// It takes all that is used by all units: to sort by it, or to add it up where a group is no cgroup.
    pub fn needs_whole_usage(&self) -> bool {
        let adds_up = |tab| matches!(tab, Tab::Sets | Tab::Templates);
        self.wish.as_ref().is_some_and(|wish| wish.sort.is_of_whole_look() || adds_up(wish.tab))
    }

    /// The order of the rows, or what they show, changes with each look at all units' usage.
    pub fn is_by_usage(&self) -> bool {
        let of = |sort| matches!(sort, Sort::Cpu | Sort::Memory);
        self.needs_whole_usage() || self.wish.as_ref().is_some_and(|wish| of(wish.sort))
    }
}

const NOT_FOUND: Refusal = Refusal(404, "There is no such page.");
const BAD: Refusal = Refusal(400, "A parameter is missing, unknown or too long.");

/// What a request means.
///
/// # Errors
/// What is wrong with it.
pub fn route(method: &str, target: &str) -> Result<Route, Refusal> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let changes = matches!(path, "/login" | "/logout" | "/api/act");
    match method {
        "POST" if changes => {}
        "GET" | "HEAD" if !changes => {}
        _ => return Err(Refusal(405, "This method is not for this page.")),
    }
    let parameters = Parameters::parse(query)?;
    Ok(match path {
        "/login" => Route::Login,
        "/logout" => Route::Logout,
        "/api/session" => Route::Session,
        "/api/look" => Route::Look(Box::new(sight(&parameters)?)),
        "/api/events" => Route::Events(Box::new(sight(&parameters)?)),
        "/api/unit" => Route::Unit(parameters.unit()?),
        "/api/files" => Route::Files(parameters.unit()?),
        "/api/log" => Route::Log(parameters.unit()?),
        "/api/timers" => Route::Timers,
        "/api/sessions" => Route::Sessions,
        "/api/records" => Route::Records,
        "/api/plan" => Route::Plan,
        "/api/questions" => Route::Questions,
        "/api/ask" => ask(&parameters)?,
        "/api/act" => act(&parameters)?,
        "/chart" => Route::Chart(recorded(&parameters)?),
        _ if path.starts_with("/api/") => return Err(NOT_FOUND),
        _ => Route::Asset(path.to_owned()),
    })
}

fn act(parameters: &Parameters) -> Result<Route, Refusal> {
    let verb = match parameters.one("verb") {
        Some("start") => Verb::Start,
        Some("stop") => Verb::Stop,
        Some("restart") => Verb::Restart,
        Some("clear") => Verb::Clear,
        _ => return Err(BAD),
    };
    let units: Vec<String> = parameters.all("unit").map(str::to_owned).collect();
    let is_sound = !units.is_empty() && units.iter().all(|unit| is_unit(unit));
    match units.len() {
        _ if !is_sound => Err(BAD),
        ..=ACTION_UNITS_MAX => Ok(Route::Act(verb, units)),
        _ => Err(Refusal(413, "One action is for 200 units at most.")),
    }
}

/// What it is about comes as a person types it.
fn ask(parameters: &Parameters) -> Result<Route, Refusal> {
    let word = parameters.one("question").unwrap_or_default();
    let question = questions::ALL.iter().find(|question| question.word == word).ok_or(BAD)?;
    let about = parameters.one("about").unwrap_or_default();
    let subject = question.needs.subject(about).map_err(|_| BAD)?;
    match &subject.unit {
        Some(unit) if !is_unit(unit) => Err(BAD),
        _ => Ok(Route::Ask(question.ask, subject)),
    }
}

fn recorded(parameters: &Parameters) -> Result<Recorded, Refusal> {
    match (parameters.one("name"), parameters.one("last")) {
        (Some(name), None) if !name.contains('/') && !name.is_empty() => {
            Ok(Recorded::Named(name.to_owned()))
        }
        (None, Some(last)) => match last.parse() {
            Ok(seconds @ 1..=SECONDS_MAX) => Ok(Recorded::Last(seconds)),
            _ => Err(BAD),
        },
        _ => Err(BAD),
    }
}

fn sight(parameters: &Parameters) -> Result<Sight, Refusal> {
    let number = |name: &str, most: usize, default: usize| match parameters.one(name) {
        None => Ok(default),
        Some(text) => text.parse().ok().filter(|number| *number <= most).ok_or(BAD),
    };
    let cells = match parameters.one("cells") {
        None => Cells::None,
        Some("containers") => Cells::Sets,
        Some("slices") => Cells::Slices,
        Some("templates") => Cells::Templates,
        Some("units") => Cells::Units,
        Some(_) => return Err(BAD),
    };
    Ok(Sight {
        wish: wish(parameters)?,
        from: number("from", usize::MAX >> 1, 0)?,
        rows: number("rows", ROWS_MAX, ROWS_DEFAULT)?.max(1),
        cells,
        has_series: parameters.one("series") == Some("1"),
    })
}

fn tab(word: &str) -> Option<Tab> {
    Some(match word {
        "trouble" => Tab::Trouble,
        "jobs" => Tab::Jobs,
        "units" => Tab::Units,
        "containers" => Tab::Sets,
        "slices" => Tab::Slices,
        "templates" => Tab::Templates,
        _ => return None,
    })
}

fn wish(parameters: &Parameters) -> Result<Option<Wish>, Refusal> {
    let Some(word) = parameters.one("table") else { return Ok(None) };
    let sort = match parameters.one("sort") {
        None | Some("name") => Sort::Name,
        Some("state") => Sort::State,
        Some("cpu") => Sort::Cpu,
        Some("memory") => Sort::Memory,
        Some("tasks") => Sort::Tasks,
        Some("io") => Sort::Io,
        Some("waits") => Sort::Pressure,
        Some("restarts") => Sort::Restarts,
        Some("since") => Sort::Since,
        Some(_) => return Err(BAD),
    };
    let within = match parameters.one("within") {
        None => None,
        Some(text) => {
            let (kind, name) = text.split_once(':').ok_or(BAD)?;
            Some((tab(kind).ok_or(BAD)?, Arc::from(name)))
        }
    };
    let unfolded: BTreeSet<Arc<str>> =
        parameters.all("open").take(UNFOLDED_MAX).map(Arc::from).collect();
    Ok(Some(Wish {
        tab: tab(word).ok_or(BAD)?,
        filter: parameters.one("filter").unwrap_or_default().to_owned(),
        within,
        sort,
        is_inverted: parameters.one("inverted") == Some("1"),
        is_tree: false,
        unfolded,
    }))
}

fn is_unit(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_control() || c == '/')
}

/// Names and values in their order.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn parse(query: &str) -> Result<Parameters, Refusal> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let mut all = Vec::new();
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value).filter(|value| value.len() <= VALUE_BYTES_MAX).ok_or(BAD)?;
            if all.len() >= PARAMETERS_MAX {
                return Err(BAD);
            }
            all.push((decode(name).ok_or(BAD)?, value));
        }
        Ok(Parameters(all))
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn one(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn unit(&self) -> Result<String, Refusal> {
        self.one("name").filter(|name| is_unit(name)).map(str::to_owned).ok_or(BAD)
    }
}

/// Without `%` and `+`, as forms write them; none of what is no UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, target: &str) -> Result<Route, u16> {
        route(method, target).map_err(|Refusal(status, _)| status)
    }

    fn look(query: &str) -> Result<Sight, u16> {
        match check("GET", &format!("/api/look?{query}"))? {
            Route::Look(sight) => Ok(*sight),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn paths_and_methods() {
        assert_eq!(check("GET", "/"), Ok(Route::Asset("/".into())));
        assert_eq!(
            check("GET", "/api/unit?name=a%40b.service"),
            Ok(Route::Unit("a@b.service".into()))
        );
        assert_eq!(check("POST", "/login"), Ok(Route::Login));
        for (method, target, status) in [
            ("GET", "/login", 405),
            ("GET", "/api/act?verb=stop&unit=a.service", 405),
            ("POST", "/api/timers", 405),
            ("PUT", "/", 405),
            ("GET", "/api/nothing", 404),
            ("GET", "/api/unit", 400),
            ("GET", "/api/unit?name=", 400),
            ("GET", "/api/unit?name=%zz", 400),
            ("GET", "/api/unit?name=%ff", 400),
            ("GET", "/api/unit?name=a%0Ab", 400),
            ("GET", "/api/log?name=../x", 400),
            ("GET", "/chart?name=../x", 400),
            ("GET", "/chart?last=0", 400),
            ("GET", "/chart?last=3601", 400),
            ("GET", "/chart?last=9&name=x", 400),
        ] {
            assert_eq!(check(method, target), Err(status), "{method} {target}");
        }
    }

    #[test]
    fn actions_name_units_and_no_more_than_200() {
        let act = |query: &str| check("POST", &format!("/api/act?{query}"));
        let both = vec!["a.service".to_owned(), "b.service".to_owned()];
        assert_eq!(
            act("verb=stop&unit=a.service&unit=b.service"),
            Ok(Route::Act(Verb::Stop, both))
        );
        assert_eq!(act("verb=stop"), Err(400));
        assert_eq!(act("verb=kill&unit=a.service"), Err(400));
        let many = |count: usize| format!("verb=clear{}", "&unit=a.service".repeat(count));
        assert!(act(&many(200)).is_ok());
        assert_eq!(act(&many(201)), Err(413));
        assert_eq!(act(&many(512)), Err(400), "too many parameters");
    }

    #[test]
    fn questions_are_about_what_they_need() {
        let ask = |query: &str| check("GET", &format!("/api/ask?{query}"));
        let unit = |unit: &str| Subject { unit: Some(unit.to_owned()), ..Subject::default() };
        assert_eq!(ask("question=restarts"), Ok(Route::Ask(Ask::Restarts, Subject::default())));
        assert_eq!(
            ask("question=stop&about=a%40b.service"),
            Ok(Route::Ask(Ask::StopPlan, unit("a@b.service")))
        );
        let subject = Subject { since: Some("10:00".to_owned()), ..unit("web") };
        assert_eq!(ask("question=logs&about=web+10:00"), Ok(Route::Ask(Ask::Logs, subject)));
        for bad in [
            "",
            "question=x",
            "question=stop",
            "question=stop&about=../x",
            "question=owner&about=x",
            "question=stop&about=a%00b",
        ] {
            assert_eq!(ask(bad), Err(400), "{bad}");
        }
        assert_eq!(check("POST", "/api/ask?question=restarts"), Err(405));
    }

    #[test]
    fn what_is_in_sight() {
        let sight = look(
            "table=units&filter=web+failed&sort=since&inverted=1&from=200&rows=50&cells=containers",
        );
        let sight = sight.expect("it is sound");
        assert_eq!((sight.from, sight.rows, sight.cells), (200, 50, Cells::Sets));
        let wish = sight.wish.expect("a table");
        assert_eq!((wish.tab, &*wish.filter, wish.sort), (Tab::Units, "web failed", Sort::Since));
        assert!(wish.is_inverted && wish.within.is_none());
        let within = look("table=units&within=containers:Container+%27a%27").expect("it is sound");
        let (tab, name) = within.wish.and_then(|wish| wish.within).expect("a group");
        assert_eq!((tab, &*name), (Tab::Sets, "Container 'a'"));
        assert_eq!(look("").map(|sight| (sight.wish.is_none(), sight.rows)), Ok((true, 100)));
        for bad in [
            "table=x",
            "sort=size&table=units",
            "rows=501",
            "from=-1",
            "cells=x",
            "table=units&within=a",
        ] {
            assert_eq!(look(bad).err(), Some(400), "{bad}");
        }
        assert_eq!(look(&format!("filter={}", "x".repeat(513))).err(), Some(400));
    }
}
