//! Work beside the own, by threads that need not be had: where the machine or the manager's cgroup has no
//! room for one more, it takes longer, and that is all.

use std::thread::Builder;

/// What a stack has where nothing recurses, in bytes.
const STACK_BYTES: usize = 2 << 20;

/// A thread that is to be started.
pub(crate) fn builder() -> Builder {
    with_stack(STACK_BYTES)
}

/// The same with a stack of so many bytes.
pub(crate) fn with_stack(bytes: usize) -> Builder {
    // More than there are addresses.
    #[cfg(test)]
    let bytes = if shortage::IS_SHORT.get() { 1 << 60 } else { bytes };
    Builder::new().stack_size(bytes)
}

/// Does `beside` in that thread while `own` is done in this one; where it cannot be started, `beside` comes
/// after `own`. Neither may wait for the other.
///
/// # Panics
/// As they do.
pub(crate) fn both<T: Send, U>(
    thread: Builder,
    beside: impl FnOnce() -> T + Send,
    own: impl FnOnce() -> U,
) -> (T, U) {
    let mut beside = Some(beside);
    let (made, own) = std::thread::scope(|scope| {
        let started = thread.spawn_scoped(scope, || beside.take().map(|beside| beside()));
        let own = own();
        let made = started.ok().and_then(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        (made, own)
    });
    // Whoever was not started has not taken it.
    let made = made.or_else(|| beside.map(|beside| beside())).expect("one of both has done it");
    (made, own)
}

/// A shortage of threads, for tests.
#[cfg(test)]
pub(crate) mod shortage {
    use std::cell::Cell;

    thread_local!(pub(crate) static IS_SHORT: Cell<bool> = const { Cell::new(false) });

    /// Does this while the own thread can start no other.
    pub(crate) fn during<T>(work: impl FnOnce() -> T) -> T {
        IS_SHORT.set(true);
        let done = work();
        IS_SHORT.set(false);
        done
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{ThreadId, current};

    use super::*;

    #[test]
    fn work_beside_is_done_without_a_thread_too() {
        let own: ThreadId = current().id();
        let who = || both(builder(), || current().id(), || current().id());
        assert!(matches!(who(), (beside, also) if beside != own && also == own));
        assert_eq!(shortage::during(who), (own, own));
    }
}
