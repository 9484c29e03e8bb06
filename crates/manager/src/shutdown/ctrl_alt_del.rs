//! How often Ctrl-Alt-Del was pressed lately.

use std::time::Duration;
use warren_core::model::time::Monotonic;

/// More presses than this within [`WITHIN`] are a burst (systemd(1), "SIGINT").
pub(crate) const PRESSES_MAX: usize = 7;

const WITHIN: Duration = Duration::from_secs(2);

/// When Ctrl-Alt-Del was pressed lately.
#[derive(Debug, Default)]
pub(crate) struct CtrlAltDels(Vec<Monotonic>);

impl CtrlAltDels {
    /// Notes that it was pressed; whether that makes a burst.
    pub(crate) fn press(&mut self, moment: Monotonic) -> bool {
        self.0.retain(|&at| moment.since(at) < WITHIN);
        self.0.push(moment);
        self.0.len() > PRESSES_MAX
    }

    /// Forgets all presses.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_presses_within_two_seconds_are_a_burst() {
        let mut presses = CtrlAltDels::default();
        let at = |ms: u64| Monotonic(ms * 1000);
        let bursts = (1..=8).map(|n| presses.press(at(n * 200))).collect::<Vec<_>>();
        assert_eq!(bursts, [false, false, false, false, false, false, false, true]);
        assert!(presses.press(at(1_700)));
        presses.clear();
        assert!(!presses.press(at(1_800)));
        let slow = (1..=20).any(|n| presses.press(at(2_000 + n * 300)));
        assert!(!slow, "a press every 300 ms never is");
    }
}
