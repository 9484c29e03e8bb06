//! The options, as journalctl(1) has them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Parser;
use jiff::tz::TimeZone;
use warren_log_store::time;

use warren_log_store::places;

/// Gives `--boot` and `--lines` without a value their default, where what follows is no value of
/// theirs: `-b _PID=1` is a boot and a match.
pub fn complete(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words = words.peekable();
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        let next = words.peek().map(String::as_str);
        let (is_value, default) = match word.as_str() {
            "-b" | "--boot" => (next.is_some_and(is_boot), "0"),
            "-n" | "--lines" => (next.is_some_and(is_count), "10"),
            _ => (true, ""),
        };
        all.push(word);
        if !is_value {
            all.push(default.to_owned());
        }
    }
    all
}

fn is_count(word: &str) -> bool {
    word == "all" || word.parse::<u64>().is_ok()
}

/// Digits of a boot id; an offset may follow.
pub(super) const ID_DIGITS: usize = 32;

fn is_boot(word: &str) -> bool {
    let is_id = |text: &str| warren_log_store::entry::Id128::parse(text).is_some();
    let begins_with_id = || word.get(..ID_DIGITS).is_some_and(is_id);
    word == "all" || word.parse::<i64>().is_ok() || is_id(word) || begins_with_id()
}

impl Args {
    /// The directories that the options name: what is in memory and what is on disk.
    pub fn stores(&self) -> Vec<PathBuf> {
        match &self.directory {
            _ if !self.file.is_empty() => Vec::new(),
            Some(directory) => vec![directory.clone()],
            None => self.namespaces().iter().flat_map(|name| self.stores_of(name)).collect(),
        }
    }

    /// What is on the disk, and in memory, of a namespace.
    fn stores_of(&self, namespace: &Option<String>) -> Vec<PathBuf> {
        let kept = if self.in_memory { &STORES[1..] } else { &STORES[..] };
        let ending = namespace.as_ref().map_or(String::new(), |name| format!(".{name}"));
        kept.iter().map(|path| self.root().join(format!("{path}{ending}"))).collect()
    }

    /// The directory on the disk, of the one namespace that is meant.
    pub fn on_disk(&self) -> PathBuf {
        let of_namespace = || self.stores_of(&self.one_namespace()).remove(0);
        self.directory.clone().unwrap_or_else(of_namespace)
    }

    /// The namespaces that are read; `None` is the default one.
    pub fn namespaces(&self) -> Vec<Option<String>> {
        match self.namespace.as_deref() {
            None | Some("") if !self.merge => vec![None],
            None | Some("" | "*") => std::iter::once(None).chain(self.known_namespaces()).collect(),
            Some(name) => match name.strip_prefix('+') {
                Some(name) => vec![None, Some(name.to_owned())],
                None => vec![Some(name.to_owned())],
            },
        }
    }

    /// Those of which there is a store.
    fn known_namespaces(&self) -> impl Iterator<Item = Option<String>> {
        let mut names = BTreeSet::new();
        for path in STORES.map(|path| self.root().join(path)) {
            let (Some(parent), Some(own)) = (path.parent(), path.file_name()) else { continue };
            let beginning = format!("{}.", own.display());
            for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
                let file = entry.file_name();
                let name = file.to_str().and_then(|file| file.strip_prefix(&beginning));
                names.extend(name.filter(|name| places::is_namespace(name)).map(str::to_owned));
            }
        }
        names.into_iter().map(Some)
    }

    /// The one namespace that is meant where only one can be: the last of those that are read.
    pub fn one_namespace(&self) -> Option<String> {
        self.namespaces().pop().flatten()
    }

    /// The root of the system whose log is read.
    pub fn root(&self) -> &Path {
        self.root.as_deref().unwrap_or(Path::new("/"))
    }

    /// In which times are read and printed.
    pub fn zone(&self) -> TimeZone {
        if self.utc { TimeZone::UTC } else { time::local_zone() }
    }

    /// The newest entries come first. Of those that fit a pattern the last ones are looked for, and
    /// shown as they are found.
    pub fn newest_first(&self) -> bool {
        let is_newest = |lines: &String| lines != "all" && !lines.starts_with('+');
        let has_count = self.lines.as_ref().is_some_and(is_newest);
        self.reverse || self.grep.is_some() && has_count && !self.follow
    }

    /// What excludes each other among the options.
    pub fn contradiction(&self) -> Option<&'static str> {
        let starts = [&self.since, &self.cursor, &self.after_cursor];
        if self.follow && self.reverse {
            return Some("Please specify either --reverse or --follow, not both.");
        }
        let many = starts.into_iter().flatten().count() > 1;
        many.then_some("Please specify only one of --since, --cursor and --after-cursor.")
    }

    /// Old files are to be removed.
    pub fn vacuums(&self) -> bool {
        let limits = [&self.vacuum_size, &self.vacuum_time];
        limits.iter().any(|limit| limit.is_some()) || self.vacuum_files.is_some()
    }

    /// Somebody goes on later from the last entry that is shown.
    pub fn goes_on(&self) -> bool {
        self.follow || self.show_cursor || self.cursor_file.is_some()
    }

    /// Units are those of the calling user's manager; without one, all that the user's processes said is meant.
    pub fn mean_user(&mut self) {
        self.own |= self.unit.is_empty() && self.user_unit.is_empty();
        self.user_unit.append(&mut self.unit);
    }

    /// Takes words that are neither `FIELD=VALUE` nor `+` nor a path as names of units.
    pub fn take_units(&mut self) {
        if self.list_catalog || self.dump_catalog {
            return;
        }
        let is_match = |word: &str| word.contains('=') || word == "+" || word.starts_with('/');
        let units: Vec<String> =
            self.matches.extract_if(.., |word| !is_match(word.as_str())).collect();
        self.unit.extend(units);
    }
}

/// Where the log daemon keeps messages, below the root: on disk, and in memory.
const STORES: [&str; 2] = [places::PERSISTENT, places::VOLATILE];

/// Query the journal.
#[derive(Debug, Clone, Parser)]
#[command(name = "warren-journalctl", version, max_term_width = 100, args_override_self = true)]
pub struct Args {
    /// Show entries of this unit; may come twice; `*` and `?` match any text and any character.
    #[arg(short, long, value_name = "UNIT")]
    pub unit: Vec<String>,
    /// Show entries of this unit of the calling user's manager; may come twice.
    #[arg(long, value_name = "UNIT")]
    pub user_unit: Vec<String>,
    /// Show entries of these syslog facilities: names or numbers with commas; `help` lists the names.
    #[arg(long, value_name = "FACILITY", value_delimiter = ',')]
    pub facility: Vec<String>,
    /// Show entries with this syslog identifier; may come twice.
    #[arg(short = 't', long, value_name = "STRING")]
    pub identifier: Vec<String>,
    /// Show entries of this priority and worse, or of a range `FROM..TO`.
    #[arg(short, long, value_name = "RANGE")]
    pub priority: Option<String>,
    /// Show entries whose text matches.
    #[arg(short, long, value_name = "PATTERN")]
    pub grep: Option<String>,
    /// Whether case counts in the pattern; without it, when the pattern has capitals.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "yes")]
    pub case_sensitive: Option<String>,
    /// Show entries of a boot: an id, 0 for the last one, -1 for the one before, 1 for the first.
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "0", allow_hyphen_values = true)]
    pub boot: Option<String>,
    /// Show messages of the kernel.
    #[arg(short = 'k', long)]
    pub dmesg: bool,
    /// Show entries not older than this.
    #[arg(short = 'S', long, value_name = "DATE", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// Show entries not newer than this.
    #[arg(short = 'U', long, value_name = "DATE", allow_hyphen_values = true)]
    pub until: Option<String>,
    /// Start at the entry of this cursor.
    #[arg(short, long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// Start after the entry of this cursor.
    #[arg(long, value_name = "CURSOR")]
    pub after_cursor: Option<String>,
    /// Start after the cursor in this file, and write the last one to it.
    #[arg(long, value_name = "FILE")]
    pub cursor_file: Option<PathBuf>,
    /// Print the cursor of the last entry.
    #[arg(long)]
    pub show_cursor: bool,
    /// Show so many of the newest entries, with `+` before the number of the oldest; `all`; 10 without a number.
    #[arg(short = 'n', long, value_name = "N", num_args = 0..=1, default_missing_value = "10")]
    pub lines: Option<String>,
    /// Show the newest entries first; so it is with `--grep` and `--lines`, too.
    #[arg(short, long)]
    pub reverse: bool,
    /// Wait for new entries and show them.
    #[arg(short, long)]
    pub follow: bool,
    /// How to print entries.
    #[arg(short, long, value_name = "MODE", default_value = "short")]
    pub output: String,
    /// Print these fields only, in outputs that print fields.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub output_fields: Vec<String>,
    /// Print times in UTC.
    #[arg(long)]
    pub utc: bool,
    /// Print what is not printable, and values of any length.
    #[arg(short, long)]
    pub all: bool,
    /// Say nothing but the entries.
    #[arg(short, long)]
    pub quiet: bool,
    /// Do not pipe into a pager; there is none.
    #[arg(long)]
    pub no_pager: bool,
    /// Show every value of a field.
    #[arg(short = 'F', long, value_name = "FIELD")]
    pub field: Option<String>,
    /// Show every field name.
    #[arg(short = 'N', long)]
    pub fields: bool,
    /// Show the boots.
    #[arg(long)]
    pub list_boots: bool,
    /// Show what the files take.
    #[arg(long)]
    pub disk_usage: bool,
    /// Check every file; exit status 1 when one is damaged.
    #[arg(long)]
    pub verify: bool,
    /// With `--verify`: check segments against the ledger, too, with the key that `--setup-keys`
    /// printed.
    #[arg(long, value_name = "KEY", requires = "verify")]
    pub verify_key: Option<String>,
    /// Make a key for the ledger of the store on the disk, and print what verifies it; the daemon
    /// begins with it when it is started.
    #[arg(long)]
    pub setup_keys: bool,
    /// With `--setup-keys`: change the key so often; 15 minutes without it.
    #[arg(long, value_name = "TIME", requires = "setup_keys")]
    pub interval: Option<String>,
    /// With `--setup-keys`: replace a key that there is, and its ledger.
    #[arg(long, requires = "setup_keys")]
    pub force: bool,
    /// Show what the files hold.
    #[arg(long)]
    pub header: bool,
    /// Remove the oldest files until no more than this is left: bytes, with K, M, G or T.
    #[arg(long, value_name = "BYTES")]
    pub vacuum_size: Option<String>,
    /// Remove files whose entries are all older than this.
    #[arg(long, value_name = "TIME")]
    pub vacuum_time: Option<String>,
    /// Remove the oldest files until so many are left.
    #[arg(long, value_name = "N")]
    pub vacuum_files: Option<usize>,
    /// Add the entries of a file in the Journal Export Format (`-`: of standard input) to the store in
    /// the directory, to which no daemon may write.
    #[arg(long, value_name = "FILE", requires = "directory")]
    pub import: Option<PathBuf>,
    /// Have the log daemon put what it holds on the disk.
    #[arg(long)]
    pub sync: bool,
    /// Have the log daemon close its files and begin new ones; before old files are removed, if that is asked for too.
    #[arg(long)]
    pub rotate: bool,
    /// Have the log daemon move what it keeps in memory to the disk, and go on there.
    #[arg(long)]
    pub flush: bool,
    /// Have the log daemon write to memory again, until the next `--flush`.
    #[arg(long)]
    pub relinquish_var: bool,
    /// The same, unless what it writes to is on the root file system.
    #[arg(long)]
    pub smart_relinquish_var: bool,
    /// Where the files are.
    #[arg(short = 'D', long, value_name = "DIR", conflicts_with = "root")]
    pub directory: Option<PathBuf>,
    /// Read these files instead: logs, segments, systemd's `.journal` files; may come often; `*` and
    /// `?` fit any text and any character.
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["directory", "root"])]
    pub file: Vec<PathBuf>,
    /// Look for the files below this directory.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Show another namespace; `*`: all of them; `+NAME`: it and the default one.
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Show what all machines and namespaces wrote that have files here.
    #[arg(short, long)]
    pub merge: bool,
    /// Explain messages by texts of the catalogs, in outputs for people.
    #[arg(short = 'x', long)]
    pub catalog: bool,
    /// List the messages that catalogs explain, or those of the ids that follow.
    #[arg(long)]
    pub list_catalog: bool,
    /// Print the same as a catalog.
    #[arg(long)]
    pub dump_catalog: bool,
    /// Check the catalogs, which are read as they are.
    #[arg(long)]
    pub update_catalog: bool,
    /// Read what is kept in memory alone: the disk is another system's.
    #[arg(skip)]
    pub in_memory: bool,
    /// Leave the host's name out of lines.
    #[arg(skip)]
    pub no_hostname: bool,
    /// Cut lines to so many columns.
    #[arg(skip)]
    pub columns: Option<usize>,
    /// Show what the calling user's own processes said.
    #[arg(skip)]
    pub own: bool,
    /// The user whose units `user_unit` are, the one who runs this without it.
    #[arg(skip)]
    pub user: Option<u32>,
    /// FIELD=VALUE, the path of a program or a device, and `+` between alternatives.
    #[arg(value_name = "MATCH")]
    pub matches: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let words = complete(line.split_whitespace().map(str::to_owned));
        assert_eq!(words.join(" "), expected, "{line}");
    }

    /// The options of a command line without the program's name.
    fn parse(line: &str) -> Args {
        Args::parse_from(std::iter::once("reader").chain(line.split_whitespace()))
    }

    #[test]
    fn words_that_are_units() {
        let mut args = parse("web _PID=1 + /usr/sbin/nginx db.socket");
        args.take_units();
        assert_eq!(args.unit, ["web", "db.socket"]);
        assert_eq!(args.matches, ["_PID=1", "+", "/usr/sbin/nginx"]);
    }

    #[test]
    fn units_of_a_user_are_not_the_systems() {
        let mut args = parse("-u web");
        args.mean_user();
        assert_eq!(
            (args.unit.len(), &*args.user_unit, args.own),
            (0, &["web".to_owned()][..], false)
        );
        let mut all = parse("");
        all.mean_user();
        assert!(all.own);
    }

    #[test]
    fn what_excludes_each_other() {
        let is_refused = |line| parse(line).contradiction().is_some();
        for line in ["-f -r", "-S today --cursor=x", "--cursor=x --after-cursor=x"] {
            assert!(is_refused(line), "{line}");
        }
        for line in ["-f", "-r", "-S today -U today", "--cursor=x -U today", "-f --cursor=x"] {
            assert!(!is_refused(line), "{line}");
        }
    }

    #[test]
    fn the_newest_ones_of_a_pattern_come_first() {
        let is_turned = |line| parse(line).newest_first();
        assert!(is_turned("-r") && is_turned("-g x -n 3"));
        assert!(!is_turned("-n 3") && !is_turned("-g x") && !is_turned("-g x -n all"));
        assert!(!is_turned("-g x -n 3 -f"));
    }

    #[test]
    fn values_that_may_be_left_out() {
        check("-b", "-b 0");
        check("-b -1", "-b -1");
        check("-b _PID=1", "-b 0 _PID=1");
        check("--boot -u x", "--boot 0 -u x");
        check("-b 0123456789abcdef0123456789abcdef", "-b 0123456789abcdef0123456789abcdef");
        check("-n -f", "-n 10 -f");
        check("-n 5 A=b", "-n 5 A=b");
        check("-n A=b", "-n 10 A=b");
        check("-n5 -b=1", "-n5 -b=1");
    }
}
