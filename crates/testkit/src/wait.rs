//! Waits for what another thread or process does, with a bound: a test that waits in vain fails and says for what.
//! Must not: be used where an event can be waited for.
//! Runs on the thread of the test.

use std::time::{Duration, Instant};

/// A condition that does not come true within this time fails the test. Machines that are busy take long.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// Looks that give way to other threads alone, before there are pauses between looks.
const LOOKS_AT_ONCE: u32 = 100;

/// Between two looks after those.
const LOOKS_APART: Duration = Duration::from_millis(1);

/// Looks until the condition is true.
///
/// # Panics
/// After [`WAIT_MAX`], with `what`.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Looks until there is something to see.
///
/// # Panics
/// After [`WAIT_MAX`], with `what`.
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_for_or(what, look, String::new)
}

/// Looks until there is something to see.
///
/// # Panics
/// After [`WAIT_MAX`], with `what` and the text that `tell` gives then.
#[track_caller]
pub fn wait_for_or<T>(
    what: &str,
    look: impl FnMut() -> Option<T>,
    tell: impl FnOnce() -> String,
) -> T {
    match look_within(WAIT_MAX, look) {
        Some(seen) => seen,
        None => panic!("waited {} s in vain: {what}\n{}", WAIT_MAX.as_secs(), tell()),
    }
}

fn look_within<T>(time: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + time;
    let mut looks = 0;
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if Instant::now() >= end {
            return None;
        }
        looks += 1;
        match looks > LOOKS_AT_ONCE {
            true => std::thread::park_timeout(LOOKS_APART),
            false => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_end_with_what_is_seen_or_with_the_time() {
        let mut looks = 0;
        let mut third = || {
            looks += 1;
            (looks == 3).then_some(looks)
        };
        assert_eq!(look_within(WAIT_MAX, &mut third), Some(3));
        assert_eq!(look_within(Duration::from_millis(1), || None::<()>), None);
        assert_eq!(look_within(Duration::ZERO, || Some(1)), Some(1), "it looks once at least");
    }
}
