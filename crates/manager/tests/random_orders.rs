//! Orders by chance, and whether all agrees with what is there once everything has come to rest.
//!
//! Unit files are edited, masked, removed and made names of each other, units are started, stopped, frozen and
//! isolated, processes, exec helpers and the manager are killed, file systems are mounted by hand, and nobody
//! waits for anything. Then nothing is ordered any more, and what units say of themselves must come to agree with
//! their processes, groups, mounts and sockets, and with their files, without anybody's help; the next manager
//! must say the same; and when all is stopped nothing may be left.
//!
//! `WARREN_SEEDS` (default 3) says how often, from `WARREN_SEED` (default 1) on, which is the seed of the first,
//! and `WARREN_ORDERS` (default 120) how many orders each time. What is ordered depends on the seed alone; what
//! comes of it, on the moment too.

mod lab;

#[path = "random_orders/files.rs"]
mod files;
#[path = "random_orders/orders.rs"]
mod orders;
#[path = "random_orders/picture.rs"]
mod picture;
#[path = "random_orders/rest.rs"]
mod rest;

use std::sync::atomic::{AtomicBool, Ordering};

use lab::Machine;
use lab::lateness::hold_up;
use orders::{Orders, Trail};
use rest::{Empty, check_at_rest, stop_everything};
use serde_json::json;
use warren_testkit::{Dice, variable};

/// Orders between two checks.
const STRETCH: u64 = 40;

#[test]
fn after_any_orders_units_are_as_they_say_and_nothing_is_left_behind() {
    let has_systemctl = lab::has_systemctl("after_any_orders_units_are_as_they_say");
    let first = variable("WARREN_SEED", 1);
    for seed in first..first + variable("WARREN_SEEDS", 3) {
        println!("WARREN_SEED={seed}");
        let Some(mut m) = Machine::start(&format!("random-{seed}"), &[]) else { return };
        let kills = give_orders(&m, seed, has_systemctl);
        m.leave("poweroff");
        let said = m.wait_for_end();
        let ends = said.matches("manager exited").count();
        assert!(!said.contains("panicked"), "a panic: {said}");
        assert!(ends <= kills, "{ends} managers ended of {kills} that were killed: {said}");
    }
}

/// How many managers were killed over it.
fn give_orders(m: &Machine, seed: u64, has_systemctl: bool) -> usize {
    let trail = Trail::new(seed);
    let mut orders = Orders::new(m, Dice(seed), &trail, has_systemctl);
    orders.files.write_all(&mut orders.dice);
    orders.reload(json!({}));
    let mut empty: Option<Empty> = None;
    let stretches = variable("WARREN_ORDERS", 120).div_ceil(STRETCH);
    for stretch in 0..stretches {
        give_some(&mut orders, seed + stretch);
        check_at_rest(&mut orders, has_systemctl);
        if stretch % 2 == 0 {
            let now = stop_everything(&mut orders);
            now.check_against(empty.get_or_insert_with(|| now.clone()), m);
        }
    }
    orders.kills
}

/// The orders of a stretch, every third time on a machine that is far too busy.
fn give_some(orders: &mut Orders<'_>, seed: u64) {
    let (m, ends) = (orders.m, AtomicBool::new(!seed.is_multiple_of(3)));
    std::thread::scope(|scope| {
        scope.spawn(|| hold_up(m, &ends, !seed));
        (0..STRETCH).for_each(|_| orders.give());
        ends.store(true, Ordering::Relaxed);
    });
}
