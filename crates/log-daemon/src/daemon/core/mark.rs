//! What of a [refuge](crate::daemon::core::refuge) outlives the daemon, as a text: a line `try` when the disk is tried
//! by the clock, `cut FILE BYTES` for each log on it of which not more may stay, and `beneath DEVICE` for each file
//! system that it was mounted on. Pure.

use std::fmt;

use warren_log_store::store::names::FileName;

/// How it stands with a disk that had given up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mark {
    /// The disk is tried again.
    pub tries: bool,
    /// Logs that were left on it, and how much of each was durable, bytes.
    pub logs: Vec<(FileName, u64)>,
    /// Devices of what it was mounted on.
    pub beneath: Vec<u64>,
}

impl Mark {
    /// Reads what [`Mark`] prints, and leaves out what it does not.
    pub fn parse(text: &str) -> Mark {
        let log = |line: &str| {
            let (name, bytes) = line.strip_prefix("cut ")?.split_once(' ')?;
            Some((FileName::parse(name).filter(FileName::is_log)?, bytes.parse().ok()?))
        };
        let tries = text.lines().any(|line| line == "try");
        let device = |line: &str| line.strip_prefix("beneath ")?.parse().ok();
        let beneath = text.lines().filter_map(device).collect();
        Mark { tries, logs: text.lines().filter_map(log).collect(), beneath }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tries {
            f.write_str("try\n")?;
        }
        self.logs.iter().try_for_each(|(name, bytes)| writeln!(f, "cut {name} {bytes}"))?;
        self.beneath.iter().try_for_each(|device| writeln!(f, "beneath {device}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_without_what_is_no_line_of_one() {
        let log = |class: &str, first| FileName::Log { class: class.to_owned(), first };
        let logs = vec![(log("system", 7), 4096), (log("web", 1), 0)];
        for mark in [
            Mark::default(),
            Mark { tries: true, beneath: vec![2049, 27], ..Mark::default() },
            Mark { tries: false, logs: logs.clone(), beneath: vec![] },
            Mark { tries: true, logs, beneath: vec![1] },
        ] {
            assert_eq!(Mark::parse(&mark.to_string()), mark);
        }
        let segment = format!("system-{:016x}-{:016x}.seg", 1, 2);
        for bad in
            ["cut lock 5", "cut ../system-0000000000000001.log 5", &format!("cut {segment} 5")]
        {
            assert_eq!(Mark::parse(bad), Mark::default(), "{bad}");
        }
        assert_eq!(Mark::default().to_string(), "");
    }
}
