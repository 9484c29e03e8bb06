//! What is done when process 1 has crashed (systemd-system.conf(5), "CrashReboot=").

words! {
    /// CrashAction=, of systemd 256.
    CrashAction {
        /// Nothing more.
        Freeze = "freeze",
        /// The machine restarts.
        Reboot = "reboot",
        /// It is powered off.
        Poweroff = "poweroff",
    }
}

/// What is said of it, as far as something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crash {
    /// DumpCore=
    pub dumps_core: Option<bool>,
    /// CrashShell=
    pub starts_shell: Option<bool>,
    /// CrashChangeVT=: none of them, or this one; 0 is the one that the kernel writes to.
    pub terminal: Option<Option<u8>>,
    /// CrashAction= and CrashReboot=
    pub action: Option<CrashAction>,
}

impl Crash {
    /// What is said here, and where nothing is, what the other says.
    pub fn or(self, other: Crash) -> Crash {
        Crash {
            dumps_core: self.dumps_core.or(other.dumps_core),
            starts_shell: self.starts_shell.or(other.starts_shell),
            terminal: self.terminal.or(other.terminal),
            action: self.action.or(other.action),
        }
    }
}
