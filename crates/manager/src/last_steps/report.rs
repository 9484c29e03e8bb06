//! What the last steps did, as they report it to the manager.

use std::path::Path;

/// What was done, for the manager's last words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Processes that were left when all units were down.
    pub left_over: usize,
    /// Those of them that had to be killed.
    pub killed: usize,
    /// What could not be taken apart.
    pub failed: usize,
    /// Programs that were run.
    pub programs: usize,
    /// How processes that were left were waited for.
    pub wait: Wait,
}

/// A wait for processes; all 0 when there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// When they were asked to end, in µs of the monotonic clock.
    pub from_us: u64,
    /// When those that did not were killed.
    pub killed_us: u64,
    /// When they were gone, or not waited for any more.
    pub until_us: u64,
    /// Processes that the kernel holds.
    pub held: usize,
}

impl Done {
    /// What was done since `earlier`.
    pub fn since(&self, earlier: &Done) -> Done {
        Done {
            left_over: self.left_over.saturating_sub(earlier.left_over),
            killed: self.killed.saturating_sub(earlier.killed),
            failed: self.failed,
            programs: self.programs.saturating_sub(earlier.programs),
            wait: if self.wait == earlier.wait { Wait::default() } else { self.wait },
        }
    }

    pub(crate) fn to_line(&self) -> String {
        let Wait { from_us, killed_us, until_us, held } = self.wait;
        let Done { left_over, killed, failed, programs, .. } = self;
        format!(
            "{left_over} {killed} {failed} {programs} {from_us} {killed_us} {until_us} {held}\n"
        )
    }

    /// Reads the report; none if it is not there or not whole.
    pub fn read(path: &Path) -> Option<Done> {
        let text = std::fs::read_to_string(path).ok()?;
        let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        let numbers = numbers.ok()?;
        let &[left_over, killed, failed, programs, from_us, killed_us, until_us, held] = &*numbers
        else {
            return None;
        };
        let wait = Wait { from_us, killed_us, until_us, held: held as usize };
        let counts = [left_over, killed, failed, programs].map(|count| count as usize);
        let [left_over, killed, failed, programs] = counts;
        Some(Done { left_over, killed, failed, programs, wait })
    }
}
