//! What holds whatever arrives in whatever order.

use super::*;

/// A fixed sequence of numbers that looks random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % bound
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// Texts that share members, names, identifiers and sequence numbers as badly as can be.
const TEXTS: &str = "vg data@1 abc root:a home:bc
    vg data@2 abd root:a home:b|d lost=b
    vg dup@2 ab id=d name=data root:ab
    vg data@3 e
    vg more@1 fg owner=other
    vg more@2 fgb r:f|g s:g lost=g
    vg single@1 h
    vg twin@1 a name=single";

const LABELS: &[&str] =
    &["data@1", "data@2", "dup@2", "data@3", "more@1", "more@2", "single@1", "twin@1"];

const FACTS: &[&str] = &["#leg", "#path", "#lv", "#inactive"];

/// A disk of any kind.
fn disk(numbers: &mut Numbers) -> String {
    let letter = numbers.pick(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    let mut words = match numbers.below(12) {
        0 => {
            let (place, of) =
                (numbers.pick(&["0", "1", "2", "spare"]), numbers.pick(&["3", "2of3", "1of3"]));
            format!("md s {place} {of} {}", 9 + numbers.below(4))
        }
        1 => format!("btrfs f {} {}", numbers.below(3), 2 + numbers.below(2)),
        2 => format!("luks {letter}"),
        3 => format!("{letter} -"),
        4 => format!("{letter} unused"),
        5 => "plain".to_owned(),
        6 => format!("{letter} {}+{}", LABELS[numbers.below(4)], LABELS[4 + numbers.below(4)]),
        _ => format!("{letter} {}", LABELS[numbers.below(LABELS.len())]),
    };
    if numbers.below(8) == 0 {
        words = format!("{words} {}", numbers.pick(FACTS));
    }
    words
}

fn name(numbers: &mut Numbers) -> String {
    format!("sd{}", char::from(b'a' + numbers.below(12) as u8))
}

fn policies() -> [Policy; 4] {
    let base = Policy::default;
    [
        base(),
        Policy { completeness: Completeness::Volume, hold_duplicates: true, ..base() },
        Policy { degraded_after_ms: Some(2000), pvs_on_lvs: true, ..base() },
        Policy {
            completeness: Completeness::Volume,
            degraded_after_ms: Some(1000),
            devices_file: Some(["a", "b", "d", "e", "h"].map(id).into()),
            ..base()
        },
    ]
}

fn bench(policy: &Policy) -> Bench {
    let mut bench = Bench::new(policy.clone());
    TEXTS.lines().for_each(|line| drop(bench.run(line)));
    bench
}

#[test]
fn any_history_ends_where_the_oracle_begins() {
    for seed in 0..150 {
        let mut numbers = Numbers(seed);
        for policy in &policies() {
            let mut bench = bench(policy);
            for turn in 0..60 {
                let line = match numbers.below(16) {
                    0 => "boot".to_owned(),
                    1 => "late 1".to_owned(),
                    2..6 => format!("- {}", name(&mut numbers)),
                    6 => format!("+ {}2 {}", name(&mut numbers), disk(&mut numbers)),
                    _ => format!("+ {} {}", name(&mut numbers), disk(&mut numbers)),
                };
                bench.run(&line);
                bench.check_against_oracle(&format!("seed {seed} turn {turn}: {line}"));
            }
        }
    }
}

#[test]
fn any_order_of_arrival_ends_the_same_and_starts_the_same() {
    for seed in 0..200 {
        let mut numbers = Numbers(seed);
        for policy in &policies() {
            let disks: Vec<String> = (0..10)
                .map(|i| format!("sd{} {}", char::from(b'a' + i), disk(&mut numbers)))
                .collect();
            let mut orders = [disks.clone(), disks];
            let second = &mut orders[1];
            (1..second.len()).for_each(|at| second.swap(at, numbers.below(at + 1)));
            let ends = orders.map(|order| {
                let mut bench = bench(policy);
                for disk in &order {
                    assert_eq!(
                        bench.run(&format!("+ {disk}")),
                        "",
                        "nothing starts before its time"
                    );
                }
                let batch = bench.run("boot");
                bench.check_against_oracle(&format!("seed {seed}"));
                (batch, bench.answer_of_index())
            });
            assert_eq!(ends[0], ends[1], "seed {seed}");
        }
    }
}

#[test]
fn an_overflow_and_a_rescan_end_the_same() {
    for seed in 0..200 {
        let mut numbers = Numbers(seed);
        let policy = &policies()[seed as usize % 4];
        let (mut heard, mut deaf) = (bench(policy), bench(policy));
        let mut there: BTreeMap<String, String> = BTreeMap::new();
        for turn in 0..30 {
            let name = name(&mut numbers);
            let line = match numbers.below(3) {
                0 => {
                    there.remove(&name);
                    format!("- {name}")
                }
                _ => {
                    let disk = disk(&mut numbers);
                    there.insert(name.clone(), disk.clone());
                    format!("+ {name} {disk}")
                }
            };
            heard.run(&line);
            if turn < 15 {
                deaf.run(&line);
            }
        }
        let words: Vec<String> =
            there.iter().map(|(name, disk)| format!("{name}={}", disk.replace(' ', ","))).collect();
        deaf.run(&format!("rescan {}", words.join(" ")));
        assert_eq!(deaf.answer_of_index(), heard.answer_of_index(), "seed {seed}");
        assert_eq!(deaf.run("boot"), heard.run("boot"), "seed {seed}");
    }
}

/// A group with so many members, each on a disk of its own.
fn big_group(vg: u32, members: u32) -> Arc<VolumeGroup> {
    let pv = |number: u32| LvmId::parse(&format!("{vg:0>16}{number:0>16}")).expect("digits");
    let member = |number| Member {
        id: pv(number),
        device_hint: String::new(),
        device_bytes: 0,
        written_off: false,
    };
    let volume = Volume {
        name: "lv0".into(),
        id: None,
        visible: true,
        auto_activation: true,
        extents: 1,
        needs: vec![Quorum { legs: vec![(0..members).map(Part::Member).collect()], needed: 1 }],
        snapshots: Vec::new(),
    };
    Arc::new(VolumeGroup {
        id: LvmId::parse(&format!("{vg:0>32}")).expect("digits"),
        name: format!("vg{vg}"),
        seqno: 1,
        system_id: String::new(),
        marks: Marks::default(),
        members: (0..members).map(member).collect(),
        volumes: vec![volume],
    })
}

/// Steps for `disks` disks in groups of `each`: at boot, or one by one after it.
fn steps(disks: u32, each: u32, policy: Policy, boot_first: bool) -> (u64, usize) {
    let mut index = Index::new(policy);
    let mut started = 0;
    let mut count = |decisions: Vec<Decision>| {
        started += decisions
            .iter()
            .map(|d| match d {
                Decision::Activate(starts) => starts.len(),
                Decision::ReadText { .. } => 0,
            })
            .sum::<usize>();
    };
    if boot_first {
        count(index.step(0, Event::ColdplugDone));
    }
    let groups: Vec<_> = (0..disks / each).map(|vg| big_group(vg, each)).collect();
    for disk in 0..disks {
        let (vg, number) = (disk % groups.len() as u32, disk / groups.len() as u32);
        let key = TextKey { checksum: vg, bytes: 1 };
        let group = &groups[vg as usize];
        let device = Device {
            number: DeviceNumber { major: 259, minor: disk },
            diskseq: disk.into(),
            name: format!("d{disk}"),
            path: format!("/devices/d{disk}"),
            links: vec![format!("disk/by-id/d{disk}")],
            link_priority: 0,
            facts: Facts::default(),
            role: Role::Lvm { pv: group.members[number as usize].id, used: true, texts: vec![key] },
        };
        let texts = if number == 0 { vec![(key, group.clone())] } else { Vec::new() };
        count(index.step(0, Event::Arrived { device, texts }));
    }
    count(index.step(0, Event::ColdplugDone));
    (index.work(), started)
}

#[test]
fn work_grows_as_the_number_of_disks() {
    let volume = || Policy { completeness: Completeness::Volume, ..Policy::default() };
    let late = || Policy { degraded_after_ms: Some(1000), ..Policy::default() };
    for policy in [Policy::default, volume, late] {
        for boot_first in [false, true] {
            for each in [None, Some(1), Some(10)] {
                let run = |disks: u32| steps(disks, each.unwrap_or(disks), policy(), boot_first);
                let ((small, _), (large, started)) = (run(1_000), run(10_000));
                assert_eq!(started as u32, each.map_or(1, |each| 10_000 / each));
                assert!(large <= small * 10 + 100, "{large} steps for 10,000, {small} for 1,000");
                assert!(large <= 10 * 10_000, "{large} steps for 10,000 disks");
            }
        }
    }
}
