//! Queries against a slow reader that looks at every entry of every block and uses no index.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::block::Kind;
use crate::entry::{Entry, Fields, Stamp};
use crate::files::Counted;
use crate::query::matches;
use crate::segment::Segment;
use crate::segment::read::read_header;
use crate::segment::scan::{Walk, read_block};
use crate::store::age::Clock;
use crate::store::fault::{FaultyReads, Memory, Numbers, ReadFault};
use crate::store::upkeep::{MERGE_BYTES_MAX, MergeBounds, merge, merge_all, plan_merge, seal};
use crate::store::vacuum::{Limits, vacuum};
use crate::store::{Setup, Store};

/// A store that is written to by a seeded sequence of numbers.
struct Writer {
    memory: Memory,
    store: Store,
    numbers: Numbers,
    ids: u64,
}

const WORDS: [&str; 8] =
    ["connection", "refused", "Kernel", "skipped", "42", "/var/log", "ÄRGER", "timeout"];

impl Writer {
    fn new(seed: u64) -> Writer {
        let memory = Memory::new();
        let mut ids = 0u8;
        let new_id = Box::new(move || {
            ids += 1;
            Id128([ids; 16])
        });
        let setup = Setup { machine: Id128::default(), new_id };
        let (store, _) = Store::open(Arc::new(memory.clone()), setup).expect("empty");
        Writer { memory, store, numbers: Numbers(seed), ids: 100 }
    }

    fn append(&mut self, count: usize) {
        for _ in 0..count {
            let numbers = &mut self.numbers;
            let boot = Id128([1 + (self.store.next_seqnum() / 300) as u8; 16]);
            // Mostly forward, now and then a jump back.
            let jump = if numbers.below(50) == 0 { 500 } else { 0 };
            let realtime_us = 1_700_000_000_000_000 + self.store.next_seqnum() * 10 - jump;
            let stamp = Stamp { realtime_us, monotonic_us: realtime_us % 10_000, boot };
            let (context, fields) = (context(numbers), fields(numbers, realtime_us));
            let class = ["system", "noisy"][usize::from(numbers.below(5) == 0)];
            self.store.append(class, &stamp, &Arc::new(context), &fields).expect("in bounds");
        }
        self.store.flush().expect("no faults");
    }

    fn upkeep(&mut self) {
        self.seal();
        self.merge();
    }

    fn seal(&mut self) {
        for log in self.store.take_sealable() {
            self.ids += 1;
            seal(&self.memory, &log, Id128::default(), Id128([self.ids as u8; 16]))
                .expect("sealed");
        }
    }

    fn merge(&mut self) {
        let plan = {
            let catalogue = Catalogue::of(self.memory.list().expect("a listing"));
            plan_merge(
                &catalogue,
                &MergeBounds::bytes(MERGE_BYTES_MAX),
                &BTreeMap::new(),
                &BTreeSet::new(),
            )
        };
        if !plan.is_empty() {
            self.ids += 1;
            merge(&self.memory, &plan, Id128::default(), Id128([self.ids as u8; 16]))
                .expect("merged");
        }
    }

    /// Merged segments, small segments, a closed log and one that is written to, in two classes.
    fn fill(&mut self) {
        for round in 0..8 {
            for _ in 0..3 {
                self.append(30);
            }
            self.store.rotate().expect("no faults");
            if round < 7 {
                self.upkeep();
            }
        }
        self.append(40);
        self.append(1);
    }

    fn journal(&self) -> Journal {
        Journal::open(Arc::new(self.memory.clone())).expect("readable")
    }
}

fn context(numbers: &mut Numbers) -> Fields {
    let unit = match numbers.below(40) {
        0 => "rare.service".to_owned(),
        n => format!("u{}.service", n % 7),
    };
    let pid = if numbers.below(10) == 0 { 1 } else { 100 + numbers.below(5) };
    let long = "x".repeat(numbers.below(3) * 150);
    let pairs = [
        ("_SYSTEMD_UNIT", &*unit),
        ("_PID", &pid.to_string()),
        ("_UID", "0"),
        ("_CMDLINE", &*long),
    ];
    pairs.into_iter().collect()
}

fn fields(numbers: &mut Numbers, time: u64) -> Fields {
    let words: Vec<_> = (0..numbers.below(4)).map(|_| WORDS[numbers.below(WORDS.len())]).collect();
    let mut fields = Fields::new();
    fields.push(b"PRIORITY", numbers.below(8).to_string().as_bytes());
    if numbers.below(10) > 0 {
        fields.push(b"MESSAGE", words.join(" ").as_bytes());
    }
    if numbers.below(10) == 0 {
        fields.push(b"MESSAGE", b"a second text");
        fields.push(b"UNIT", format!("u{}.service", numbers.below(7)).as_bytes());
    }
    fields.push(b"REQUEST", numbers.below(5000).to_string().as_bytes());
    fields.push(
        b"_SOURCE_REALTIME_TIMESTAMP",
        (time - numbers.below(9) as u64).to_string().as_bytes(),
    );
    fields
}

/// The slow reader: every entry of every block, in the order of sequence numbers.
fn read_all(files: &dyn Files) -> Vec<Entry> {
    let mut all = Vec::new();
    for file in Catalogue::of(files.list().expect("a listing")).files {
        let name = file.name.to_string();
        let blocks: Vec<_> = match file.name {
            FileName::Log { .. } => {
                let file = files.open(&name).expect("listed");
                let header = read_header(&*file, &name).expect("read").expect("whole");
                let mut walk = Walk::new(Some(header.identity));
                walk.advance(&*file).expect("read");
                let entries = walk.blocks.iter().filter(|block| block.kind == Kind::Entries);
                entries.map(|header| read_block(&*file, &name, header).expect("whole")).collect()
            }
            FileName::Segment(_) => {
                let segment = Segment::open(files, &name).expect("whole");
                let count = segment.directory().blocks.len();
                (0..count).map(|at| segment.block(at).expect("whole")).collect()
            }
        };
        for block in blocks {
            all.extend((0..block.rows().len()).map(|row| block.entry(row).expect("whole")));
        }
    }
    all.sort_by_key(|entry| entry.seqnum);
    all
}

fn holds(expr: &Expr, entry: &Entry) -> bool {
    match expr {
        Expr::All(all) => all.iter().all(|expr| holds(expr, entry)),
        Expr::Any(any) => any.iter().any(|expr| holds(expr, entry)),
        Expr::Field { name, value } if name == b"_BOOT_ID" => {
            entry.stamp.boot.to_string().as_bytes() == value
        }
        Expr::Field { name, value } => {
            entry.all_fields().any(|field| field == (name.as_slice(), value.as_slice()))
        }
    }
}

fn takes(query: &Query, entry: &Entry) -> bool {
    let texts = || entry.fields.iter().filter(|(name, _)| *name == b"MESSAGE");
    holds(&query.expr, entry)
        && query.since_us.is_none_or(|since| entry.stamp.realtime_us >= since)
        && query.until_us.is_none_or(|until| entry.stamp.realtime_us <= until)
        && query.grep.as_ref().is_none_or(|grep| texts().any(|(_, text)| grep.matches(text)))
}

fn random_expr(numbers: &mut Numbers, depth: usize) -> Expr {
    if depth > 0 && numbers.below(2) == 0 {
        let parts = (0..1 + numbers.below(3)).map(|_| random_expr(numbers, depth - 1)).collect();
        return if numbers.below(2) == 0 { Expr::All(parts) } else { Expr::Any(parts) };
    }
    match numbers.below(9) {
        0 => Expr::field("_SYSTEMD_UNIT", "rare.service"),
        1 => matches::unit(&format!("u{}.service", numbers.below(9))),
        2 => matches::priorities(0..=numbers.below(8) as u8),
        3 => Expr::field("_BOOT_ID", Id128([numbers.below(5) as u8; 16]).to_string()),
        4 => Expr::field("REQUEST", numbers.below(5000).to_string()),
        5 => Expr::field("_CMDLINE", "x".repeat(numbers.below(4) * 150)),
        6 => Expr::field("MESSAGE", WORDS[numbers.below(WORDS.len())]),
        7 => Expr::field("NO_SUCH_FIELD", "x"),
        _ => Expr::field("_PID", (99 + numbers.below(7)).to_string()),
    }
}

fn random_query(numbers: &mut Numbers) -> Query {
    let patterns = [
        "refused",
        "connection (refused|42)",
        "Kernel",
        "kernel",
        "ärger",
        "^$",
        "4.",
        "a second",
        "zzz",
    ];
    let cases = [None, Some(Case::Sensitive), Some(Case::Insensitive)];
    let pattern = patterns[numbers.below(patterns.len())];
    let grep = Grep::new(pattern, cases[numbers.below(3)]).expect("a pattern");
    let time = |numbers: &mut Numbers| 1_700_000_000_000_000 + numbers.below(9_000) as u64;
    Query {
        expr: random_expr(numbers, 2),
        since_us: (numbers.below(3) == 0).then(|| time(numbers)),
        until_us: (numbers.below(3) == 0).then(|| time(numbers)),
        grep: (numbers.below(3) == 0).then_some(grep),
        pulse: None,
    }
}

#[test]
fn any_query_gives_what_the_slow_reader_gives() {
    let mut found = 0;
    for seed in 0..4 {
        let mut writer = Writer::new(seed);
        writer.fill();
        let (all, journal) = (read_all(&writer.memory), writer.journal());
        assert_eq!(all.len(), 761);
        for _ in 0..400 {
            let numbers = &mut writer.numbers;
            let query = random_query(numbers);
            let position = (numbers.below(2) == 0).then(|| numbers.below(800) as u64);
            let wanted = |entry: &&Entry| takes(&query, entry);
            let after = all.iter().filter(|e| position.is_none_or(|at| e.seqnum > at));
            let before = all.iter().rev().filter(|e| position.is_none_or(|at| e.seqnum < at));
            let expected: Vec<&Entry> = after.filter(wanted).collect();
            let expected_back: Vec<&Entry> = before.filter(wanted).collect();
            let read = |direction| -> Vec<Entry> {
                journal.entries(&query, direction, position).map(|e| e.expect("whole")).collect()
            };
            found += expected.len();
            assert!(read(Direction::Forward).iter().eq(expected), "{query:?} after {position:?}");
            assert!(
                read(Direction::Backward).iter().eq(expected_back),
                "{query:?} before {position:?}"
            );
        }
    }
    assert!(found > 10_000, "{found} entries are too few to tell");
}

#[test]
fn values_are_those_of_all_entries() {
    let mut writer = Writer::new(7);
    writer.fill();
    let (all, journal) = (read_all(&writer.memory), writer.journal());
    for field in ["_SYSTEMD_UNIT", "PRIORITY", "REQUEST", "_CMDLINE", "MESSAGE", "UNIT", "NONE"] {
        let of_field = |entry: &Entry| -> Vec<Vec<u8>> {
            let fields = entry.all_fields().filter(|(name, _)| *name == field.as_bytes());
            fields.map(|(_, value)| value.to_vec()).collect()
        };
        let expected: BTreeSet<_> = all.iter().flat_map(of_field).collect();
        assert_eq!(journal.values(field.as_bytes()), Ok((expected, Vec::new())), "{field}");
    }
    let few = journal.values_within(b"PRIORITY", 4096).expect("there are eight at most");
    assert_eq!(few, journal.values(b"PRIORITY").expect("readable"));
    let many = journal.values_within(b"MESSAGE", 4096);
    assert!(matches!(many, Err(Error::TooLarge { max: 4096, .. })), "{many:?}");
}

#[test]
fn boots_come_in_order_with_their_times() {
    let mut writer = Writer::new(8);
    writer.fill();
    let all = read_all(&writer.memory);
    let (boots, _) = writer.journal().boots().expect("whole");
    assert_eq!(boots.iter().map(|span| span.boot.0[0]).collect::<Vec<_>>(), [1, 2, 3]);
    for span in boots {
        let times = || {
            let of_boot = all.iter().filter(|entry| entry.stamp.boot == span.boot);
            of_boot.map(|entry| entry.stamp.realtime_us)
        };
        assert_eq!(times().min(), Some(span.realtime_min_us));
        assert_eq!(times().max(), Some(span.realtime_max_us));
    }
}

/// A clock without a battery: years ahead in one boot, at its beginning in another.
#[test]
fn boots_keep_their_order_when_the_clock_was_wrong() {
    const TIMES_US: [u64; 4] =
        [2_500_000_000_000_000, 1_700_000_000_000_000, 0, 1_700_000_100_000_000];
    let mut writer = Writer::new(9);
    for (number, realtime_us) in TIMES_US.into_iter().enumerate() {
        let boot = Id128([9 - number as u8; 16]);
        for step in 0..3 {
            let stamp = Stamp { realtime_us: realtime_us + step, monotonic_us: step, boot };
            let fields = [("MESSAGE", "x")].into_iter().collect();
            writer.store.append("system", &stamp, &Arc::default(), &fields).expect("in bounds");
        }
        writer.store.rotate().expect("no faults");
        // Sealed alone, with another, and not at all.
        if number % 2 == 0 {
            writer.upkeep();
        }
    }
    let (boots, _) = writer.journal().boots().expect("whole");
    let shown: Vec<_> = boots.iter().map(|span| (span.boot.0[0], span.realtime_min_us)).collect();
    let expected: Vec<_> = [9, 8, 7, 6].into_iter().zip(TIMES_US).collect();
    assert_eq!(shown, expected);
}

#[test]
fn a_follower_sees_every_entry_once_across_seal_merge_and_vacuum() {
    for seed in 0..5 {
        let mut writer = Writer::new(seed);
        let (query, mut seen) = (Query::default(), Vec::new());
        let mut journal = writer.journal();
        for _ in 0..200 {
            match writer.numbers.below(8) {
                0..=2 => writer.append(7),
                3 => writer.store.rotate().expect("no faults"),
                4 => writer.upkeep(),
                5 => {
                    // Everything that is sealed was seen: the reader reads it first.
                    journal.refresh().expect("readable");
                    read_on(&journal, &query, &mut seen);
                    let limits = Limits { bytes_max: Some(9000), ..Limits::default() };
                    vacuum(&writer.memory, &limits, &Clock::of_wall(0)).expect("no faults");
                }
                _ => {
                    // The picture may be older than what upkeep did since.
                    read_on(&journal, &query, &mut seen);
                    journal.refresh().expect("readable");
                    read_on(&journal, &query, &mut seen);
                }
            }
        }
        journal.refresh().expect("readable");
        read_on(&journal, &query, &mut seen);
        let expected: Vec<u64> = (1..writer.store.next_seqnum()).collect();
        assert_eq!(seen, expected, "seed {seed}");
    }
}

fn read_on(journal: &Journal, query: &Query, seen: &mut Vec<u64>) {
    let entries = journal.entries(query, Direction::Forward, seen.last().copied());
    seen.extend(entries.map(|entry| entry.expect("whole").seqnum));
}

#[test]
fn a_rare_unit_costs_two_reads_for_a_file_and_one_for_a_block() {
    let mut writer = Writer::new(3);
    writer.fill();
    let counted = Arc::new(Counted::new(Arc::new(writer.memory.clone())));
    let journal = Journal::open(counted.clone()).expect("readable");
    assert_eq!(counted.reads().count, 0, "opening reads nothing");
    let query = |unit: &str| Query { expr: Expr::field("_SYSTEMD_UNIT", unit), ..Query::default() };
    let files = journal.sources().count() as u64;
    let absent = query("nosuch.service");
    assert_eq!(journal.entries(&absent, Direction::Backward, None).count(), 0);
    let reads = counted.reads().count;
    assert!(reads <= 2 * files, "{reads} reads for {files} files");
    let rare = query("rare.service");
    assert!(journal.entries(&rare, Direction::Backward, None).count() > 3);
    let blocks: usize = journal.sources().map(|s| s.places().expect("whole").len()).sum();
    let more = counted.reads().count - reads;
    assert!(more <= files + blocks as u64, "{more} more reads for {blocks} blocks");
}

#[test]
fn damage_is_reported_and_the_rest_is_read() {
    let mut writer = Writer::new(4);
    writer.fill();
    let segment = Catalogue::of(writer.memory.list().expect("a listing"));
    let name = segment.segments().next().expect("a segment").0.to_string();
    let place = Segment::open(&writer.memory, &name).expect("whole").directory().blocks[0];
    let mut content = writer.memory.content(&name);
    content[place.offset as usize + 200] ^= 1;
    writer.memory.set_content(&name, &content);
    let (journal, query) = (writer.journal(), Query::default());
    let mut entries = journal.entries(&query, Direction::Forward, None);
    let mut count = 0;
    while entries.try_next().expect("no read fails").is_some() {
        count += 1;
    }
    assert_eq!(count + place.count as usize, 761);
    assert_eq!(entries.damage().len(), 1);
}

#[test]
fn a_picture_is_whole_though_files_were_merged_while_they_were_listed() {
    let mut writer = Writer::new(4);
    writer.fill();
    let fault = ReadFault::Changing { lists: 0.into() };
    let changing = FaultyReads { inner: writer.memory.clone(), fault };
    let journal = Journal::open(Arc::new(changing)).expect("readable");
    let query = Query::default();
    assert_eq!(journal.entries(&query, Direction::Forward, None).count(), 761);
}

/// A filled store of which the device does not give the first segment, how many entries that has, and
/// its name.
fn broken(opens: bool) -> (FaultyReads, usize, String) {
    let mut writer = Writer::new(4);
    writer.fill();
    break_first(&writer.memory, opens)
}

fn break_first(memory: &Memory, opens: bool) -> (FaultyReads, usize, String) {
    let catalogue = Catalogue::of(memory.list().expect("a listing"));
    let name = catalogue.segments().next().expect("a segment").0.to_string();
    let blocks = Segment::open(memory, &name).expect("whole").directory().blocks.clone();
    let lost = blocks.iter().map(|place| place.count as usize).sum();
    let fault = ReadFault::Broken { name: name.clone(), opens };
    (FaultyReads { inner: memory.clone(), fault }, lost, name)
}

#[test]
fn what_the_device_does_not_give_is_reported_and_the_rest_is_read() {
    for opens in [false, true] {
        let (broken, lost, _) = broken(opens);
        let journal = Journal::open(Arc::new(broken)).expect("the others are there");
        let query = Query::default();
        let mut entries = journal.entries(&query, Direction::Forward, None);
        let mut count = 0;
        while entries.try_next().expect("no read fails").is_some() {
            count += 1;
        }
        assert_eq!((count + lost, entries.damage().len()), (761, 1), "{opens}");
    }
}

/// `-f`, `--cursor-file`, upload: a segment that the device does not give is as good as lost, a log may
/// come back.
#[test]
fn who_goes_on_later_passes_by_segments_and_waits_for_logs() {
    for opens in [false, true] {
        let mut writer = Writer::new(4);
        writer.fill();
        let (broken, lost, name) = break_first(&writer.memory, opens);
        let mut journal = Journal::open(Arc::new(broken)).expect("the others are there");
        journal.keep_to_settled().expect("no log is missing");
        let query = Query::default();
        let mut entries = journal.entries(&query, Direction::Forward, None);
        let mut last = None;
        let mut count = 0;
        while let Some(entry) = entries.try_next().expect("no read fails") {
            (last, count) = (Some(entry.seqnum), count + 1);
        }
        let whole = Journal::open(Arc::new(writer.memory.clone())).expect("readable");
        let all = whole.entries(&query, Direction::Forward, None).filter_map(Result::ok);
        let unsettled = all.filter(|entry| Some(entry.seqnum) > last).count();
        assert_eq!(count + lost + unsettled, 761, "{opens}");
        assert!(matches!(entries.damage(), [fault] if fault.is_about(&name)));

        let log = Catalogue::of(writer.memory.list().expect("a listing"));
        let log = log.logs().next().expect("a log").to_string();
        let fault = ReadFault::Broken { name: log, opens };
        let broken = FaultyReads { inner: writer.memory.clone(), fault };
        let mut journal = Journal::open(Arc::new(broken)).expect("the others are there");
        assert!(journal.keep_to_settled().is_err(), "{opens}");
    }
}

/// `-F`, `-N`, `--list-boots`, cursors.
#[test]
fn whatever_is_asked_names_what_the_device_does_not_give() {
    for opens in [false, true] {
        let (broken, _, name) = broken(opens);
        let journal = Journal::open(Arc::new(broken)).expect("the others are there");
        let is_named = |damage: &[Error]| damage.len() == 1 && damage[0].is_about(&name);
        for field in ["_SYSTEMD_UNIT", "MESSAGE", "_BOOT_ID"] {
            let (values, damage) = journal.values(field.as_bytes()).expect("the others");
            assert!(values.len() > 1 && is_named(&damage), "{field}: {damage:?}");
        }
        let (names, damage) = journal.field_names().expect("the others");
        assert!(names.contains(&b"MESSAGE"[..]) && is_named(&damage), "{damage:?}");
        let (boots, damage) = journal.boots().expect("the others");
        assert!(boots.len() > 1 && is_named(&damage), "{damage:?}");
        assert!(journal.sequence().expect("of another").is_some());
    }
}

#[test]
fn a_segment_under_the_name_of_another_is_told_of() {
    let mut writer = Writer::new(4);
    writer.fill();
    let memory = writer.memory.clone();
    let catalogue = Catalogue::of(memory.list().expect("a listing"));
    let names: Vec<String> = catalogue.segments().map(|segment| segment.0.to_string()).collect();
    let (from, to) = (&names[0], &names[1]);
    let file = memory.open(from).expect("it is there");
    let mut bytes = vec![0; file.len().expect("it has one") as usize];
    file.read_at(&mut bytes, 0).expect("no faults");
    memory.unlink(to).expect("no faults");
    memory.create(to).and_then(|file| file.write_at(&bytes, 0)).expect("no faults");
    let journal = Journal::open(Arc::new(memory)).expect("readable");
    let query = Query::default();
    let mut entries = journal.entries(&query, Direction::Forward, None);
    while entries.try_next().expect("no read fails").is_some() {}
    assert!(matches!(entries.damage(), [fault] if fault.is_about(to)), "{:?}", entries.damage());
}

/// One that cannot be read keeps neither those that are too old nor those that are small.
#[test]
fn upkeep_goes_on_without_what_the_device_does_not_give() {
    for opens in [false, true] {
        let mut writer = Writer::new(5);
        for _ in 0..9 {
            writer.append(30);
            writer.store.rotate().expect("no faults");
            writer.seal();
        }
        let (broken, _, name) = break_first(&writer.memory, opens);
        let listed = || Catalogue::of(broken.list().expect("a listing")).files;
        let mut ids = 200u8;
        let mut new_id = || {
            ids += 1;
            Id128([ids; 16])
        };
        let (bounds, before) = (MergeBounds::bytes(MERGE_BYTES_MAX), listed().len());
        let mut skip = BTreeSet::new();
        let faults = merge_all(&broken, Id128::default(), &bounds, &mut new_id, &mut skip);
        let faults = faults.expect("the others are merged");
        assert!(matches!(&faults[..], [fault] if fault.is_about(&name)), "{faults:?}");
        assert!(listed().len() < before, "{before}");
        let mut limits = Limits::default();
        limits.other.age_max_us = Some(1);
        let done =
            vacuum(&broken, &limits, &Clock::of_wall(u64::MAX)).expect("the others are removed");
        let left = Catalogue::of(broken.list().expect("a listing"));
        let left: Vec<String> = left.segments().map(|segment| segment.0.to_string()).collect();
        assert_eq!((left, done.unreadable.len()), (vec![name.clone()], 1));
        assert!(done.unreadable[0].is_about(&name) && !done.gone.is_empty());
        let limits = Limits { bytes_max: Some(0), ..Limits::default() };
        vacuum(&broken, &limits, &Clock::of_wall(0)).expect("it can be removed");
        assert_eq!(Catalogue::of(broken.list().expect("a listing")).segments().count(), 0);
    }
}

#[test]
fn matches_are_read_as_journalctl_reads_them() {
    let check = |words: &str, expected: std::result::Result<&str, &str>| {
        let words: Vec<_> = words.split_whitespace().collect();
        let parsed = matches::parse(&words).map(|expr| print(&expr));
        assert_eq!(parsed.as_deref().map_err(|e| e.as_str()), expected);
    };
    check("", Ok("()"));
    check("A=1", Ok("(A=1)"));
    check("A=1 B=2", Ok("(A=1 & B=2)"));
    check("A=1 B=2 A=3", Ok("((A=1 | A=3) & B=2)"));
    check("A=1 + B=2 C=3", Ok("((A=1) | (B=2 & C=3))"));
    check("A", Err("A"));
    check("a=1", Err("a=1"));
    check("A=1 +", Err("+"));
}

fn print(expr: &Expr) -> String {
    let join = |parts: &[Expr], with| {
        format!("({})", parts.iter().map(print).collect::<Vec<_>>().join(with))
    };
    match expr {
        Expr::All(all) => join(all, " & "),
        Expr::Any(any) => join(any, " | "),
        Expr::Field { name, value } => {
            [&name[..], b"=", value].concat().iter().map(|&b| char::from(b)).collect()
        }
    }
}

#[test]
fn cursors_come_back() {
    let mut writer = Writer::new(1);
    writer.append(3);
    for entry in read_all(&writer.memory) {
        let cursor = Cursor::of(&Entry { sequence: Id128([9; 16]), ..entry.clone() });
        assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
    }
    for bad in ["", "i", "i=0", "s=1;i=2", "i=xyz", "b=0"] {
        assert_eq!(Cursor::parse(bad), None, "{bad}");
    }
}

/// Blocks and files whose times overlap are all looked at (systemd#43805).
#[test]
fn what_came_after_the_clock_was_set_back_is_found_by_its_time() {
    const HOUR: u64 = 3_600_000_000;
    const NOON: u64 = 1_700_000_000_000_000;
    for rotates in [false, true] {
        let mut writer = Writer::new(5);
        let boot = Id128([1; 16]);
        let times = [("a", NOON), ("b", NOON - HOUR), ("c", NOON + HOUR / 6)];
        for (monotonic_us, (message, realtime_us)) in (1..).zip(times) {
            let stamp = Stamp { realtime_us, monotonic_us, boot };
            let fields = [("MESSAGE", message)].into_iter().collect();
            writer.store.append("system", &stamp, &Arc::default(), &fields).expect("in bounds");
            if rotates {
                writer.store.rotate().expect("no faults");
                writer.upkeep();
            }
        }
        writer.store.flush().expect("no faults");
        let journal = writer.journal();
        let between = |since_us, until_us| {
            let (since_us, until_us) = (Some(since_us), Some(until_us));
            let query = Query { since_us, until_us, ..Query::default() };
            let found = [Direction::Forward, Direction::Backward].map(|direction| {
                let entries = journal.entries(&query, direction, None);
                let mut found: Vec<u64> =
                    entries.map(|entry| entry.expect("whole").stamp.realtime_us).collect();
                found.sort_unstable();
                found
            });
            assert_eq!(found[0], found[1]);
            found[0].clone()
        };
        let minute = HOUR / 60;
        assert_eq!(between(NOON - HOUR - minute, NOON - HOUR + minute), [NOON - HOUR]);
        assert_eq!(between(NOON - minute, NOON + minute), [NOON]);
        assert_eq!(between(NOON + minute, NOON + HOUR), [NOON + HOUR / 6]);
    }
}
