//! The loop's part in a scheduled shutdown: saved in a file, announced, begun, cancelled.

use crate::base::patience::Patient;
use crate::base::replace_file::replace;
use crate::published::scheduled::Scheduled;
use std::io;
use std::path::Path;
use std::time::Duration;
use warren_core::model::time::Monotonic;
use warren_sys::eventfd::TimerFd;

/// Where it is written, below the manager's directory of run-time files.
pub(crate) const FILE: &str = "warren/scheduled";

/// How often it is told that a lock holds an end up.
pub(crate) const TOLD_APART: Duration = Duration::from_secs(60);

/// An end that is to come, and when the loop looks at it again.
#[derive(Debug, Default)]
pub struct Planned {
    pub(crate) scheduled: Option<Scheduled>,
    pub(crate) due: Option<Monotonic>,
    /// Readable at the time of day that it is planned for, and when the clock is set or the machine wakes up.
    pub(crate) clock: Option<TimerFd>,
    /// What was planned has begun: its file goes when that is written down.
    pub(crate) has_begun: bool,
}

impl Patient for Planned {
    // When to look at it again.
    fn deadline(&self) -> Option<Monotonic> {
        self.due
    }
}

/// What is planned; nothing if nothing is.
pub(crate) fn read_plan(path: &Path) -> io::Result<Option<Scheduled>> {
    match std::fs::read_to_string(path) {
        Ok(text) => match Scheduled::parse(&text) {
            None => Err(io::Error::other("it is damaged")),
            scheduled => Ok(scheduled),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

pub(crate) fn write_plan(path: &Path, scheduled: &Scheduled) -> io::Result<()> {
    replace(path, &scheduled.to_line())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::scratch::Scratch;
    use warren_init::protocol::control::PowerAction;

    #[test]
    fn a_plan_is_there_as_a_whole_or_it_is_said_that_it_is_damaged() {
        let scratch = Scratch::new("plan");
        let path = scratch.0.join("scheduled");
        assert_eq!(read_plan(&path).expect("there is none"), None);
        let planned = Scheduled::new(PowerAction::Reboot, Some("5min"), None, "new disks");
        let scheduled = planned.expect("a plan");
        write_plan(&path, &scheduled).expect("it can be written");
        let text = std::fs::read_to_string(&path).expect("it is there");
        // The file is never written to while it has this name.
        std::fs::write(path.with_extension("new"), &text[..text.len() / 2]).expect("cut");
        assert_eq!(read_plan(&path).expect("it is whole"), Some(scheduled));
        std::fs::write(&path, "").expect("it can be written");
        assert!(read_plan(&path).is_err());
    }
}
