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
    assert!(helpers.give_up(index));
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
    assert_eq!(refused, "a file system that it needs does not answer");
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
