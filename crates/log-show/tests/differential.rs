//! The reading command against Debian's journalctl over the same entries: ours are exported, and
//! Debian's systemd-journal-remote makes a file of them. `JOURNAL_REMOTE` says where that is when
//! it is not installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use warren_log_store::files::Disk;
use warren_log_store::store::{Setup, Store};
use warren_log_store::{Fields, Id128, Stamp};

/// Options whose output, but for cursors, and exit status must be the same; `\x20` is a blank in one.
const CASES: &str = "
    -o short
    -o short-iso
    -o short-iso-precise
    -o short-precise
    -o short-full
    -o short-unix
    -o short-monotonic
    -o short-delta
    -o short-delta -r
    -o short-delta -p 3
    -o with-unit
    -o cat
    -a
    -n 3
    -n 0
    -r
    -r -n 4 -o short-unix
    -p err
    -p warning..crit
    -p 9
    -t one -t two
    -u web
    -u web.service -u nosuch
    -u w*
    -u nosuch* -u web
    -u init*
    -u other*
    -u nosuch*
    -u w* --user-unit=nosuch*
    --unit= -n 1
    -q -g NUMBER
    -g number
    -q -g number.*[26]$
    -q -g number --case-sensitive
    -q -g nosuch
    PRIORITY=3
    PRIORITY=3 PRIORITY=4 SYSLOG_IDENTIFIER=one
    PRIORITY=3 + SYSLOG_IDENTIFIER=two
    DOUBLE=b
    nonsense
    -b
    -b 1
    -b -1
    -b -7
    -b all
    -b PRIORITY=3
    -b 01010101010101010101010101010101
    -b 01010101010101010101010101010101+1 -n 2
    -b 02020202020202020202020202020202-1 -n 2
    -b ffffffffffffffffffffffffffffffff
    -b zz
    -n PRIORITY=3
    -n all -p 1
    --list-boots
    --list-boots -r
    --system -n 3
    --no-hostname -n 4 -o short-iso
    -l -n 2
    --no-tail -n 2
    -e -n 2
    -e -o cat
    --bogus
    -p
    --since @1700000010 --until @1700000015
    --since @1700000015 --until @1700000010
    --until yesterday -n 2
    --since tomorrow
    --since bogus
    --utc -o short-full
    -o bogus
    -q -t nosuch
    --facility=help
    --facility=bogus
    --facility=daemon -o cat
    --facility=daemon,3,local7 -o cat
    --facility=kern -o cat
    --user-unit=own -o cat
    -u web --user-unit=own -o cat
    -u web.slice -o cat
    -o cat --output-fields=_BOOT_ID
    -o short --output-fields=
    -o json -q -n 0
    -o json -t nosuch
    -o export -t nosuch
    -o verbose -t nosuch
    -t nosuch -g number
    -o help
    -m -n 3
    -m -t one -o short-full
    --lin=2
    -n 3 -f -r
    -n 2 -q -g number
    -n 2 -q -g number -b 1
    -n 2 -q -g nosuch
    --list-boots -q
    --list-boots -o json
    --list-boots -o cat
    --facility= -n 2
    -F lower
    +
    PRIORITY=3 +
    /dev/null
    /nosuch
    --since Tue\x202023-11-14\x2023:13:40 --until Tue\x202023-11-14\x2023:13:50
    --since Mon\x202023-11-14
    --since 23-11-14\x2023:13:40
    --since 2023-11-14\x2017:13:50\x20America/New_York
    --since 2023-11-14\x2022:13:50\x20UTC
    --since @1700000010.5 -o short-unix
    --since @1700000010 --cursor=x
    -D /nosuch --file=x
    -o export --output-fields=MESSAGE
    -o export --output-fields=PRIORITY
    -n 2 -n 3
    -n 5 -o json -o cat -n 1 -q -q
    -o cat -n 1 --since @1 --since @1700000020 -r -r
    -p err -p 4 -n 2
    -b -b -1 -n 1
    -g nosuch -g number -q -n 1
    -t one -t two -u web -u web -n 3
";

/// The same where Debian's systemd has a database of its catalogs.
const CATALOG_CASES: &str = "
    -x
    -x -o short-iso -r
    -x -o with-unit
    -x -o cat
    --list-catalog
    --list-catalog 39f53479d3a045ac8e11786248231fbf
    --list-catalog 00000000000000000000000000000000
    --list-catalog zz
    --dump-catalog
    --dump-catalog 39f53479d3a045ac8e11786248231fbf f77379a8490b408bbe5f6940505a777b
";

/// Messages that systemd's catalog explains: with fields in the text, with few of them, with no text.
const MESSAGE_IDS: [&str; 3] = [
    "39f53479d3a045ac8e11786248231fbf",
    "ec387f577b844b8fa948f33cad9a75e6",
    "00000000000000000000000000000000",
];

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("warren-{name}-{}", std::process::id()))
}

fn find_remote() -> Option<PathBuf> {
    let named = std::env::var_os("JOURNAL_REMOTE").map(PathBuf::from);
    let known = ["/lib/systemd/systemd-journal-remote", "/usr/lib/systemd/systemd-journal-remote"];
    named.into_iter().chain(known.map(PathBuf::from)).find(|path| path.exists())
}

/// Entries of two boots with everything that printing stumbles over.
fn write_store(directory: &Path) {
    std::fs::create_dir_all(directory).expect("a directory");
    let mut ids = 0;
    let new_id = move || {
        ids += 1;
        Id128([ids; 16])
    };
    let setup = Setup { machine: Id128([7; 16]), new_id: Box::new(new_id) };
    let (mut store, _) = Store::open(Arc::new(Disk::new(directory)), setup).expect("empty");
    let texts: [&[u8]; 9] = [
        b"Number %",
        b"two\nlines",
        b"ends with a newline\n",
        "Gr\u{fc}\u{df}e".as_bytes(),
        b"a tab\tand a bell \x07",
        b"\x1b[1;31mred\x1b[0m and returns \r",
        b"not \xff text",
        b"tab\tand \"quotes\" \\",
        b"",
    ];
    for number in 0..40u64 {
        let stamp = Stamp {
            realtime_us: 1_700_000_000_000_000 + number * 1_000_001,
            monotonic_us: 5_000_000 + number % 25 * 1_000_001,
            boot: Id128([1 + (number / 25) as u8; 16]),
        };
        let mut context = Fields::new();
        context.push(b"_HOSTNAME", b"host");
        context.push(b"_PID", (100 + number % 3).to_string().as_bytes());
        context.push(b"_COMM", b"command");
        if number % 3 == 0 {
            context.push(b"_SYSTEMD_UNIT", b"web.service");
        }
        // Lines after the first of a user's unit begin elsewhere with Debian's `with-unit`.
        if number % 6 == 1 && number % 9 != 1 {
            let uid = std::os::unix::fs::MetadataExt::uid(&directory.metadata().expect("made"));
            context.push(b"_UID", (uid + u32::from(number % 12 == 1)).to_string().as_bytes());
            context.push(b"_SYSTEMD_USER_UNIT", b"own.service");
            context.push(b"_SYSTEMD_SLICE", b"web.slice");
        }
        let text = texts[number as usize % texts.len()];
        let text = text
            .strip_suffix(b"%")
            .map_or(text.to_vec(), |text| [text, number.to_string().as_bytes()].concat());
        let mut fields = Fields::new();
        fields.push(b"PRIORITY", (number % 8).to_string().as_bytes());
        match number % 4 {
            0 => fields.push(b"SYSLOG_IDENTIFIER", b"one"),
            1 => fields.push(b"SYSLOG_IDENTIFIER", b"two"),
            _ => fields.push(b"SYSLOG_PID", b"5"),
        }
        if number % 5 != 4 {
            fields.push(b"MESSAGE", &text);
        }
        // What the manager says of a unit, and what anybody may say.
        if number % 11 == 5 {
            context = Fields::new();
            context.push(b"_PID", b"1");
            fields.push(b"UNIT", b"init-said.service");
        } else if number % 11 == 6 {
            fields.push(b"UNIT", b"other.service");
        }
        if number % 7 == 3 {
            fields.push(b"MESSAGE", format!("the last text counts, {number}").as_bytes());
        }
        if number % 4 == 1 {
            let sent = stamp.realtime_us - 700_007;
            fields.push(b"_SOURCE_REALTIME_TIMESTAMP", sent.to_string().as_bytes());
        }
        if number % 10 < 2 {
            let sent = stamp.monotonic_us - 5_000_000;
            fields.push(b"_SOURCE_MONOTONIC_TIMESTAMP", sent.to_string().as_bytes());
        }
        fields.push(b"SYSLOG_FACILITY", (number % 5).to_string().as_bytes());
        fields.push(b"DOUBLE", b"a");
        fields.push(b"DOUBLE", b"b");
        fields.push(b"LONG", "l".repeat(number as usize * 200).as_bytes());
        if let Some(id) = MESSAGE_IDS.get(number as usize % 9) {
            fields.push(b"MESSAGE_ID", id.as_bytes());
            fields.push(b"JOB_ID", b"7");
            fields.push(b"JOURNAL_NAME", b"two\nlines \xff");
        }
        store.append("system", &stamp, &Arc::new(context), &fields).expect("in bounds");
    }
    store.sync().expect("a sync");
}

struct Both {
    store: PathBuf,
    journal: PathBuf,
}

impl Both {
    /// With what `write` puts into our store.
    fn make(root: &Path, remote: &Path, write: impl Fn(&Path)) -> Both {
        let both = Both { store: root.join("store"), journal: root.join("debian.journal") };
        write(&both.store);
        let export = both.ours(&["-o", "export"]).stdout;
        std::fs::write(root.join("export"), export).expect("written");
        let made = Command::new(remote)
            .arg("-o")
            .arg(&both.journal)
            .arg(root.join("export"))
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("it runs").success());
        both
    }

    fn ours(&self, options: &[&str]) -> Output {
        self.our_command(options).output().expect("it runs")
    }

    fn our_command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journalctl"));
        command.arg("-D").arg(&self.store).args(options);
        command.env("TZ", "Europe/Berlin").env("LC_ALL", "C.UTF-8");
        command
    }

    fn debian(&self, options: &[&str]) -> Output {
        self.debian_command(options).output().expect("it runs")
    }

    fn debian_command(&self, options: &[&str]) -> Command {
        let mut command = Command::new("journalctl");
        command.arg("--file").arg(&self.journal).args(options);
        command.env("TZ", "Europe/Berlin").env("LC_ALL", "C.UTF-8");
        command
    }
}

/// Output without cursors, which name another store.
fn without_cursors(output: &[u8]) -> String {
    let text: String = output.escape_ascii().to_string().replace("\\n", "\n");
    let lines = text.lines().filter(|line| !line.starts_with("__CURSOR="));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Objects in order, fields without order, doubled values without order.
fn objects(output: &[u8]) -> Vec<serde_json::Value> {
    let stream = serde_json::Deserializer::from_slice(output).into_iter();
    stream
        .map(|object| {
            let mut object: serde_json::Value = object.expect("JSON");
            let fields = object.as_object_mut().expect("an object");
            fields.remove("__CURSOR");
            for value in fields.values_mut().filter_map(|value| value.as_array_mut()) {
                value.sort_by_key(ToString::to_string);
            }
            object
        })
        .collect()
}

#[test]
fn debian_prints_the_same() {
    let has_journalctl = Command::new("journalctl").arg("--version").output().is_ok();
    let Some(remote) = find_remote().filter(|_| has_journalctl) else {
        not_run("journalctl and systemd-journal-remote are not installed");
        return;
    };
    let root = temporary("differential");
    let both = Both::make(&root, &remote, write_store);
    let mut differences = Vec::new();
    let has_catalog = Path::new("/var/lib/systemd/catalog/database").exists();
    if !has_catalog {
        not_run("systemd's database of catalogs is not there");
    }
    let cases = CASES.lines().chain(CATALOG_CASES.lines().filter(|_| has_catalog));
    for case in cases.map(str::trim).filter(|case| !case.is_empty()) {
        let options: Vec<String> = case.split(' ').map(|word| word.replace("\\x20", " ")).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let (ours, debian) = (both.ours(&options), both.debian(&options));
        let (text, theirs) = (without_cursors(&ours.stdout), without_cursors(&debian.stdout));
        if text != theirs || ours.status.success() != debian.status.success() {
            let (ours, debian) = (ours.status.code(), debian.status.code());
            differences
                .push(format!("{case}\nours {ours:?}:\n{text}Debian's {debian:?}:\n{theirs}"));
        }
    }
    let boots = ["--list-boots", "-r", "-o", "json-pretty"];
    let values = |output: Output| serde_json::from_slice::<serde_json::Value>(&output.stdout).ok();
    assert_eq!(values(both.ours(&boots)), values(both.debian(&boots)).filter(|v| v.is_array()));
    for mode in ["json", "json-pretty"] {
        let (ours, debian) = (both.ours(&["-o", mode]), both.debian(&["-o", mode]));
        assert_eq!(objects(&ours.stdout), objects(&debian.stdout), "{mode}");
    }
    std::fs::remove_dir_all(&root).expect("ours to remove");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Texts that are longer than a line: around each bound, of characters of one column.
fn long_texts() -> Vec<String> {
    let digits = "1234567890".repeat(60);
    let mut texts: Vec<String> = [1, 2, 3, 5, 20, 45, 48, 49, 50, 120, 298, 299, 300, 600]
        .map(|length| digits[..length].to_owned())
        .to_vec();
    for unit in ["\u{e4}", "e\u{301}", "x\u{df}", "\u{1f600}", "tab\t", "\u{fb01}"] {
        texts.extend([8, 24, 25, 49, 50, 75, 100, 151].map(|count| unit.repeat(count)));
        texts.extend([24, 49, 99].map(|count| format!("{}yz", unit.repeat(count))));
        texts.extend([24, 49, 99].map(|count| format!("a{}y", unit.repeat(count))));
    }
    let lines =
        ["a\nb", "a\nb\n", "a\nb\nc", "a\nb\nc\n", "a\nb\nc\nd", "\n", "\n\n\n\n", "a\r\nb\r\n"];
    texts.extend(lines.map(str::to_owned));
    texts.extend([43, 45, 46, 49, 50].map(|length| format!("a\nb\n{}\nd", &digits[..length])));
    texts.extend([8, 9, 200].map(|length| format!("{}\n{}", &digits[..290], &digits[..length])));
    texts
}

fn write_long_texts(directory: &Path) {
    std::fs::create_dir_all(directory).expect("a directory");
    let setup = Setup { machine: Id128([7; 16]), new_id: Box::new(|| Id128([1; 16])) };
    let (mut store, _) = Store::open(Arc::new(Disk::new(directory)), setup).expect("empty");
    let context = Arc::new([("_HOSTNAME", "host"), ("_COMM", "command")].into_iter().collect());
    for (number, text) in (0u64..).zip(long_texts()) {
        let stamp = Stamp {
            realtime_us: 1_700_000_000_000_000 + number * 1_000_001,
            monotonic_us: 5_000_000 + number * 1_000_001,
            boot: Id128([1; 16]),
        };
        let fields = [("MESSAGE", &*text), ("LONG", &"l".repeat(280 + number as usize % 30))];
        store.append("system", &stamp, &context, &fields.into_iter().collect()).expect("in bounds");
    }
    store.sync().expect("a sync");
}

#[test]
fn debian_cuts_the_same() {
    let has_journalctl = Command::new("journalctl").arg("--version").output().is_ok();
    let Some(remote) = find_remote().filter(|_| has_journalctl) else {
        not_run("journalctl and systemd-journal-remote are not installed");
        return;
    };
    let root = temporary("cuts");
    let both = Both::make(&root, &remote, write_long_texts);
    let (mut differences, mut compared) = (Vec::new(), 0);
    for options in [
        &["--no-full"][..],
        &["-l", "--no-full", "-o", "short-iso-precise", "--no-hostname"],
        &["--no-full", "--full"],
        &["--no-full", "-a"],
        &["--no-full", "-o", "verbose", "--output-fields=LONG"],
        &["--no-full", "-o", "cat"],
    ] {
        for columns in ["", "0", "x", "20", "33", "34", "35", "36", "37", "44", "60", "61", "500"] {
            let text = |mut command: Command| {
                let output = command.env("COLUMNS", columns).output().expect("it runs");
                without_cursors(&output.stdout)
            };
            let of_field = |text: String| match options.contains(&"verbose") {
                true => text.lines().filter(|line| line.contains("LONG=")).collect(),
                false => text,
            };
            let ours = of_field(text(both.our_command(options)));
            let debian = of_field(text(both.debian_command(options)));
            compared += ours.lines().count();
            let lines = ours.lines().zip(debian.lines()).filter(|(ours, debian)| ours != debian);
            let name = format!("COLUMNS={columns} {}", options.join(" "));
            differences.extend(lines.map(|(ours, debian)| format!("{name}\n{ours}\n{debian}")));
            if ours.lines().count() != debian.lines().count() {
                differences.push(format!("{name}: {} lines", ours.lines().count()));
            }
        }
    }
    std::fs::remove_dir_all(&root).expect("ours to remove");
    assert!(compared > 5_000, "{compared}");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Says past the test runner's capture that a test could not run here.
fn not_run(why: &str) {
    warren_testkit::not_run(why);
}
