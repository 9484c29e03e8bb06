//! File descriptors that units wanted and did not get, until it is told once how many are wanting.

use warren_sys::descriptors::Allowance;

/// What was refused.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    /// Descriptors, since it was last told.
    untold: u64,
    /// Descriptors that were refused in all.
    refused: u64,
}

impl Shortage {
    /// These were refused.
    pub(crate) fn refuse(&mut self, descriptors: usize) {
        self.untold += descriptors as u64;
        self.refused += descriptors as u64;
    }

    /// What is to be told of what was refused since the last time.
    pub(crate) fn take_news(&mut self, allowance: Allowance) -> Option<String> {
        if std::mem::take(&mut self.untold) == 0 {
            return None;
        }
        let Allowance { limit, reserve } = allowance;
        let (refused, needed) = (self.refused, limit.saturating_add(self.refused));
        Some(format!(
            "units wanted {refused} more file descriptors than there are: the manager may open {limit} \
             (RLIMIT_NOFILE) and keeps {reserve} of them for its own work. At least {needed} are needed: start it \
             with a higher limit, then start the units that failed"
        ))
    }
}

/// Why a unit does not get one.
pub(crate) fn reason(allowance: Allowance) -> String {
    let Allowance { limit, reserve } = allowance;
    format!(
        "no file descriptor is left for it: the manager may open {limit} (RLIMIT_NOFILE) and keeps {reserve} of \
         them for its own work"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanting_is_told_once_with_the_number_that_would_do() {
        let allowance = Allowance { limit: 700, reserve: 175 };
        let mut shortage = Shortage::default();
        assert_eq!(shortage.take_news(allowance), None);
        (0..500).for_each(|_| shortage.refuse(1));
        let told = shortage.take_news(allowance).expect("news");
        assert!(told.contains("wanted 500 more") && told.contains("At least 1200"), "{told}");
        assert_eq!(shortage.take_news(allowance), None);
        shortage.refuse(2);
        let told = shortage.take_news(allowance).expect("news");
        assert!(told.contains("At least 1202"), "{told}");
    }
}
