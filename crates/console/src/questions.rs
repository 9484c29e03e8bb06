//! What operators ask, as one table: the console's list, the page for browsers and the book's page have it from here.
//!
//! - Owns: the questions, what each needs to be asked, and the command that answers it.
//! - Must not: answer one; [`crate::manager::Connect::answer`] has that done.

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    /// What has failed, and why.
    Failed,
    /// What is restarted most.
    Restarts,
    /// For whom the job of a unit waits.
    Waits,
    /// Who uses the memory.
    Memory,
    /// Which timers missed runs.
    Timers,
    /// What the last reload changed.
    Reload,
    /// Which unit made the boot slow.
    Boot,
    /// What holds up the shutdown.
    Shutdown,
    /// What a unit logged since a time.
    Logs,
    /// Which unit owns a process.
    Owner,
    /// Who started a unit.
    Starter,
    /// Which services ask for no protection.
    Unprotected,
    /// Which units wait for a device that is not there.
    Devices,
    /// How often the kernel killed processes of a unit for want of memory.
    OutOfMemory,
    /// What a stop of a unit would take with it.
    StopPlan,
}

/// What has to be said with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// A unit.
    Unit,
    /// A unit, and since when, as `warren logs --since` has it; an hour ago if it is left out.
    UnitAndTime,
    /// The number of a process.
    Process,
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Which.
    pub ask: Ask,
    /// In the address of the page for browsers.
    pub word: &'static str,
    /// For people.
    pub text: &'static str,
    /// What has to be said with it.
    pub needs: Needs,
    /// The command that answers it; UNIT, PID and TIME stand for what has to be said.
    pub command: &'static str,
}

/// Since when logs are shown if nobody says it.
pub const SINCE_DEFAULT: &str = "-1h";

/// What the manager says each time when the kernel has killed a process of a unit for want of memory.
pub const KILLED_WORDS: &str = "killed a process because";

/// All of them, in the order of their keys.
pub const ALL: [Question; 15] = [
    question(Ask::Failed, "failed", "What has failed, and why?", Needs::Nothing, "warren why"),
    question(
        Ask::Restarts,
        "restarts",
        "What is restarted most?",
        Needs::Nothing,
        "warren list --by restarts",
    ),
    question(
        Ask::Waits,
        "waits",
        "What does the job of UNIT wait for?",
        Needs::Unit,
        "warren why UNIT",
    ),
    question(
        Ask::Memory,
        "memory",
        "Who uses the memory?",
        Needs::Nothing,
        "warren list --by memory",
    ),
    question(Ask::Timers, "timers", "Which timers missed runs?", Needs::Nothing, "warren timers"),
    question(
        Ask::Reload,
        "reload",
        "What did the last reloads change?",
        Needs::Nothing,
        "warren refresh --last",
    ),
    question(
        Ask::Boot,
        "boot",
        "Which unit made the boot slow?",
        Needs::Nothing,
        "warren chart boot",
    ),
    question(
        Ask::Shutdown,
        "shutdown",
        "What holds up the shutdown?",
        Needs::Nothing,
        "warren shutdown",
    ),
    question(
        Ask::Logs,
        "logs",
        "What did UNIT log since TIME?",
        Needs::UnitAndTime,
        "warren logs UNIT --since TIME",
    ),
    question(
        Ask::Owner,
        "owner",
        "Which unit owns process PID?",
        Needs::Process,
        "warren status PID",
    ),
    question(Ask::Starter, "starter", "Who started UNIT?", Needs::Unit, "warren why UNIT"),
    question(
        Ask::Unprotected,
        "unprotected",
        "Which services ask for no sandbox?",
        Needs::Nothing,
        "warren security",
    ),
    question(
        Ask::Devices,
        "devices",
        "Which units wait for a device that is not there?",
        Needs::Nothing,
        "warren devices",
    ),
    question(
        Ask::OutOfMemory,
        "oom",
        "How often were processes of UNIT killed for want of memory?",
        Needs::Unit,
        "warren logs UNIT -g 'killed a process'",
    ),
    question(
        Ask::StopPlan,
        "stop",
        "What would a stop of UNIT take with it?",
        Needs::Unit,
        "warren stop --dry-run UNIT",
    ),
];

const fn question(
    ask: Ask,
    word: &'static str,
    text: &'static str,
    needs: Needs,
    command: &'static str,
) -> Question {
    Question { ask, word, text, needs, command }
}

/// What is said with a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The unit.
    pub unit: Option<String>,
    /// The number of the process.
    pub pid: Option<u64>,
    /// Since when.
    pub since: Option<String>,
}

impl Needs {
    /// What a person is asked for; nothing where nothing has to be said.
    pub fn prompt(self) -> Option<&'static str> {
        match self {
            Needs::Nothing => None,
            Needs::Unit => Some("unit"),
            Needs::UnitAndTime => Some("unit and since when, such as 10:00"),
            Needs::Process => Some("number of the process"),
        }
    }

    /// Reads what was typed.
    ///
    /// # Errors
    /// What is missing, for people.
    pub fn subject(self, typed: &str) -> Result<Subject, String> {
        let typed = typed.trim();
        let (first, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let unit = || match first {
            "" => Err("Which unit?".to_owned()),
            unit => Ok(Some(unit.to_owned())),
        };
        match self {
            Needs::Nothing => Ok(Subject::default()),
            Needs::Unit if !rest.is_empty() => Err("One unit, please.".to_owned()),
            Needs::Unit => Ok(Subject { unit: unit()?, ..Subject::default() }),
            Needs::UnitAndTime => {
                let since = Some(rest.trim()).filter(|since| !since.is_empty());
                let since = since.map_or(SINCE_DEFAULT, |since| since).to_owned();
                Ok(Subject { unit: unit()?, since: Some(since), pid: None })
            }
            Needs::Process => {
                let pid = typed.parse().ok().filter(|pid| (1..=u64::from(u32::MAX)).contains(pid));
                let pid = pid.ok_or_else(|| "A process has a number.".to_owned())?;
                Ok(Subject { pid: Some(pid), ..Subject::default() })
            }
        }
    }
}

impl Question {
    /// The key of one, by its place: `a` is the first.
    pub fn key(place: usize) -> char {
        u8::try_from(place).map_or('?', |place| char::from(b'a'.saturating_add(place)))
    }

    /// The command with what was said put into it.
    pub fn command_for(&self, subject: &Subject) -> String {
        let pid = subject.pid.map(|pid| pid.to_string());
        let said = [
            ("UNIT", subject.unit.as_deref()),
            ("PID", pid.as_deref()),
            ("TIME", subject.since.as_deref()),
        ];
        let word = |word: &str| {
            let found = said.iter().find(|(name, _)| *name == word);
            found.and_then(|(_, said)| *said).map_or(word.to_owned(), quoted)
        };
        self.command.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }
}

/// As a shell takes it for one word.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_has_a_key_and_a_word_of_its_own_and_fits_a_line() {
        for (place, question) in ALL.iter().enumerate() {
            assert_eq!(ALL.iter().position(|other| other.word == question.word), Some(place));
            assert!(Question::key(place).is_ascii_lowercase());
            assert!(question.text.len() + 4 <= 80, "{}", question.text);
            let has = |word: &str| question.command.split(' ').any(|it| it == word);
            let needs = match question.needs {
                Needs::Nothing => [false; 3],
                Needs::Unit => [true, false, false],
                Needs::UnitAndTime => [true, false, true],
                Needs::Process => [false, true, false],
            };
            assert_eq!(["UNIT", "PID", "TIME"].map(has), needs, "{}", question.command);
        }
    }

    #[test]
    fn what_is_typed_is_put_into_the_command() {
        let command = |place: usize, typed: &str| {
            let question = ALL[place];
            question.needs.subject(typed).map(|subject| question.command_for(&subject))
        };
        assert_eq!(command(0, "").as_deref(), Ok("warren why"));
        assert_eq!(command(2, " web.service ").as_deref(), Ok("warren why web.service"));
        assert_eq!(command(8, "web 10:00").as_deref(), Ok("warren logs web --since 10:00"));
        assert_eq!(
            command(8, "web 2026-11-30 10:00").as_deref(),
            Ok("warren logs web --since '2026-11-30 10:00'")
        );
        assert_eq!(command(8, "web").as_deref(), Ok("warren logs web --since -1h"));
        assert_eq!(command(9, "77").as_deref(), Ok("warren status 77"));
        for (place, typed) in [(2, ""), (2, "a b"), (8, " "), (9, "0"), (9, "x"), (9, "1 2")] {
            assert!(command(place, typed).is_err(), "{place} {typed}");
        }
        assert_eq!(quoted("it's; rm"), r"'it'\''s; rm'");
    }
}
