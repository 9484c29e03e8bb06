//! Parameters of each method.
//!
//! - Owns: their names, types and defaults. A method that changes something denies what it does not know.
//! - Must not: check more than types. What a name or a word means is the manager's to say.
//! - Runs on the thread of its caller.

use serde::{Deserialize, Deserializer, Serialize};

use super::{JobType, KillWhom, LeaveHow, MarkAs, UnitFileVerb};

/// Makes requests of methods that only read.
macro_rules! reading {
    ($($item:item)*) => {$(
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default)]
        $item
    )*};
}

/// Makes requests of methods that change something.
macro_rules! changing {
    ($($item:item)*) => {$(
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default, deny_unknown_fields)]
        $item
    )*};
}

/// A text, or a list of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Texts(pub Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Texts, D::Error> {
        struct OneOrMore;
        impl<'de> serde::de::Visitor<'de> for OneOrMore {
            type Value = Texts;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, or a list of them")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts(vec![text.to_owned()]))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                let wrong = |_| serde::de::Error::invalid_type(serde::de::Unexpected::Seq, &self);
                while let Some(text) = list.next_element().map_err(wrong)? {
                    texts.push(text);
                }
                Ok(Texts(texts))
            }
        }
        from.deserialize_any(OneOrMore)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Texts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Texts".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": ["string", "array"], "items": {"type": "string"}})
    }
}

reading! {
    /// Lists units, sorted by name. Units are told that match one of each list; an empty list is matched by all.
    pub struct List {
        /// Patterns of names, as a shell has them.
        pub patterns: Texts,
        /// Active, sub and load states.
        pub state: Texts,
        /// Suffixes of names, such as `service`.
        #[serde(rename = "type")]
        pub unit_type: Texts,
    }

    /// Tells all that is known of a unit. An instance that is not in use is loaded first.
    pub struct Status {
        /// Name of the unit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub unit: Option<String>,
        /// Number of one of its processes, in the place of its name.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub pid: Option<u64>,
    }

    /// Tells whether a unit's file is enabled, as it is on the disk; also of a template and of an instance that is
    /// not in use.
    pub struct FileState {
        /// Name of the unit.
        pub unit: Option<String>,
    }

    /// Explains a unit's state down to its root cause; without a unit, all trouble by its root causes.
    pub struct Why {
        /// Name of the unit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub unit: Option<String>,
    }

    /// Lists devices, groups of devices, and devices that are waited for.
    pub struct Devices {}

    /// Lists timers: when each elapses next and elapsed last, and how long what it starts took.
    pub struct Timers {}

    /// Counts and counters for a monitoring program, from the published view alone: nothing waits for the loop.
    pub struct Metrics {
        /// Patterns of names, as a shell has them, of the units that get a row each.
        pub units: Texts,
        /// Rows of units at most; the manager has a bound of its own.
        pub units_max: u64,
        /// Rows of timers at most; the manager has a bound of its own.
        pub timers_max: u64,
    }

    /// Tells of all units what a table of them shows, from the published view alone.
    pub struct Overview {
        /// Only of those that changed their state since this moment on the monotonic clock, in µs.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub changed_since_us: Option<u64>,
    }

    /// Shows the files of a unit with their texts. An instance that is not in use is loaded first.
    pub struct Cat {
        /// Name of the unit or of a template.
        pub unit: Option<String>,
        /// Number of one of its processes, in the place of its name.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub pid: Option<u64>,
    }

    /// Lists recordings that are kept, the oldest first.
    pub struct Records {}

    /// Sends a recording: one that is kept, by its name, or what happened between two moments.
    pub struct Record {
        /// Name of one that is kept.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub name: Option<String>,
        /// Begin on the monotonic clock, in µs; all that is still there if it is left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub since_us: Option<u64>,
        /// End on the monotonic clock, in µs; now if it is left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub until_us: Option<u64>,
        /// What the recording is said to be of: `boot`, `reload`, `shutdown`, `live`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub subject: Option<String>,
    }

    /// Tells what the manager does now, as counters.
    pub struct Top {}

    /// Counts units by state and type, and tells of the manager itself.
    pub struct Totals {}

    /// Tells all that is wrong with a unit's files as they lie on the disk.
    pub struct Verify {
        /// Name of the unit.
        pub unit: Option<String>,
    }

    /// Tells what shutdown is planned or under way, and what it waits for.
    pub struct Shutdown {}

    /// Tells what a stop of a unit would stop with it, and what may start it again. Nothing is stopped.
    pub struct StopPlan {
        /// Name of the unit.
        pub unit: Option<String>,
    }

    /// Lists the last reloads that changed units, the newest first.
    pub struct Reloads {}

    /// Lists services that are up and whose files ask for no protection, by their names.
    pub struct Unprotected {}
}

changing! {
    /// Makes a job. Unless `wait` is false, the answer comes when the job has ended.
    pub struct Job {
        /// Name of the unit.
        pub unit: Option<String>,
        /// What the job does; `start` if it is left out.
        #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
        pub job_type: Option<JobType>,
        /// What becomes of other jobs, as systemctl's `--job-mode`; `replace` if it is left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mode: Option<String>,
        /// A restart becomes a reload where the unit can reload.
        pub reload_if_possible: bool,
        /// False: the answer comes when the job is queued.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub wait: Option<bool>,
        /// Said with a stop, for `status` and `why`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub comment: Option<String>,
    }

    /// Makes a job for each unit, queues all of them, then answers with a row for each unit, in their order. The request
    /// must say that it takes `more` than one answer.
    pub struct Jobs {
        /// Names of the units.
        pub units: Vec<String>,
        /// As for `Job`.
        #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
        pub job_type: Option<JobType>,
        /// As for `Job`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mode: Option<String>,
        /// As for `Job`.
        pub reload_if_possible: bool,
        /// As for `Job`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub wait: Option<bool>,
        /// As for `Job`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub comment: Option<String>,
    }

    /// Reads unit files and rules again and puts what differs into force.
    pub struct ReloadConfiguration {
        /// Looks at all files, not only at those that changed.
        pub full: bool,
        /// Puts nothing into force.
        pub dry_run: bool,
        /// Looks at what rules make and at nothing else.
        pub rules_only: bool,
        /// The answer has the unit files of rules that differ, before and after; at most 1,000.
        pub texts: bool,
        /// Looks at this unit's files alone.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub unit: Option<String>,
        /// Puts an earlier generation into force.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rollback: Option<u64>,
    }

    /// Changes links and files of units. What it changes counts from the next `ReloadConfiguration` on.
    pub struct UnitFiles {
        /// What is done.
        pub verb: UnitFileVerb,
        /// Names of units, or paths.
        pub files: Vec<String>,
        /// Of policies: `full`, `enable-only`, `disable-only`; `full` if it is left out or empty.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mode: Option<String>,
        /// Until the next boot.
        pub runtime: bool,
        /// Replaces links that are in the way.
        pub force: bool,
        /// Said with `disable` and `mask`, for `status` and `why`.
        pub comment: Option<String>,
    }

    /// Sends a signal to processes of a unit.
    pub struct Kill {
        /// Name of the unit.
        pub unit: Option<String>,
        /// Which of its processes; all if it is left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub whom: Option<KillWhom>,
        /// Number of the signal, signal(7).
        pub signal: Option<i64>,
    }

    /// Takes the failures of a unit away; without a unit, those of all.
    pub struct ResetFailed {
        /// Name of the unit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub unit: Option<String>,
    }

    /// Starts the manager's program again. The end of the connection is the answer; only a refusal is a message.
    pub struct Reexecute {}

    /// Stops everything, then does as `how` says: at once, or `after` a time, or `at` a time of the day.
    pub struct Leave {
        /// What is done then; it must be there.
        pub how: Option<LeaveHow>,
        /// A span of time, such as `5min`.
        pub after: Option<String>,
        /// A time of the day, such as `23:00`.
        pub at: Option<String>,
        /// For those who are logged in.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub message: Option<String>,
        /// Locks against a shutdown do not count.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ignore_inhibitors: Option<bool>,
    }

    /// Takes a planned shutdown back.
    pub struct CancelLeave {}

    /// Waits no longer for a unit while everything is stopped.
    pub struct Hurry {
        /// Name of the unit.
        pub unit: Option<String>,
    }

    /// Marks a unit: one in maintenance is not started.
    pub struct Mark {
        /// Name of the unit.
        pub unit: Option<String>,
        /// As what.
        #[serde(rename = "as")]
        pub mark: MarkAs,
        /// For `status` and `why`.
        pub comment: Option<String>,
    }

    /// Takes a unit's marks and failures away.
    pub struct Clear {
        /// Name of the unit.
        pub unit: Option<String>,
    }

    /// Takes a lock against a shutdown; the lock lasts as long as the connection.
    pub struct Inhibit {
        /// What is blocked; only `shutdown` can be.
        pub what: Option<String>,
        /// Who holds the lock, for people.
        pub who: Option<String>,
        /// What for, for people.
        pub why: Option<String>,
    }
}
