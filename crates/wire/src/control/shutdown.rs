//! The answer of `Shutdown`, parts of which others have.
//!
//! - Owns: what is planned, what is waited for, who has a lock.
//! - Must not: decide whether a shutdown may go on.
//! - Runs on the thread of its caller.

answers! {
    /// Answers `Shutdown`.
    pub struct ShutdownAnswer {
        /// Everything is being stopped.
        pub stopping: bool,
        /// What comes then, for people.
        pub follows: Option<String>,
        /// Jobs that are left.
        pub jobs: u32,
        /// What is waited for.
        pub waits: Vec<ShutdownWait>,
        /// Bytes that wait to be written to devices; null while nothing is being stopped.
        pub unwritten_bytes: Option<u64>,
        /// A shutdown that is planned.
        pub planned: Option<PlannedShutdown>,
        /// One that systemd-logind has planned.
        pub planned_by_logind: Option<LogindPlan>,
        /// Locks against a shutdown.
        pub inhibitors: Vec<InhibitorLock>,
    }

    /// A unit, or a process that outlived its unit, which is waited for.
    pub struct ShutdownWait {
        /// The unit; null for a process of none.
        pub unit: Option<String>,
        /// What it is at, its state in the words of its type.
        pub phase: String,
        /// The process that is waited for.
        pub pid: Option<u32>,
        /// The process, for people.
        pub process: Option<String>,
        /// The server that is waited for, for people.
        pub server: Option<String>,
        /// For how long, in µs.
        pub so_far_us: u64,
        /// Until it is given up, in µs; null without a limit.
        pub left_us: Option<u64>,
    }

    /// A shutdown that is planned.
    pub struct PlannedShutdown {
        /// What is done then, for people.
        pub what: String,
        /// When it begins, in µs from now.
        pub left_us: u64,
        /// For those who are logged in.
        pub message: String,
    }

    /// A shutdown that systemd-logind has planned.
    pub struct LogindPlan {
        /// Its mode, such as `reboot`.
        pub mode: String,
        /// When it begins, in µs from now.
        pub left_us: u64,
    }

    /// A lock against a shutdown.
    pub struct InhibitorLock {
        /// Who holds it, in its own words.
        pub who: String,
        /// What for.
        pub why: String,
        /// Its user.
        pub uid: u32,
        /// Its process; null for one of another pid namespace.
        pub pid: Option<u32>,
    }
}
