//! A machine that stops, a daemon that is killed, a change that fails, at each step there is.

use super::*;

#[test]
fn a_crash_before_any_change_loses_nothing_that_was_synced() {
    const STEPS: usize = 70;
    for seed in 0..3 {
        let life = |fault| {
            let memory = Memory::new();
            let mut life =
                Life::begin(memory.clone(), Contents::new(), Numbers(seed)).expect("empty");
            memory.plan(fault);
            life.run(STEPS);
            life
        };
        let changes = life(Fault::None).memory.changes();
        assert!(changes > 50, "{changes} changes are too few to tell");
        for at in 0..=changes {
            let life = life(Fault::Stop { at });
            for survival in 0..3 {
                let mut numbers = Numbers(seed << 32 | (at as u64) << 8 | survival);
                let what = format!("seed {seed}, stop at {at}, survival {survival}");
                let memory = life.memory.after_crash(&mut numbers);
                let found = life.check(&memory, &what);
                recover(&memory, &found, &numbers, &what);
            }
            let killed = life.memory.after_kill();
            let found = life.check(&killed, "killed");
            recover(&killed, &found, &Numbers(seed), "killed");
        }
    }
}

#[test]
fn who_goes_on_from_what_he_saw_misses_nothing() {
    for seed in 0..60 {
        let memory = Memory::new();
        let mut life = Life::begin(memory.clone(), Contents::new(), Numbers(seed)).expect("empty");
        let mut faults = Numbers(!seed);
        for _ in 0..80 {
            if faults.below(10) == 0 {
                memory.plan(Fault::Once { at: memory.changes() + faults.below(4), errno: 28 });
            }
            match life.step() {
                // What the kernel drops was seen by whoever looked before, and by nobody who looks now.
                Err(Error::Io { op: "sync", .. }) => break,
                // What fails else is tried again by a later step.
                _ => life.check_settled(),
            }
        }
    }
}

#[test]
fn many_lives_with_a_crash_at_the_end_of_each() {
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let (mut memory, mut contents) = (Memory::new(), Contents::new());
        for number in 0..6 {
            let what = format!("seed {seed}, life {number}");
            // Opening may be stopped, too: then this life has no steps.
            memory.plan(Fault::Stop { at: numbers.below(60) });
            let life = Life::begin(memory.clone(), contents.clone(), numbers.clone());
            let steps = numbers.below(30);
            let after = memory.after_crash(&mut numbers);
            memory = match life {
                Ok(mut life) => {
                    life.run(steps);
                    let after = match numbers.below(2) {
                        0 => life.memory.after_kill(),
                        _ => life.memory.after_crash(&mut numbers),
                    };
                    contents = life.check(&after, &what);
                    after
                }
                Err(_) => after,
            };
            assert_eq!(read_all(&memory), contents, "{what}");
        }
        recover(&memory, &contents, &numbers, "in the end");
    }
}

#[test]
fn sequence_numbers_are_never_given_out_twice() {
    for seed in 0..20 {
        let mut numbers = Numbers(seed);
        let memory = Memory::new();
        let mut life =
            Life::begin(memory.clone(), Contents::new(), numbers.clone()).expect("empty");
        memory.plan(Fault::Stop { at: numbers.below(40) });
        life.run(40);
        let seen = life.store.next_seqnum();
        let after = memory.after_crash(&mut numbers);
        let (store, recovery) =
            Store::open(Arc::new(after.clone()), setup(seed)).expect("no faults");
        let files = after.list().expect("a listing");
        // A directory of which nothing is left begins anew, under a new sequence id.
        let anew = recovery.logs.is_empty() && Catalogue::of(files).files.is_empty();
        let rises = store.next_seqnum() >= seen || !recovery.unclean;
        assert!(anew || rises, "seed {seed}: {} after {seen}", store.next_seqnum());
    }
}

#[test]
fn every_failed_change_is_got_over() {
    const STEPS: usize = 70;
    use warren_sys::errno::{EIO, ENOSPC};
    for (seed, errno) in [(1, ENOSPC), (2, EIO), (3, EIO)] {
        let mut at = 0;
        loop {
            let memory = Memory::new();
            let mut life =
                Life::begin(memory.clone(), Contents::new(), Numbers(seed)).expect("empty");
            memory.plan(Fault::Once { at, errno });
            let failures = (0..STEPS).filter(|_| life.step().is_err()).count();
            let what = format!("seed {seed}, change {at} fails with {errno}");
            let changes = memory.changes();
            memory.plan(Fault::None);
            life.sync().unwrap_or_else(|e| panic!("{what}: {e}"));
            let mut numbers = Numbers(at as u64);
            let found = life.check(&memory.after_crash(&mut numbers), &what);
            assert_eq!(found, life.appended, "{what}: a fault that passed has no effect");
            if changes <= at {
                break;
            }
            assert!(failures <= 1, "{what}: {failures} errors for one fault");
            at += 1;
        }
        assert!(at > 50, "{at} changes are too few to tell");
    }
}

#[test]
fn a_crash_in_vacuum_doubles_and_reorders_nothing() {
    use crate::store::age::Clock;
    use crate::store::vacuum::{Limits, vacuum};
    let limits = Limits { bytes_max: Some(9_000), ..Limits::default() };
    let mut removed = 0;
    for at in 0..8 {
        for survival in 0..4 {
            let (memory, mut numbers) = (sample(), Numbers(at << 8 | survival));
            let before = read_all(&memory);
            // What the directory held before is on the device.
            memory.sync_directory().expect("no faults");
            memory.plan(Fault::Stop { at: at as usize });
            let gone =
                vacuum(&memory, &limits, &Clock::of_wall(0)).map_or(0, |done| done.gone.len());
            let after = read_all(&memory.after_crash(&mut numbers));
            for (class, entries) in &before {
                let left = after.get(class).map_or(&[][..], Vec::as_slice);
                assert_eq!(missing(entries, left), entries.len() - left.len());
            }
            let recovered = Store::open(Arc::new(memory.after_crash(&mut numbers)), setup(1));
            assert!(recovered.is_ok(), "stop at {at}");
            removed += gone;
        }
    }
    assert!(removed > 0, "the limit removes something");
}
