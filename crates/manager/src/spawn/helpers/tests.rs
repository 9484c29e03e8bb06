use super::*;

/// Helpers that have nothing to do, and their ends of the sockets.
fn ready(count: usize) -> (Helpers, Vec<OwnedFd>) {
    let pair = |_| fdpass::seqpacket_pair(false).expect("a pair");
    let (ours, theirs) = (0..count).map(pair).unzip();
    let mut helpers = Helpers::new(ours);
    helpers.helpers.iter_mut().for_each(|helper| helper.standing = Standing::Ready);
    (helpers, theirs)
}

fn spawn(helpers: &mut Helpers, id: u64) {
    helpers.spawn(EffectId(id), Box::default(), Vec::new()).expect("there is room");
}

/// What each helper was sent, the first first.
fn under_way(helpers: &Helpers) -> Vec<Vec<u64>> {
    let ids = |helper: &Helper| helper.under_way.iter().map(|sent| sent.id().0).collect();
    helpers.helpers.iter().map(ids).collect()
}

/// Helper `index` is ended, and another one takes its place; the text if what it was at is not
/// done again.
fn held_up(helpers: &mut Helpers, theirs: &mut Vec<OwnedFd>, index: usize) -> Option<&'static str> {
    assert!(helpers.give_up(index, false, Instant::now()));
    let lost = helpers.lose(index);
    let (our, their) = fdpass::seqpacket_pair(false).expect("a pair");
    theirs.push(their);
    helpers.helpers[index] = Helper::new(Some(our));
    helpers.helpers[index].standing = Standing::Ready;
    let refused = helpers.again(lost.begun.expect("it was at something"), lost.held_up);
    helpers.send_waiting();
    refused.map(|(_, why)| why)
}

/// Where thousands end at once, a helper may wait for a lock of the kernel time and again.
#[test]
fn a_spawn_that_holds_helpers_up_gets_longer_each_time_and_ten_seconds_in_all() {
    let (mut helpers, mut theirs) = ready(1);
    spawn(&mut helpers, 1);
    let mut had = Vec::new();
    let refused = loop {
        assert_eq!(under_way(&helpers), [[1]]);
        had.push(helpers.patience(&helpers.helpers[0]));
        if let Some(why) = held_up(&mut helpers, &mut theirs, 0) {
            break why;
        }
    };
    assert!(had.is_sorted_by(|a, b| a < b), "{had:?}");
    let all: Duration = had.iter().sum();
    assert!((HOLD_UP_MAX..HOLD_UP_MAX * 2).contains(&all), "{had:?}");
    assert_eq!(refused, "a file system that it needs does not respond");
    assert_eq!(under_way(&helpers), vec![Vec::<u64>::new()]);
}

#[test]
fn others_go_first_and_elsewhere() {
    let (mut helpers, mut theirs) = ready(1);
    (1..=3).for_each(|id| spawn(&mut helpers, id));
    assert_eq!(held_up(&mut helpers, &mut theirs, 0), None);
    assert_eq!(under_way(&helpers), [[2, 3, 1]]);

    let (mut helpers, mut theirs) = ready(2);
    spawn(&mut helpers, 1);
    assert_eq!(held_up(&mut helpers, &mut theirs, 0), None);
    (2..=3).for_each(|id| spawn(&mut helpers, id));
    assert_eq!(under_way(&helpers), [vec![1], vec![2, 3]]);
}

/// Init may not be able to end it at once.
#[test]
fn who_is_to_end_gets_nothing_more_to_do() {
    let (mut helpers, _theirs) = ready(2);
    spawn(&mut helpers, 1);
    assert!(helpers.give_up(0, false, Instant::now()));
    (2..=9).for_each(|id| spawn(&mut helpers, id));
    assert_eq!(under_way(&helpers)[0], [1]);
    assert_eq!(helpers.waiting.len(), 0);
    spawn(&mut helpers, 10);
    assert_eq!((under_way(&helpers)[1].len(), helpers.waiting.len()), (IN_FLIGHT_MAX, 1));
}

/// The loop would look again and again.
#[test]
fn who_cannot_be_replaced_has_its_patience_once_more() {
    let (mut helpers, _theirs) = ready(1);
    (1..=2).for_each(|id| spawn(&mut helpers, id));
    let many = held::HELD_MAX as u64;
    if warren_sys::process::use_all_open_files().is_ok_and(|files| files < 2 * many) {
        return warren_testkit::not_run(&format!("it needs {} open files", 2 * many));
    }
    for id in 0..many {
        helpers.held.take(held::Unborn::for_test(EffectId(id)));
    }
    let late = Instant::now() + PATIENCE * 2;
    assert_eq!(helpers.patience_left(late), Some(Duration::ZERO));
    assert!(!helpers.give_up(0, false, late));
    assert!(helpers.patience_left(late).is_some_and(|left| left > Duration::ZERO));
}

/// Of two sockets that hung up at the same time the report of the second is read when it is closed, and there is another
/// one by then.
#[test]
fn what_is_reported_of_a_closed_socket_is_of_nobody() {
    let mut held = Held::default();
    let (old, _its_end) = fdpass::seqpacket_pair(false).expect("a pair");
    let (new, _its_end) = fdpass::seqpacket_pair(false).expect("a pair");
    let old = held.take_socket(old);
    let _ = held.hung_up(old);
    held.take_socket(new);
    held.take(held::Unborn::for_test(EffectId(7)));
    let (born, killed) = held.hung_up(old);
    assert!(born.is_empty() && killed.is_empty());
    assert!(held.is_listening() && held.count() == 1);
}

/// Nobody knows how long the kernel holds it.
#[test]
fn what_a_killed_helper_has_not_begun_is_for_the_others() {
    let (mut helpers, _theirs) = ready(1);
    (1..=4).for_each(|id| spawn(&mut helpers, id));
    let (birth, _fd) = Birth::create().expect("memfd");
    // It has done the first, and nobody has heard of it.
    (1..=2).for_each(|id| birth.begin(id));
    helpers.helpers[0].birth = Some(Rc::new(birth));
    assert!(helpers.give_up(0, false, Instant::now()));
    helpers.take_back(7);
    helpers.killed_by(8);
    helpers.take_back(7);
    assert_eq!(under_way(&helpers), [[1, 2, 3, 4]], "it may not be killed yet");
    helpers.take_back(8);
    assert_eq!(under_way(&helpers), [[1, 2]]);
    let waiting: Vec<u64> = helpers.waiting.iter().map(|spawn| spawn.id.0).collect();
    assert_eq!(waiting, [3, 4]);
}

/// Helper `index` with memory, and its own side of that.
fn remember(helpers: &mut Helpers, index: usize) -> Birth {
    let (birth, fd) = Birth::create().expect("memfd");
    let seen = Birth::attach(fd.as_fd()).expect("it is one");
    helpers.helpers[index].birth = Some(Rc::new(seen));
    birth
}

/// As with the files of a large StateDirectory=, each of which gets another owner.
#[test]
fn what_takes_long_and_goes_on_is_left_alone_while_another_helper_is_there() {
    let (mut helpers, _theirs) = ready(2);
    let births = [0, 1].map(|index| remember(&mut helpers, index));
    // For one that is over.
    births[0].goes_on();
    helpers.helpers[0].did_one();
    spawn(&mut helpers, 1);
    assert!(!helpers.goes_on(0), "it has done nothing yet");
    births[0].goes_on();
    assert!(helpers.goes_on(0) && helpers.may_take_long(0));
    assert!(!helpers.goes_on(0), "nothing since");
    (2..=10).for_each(|id| spawn(&mut helpers, id));
    assert_eq!(under_way(&helpers)[0], [1], "nothing waits behind it");
    assert_eq!((under_way(&helpers)[1].len(), helpers.waiting.len()), (IN_FLIGHT_MAX, 1));
    births[1].goes_on();
    assert!(helpers.goes_on(1) && !helpers.may_take_long(1), "others wait behind it");
    assert!(!helpers.may_take_long(0), "no other is left");
}

#[test]
fn what_goes_on_was_not_held_up_where_it_is_ended_for_the_sake_of_others() {
    for (goes_on, patience) in [(true, Duration::ZERO), (false, PATIENCE)] {
        let (mut helpers, _theirs) = ready(1);
        (1..=2).for_each(|id| spawn(&mut helpers, id));
        assert!(helpers.give_up(0, goes_on, Instant::now()));
        let given_up = helpers.helpers[0].given_up.map(|given_up| given_up.patience);
        assert_eq!(given_up, Some(patience));
    }
}
