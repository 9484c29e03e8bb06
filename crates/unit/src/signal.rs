//! Signals by number and name, as KillSignal= and `kill -l` write them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A Linux signal number, 1 to 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Signal(u8);

/// Names of the signals 1 to 31 on every Linux architecture but MIPS, SPARC, Alpha and PA-RISC.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The first real-time signal that the C library leaves to programs.
const RTMIN: u8 = 34;
const MAX: u8 = 64;

impl Signal {
    /// SIGHUP
    pub const HUP: Signal = Signal(1);
    /// SIGINT
    pub const INT: Signal = Signal(2);
    /// SIGABRT
    pub const ABRT: Signal = Signal(6);
    /// SIGKILL
    pub const KILL: Signal = Signal(9);
    /// SIGPIPE
    pub const PIPE: Signal = Signal(13);
    /// SIGTERM
    pub const TERM: Signal = Signal(15);
    /// SIGCONT
    pub const CONT: Signal = Signal(18);

    /// The signal with this number, if there is one.
    pub fn new(number: i32) -> Option<Signal> {
        u8::try_from(number).ok().filter(|n| (1..=MAX).contains(n)).map(Signal)
    }

    /// Its number.
    pub const fn number(self) -> i32 {
        self.0 as i32
    }

    /// `SIGTERM`, `TERM`, `15`, `RTMIN+3` or `SIGRTMAX-1`.
    pub fn parse(text: &str) -> Option<Signal> {
        if let Ok(number) = text.parse::<i32>() {
            return Signal::new(number);
        }
        let name = text.strip_prefix("SIG").unwrap_or(text);
        if let Some(index) = NAMES.iter().position(|n| *n == name) {
            return Signal::new(i32::try_from(index).ok()? + 1);
        }
        Signal::parse_realtime(name)
    }

    fn parse_realtime(name: &str) -> Option<Signal> {
        let (base, rest, sign) = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
            (Some(rest), _) => (i32::from(RTMIN), rest, '+'),
            (_, Some(rest)) => (i32::from(MAX), rest, '-'),
            _ => return None,
        };
        if rest.is_empty() {
            return Signal::new(base);
        }
        let distance: i32 =
            rest.strip_prefix(sign)?.parse().ok().filter(|d| (0..=30).contains(d))?;
        Signal::new(if sign == '+' { base + distance } else { base - distance })
            .filter(|s| s.0 >= RTMIN)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(usize::from(self.0) - 1) {
            Some(name) => write!(f, "SIG{name}"),
            None if self.0 < RTMIN => write!(f, "{}", self.0),
            None => write!(f, "SIGRTMIN+{}", self.0 - RTMIN),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Option<(i32, &str)>) {
        let got = Signal::parse(text).map(|s| (s.number(), s.to_string()));
        assert_eq!(got, want.map(|(n, s)| (n, s.to_owned())), "{text}");
    }

    #[test]
    fn signals_have_names_and_numbers() {
        check("SIGTERM", Some((15, "SIGTERM")));
        check("KILL", Some((9, "SIGKILL")));
        check("1", Some((1, "SIGHUP")));
        check("RTMIN+3", Some((37, "SIGRTMIN+3")));
        check("SIGRTMAX-1", Some((63, "SIGRTMIN+29")));
        check("RTMIN", Some((34, "SIGRTMIN+0")));
        check("33", Some((33, "33")));
        for bad in ["", "0", "65", "FOO", "RTMIN-1", "RTMIN+31", "RTMIN+-1", "sigterm"] {
            check(bad, None);
        }
    }
}
