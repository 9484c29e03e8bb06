//! Items shared out among threads: each thread takes the next free item until none
//! is left, so that no thread waits for a slow one.
//!
//! It is the one place of this crate where threads meet, and all that they have in common is one
//! word, the number of the next item ([`Claims::take`]): no lock, no shared counter of references.
//! What they work on was made before they start and does not change until they have ended; what
//! they make is theirs until they are joined. Start at [`out`].
//!
//! The tests force every order in which threads can come to take items. That is all that a model
//! checker such as loom would explore here: it tries the orders of operations on what is shared and
//! changes, which is that one word, and what each memory ordering lets a thread read late; but a
//! `fetch_add` reads the newest number whatever its ordering, so an execution is an order of takes
//! and nothing else. That nothing else is shared and changes is the compiler's word: `work` is
//! `Sync`, and this crate has no `unsafe` and no cell that is, but the `OnceLock`s of `modules`, which
//! are all set before threads start.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The stack of a thread, in bytes: trees are parsed and evaluated by recursion, to bounded depths
/// ([`crate::eval::DEPTH_MAX`]).
const STACK_BYTES: usize = 16 << 20;

/// Items that are taken one by one.
#[derive(Debug)]
pub(crate) struct Claims {
    next: AtomicUsize,
    items: usize,
}

impl Claims {
    fn of(items: usize) -> Claims {
        Claims { next: AtomicUsize::new(0), items }
    }

    /// The number of an item that nobody else has or will be given.
    ///
    /// Relaxed is enough: one word decides who gets which number, and nothing else is read because
    /// of it. Starting and joining a thread order all the rest.
    pub(crate) fn take(&self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.items).then_some(number)
    }
}

/// Shares out so many items to at most so many threads, this one among them. `work` is called once
/// on each, and takes items until there are none; what it says of each item comes back in the order
/// of the items, whoever took them.
///
/// # Panics
/// As `work` does.
pub(crate) fn out<T: Send>(
    items: usize,
    threads: usize,
    work: impl Fn(&Claims) -> Vec<(usize, T)> + Sync,
) -> Vec<T> {
    let claims = Claims::of(items);
    let work = || work(&claims);
    let threads = threads.min(items);
    let mut all = std::thread::scope(|scope| {
        let start = |_| {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, work)
        };
        let started: Vec<_> = (1..threads).map(start).collect();
        // A thread that could not be started leaves its share to the others.
        let mut all = work();
        for thread in started.into_iter().flatten() {
            let made = thread.join();
            all.extend(made.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    /// Lets threads take items in one order only.
    struct Turns {
        order: Vec<usize>,
        at: Mutex<usize>,
        moved: Condvar,
    }

    impl Turns {
        fn take(&self, me: usize, claims: &Claims) -> Option<usize> {
            let at = self.at.lock().expect("no thread panics");
            let is_others = |at: &mut usize| self.order[*at] != me;
            let mut at = self.moved.wait_while(at, is_others).expect("no thread panics");
            let taken = claims.take();
            *at += 1;
            self.moved.notify_all();
            taken
        }
    }

    /// Every order in which threads can take items: whoever comes gets the next one, and each comes
    /// once more to find that there is none.
    fn orders(items: usize, threads: usize) -> Vec<Vec<usize>> {
        let takes = (0..items).fold(vec![Vec::new()], |all, _| each(&all, |_| 0..threads));
        let is_new = |order: &[usize], me: &usize| !order[items..].contains(me);
        (0..threads).fold(takes, |all, _| {
            each(&all, |order| (0..threads).filter(|me| is_new(order, me)).collect::<Vec<_>>())
        })
    }

    fn each<I: IntoIterator<Item = usize>>(
        all: &[Vec<usize>],
        next: impl Fn(&[usize]) -> I,
    ) -> Vec<Vec<usize>> {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            next(&order).into_iter().map(move |me| [&order[..], &[me]].concat()).collect::<Vec<_>>()
        };
        all.iter().flat_map(longer).collect()
    }

    fn check(items: usize, threads: usize, expected: usize) {
        let orders = orders(items, threads);
        assert_eq!(orders.len(), expected);
        for order in orders {
            let turns = Turns { order, at: Mutex::new(0), moved: Condvar::new() };
            let arrived = AtomicUsize::new(0);
            let made = out(items, threads, |claims| {
                let me = arrived.fetch_add(1, Ordering::Relaxed);
                let mut taken = Vec::new();
                while let Some(number) = turns.take(me, claims) {
                    taken.push((number, (number, me)));
                }
                taken
            });
            // The item of each turn went to the one whose turn it was.
            let whose: Vec<_> = turns.order[..items].iter().copied().enumerate().collect();
            assert_eq!(made, whose, "{:?}", turns.order);
        }
    }

    #[test]
    fn every_order_of_taking_gives_each_item_once() {
        check(1, 1, 1);
        check(5, 1, 1);
        check(2, 2, 4 * 2);
        check(5, 2, 32 * 2);
        check(4, 3, 81 * 6);
    }

    #[test]
    fn there_may_be_more_threads_than_items() {
        let number = |claims: &Claims| {
            std::iter::from_fn(|| claims.take()).map(|number| (number, number)).collect()
        };
        for items in 0..4 {
            assert_eq!(out(items, 9, number), (0..items).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "the third item")]
    fn the_panic_of_a_thread_is_told() {
        out(3, 2, |claims| {
            let one = |number| if number == 2 { panic!("the third item") } else { (number, ()) };
            std::iter::from_fn(|| claims.take()).map(one).collect()
        });
    }
}
