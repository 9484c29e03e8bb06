//! `warren chart`: a recording as a page, a picture, a trace or a table.
//!
//! Which recordings are meant is decided by `Which`; they come from the manager or from a file;
//! drawing is [`warren_trace`]'s. A file needs no manager.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use warren_sys::progress::during;
use warren_trace::analysis::Analysis;
use warren_trace::analysis::repeat::Repeats;
use warren_trace::export::{chrome, html, show, svg, table};
use warren_trace::record::{self, Damage, Recording};
use warren_trace::words::Subject;
use warren_wire::control::{Call, Record, RecordUnderWay, Records, RecordsAnswer};

use crate::args::{ChartArgs, Global};
use crate::client::{CallError, Client};
use crate::output::print_json;
use crate::output::{clean_lines, print};

/// Which recording is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Which {
    /// The last of its subject, or one that is so many before it.
    Kept(Subject, usize),
    /// The manager's recording of this name.
    Named(String),
    /// A file.
    File(PathBuf),
    /// What happened between two moments.
    Between(When, When),
}

/// An end of a stretch of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// As far as there is something.
    Open,
    /// So long ago.
    Ago(Duration),
    /// Seconds since 1970.
    Unix(u64),
}

impl Which {
    fn parse(text: &str) -> Result<Which> {
        let (word, back) = match text.split_once('~') {
            Some((word, back)) => (word, back.parse().ok()),
            None => (text, Some(0)),
        };
        let subject = Subject::from_text(word).filter(|subject| *subject != Subject::Live);
        if let (Some(subject), Some(back)) = (subject, back) {
            return Ok(Which::Kept(subject, back));
        }
        if Path::new(text).is_file() {
            return Ok(Which::File(text.into()));
        }
        if let Some((since, until)) = text.split_once("..") {
            return Ok(Which::Between(When::parse(since)?, When::parse(until)?));
        }
        ensure!(
            text.ends_with(".record") && !text.contains('/'),
            "{text} is neither a file nor boot, reload, shutdown, boot~1 or SINCE..UNTIL"
        );
        Ok(Which::Named(text.to_owned()))
    }
}

impl When {
    fn parse(text: &str) -> Result<When> {
        if text.is_empty() || text == "now" {
            return Ok(When::Open);
        }
        if let Some(seconds) = text.strip_prefix('@') {
            return Ok(When::Unix(
                seconds.parse().with_context(|| format!("{text} is not a time"))?,
            ));
        }
        let span = text.strip_prefix('-').and_then(|span| warren_unit::value::span(span).ok());
        let span = span.flatten().with_context(|| {
            format!("{text} is not a time: use -90s, -5min, @SECONDS since 1970, now, or nothing")
        })?;
        Ok(When::Ago(span))
    }

    /// Why this may be another moment than the one that was meant: what is recorded has the time of the
    /// monotonic clock, which stands while the machine sleeps.
    fn remark(self, now: Now) -> Option<String> {
        let is_by_wall_clock = matches!(self, When::Unix(_));
        (is_by_wall_clock && now.slept_us >= SLEPT_US_MIN).then(|| {
            let slept = show::seconds(now.slept_us);
            format!("the machine was suspended for {slept} since boot: times before that are off")
        })
    }

    /// On the monotonic clock, in µs; none for an open end. By today's distance of the clocks: the wall
    /// clock may have been set since.
    fn monotonic_us(self, now: Now) -> Option<u64> {
        match self {
            When::Open => None,
            When::Ago(span) => Some(now.monotonic_us.saturating_sub(span.as_micros() as u64)),
            When::Unix(seconds) => {
                let us = seconds.saturating_mul(1_000_000);
                let ago_us = now.realtime_us.saturating_sub(us);
                let ahead_us = us.saturating_sub(now.realtime_us);
                Some(now.monotonic_us.saturating_sub(ago_us).saturating_add(ahead_us))
            }
        }
    }
}

/// Said of a stretch of time.
const NOTHING_RECORDED: &str = "nothing was recorded at that time";

/// Sleeping less than this, in µs, is no matter: times are asked for in seconds.
const SLEPT_US_MIN: u64 = 1_000_000;

/// The same moment on two clocks, in µs.
#[derive(Clone, Copy)]
struct Now {
    monotonic_us: u64,
    realtime_us: u64,
    /// For how long the machine has slept since it was started.
    slept_us: u64,
}

impl Now {
    fn read() -> Now {
        let monotonic_us = warren_sys::time::monotonic_ns() / 1000;
        let boottime_us = warren_sys::time::boottime_ns() / 1000;
        Now {
            monotonic_us,
            realtime_us: warren_sys::time::realtime_ns() / 1000,
            slept_us: boottime_us.saturating_sub(monotonic_us),
        }
    }
}

/// The form of a chart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Html,
    Svg,
    Json,
    Text,
}

impl Form {
    /// By the file's suffix; where nothing is written to a file, text or what programs read.
    fn of(output: Option<&Path>, as_json: bool) -> Result<Form> {
        let Some(path) = output else {
            return Ok(if as_json { Form::Json } else { Form::Text });
        };
        Ok(match path.extension().and_then(|suffix| suffix.to_str()) {
            Some("html") => Form::Html,
            Some("svg") => Form::Svg,
            Some("json") => Form::Json,
            Some("txt") => Form::Text,
            _ => bail!("{}: the name must end in .html, .svg, .json or .txt", path.display()),
        })
    }

    fn draw(self, analysis: &Analysis<'_>) -> String {
        match self {
            Form::Html => html::html(analysis),
            Form::Svg => svg::svg(analysis),
            Form::Json => chrome::chrome(analysis),
            Form::Text => table::table(analysis),
        }
    }

    fn compare(self, a: &Analysis<'_>, b: &Analysis<'_>) -> Result<String> {
        Ok(match self {
            Form::Html => html::compared(a, b),
            Form::Text => table::compared(a, b),
            Form::Svg | Form::Json => bail!("a comparison can only be written as .html or .txt"),
        })
    }

    fn repeat(self, analysis: &Analysis<'_>, repeats: &Repeats) -> Result<String> {
        Ok(match self {
            Form::Html => html::repeated(analysis, repeats),
            Form::Json => chrome::repeated(analysis, repeats),
            Form::Text => table::repeated(analysis, repeats),
            Form::Svg => {
                bail!("a comparison of many recordings can only be written as .html, .json or .txt")
            }
        })
    }
}

/// Does what the command line says; `connect` is asked for the manager when it is needed.
pub fn run(
    args: &ChartArgs,
    global: &Global,
    connect: impl FnOnce() -> Result<Client>,
) -> Result<i32> {
    let mut manager = Manager::Unasked(Some(connect));
    if args.list {
        list(&mut manager, global.json)?;
        return Ok(0);
    }
    let form = Form::of(args.output.as_deref(), global.json)?;
    let chart = match args.repeat {
        Some(count) => {
            let which = Which::parse(&args.what)?;
            during("Reading the recordings", global.quiet, || {
                repeat(form, &which, count.into(), &mut manager)
            })?
        }
        None => during("Drawing the chart", global.quiet, || draw(form, args, &mut manager))?,
    };
    match &args.output {
        Some(path) => std::fs::write(path, chart)
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => print(&clean_lines(&chart)),
    }
    Ok(0)
}

/// One recording, or two that are compared.
fn draw<F>(form: Form, args: &ChartArgs, manager: &mut Manager<F>) -> Result<String>
where
    F: FnOnce() -> Result<Client>,
{
    let which: Result<Vec<Which>> = match args.compare.is_empty() {
        true => vec![Which::parse(&args.what)],
        false => args.compare.iter().map(|text| Which::parse(text)).collect(),
    }
    .into_iter()
    .collect();
    let recordings: Result<Vec<(Recording, Damage)>> =
        which?.iter().map(|which| recording(which, manager)).collect();
    match recordings?.as_slice() {
        [a, b] => form.compare(&Analysis::of_file(a), &Analysis::of_file(b)),
        [one] => Ok(form.draw(&Analysis::of_file(one))),
        _ => bail!("name one recording to draw, or two to compare"),
    }
}

/// One recording, with how its times differ from those of the ones before it.
fn repeat<F>(form: Form, which: &Which, count: usize, manager: &mut Manager<F>) -> Result<String>
where
    F: FnOnce() -> Result<Client>,
{
    let &Which::Kept(subject, back) = which else {
        bail!("--repeat needs boot, reload, shutdown or an earlier one such as boot~1");
    };
    let answer = manager.call(&Records {})?;
    let text = subject.text();
    let goes_on = is_under_way(subject, &answer);
    if goes_on && back == 0 {
        complain!("warren: skipping the {text} that is still in progress");
    }
    let skipped = back.saturating_sub(usize::from(goes_on));
    let names: Vec<&str> = kept(subject, &answer).into_iter().skip(skipped).take(count).collect();
    ensure!(!names.is_empty(), missing(subject, &answer));
    ensure!(names.len() > 1, "no {text} before this one is kept; see warren chart --list");
    if let Some(fewer) = fewer(subject, back, names.len(), count) {
        complain!("warren: {fewer}");
    }
    // One by one: of thousands of units each is large.
    let mut readable = names.into_iter().filter_map(|name| {
        let bytes = fetch(manager, &named(name));
        let read = bytes.and_then(|bytes| Ok(record::read(&bytes)?));
        read.inspect_err(|error| complain!("warren: skipping {name}: {error:#}")).ok()
    });
    let too_few = || format!("fewer than two recordings of a {text} can be read");
    let newest = readable.next().with_context(too_few)?;
    let newest = Analysis::of_file(&newest);
    let mut repeats = Repeats::default();
    repeats.add(&newest);
    readable.for_each(|one| repeats.add(&Analysis::of_file(&one)));
    ensure!(repeats.count() > 1, too_few());
    form.repeat(&newest, &repeats)
}

/// That fewer are kept than were asked for, counted from one on backwards.
fn fewer(subject: Subject, back: usize, there: usize, asked: usize) -> Option<String> {
    let text = subject.text();
    let from = if back > 0 { format!(" from {text}~{back} on back") } else { String::new() };
    (there < asked).then(|| format!("only {there} recordings of a {text} are kept{from}"))
}

/// The manager, connected to when something is asked of it.
enum Manager<F> {
    Unasked(Option<F>),
    Connected(Client),
}

impl<F: FnOnce() -> Result<Client>> Manager<F> {
    fn call<C: Call>(&mut self, call: &C) -> Result<C::Answer> {
        self.call_as(call)
    }

    fn call_as<C: Call, A: DeserializeOwned>(&mut self, call: &C) -> Result<A> {
        if let Manager::Unasked(connect) = self {
            let connect = connect.take().context("cannot connect to the manager")?;
            *self = Manager::Connected(connect()?);
        }
        match self {
            Manager::Connected(client) => Ok(client.call_as(call)?),
            Manager::Unasked(_) => bail!("cannot connect to the manager"),
        }
    }
}

/// The answer of `Records` for programs: each row as the manager told it.
#[derive(Deserialize)]
struct ToldRecords {
    records: Vec<Value>,
    trouble: Option<String>,
}

fn list<F: FnOnce() -> Result<Client>>(manager: &mut Manager<F>, as_json: bool) -> Result<()> {
    let trouble = if as_json {
        let told: ToldRecords = manager.call_as(&Records {})?;
        told.records.iter().for_each(print_json);
        told.trouble
    } else {
        let answer = manager.call(&Records {})?;
        for row in &answer.records {
            let (date, bytes) = (show::date(row.began_us), show::count(row.bytes));
            print(&format!("{date} {bytes:>12} bytes  {}\n", row.name));
        }
        answer.trouble
    };
    if let Some(trouble) = trouble {
        complain!("warren: the last recording could not be saved: {trouble}");
    }
    Ok(())
}

fn recording<F>(which: &Which, manager: &mut Manager<F>) -> Result<(Recording, Damage)>
where
    F: FnOnce() -> Result<Client>,
{
    let bytes = match which {
        Which::File(path) => {
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?
        }
        Which::Named(name) => fetch(manager, &named(name))?,
        Which::Kept(subject, back) => {
            let answer = manager.call(&Records {})?;
            let found = request(*subject, *back, &answer);
            fetch(manager, &found.with_context(|| missing(*subject, &answer))?)?
        }
        Which::Between(since, until) => {
            let now = Now::read();
            if let Some(remark) = [since, until].into_iter().find_map(|when| when.remark(now)) {
                complain!("warren: {remark}");
            }
            let [since_us, until_us] = [since, until].map(|when| when.monotonic_us(now));
            // What is there already would be in it all the same.
            ensure!(since_us.is_none_or(|since| since <= now.monotonic_us), NOTHING_RECORDED);
            let bytes = fetch(manager, &Record { since_us, until_us, ..Record::default() })?;
            let stretch = read_of(&bytes, "the manager's answer")?;
            ensure!(!stretch.0.events.is_empty(), NOTHING_RECORDED);
            return Ok(stretch);
        }
    };
    match which {
        Which::File(path) => read_of(&bytes, &path.display().to_string()),
        Which::Named(name) => read_of(&bytes, name),
        Which::Kept(..) | Which::Between(..) => read_of(&bytes, "the manager's answer"),
    }
}

/// The last boot, or the one that goes on, as a table.
///
/// # Errors
/// What the manager does not answer; that there is no recording is the answer.
pub fn boot(client: &mut Client) -> std::result::Result<String, CallError> {
    let answer = client.call(&Records {})?;
    let Some(found) = request(Subject::Boot, 0, &answer) else {
        return Ok(missing(Subject::Boot, &answer) + "\n");
    };
    let told = client.call(&found)?;
    let bytes = warren_trace::base64::decode(&told.data).unwrap_or_default();
    Ok(match read_of(&bytes, "the manager's answer") {
        Ok(read) => clean_lines(&Form::Text.draw(&Analysis::of_file(&read))),
        Err(error) => format!("{error:#}\n"),
    })
}

/// Names of the recordings of a subject, the last first, from the manager's answer.
fn kept(subject: Subject, answer: &RecordsAnswer) -> Vec<&str> {
    let of_subject = answer.records.iter().filter(|row| row.subject == subject.text());
    of_subject.rev().map(|row| row.name.as_str()).collect()
}

/// Whether one of a subject goes on, by the manager's answer: then it is the last.
fn is_under_way(subject: Subject, answer: &RecordsAnswer) -> bool {
    answer.under_way.as_ref().is_some_and(|under_way| under_way.subject == subject.text())
}

/// Asks for the recording of this name.
fn named(name: &str) -> Record {
    Record { name: Some(name.to_owned()), ..Record::default() }
}

/// What the manager is asked for to have the last of a subject, or one that is so many before it.
fn request(subject: Subject, back: usize, answer: &RecordsAnswer) -> Option<Record> {
    let kept = kept(subject, answer);
    let by_name = |back: usize| kept.get(back).map(|name| named(name));
    let under_way = answer.under_way.as_ref().filter(|_| is_under_way(subject, answer));
    match (under_way, back.checked_sub(1)) {
        (Some(RecordUnderWay { subject, since_us }), None) => {
            let (subject, since_us) = (Some(subject.clone()), Some(*since_us));
            Some(Record { subject, since_us, ..Record::default() })
        }
        (Some(_), Some(before)) => by_name(before),
        (None, _) => by_name(back),
    }
}

/// What is whole of the bytes of `name`. The chart tells what is not.
fn read_of(bytes: &[u8], name: &str) -> Result<(Recording, Damage)> {
    record::read(bytes).with_context(|| name.to_owned())
}

fn fetch<F>(manager: &mut Manager<F>, request: &Record) -> Result<Vec<u8>>
where
    F: FnOnce() -> Result<Client>,
{
    let answer = manager.call(request)?;
    warren_trace::base64::decode(&answer.data).context("the manager's answer is not a recording")
}

/// That there is none, and why, as far as the manager's answer says so.
fn missing(subject: Subject, answer: &RecordsAnswer) -> String {
    if let Some(trouble) = &answer.trouble {
        return format!(
            "no recording of this {}: the last one could not be saved: {trouble}",
            subject.text()
        );
    }
    let mut rows = answer.records.iter();
    let when = match subject {
        // Further back than anything is kept.
        _ if rows.any(|row| row.subject == subject.text()) => ", only later ones",
        Subject::Boot => "; a boot is kept once its first jobs have ended",
        Subject::Shutdown => "; a shutdown is shown by the next boot",
        Subject::Reload | Subject::Live => "",
    };
    format!("no recording of this {}{when}; see warren chart --list", subject.text())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(answer: &Value) -> RecordsAnswer {
        serde_json::from_value(answer.clone()).expect("it is an answer")
    }

    fn kept(subject: Subject, answer: &Value) -> Vec<String> {
        super::kept(subject, &read(answer)).into_iter().map(str::to_owned).collect()
    }

    fn parameters(subject: Subject, back: usize, answer: &Value) -> Option<Value> {
        let request = request(subject, back, &read(answer))?;
        Some(serde_json::to_value(request).expect("it is written"))
    }

    fn missing(subject: Subject, answer: &Value) -> String {
        super::missing(subject, &read(answer))
    }

    fn which(text: &str) -> Option<Which> {
        Which::parse(text).ok()
    }

    #[test]
    fn recordings_are_named_by_subject_age_time_or_name() {
        let kept = |subject, back| Some(Which::Kept(subject, back));
        assert_eq!(which("boot"), kept(Subject::Boot, 0));
        assert_eq!(which("shutdown~2"), kept(Subject::Shutdown, 2));
        let ago = |seconds| When::Ago(Duration::from_secs(seconds));
        assert_eq!(which("-5min.."), Some(Which::Between(ago(300), When::Open)));
        assert_eq!(which("-1h..-90s"), Some(Which::Between(ago(3600), ago(90))));
        assert_eq!(which("@17..now"), Some(Which::Between(When::Unix(17), When::Open)));
        assert_eq!(which("boot-1.record"), Some(Which::Named("boot-1.record".into())));
        for wrong in ["", "boots", "boot~x", "live", "5min..", "../x.record", "-..", "@.."] {
            assert_eq!(which(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_kept_of_a_subject_comes_the_last_first() {
        let row = |subject: &str, name: &str| json!({"subject": subject, "name": name});
        let answer = json!({"records": [row("boot", "a"), row("reload", "b"), row("boot", "c")]});
        assert_eq!(kept(Subject::Boot, &answer), ["c", "a"]);
        assert!(kept(Subject::Shutdown, &answer).is_empty());
    }

    #[test]
    fn one_that_goes_on_is_the_last_of_its_subject() {
        let row = |subject: &str, name: &str| json!({"subject": subject, "name": name});
        let records = json!([row("boot", "a"), row("shutdown", "b"), row("boot", "c")]);
        let under_way = json!({"subject": "boot", "since_us": 7});
        let answer = json!({"records": records, "under_way": under_way});
        let asked = |back| parameters(Subject::Boot, back, &answer);
        assert_eq!(asked(0), Some(under_way));
        assert_eq!([asked(1), asked(2)], ["c", "a"].map(|name| Some(json!({"name": name}))));
        assert_eq!(asked(3), None);
        let shutdown = parameters(Subject::Shutdown, 0, &answer);
        assert_eq!(shutdown, Some(json!({"name": "b"})));
    }

    #[test]
    fn that_fewer_are_kept_is_said_of_those_that_were_asked_for() {
        let told = |back, there| fewer(Subject::Boot, back, there, 10);
        assert_eq!(told(0, 10), None);
        assert_eq!(told(0, 6).as_deref(), Some("only 6 recordings of a boot are kept"));
        assert_eq!(
            told(3, 3).as_deref(),
            Some("only 3 recordings of a boot are kept from boot~3 on back")
        );
    }

    #[test]
    fn why_there_is_none_is_told() {
        let told = |answer| missing(Subject::Boot, &answer);
        let nothing = told(json!({"records": [{"subject": "reload"}]}));
        assert!(nothing.starts_with("no recording of this boot; a boot is kept once"), "{nothing}");
        let later = told(json!({"records": [{"subject": "boot"}]}));
        assert_eq!(later, "no recording of this boot, only later ones; see warren chart --list");
        let trouble = told(json!({"records": [], "trouble": "/x: No space left on device"}));
        let expect = "no recording of this boot: the last one could not be saved: /x: No space left on device";
        assert_eq!(trouble, expect);
    }

    #[test]
    fn times_are_shifted_to_the_other_clock() {
        let now = Now { monotonic_us: 50_000_000, realtime_us: 1_000_000_000, slept_us: 20_000 };
        assert_eq!(When::Open.monotonic_us(now), None);
        assert_eq!(When::Ago(Duration::from_secs(20)).monotonic_us(now), Some(30_000_000));
        assert_eq!(When::Ago(Duration::from_secs(99)).monotonic_us(now), Some(0));
        assert_eq!(When::Unix(990).monotonic_us(now), Some(40_000_000));
        assert_eq!(When::Unix(990).remark(now), None);
        assert_eq!(When::Unix(1_007).monotonic_us(now), Some(57_000_000));
        assert_eq!(When::Unix(u64::MAX).monotonic_us(now).map(|us| us > 1 << 60), Some(true));
        let now = Now { slept_us: 7_500_000, ..now };
        assert!(
            When::Unix(990).remark(now).is_some_and(|text| text.contains("suspended for 7.500 s"))
        );
        assert_eq!(When::Ago(Duration::from_secs(20)).remark(now), None);
    }

    #[test]
    fn the_suffix_decides_the_form() {
        let form = |name: &str| Form::of(Some(Path::new(name)), true).ok();
        assert_eq!(form("a.b.html"), Some(Form::Html));
        assert_eq!(form("x.svg"), Some(Form::Svg));
        assert_eq!((form("x.png"), form("html"), form("")), (None, None, None));
        assert_eq!(Form::of(None, false).ok(), Some(Form::Text));
        assert_eq!(Form::of(None, true).ok(), Some(Form::Json));
    }
}
