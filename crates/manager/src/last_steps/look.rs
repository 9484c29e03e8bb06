//! Looks at processes of which one may not let itself be looked at: what `/proc` says of its memory is
//! behind a lock that it holds while it waits for a server. A look has a bound, not the whole.

use std::ops::ControlFlow;
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long one process may keep who looks at it.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// Processes that may do so, until the rest is not looked at any more.
const SILENT_MAX: usize = 16;

/// Hands to `take` what `look` says of each process, or nothing where it does not come back, until
/// `take` has enough. The look is in a thread, which is left behind by each that does not.
pub fn each<T: Send + 'static>(
    pids: &[i32],
    look: impl Fn(i32) -> T + Clone + Send + 'static,
    take: impl FnMut(i32, Option<T>) -> ControlFlow<()>,
) {
    each_within(ANSWER_WITHIN, pids, look, take);
}

fn each_within<T: Send + 'static>(
    within: Duration,
    pids: &[i32],
    look: impl Fn(i32) -> T + Clone + Send + 'static,
    mut take: impl FnMut(i32, Option<T>) -> ControlFlow<()>,
) {
    let mut left = pids.iter().copied();
    for _ in 0..SILENT_MAX {
        let (sender, answers) = channel();
        let (rest, look) = (left.clone().collect::<Vec<i32>>(), look.clone());
        // Nobody listens any more to who comes back too late.
        let serve = move || rest.into_iter().all(|pid| sender.send(look(pid)).is_ok());
        let thread = std::thread::Builder::new().name("look".into()).spawn(serve);
        let is_there = thread.is_ok();
        for pid in left.by_ref() {
            let answer = answers.recv_timeout(within).ok().filter(|_| is_there);
            let is_silent = answer.is_none();
            if take(pid, answer).is_break() {
                return;
            }
            if is_silent {
                break;
            }
        }
    }
    for pid in left {
        if take(pid, None).is_break() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Condvar, Mutex};

    use super::*;

    /// Processes by number → what is heard of each; those over 100 never answer.
    #[track_caller]
    fn check(pids: &[i32], enough: usize, want: &[(i32, Option<i32>)]) {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let look = {
            let gate = gate.clone();
            move |pid: i32| {
                if pid > 100 {
                    let is_closed = |open: &mut bool| !*open;
                    let open = gate.0.lock().expect("no panic");
                    drop(gate.1.wait_while(open, is_closed).expect("no panic"));
                }
                pid * 2
            }
        };
        let mut heard = Vec::new();
        // Longer than a thread takes to be scheduled, or one that answers would be taken for silent.
        each_within(Duration::from_secs(2), pids, look, |pid, answer| {
            heard.push((pid, answer));
            if heard.len() < enough { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert_eq!(heard, want);
        *gate.0.lock().expect("no panic") = true;
        gate.1.notify_all();
    }

    #[test]
    fn who_does_not_answer_is_left_out_and_the_others_are_heard() {
        check(&[], 9, &[]);
        check(&[1, 2], 9, &[(1, Some(2)), (2, Some(4))]);
        check(&[1, 101, 3], 9, &[(1, Some(2)), (101, None), (3, Some(6))]);
        check(&[101, 102, 3, 4], 3, &[(101, None), (102, None), (3, Some(6))]);
    }
}
