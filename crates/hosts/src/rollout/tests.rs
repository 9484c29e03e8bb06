use super::*;
use crate::digest::Digest;
use crate::host::{Cause, Drain, Facts, Registration, Report, Restarted};

/// Hosts of a test, and the rollout over them.
struct Site {
    hosts: BTreeMap<HostId, Host>,
    rollout: Rollout,
    now: u64,
    driver: &'static str,
}

fn id(n: usize) -> HostId {
    format!("h{n:02}").parse().expect("a name")
}

impl Site {
    fn new(waves: &[&[usize]], away: &[usize], policy: Policy) -> Site {
        let registration = Registration { facts: Facts::default(), instance: Digest::of(b"") };
        let host = |n: &usize| Host {
            registration: (!away.contains(n)).then(|| registration.clone()),
            ..Host::new(id(*n))
        };
        let hosts = waves.iter().copied().flatten().map(|n| (id(*n), host(n))).collect();
        let waves = waves.iter().map(|wave| wave.iter().map(|n| id(*n)).collect()).collect();
        let rollout = Rollout::new(7, true, policy, waves, &hosts);
        Site { hosts, rollout, now: 1000, driver: "a" }
    }

    /// One step at a later time: who was assigned, `-` before those that go back.
    fn step(&mut self, later: u64) -> String {
        self.gated(later, &Gate::Open)
    }

    fn gated(&mut self, later: u64, gate: &Gate) -> String {
        self.now += later;
        // What is in the store between two steps is all that there is.
        let text = serde_json::to_string(&self.rollout).expect("JSON");
        self.rollout = serde_json::from_str(&text).expect("JSON");
        let assigned =
            self.rollout.step(&self.hosts, gate, Clock { driver: self.driver, now: self.now });
        for (id, assignment) in &assigned {
            self.hosts.get_mut(id).expect("a host").assigned = Some(*assignment);
        }
        let word =
            |(id, a): &(HostId, Assignment)| format!("{}{id}", if a.back { "-" } else { "" });
        assigned.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    fn report(&mut self, n: usize, back: bool, outcome: Outcome, failed: u32) {
        let cause = Cause {
            code: "WR-0051".into(),
            app: "shop".into(),
            units: failed,
            example: "shop-web.service".into(),
            why: "exited with code 7".into(),
            log: "no port".into(),
            since: 0,
        };
        let report = Report {
            release: 7,
            back,
            outcome,
            applied: None,
            units: 10,
            failed,
            causes: (failed > 0).then_some(cause).into_iter().collect(),
            more_causes: 0,
            restarted: Vec::new(),
            more_restarted: 0,
            hidden: Vec::new(),
            more_hidden: 0,
            highest: 0,
        };
        self.hosts.get_mut(&id(n)).expect("a host").report = Some(report);
    }

    /// Units of a host are started again and again.
    fn restarts(&mut self, n: usize, units: u32, more: u32) {
        self.report(n, false, Outcome::Applied, 0);
        let restarted = |n| Restarted {
            unit: format!("shop-{n}.service"),
            app: "shop".into(),
            times: 7,
            code: "WR-0040".into(),
            ended: "exited with code 7".into(),
            log: String::new(),
            last: 0,
        };
        let report = self.hosts.get_mut(&id(n)).and_then(|host| host.report.as_mut());
        let report = report.expect("it has reported");
        (report.restarted, report.more_restarted) = ((0..units).map(restarted).collect(), more);
    }

    fn drain(&mut self, n: usize, is_drained: bool) {
        let drain = Drain { author: "op".into(), reason: "disk".into(), at: 0 };
        self.hosts.get_mut(&id(n)).expect("a host").drained = is_drained.then_some(drain);
    }

    fn fine(&mut self, hosts: &[usize]) {
        hosts
            .iter()
            .for_each(|n| self.report(*n, self.rollout.phase == Phase::Back, Outcome::Applied, 0));
    }
}

fn policy() -> Policy {
    Policy { soak: 30, patience: 300, ..Policy::default() }
}

#[test]
fn waves_follow_one_another_when_the_one_before_was_healthy_for_long_enough() {
    let mut site = Site::new(&[&[0], &[1, 2], &[3]], &[], policy());
    assert_eq!(site.step(0), "h00");
    assert_eq!(site.step(100), "");
    site.fine(&[0]);
    assert_eq!(site.step(1), "");
    assert_eq!(site.step(29), "");
    assert_eq!((site.step(1), site.rollout.wave), (String::new(), 1));
    assert_eq!(site.step(0), "h01 h02");
    site.fine(&[1]);
    assert_eq!(site.step(40), "");
    site.fine(&[2]);
    assert_eq!(site.step(10), "");
    assert_eq!(site.step(30), "");
    assert_eq!(site.step(0), "h03");
    site.fine(&[3]);
    site.step(0);
    site.step(30);
    assert_eq!((site.rollout.phase, site.rollout.is_over()), (Phase::Done, true));
}

#[test]
fn no_more_than_so_many_are_unavailable() {
    let mut site = Site::new(&[&[0, 1, 2, 3, 4]], &[], Policy { max_unavailable: 2, ..policy() });
    assert_eq!(site.step(0), "h00 h01");
    assert_eq!(site.step(1), "");
    site.fine(&[1]);
    assert_eq!(site.step(1), "h02");
    // One that goes away takes a place, whether or not it was assigned.
    site.hosts.get_mut(&id(4)).expect("it").registration = None;
    site.fine(&[0]);
    assert_eq!((site.step(1), site.rollout.has_assigned(&id(4))), (String::new(), false));
    site.fine(&[2]);
    assert_eq!(site.step(1), "h03");
}

/// With as many sick hosts as may be unavailable nothing would happen any more.
#[test]
fn it_does_not_wait_for_ever_for_sick_hosts() {
    let policy = Policy { max_unavailable: 2, failures_max: 5, ..policy() };
    let mut site = Site::new(&[&[0, 1, 2, 3, 4]], &[], policy);
    assert_eq!(site.step(0), "h00 h01");
    site.report(0, false, Outcome::Failed("no".into()), 0);
    site.fine(&[1]);
    assert_eq!(site.step(1), "h02");
    site.report(2, false, Outcome::Failed("no".into()), 0);
    assert_eq!((site.step(1), site.rollout.phase), (String::new(), Phase::Back));
    let why = "h00: no (and 1 more): as many hosts of the wave are sick as may be unavailable";
    assert_eq!(site.rollout.reason, why);
}

/// What an operator has seen and goes on with takes no room from the others.
#[test]
fn sick_hosts_that_were_seen_are_no_longer_counted() {
    let policy = Policy { max_unavailable: 1, goes_back: false, ..policy() };
    let mut site = Site::new(&[&[0, 1, 2]], &[], policy);
    site.step(0);
    site.report(0, false, Outcome::Failed("no".into()), 0);
    site.step(1);
    assert_eq!((site.rollout.phase, &*site.rollout.reason), (Phase::Stopped, "h00: no"));
    site.rollout.go_on();
    assert_eq!(site.step(1), "h01");
}

/// Two units of shop on each of five hosts, and one that is alone with three of blog.
fn with_apps(most: u32, policy: Policy) -> Site {
    let mut site = Site::new(&[&[0, 1, 2], &[3, 4]], &[], policy);
    let units = |at_work, all| AppUnits { at_work, all };
    let shop = AppLimit { most, hosts: (0..4).map(|n| (id(n), units(2, 2))).collect() };
    let blog = AppLimit { most: 1, hosts: BTreeMap::from([(id(4), units(1, 3))]) };
    site.rollout.apps = BTreeMap::from([("shop".to_owned(), shop), ("blog".to_owned(), blog)]);
    site
}

#[test]
fn no_more_units_of_an_application_are_unavailable() {
    let mut site = with_apps(4, policy());
    assert_eq!(site.step(0), "h00 h01");
    site.fine(&[0]);
    assert_eq!(site.step(1), "h02");
    site.fine(&[1, 2]);
    site.step(1);
    assert_eq!((site.step(30), site.step(0)), (String::new(), "h03 h04".to_owned()));
    // A host of another wave counts as well when it is away.
    let mut site = with_apps(3, policy());
    let registration = site.hosts[&id(3)].registration.clone();
    site.hosts.get_mut(&id(3)).expect("it").registration = None;
    assert_eq!((site.step(0), site.step(300)), (String::new(), String::new()));
    site.hosts.get_mut(&id(3)).expect("it").registration = registration;
    assert_eq!(site.step(0), "h00");
    site.fine(&[0]);
    site.hosts.get_mut(&id(3)).expect("it").registration = None;
    // Nobody is waited for without an end.
    assert_eq!((site.step(1), site.step(300)), Default::default());
    assert_eq!(site.rollout.phase, Phase::Forward);
    site.step(1);
    assert_eq!(site.rollout.reason, "2 of shop are unavailable, at most 3 may be after 300 s");
}

/// Cut off together, they are back together: their units ran all the time, and were to be restarted all at once.
#[test]
fn hosts_that_were_away_when_their_turn_came_wait_for_room() {
    let policy = Policy { max_unavailable: 1, failures_max: 9, ..policy() };
    let mut site = Site::new(&[&[0, 1, 2], &[3]], &[], policy);
    let registration = site.hosts[&id(0)].registration.clone();
    let set = |site: &mut Site, n: usize, is_there: bool| {
        let host = site.hosts.get_mut(&id(n)).expect("a host");
        host.registration = registration.clone().filter(|_| is_there);
    };
    (0..3).for_each(|n| set(&mut site, n, false));
    assert_eq!((site.step(0), site.step(200)), Default::default());
    assert!(!site.rollout.has_assigned(&id(0)));
    // What an operator sees is that they are away.
    let waits = site.rollout.waits(&site.hosts);
    assert!(waits.iter().all(|(_, wait)| matches!(wait, Wait::Away(_))) && waits.len() == 3);
    (0..3).for_each(|n| set(&mut site, n, true));
    assert_eq!((site.step(1), site.step(1)), ("h00".to_owned(), String::new()));
    site.fine(&[0]);
    assert_eq!(site.step(1), "h01");
    set(&mut site, 2, false);
    site.fine(&[1]);
    // One that is away for too long is borne: the wave ends, and it catches up when it is back.
    assert_eq!((site.step(1), site.step(300)), Default::default());
    assert_eq!((site.step(1), site.rollout.wave), ("h02".to_owned(), 0));
    assert_eq!((site.step(1), site.rollout.wave), (String::new(), 1));
    assert!(site.rollout.has_assigned(&id(2)));
    // A host that was not assigned does not go back.
    let mut site = Site::new(&[&[0, 1]], &[], Policy { max_unavailable: 2, ..Policy::default() });
    set(&mut site, 1, false);
    assert_eq!(site.step(0), "h00");
    site.report(0, false, Outcome::Failed("no".into()), 0);
    site.step(1);
    assert_eq!((site.step(1), site.rollout.waves.clone()), ("-h00".to_owned(), vec![vec![id(0)]]));
}

#[test]
fn hosts_that_are_away_from_the_beginning_are_not_waited_for() {
    let mut site = Site::new(&[&[0, 1]], &[1], Policy { max_unavailable: 1, ..policy() });
    assert_eq!(site.step(0), "h00 h01");
    site.fine(&[0]);
    site.step(1);
    site.step(400);
    assert_eq!((site.rollout.phase, site.rollout.sick.len()), (Phase::Done, 0));
    // One that comes back late has until then to say what it did; what fails on it counts.
    let mut site = Site::new(&[&[0, 1]], &[1], policy());
    let registration = site.hosts[&id(0)].registration.clone();
    site.step(0);
    site.step(299);
    site.fine(&[0]);
    site.hosts.get_mut(&id(1)).expect("it").registration = registration;
    site.step(2);
    assert_eq!((site.rollout.phase, site.rollout.sick.len()), (Phase::Forward, 0));
    site.report(1, false, Outcome::Failed("no".into()), 0);
    site.step(1);
    assert_eq!((site.rollout.phase, &*site.rollout.reason), (Phase::Back, "h01: no"));
}

/// It is assigned with its wave, and takes no room there, whatever it says of itself.
#[test]
fn a_drained_host_is_not_waited_for() {
    let policy = Policy { max_unavailable: 1, patience: 20, ..policy() };
    let mut site = Site::new(&[&[0, 1, 2], &[3]], &[], policy);
    site.drain(0, true);
    assert_eq!(site.step(0), "h00 h01");
    site.report(0, false, Outcome::Failed("no disk".into()), 3);
    site.fine(&[1]);
    assert_eq!(site.step(1), "h02");
    site.fine(&[2]);
    // One that is drained while it is at work, too.
    site.drain(3, true);
    site.step(1);
    assert_eq!((site.step(30), site.rollout.wave), (String::new(), 1));
    let tally = site.rollout.tally(&site.rollout.waves[0]);
    assert_eq!((tally, site.rollout.sick.len()), (Tally { drained: 1, ..Tally::default() }, 0));
    assert_eq!(site.step(0), "h03");
    site.hosts.get_mut(&id(3)).expect("it").registration = None;
    site.step(0);
    assert_eq!(site.rollout.words(), "is on all hosts that are in service");
}

/// The time for which it was out of service is no time that it took.
#[test]
fn a_host_that_is_undrained_in_mid_rollout_catches_up() {
    let mut site = Site::new(&[&[0, 1]], &[], Policy { patience: 20, ..policy() });
    site.drain(0, true);
    assert_eq!(site.step(0), "h00 h01");
    site.step(19);
    site.drain(0, false);
    site.fine(&[1]);
    site.step(5);
    assert_eq!((site.step(30), site.rollout.phase), (String::new(), Phase::Done));
    assert_eq!(site.rollout.words(), "is on all hosts that were online");
    // On the way back it is told what the others are, and nobody waits for it.
    let mut site = Site::new(&[&[0, 1]], &[], policy());
    site.step(0);
    site.drain(0, true);
    site.report(1, false, Outcome::Failed("no".into()), 0);
    site.step(1);
    assert_eq!(site.step(1), "-h00 -h01");
    site.fine(&[1]);
    site.step(1);
    assert_eq!((site.rollout.words(), site.rollout.sick.len()), ("went back", 0));
}

#[track_caller]
fn fails(change: impl FnOnce(&mut Site), later: u64, reason: &str) {
    let mut site = Site::new(&[&[0], &[1, 2], &[3]], &[], policy());
    site.step(0);
    site.fine(&[0]);
    site.step(0);
    site.step(30);
    assert_eq!(site.step(0), "h01 h02");
    site.fine(&[1, 2]);
    change(&mut site);
    assert_eq!(site.step(later), "");
    assert_eq!((site.rollout.phase, &*site.rollout.reason), (Phase::Back, reason));
    assert_eq!(site.step(1), "-h00 -h01 -h02");
    site.fine(&[0, 1]);
    assert_eq!(site.step(1), "");
    // One that is away is not waited for.
    let is_waited_for = site.hosts[&id(2)].is_there();
    assert_eq!(site.rollout.phase == Phase::Back, is_waited_for);
    site.report(2, true, Outcome::Failed("no".into()), 0);
    site.step(1);
    assert_eq!((site.rollout.phase, &*site.rollout.reason), (Phase::Stopped, reason));
    assert_eq!(site.rollout.sick.keys().map(HostId::to_string).collect::<Vec<_>>(), ["h02"]);
}

#[test]
fn a_gate_that_fails_has_all_go_back() {
    fails(
        |site| site.report(2, false, Outcome::Failed("rules: no".into()), 0),
        1,
        "h02: rules: no",
    );
    fails(
        |site| site.report(1, false, Outcome::Applied, 2),
        1,
        "h01: 2 more units failed than before: shop-web.service: exited with code 7 (WR-0051 of shop); its log ends \
         with \"no port\"",
    );
    fails(
        |site| {
            site.report(1, false, Outcome::Refused("key".into()), 0);
            site.report(2, false, Outcome::Refused("key".into()), 0);
        },
        1,
        "h01: key (and 1 more)",
    );
    let away = |site: &mut Site| site.hosts.get_mut(&id(2)).expect("it").registration = None;
    fails(
        |site| {
            site.report(2, false, Outcome::Working, 0);
            away(site);
            // Away for a moment is nothing, however long ago it was assigned.
            assert_eq!((site.step(299), site.rollout.phase), (String::new(), Phase::Forward));
        },
        301,
        "h02: it is away after 300 s",
    );
}

/// A service that ends and is started again never counts as failed.
#[test]
fn a_restart_loop_is_not_healthy() {
    let shop = "shop-0.service was restarted 7 times since, last: exited with code 7 (WR-0040)";
    fails(|site| site.restarts(1, 1, 0), 1, &format!("h01: {shop}"));
    // Also in the last second of the soak.
    fails(
        |site| {
            site.step(29);
            site.restarts(2, 2, 3);
        },
        1,
        &format!("h02: {shop} (and 4 more units)"),
    );
    let mut site = Site::new(&[&[0], &[1]], &[], Policy { failed_units_max: 1, ..policy() });
    site.step(0);
    site.restarts(0, 1, 0);
    site.step(1);
    assert_eq!((site.step(30), site.rollout.wave), (String::new(), 1), "it is borne");
    site.step(0);
    site.restarts(1, 1, 0);
    site.hosts.get_mut(&id(1)).and_then(|h| h.report.as_mut()).expect("one").failed = 1;
    site.step(1);
    let why = format!("h01: 1 more unit failed than before; {shop}");
    assert_eq!((site.rollout.phase, site.rollout.reason), (Phase::Back, why));
}

#[test]
fn it_went_back_when_all_that_are_there_have() {
    let mut site = Site::new(&[&[0, 1, 2]], &[], Policy { patience: 20, ..policy() });
    site.step(0);
    site.fine(&[0]);
    // One is in a job that never ends, and does not see what it is assigned to next.
    site.report(1, false, Outcome::Working, 0);
    site.hosts.get_mut(&id(2)).expect("it").registration = None;
    site.step(21);
    assert_eq!(
        (site.rollout.phase, &*site.rollout.reason),
        (Phase::Back, "h01: it is still at work after 20 s")
    );
    assert_eq!(site.step(1), "-h00 -h01 -h02");
    site.fine(&[0]);
    site.step(21);
    assert_eq!((site.rollout.phase, site.rollout.words()), (Phase::Back, "goes back"));
    let why = "it has not reported: it is at work on the way forward of release 7, and waits for its \
               units after 20 s";
    assert_eq!(site.rollout.sick[&id(1)], Trouble::new(TroubleKind::Late, why));
    let wave = site.rollout.waves[0].clone();
    assert_eq!(site.rollout.tally(&wave), Tally { late: 1, ..Tally::default() });
    site.report(1, true, Outcome::Applied, 0);
    site.step(1);
    assert_eq!((site.rollout.phase, site.rollout.words()), (Phase::Stopped, "went back"));
    assert_eq!(site.rollout.tally(&wave), Tally { away: 1, ..Tally::default() });
}

/// Who can write to the store may assign a host to something else: it is not waited for without an end.
#[test]
fn a_way_back_ends_though_others_took_a_host_elsewhere() {
    let mut site = Site::new(&[&[0, 1]], &[], Policy { patience: 20, ..policy() });
    site.step(0);
    site.report(0, false, Outcome::Failed("no".into()), 0);
    site.report(1, false, Outcome::Applied, 0);
    site.step(1);
    assert_eq!(site.step(1), "-h00 -h01");
    site.fine(&[0]);
    // Host 1 stays at its report of the way forward.
    site.step(21);
    assert_eq!((site.rollout.phase, site.rollout.words()), (Phase::Stopped, "went back"));
    assert_eq!(site.rollout.sick[&id(1)].why, "it has not reported after 20 s");
    let tally = site.rollout.tally(&site.rollout.waves[0].clone());
    assert_eq!(tally, Tally { late: 1, ..Tally::default() });
}

/// It says by name where others took it, and does not leave it there.
#[test]
fn a_host_that_others_assigned_elsewhere_is_assigned_again() {
    let mut site = Site::new(&[&[0], &[1, 2]], &[], Policy { patience: 20, ..policy() });
    let take = |site: &mut Site, n: usize, to: Option<Assignment>| {
        site.hosts.get_mut(&id(n)).expect("a host").assigned = to;
    };
    let elsewhere = Some(Assignment { release: 9, back: false });
    site.step(0);
    take(&mut site, 0, elsewhere);
    assert_eq!(site.step(1), "h00");
    site.fine(&[0]);
    site.step(1);
    site.step(30);
    // One of a wave that is over, and one that was assigned to nothing; nobody twice.
    take(&mut site, 0, elsewhere);
    assert_eq!(site.step(0), "h01 h02 h00");
    take(&mut site, 1, None);
    assert_eq!((site.step(1), site.step(1)), ("h01".to_owned(), String::new()));
    site.fine(&[2]);
    take(&mut site, 1, Some(Assignment { release: 9, back: true }));
    assert_eq!(site.step(20), "");
    let why =
        "h01: it has not reported: others have assigned it to the way back of release 9 after 20 s";
    assert_eq!((site.rollout.phase, &*site.rollout.reason), (Phase::Back, why));
    assert_eq!(site.step(1), "-h00 -h01 -h02");
    take(&mut site, 2, elsewhere);
    assert_eq!(site.step(1), "-h02");
}

/// One that an operator bears has nothing of the release, or is worse than before.
#[test]
fn a_host_that_is_borne_is_not_called_healthy() {
    let policy = Policy { failures_max: 2, ..policy() };
    let mut site = Site::new(&[&[0, 1, 2, 3]], &[3], policy);
    site.step(0);
    site.fine(&[0]);
    site.report(1, false, Outcome::Failed("no".into()), 0);
    site.hosts.get_mut(&id(2)).expect("it").registration = None;
    site.step(1);
    site.step(301);
    assert_eq!(site.rollout.phase, Phase::Done);
    assert_eq!(site.rollout.words(), "is on the hosts that are healthy");
    let tally = site.rollout.tally(&site.rollout.waves[0]);
    assert_eq!(tally, Tally { absent: 1, away: 1, sick: 1, ..Tally::default() });
}

/// A rollout may be under way when its drivers are renewed.
#[test]
fn reasons_of_older_drivers_are_read() {
    let read = |text: &str| serde_json::from_str::<Trouble>(text).expect("a trouble");
    assert_eq!(read(r#""no""#), Trouble::new(TroubleKind::Sick, "no"));
    let away = Trouble::new(TroubleKind::Away, "it is away after 300 s");
    assert_eq!(read(&serde_json::to_string(&away).expect("JSON")), away);
}

#[test]
fn what_failed_before_does_not_count() {
    let mut site = Site::new(&[&[0]], &[], policy());
    site.report(0, false, Outcome::Applied, 3);
    site.hosts.get_mut(&id(0)).expect("it").report.as_mut().expect("one").release = 6;
    site.step(0);
    site.report(0, false, Outcome::Applied, 3);
    site.step(1);
    site.step(30);
    assert_eq!(site.rollout.phase, Phase::Done);
}

#[track_caller]
fn check_waits(site: &Site, expected: &str) {
    let line = |(id, wait): (HostId, Wait)| format!("{id} {}", wait.words());
    let all: Vec<String> = site.rollout.waits(&site.hosts).into_iter().map(line).collect();
    assert_eq!(all.join("\n"), expected);
}

#[test]
fn a_wave_says_whom_it_waits_for() {
    let policy = Policy { max_unavailable: 4, failures_max: 1, ..policy() };
    let mut site = Site::new(&[&[0, 1, 2, 3, 4, 5, 6], &[7]], &[6], policy);
    site.drain(5, true);
    site.step(0);
    site.fine(&[0]);
    site.report(1, false, Outcome::Working, 0);
    site.report(2, false, Outcome::Held("disk is full".into()), 0);
    site.step(2);
    site.step(10);
    check_waits(
        &site,
        "h02 held up: disk is full\nh03 assigned at least 12 s ago, and has not reported\n\
         h04 assigned at least 10 s ago, and has not reported\nh01 at work for at least 12 s\nh00 healthy for at least 10 of 30 s",
    );
    // What is borne is not waited for; what is back in its place is.
    site.report(1, false, Outcome::Failed("no".into()), 0);
    site.hosts.get_mut(&id(3)).expect("it").registration = None;
    site.fine(&[2, 4]);
    site.step(10);
    check_waits(
        &site,
        "h03 away for at least 0 s\nh00 healthy for at least 20 of 30 s\nh02 healthy for at least 0 of 30 s\nh04 healthy for at least 0 of 30 s",
    );
    site.rollout.go_back("no".into());
    site.step(0);
    site.fine(&[0]);
    site.report(2, true, Outcome::Working, 0);
    site.step(3);
    check_waits(
        &site,
        "h01 assigned at least 3 s ago, and has not reported\nh04 assigned at least 0 s ago, and has not reported\n\
         h02 at work for at least 3 s",
    );
    site.rollout.stop("enough".into());
    check_waits(&site, "");
}

#[test]
fn the_gate_is_asked_when_a_wave_is_healthy() {
    let mut site = Site::new(&[&[0], &[1]], &[], policy());
    let waits =
        |site: &Site| site.rollout.waits_for_gate(Clock { driver: site.driver, now: site.now });
    for wave in 0..2 {
        site.gated(0, &Gate::Hold);
        site.fine(&[wave]);
        site.gated(1, &Gate::Hold);
        assert!(!waits(&site));
        site.gated(30, &Gate::Hold);
        assert!(waits(&site));
        site.gated(0, &Gate::Open);
        assert!(!waits(&site));
    }
    assert_eq!(site.rollout.phase, Phase::Done);
}

#[test]
fn the_gate_holds_and_shuts() {
    let mut site = Site::new(&[&[0], &[1]], &[], policy());
    site.step(0);
    site.fine(&[0]);
    site.step(0);
    site.gated(100, &Gate::Hold);
    assert_eq!(site.rollout.wave, 0);
    site.gated(1, &Gate::Shut("errors rise".into()));
    assert_eq!(site.rollout.reason, "the gate said no: errors rise");
    assert_eq!(site.step(0), "-h00");
}

#[test]
fn an_operator_pauses_goes_on_and_goes_back() {
    let mut site = Site::new(&[&[0, 1], &[2]], &[], Policy { goes_back: false, ..policy() });
    site.step(0);
    site.rollout.pause("lunch".into());
    site.report(0, false, Outcome::Failed("no".into()), 0);
    assert_eq!((site.step(1000), site.rollout.phase), (String::new(), Phase::Paused));
    site.rollout.go_on();
    site.fine(&[1]);
    site.step(1);
    assert_eq!((site.rollout.phase, &*site.rollout.reason), (Phase::Stopped, "h00: no"));
    // Told to go on, it bears what it has seen.
    site.rollout.go_on();
    site.step(40);
    assert_eq!((site.step(0), site.rollout.wave), ("h02".into(), 1));
    site.rollout.go_back("changed my mind".into());
    assert_eq!(site.step(0), "-h00 -h01 -h02");
    // What went back goes forward by another release only.
    (0..3).for_each(|n| site.report(n, true, Outcome::Applied, 0));
    site.step(1);
    assert_eq!((site.rollout.phase, site.rollout.words()), (Phase::Stopped, "went back"));
    let before = site.rollout.clone();
    site.rollout.go_on();
    site.rollout.go_back("again".into());
    assert_eq!(site.rollout, before);
}

#[test]
fn a_way_back_that_was_stopped_is_told_apart_and_goes_on() {
    let mut site = Site::new(&[&[0, 1]], &[], Policy { max_unavailable: 1, ..policy() });
    site.step(0);
    site.fine(&[0]);
    assert_eq!(site.step(1), "h01");
    site.rollout.go_back("no".into());
    assert_eq!(site.step(0), "-h00");
    site.rollout.stop("lunch".into());
    assert_eq!(site.rollout.words(), "was stopped on its way back");
    site.rollout.go_on();
    site.report(0, true, Outcome::Applied, 0);
    assert_eq!((site.step(1), site.rollout.phase), ("-h01".into(), Phase::Back));
    site.report(1, true, Outcome::Applied, 0);
    site.step(1);
    // One that is over stays what it is, whoever stops it.
    site.rollout.stop("again".into());
    assert_eq!((site.rollout.words(), site.rollout.is_over()), ("went back", true));
    site.rollout.phase = Phase::Done;
    site.rollout.stop("again".into());
    assert_eq!(site.rollout.phase, Phase::Done);
}

#[test]
fn a_step_assigns_no_more_than_a_request_can_carry() {
    let all: Vec<usize> = (0..250).collect();
    let mut site = Site::new(&[&all], &[], policy());
    let count = |text: String| text.split_whitespace().count();
    assert_eq!([0, 0, 0, 0].map(|_| count(site.step(0))), [100, 100, 50, 0]);
}

#[test]
fn a_driver_whose_clock_differs_waits_long_enough() {
    for ahead in [100_000, 10] {
        let mut site = Site::new(&[&[0], &[1]], &[], policy());
        site.now = 50_000;
        site.step(0);
        site.fine(&[0]);
        site.step(1);
        // Another one goes on, whose clock is a day ahead, or behind.
        (site.driver, site.now) = ("b", ahead);
        assert_eq!(site.step(0), "");
        assert_eq!(site.step(29), "");
        assert_eq!((site.step(1), site.rollout.wave), (String::new(), 1));
        assert_eq!(site.step(0), "h01");
        (site.driver, site.now) = ("c", 2 * ahead);
        assert_eq!((site.step(299), site.rollout.phase), (String::new(), Phase::Forward));
        site.step(302);
        assert_eq!(site.rollout.phase, Phase::Back);
    }
}
