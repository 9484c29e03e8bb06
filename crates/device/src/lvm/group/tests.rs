//! Groups in lvm2's own notation, and how their volumes stand.

use super::*;

/// A group of so many members, with the logical volumes of `volumes`.
fn text(members: usize, volumes: &str) -> String {
    let member =
        |i| format!("pv{i} {{ id = \"{}\" device = \"/dev/sd{i}\" dev_size = 100 }}\n", id(i));
    let members: String = (0..members).map(member).collect();
    format!(
        "vg0 {{ id = \"{}\" seqno = 3 status = [\"RESIZEABLE\"] flags = []\n\
         physical_volumes {{ {members} }} logical_volumes {{ {volumes} }} }}",
        id(99)
    )
}

fn id(number: usize) -> String {
    format!("{number:0>32}")
}

/// `name: segment, segment`; each segment is `type field=a,b field=c`.
fn volume(line: &str) -> String {
    let (name, segments) = line.split_once(':').expect("name: segments");
    let segment = |(i, words): (usize, &str)| {
        let mut words = words.split_whitespace();
        let kind = words.next().expect("a type");
        let fields = words.map(|word| {
            let (field, names) = word.split_once('=').expect("field=names");
            let names: Vec<String> = names.split(',').map(|n| format!("\"{n}\", 0")).collect();
            format!("{field} = [{}]\n", names.join(", "))
        });
        format!(
            "segment{i} {{ type = \"{kind}\" extent_count = 1 {} }}\n",
            fields.collect::<String>()
        )
    };
    let segments: String = segments.split(';').enumerate().map(segment).collect();
    format!("{name} {{ id = \"{}\" status = [\"VISIBLE\"] flags = [] {segments} }}\n", id(7))
}

/// `present` lists members; the answer has one letter a volume: `c`omplete, `d`egraded, `p`artial.
fn check(members: usize, volumes: &[&str], expected: &[(&str, &str)]) {
    let volumes: String = volumes.iter().map(|line| volume(line)).collect();
    let group = from_text(text(members, &volumes).as_bytes()).expect("a good text");
    for (present, letters) in expected {
        let there = |number: u32| present.contains(&number.to_string());
        let got: String = group.standings(&there).iter().map(letter).collect();
        assert_eq!(got, *letters, "with {present:?} of {volumes}");
    }
}

fn letter(standing: &Standing) -> char {
    match standing {
        Standing::Complete => 'c',
        Standing::Degraded => 'd',
        Standing::Partial => 'p',
    }
}

#[test]
fn a_linear_volume_needs_its_own_members_only() {
    let volumes = ["a: striped stripes=pv0", "b: striped stripes=pv0 ; striped stripes=pv1,pv2"];
    check(3, &volumes, &[("012", "cc"), ("0", "cp"), ("12", "pp"), ("", "pp")]);
}

#[test]
fn a_raid_runs_degraded() {
    let legs = |n: usize| -> Vec<String> {
        (0..n).map(|i| format!("m{i}: striped stripes=pv{i}")).collect()
    };
    for (kind, members, expected) in [
        ("raid1", 2, &[("01", 'c'), ("1", 'd'), ("", 'p')][..]),
        ("raid0", 2, &[("01", 'c'), ("1", 'p')]),
        ("raid5_ls", 3, &[("012", 'c'), ("02", 'd'), ("2", 'p')]),
        ("raid6_zr", 5, &[("01234", 'c'), ("014", 'd'), ("01", 'p')]),
        ("raid10", 4, &[("0123", 'c'), ("02", 'd'), ("013", 'd'), ("01", 'p')]),
    ] {
        let names: Vec<String> = (0..members).map(|i| format!("m{i},m{i}")).collect();
        let mut volumes = legs(members);
        volumes.push(format!("r: {kind} raids={}", names.join(",")));
        let lines: Vec<&str> = volumes.iter().map(String::as_str).collect();
        let group = from_text(
            text(members, &lines.iter().map(|l| volume(l)).collect::<String>()).as_bytes(),
        );
        let group = group.expect("a good text");
        for (present, wanted) in expected {
            let all = group.standings(&|n| present.contains(&n.to_string()));
            assert_eq!(letter(&all[members]), *wanted, "{kind} with {present:?}");
        }
    }
}

#[test]
fn a_thin_volume_needs_its_pool() {
    let volumes = [
        "t: thin thin_pool=pool",
        "pool: thin-pool metadata=tm pool=td",
        "tm: striped stripes=pv0",
        "td: striped stripes=pv1",
    ];
    check(2, &volumes, &[("01", "cccc"), ("0", "ppcp"), ("1", "pppc")]);
}

#[test]
fn a_mirror_needs_one_copy_and_its_log() {
    let volumes = [
        "m: mirror mirrors=i0,i1 mirror_log=l",
        "i0: striped stripes=pv0",
        "i1: striped stripes=pv1",
        "l: striped stripes=pv2",
    ];
    check(3, &volumes, &[("012", "cccc"), ("02", "dcpc"), ("01", "pccp")]);
}

#[test]
fn volumes_in_a_circle_are_partial() {
    let volumes = ["a: thin thin_pool=b", "b: thin thin_pool=c", "c: thin thin_pool=a", "d: zero"];
    check(1, &volumes, &[("0", "pppc"), ("", "pppc")]);
}

#[test]
fn marks() {
    let read = |from: &str, to: &str| {
        let text = text(1, &volume("a: striped stripes=pv0")).replacen(from, to, 1);
        from_text(text.as_bytes()).map(|g| (g.marks, g.system_id, g.volumes[0].auto_activation))
    };
    let none = Marks::default();
    for (from, to, expected) in [
        ("", "", Ok((none, "", true))),
        ("[\"RES", "[\"EXPORTED\", \"RES", Ok((Marks { exported: true, ..none }, "", true))),
        (
            "flags = []",
            "flags = [\"NOAUTOACTIVATE\", \"NEW\"]",
            Ok((Marks { no_auto_activation: true, ..none }, "", true)),
        ),
        ("flags = []", "lock_type = \"sanlock\"", Ok((Marks { shared: true, ..none }, "", true))),
        ("flags = []", "lock_type = \"none\"", Ok((none, "", true))),
        ("[\"RES", "[\"CLUSTERED\", \"RES", Ok((Marks { shared: true, ..none }, "", true))),
        ("flags = []", "system_id = \"host\\\"1\"", Ok((none, "host\"1", true))),
        (
            "\"VISIBLE\"] flags = []",
            "\"VISIBLE\"] flags = [\"ACTIVATION_SKIP\"]",
            Ok((none, "", false)),
        ),
        ("seqno = 3", "", Err(GroupFault::Missing("seqno"))),
        ("seqno = 3", "seqno = -3", Err(GroupFault::Missing("seqno"))),
        ("vg0", "../vg0", Err(GroupFault::Missing("valid name"))),
        ("physical_volumes", "volumes", Err(GroupFault::Missing("physical_volumes"))),
    ] {
        let expected = expected.map(|(marks, system, auto)| (marks, system.to_owned(), auto));
        assert_eq!(read(from, to), expected, "{from} -> {to}");
    }
}

#[test]
fn a_member_listed_twice_is_refused() {
    let text = text(2, "").replace(&id(1), &id(0));
    let twice = LvmId::parse(&id(0)).expect("an id");
    assert_eq!(from_text(text.as_bytes()), Err(GroupFault::TwiceInGroup(twice)));
}

#[test]
fn a_written_off_member_is_known() {
    let text = text(1, "").replace("dev_size", "flags = [\"MISSING\"] dev_size");
    let group = from_text(text.as_bytes()).expect("a good text");
    assert!(group.members[0].written_off);
    assert_eq!(group.members[0].device_bytes, 51_200);
}

#[test]
fn a_snapshot_needs_its_origin_and_can_be_started() {
    let hidden = |line: &str| volume(line).replace("\"VISIBLE\"", "");
    let volumes = [
        volume("o: striped stripes=pv0"),
        hidden("snap: striped stripes=pv1"),
        // So lvm2 writes it, and shows it to nobody.
        volume("snapshot0: snapshot origin=o cow_store=snap"),
    ];
    let group = from_text(text(2, &volumes.concat()).as_bytes()).expect("a good text");
    let visible: Vec<bool> = group.volumes.iter().map(|volume| volume.visible).collect();
    assert_eq!(visible, [true, true, false]);
    check(
        2,
        &[
            "o: striped stripes=pv0",
            "snap: striped stripes=pv1",
            "snapshot0: snapshot origin=o cow_store=snap",
        ],
        &[("01", "ccc"), ("1", "ppp"), ("0", "ppp")],
    );
    // Two snapshots of one: the three start together.
    check(
        3,
        &[
            "o: striped stripes=pv0",
            "s: striped stripes=pv1",
            "t: mirror mirrors=i,j",
            "i: striped stripes=pv2",
            "j: striped stripes=pv1",
            "snapshot0: snapshot origin=o cow_store=s",
            "snapshot1: snapshot origin=o cow_store=t",
        ],
        &[("012", "ccccccc"), ("01", "dddpcdd"), ("02", "pppcppp")],
    );
    // One that goes back into its origin is none to be started.
    let merging = hidden("x: snapshot origin=o merging_store=snap");
    let volumes = [volumes[0].clone(), volumes[1].clone(), merging];
    let group = from_text(text(2, &volumes.concat()).as_bytes()).expect("a good text");
    assert!(!group.volumes[1].visible);
    assert_eq!(group.standings(&|number| number == 0)[0], Standing::Partial);
    // Of itself: damaged metadata can say so.
    check(
        1,
        &["snap: striped stripes=pv0", "x: snapshot origin=snap cow_store=snap"],
        &[("0", "pp")],
    );
}

/// Metadata of volumes that lvm2 makes only with device-mapper in the kernel (all kinds of RAID, with
/// integrity and a split leg, thin pools and snapshots of all kinds, three kinds of caches, a move that
/// was left half way), as lvm2 2.03.16 wrote it, and what its `lvs` says of them: which there are, and
/// which are not whole when one disk is away. Of what ties `sno` to its origin it says something only
/// where it can ask device-mapper.
#[test]
fn volumes_that_device_mapper_made_stand_as_lvm2_says() {
    let golden = |name: &str| {
        let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect("the golden file is there")
    };
    let group = from_text(golden("lvm-mapped.vg").as_bytes()).expect("lvm2 wrote it");
    let names = |is_named: &dyn Fn(usize) -> bool| {
        let shown = (0..group.volumes.len()).filter(|&at| group.volumes[at].visible);
        let names = shown.filter(|&at| is_named(at)).map(|at| group.volumes[at].name.as_str());
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.join(" ")
    };
    let mut lines = vec![format!("shown {}", names(&|_| true))];
    for (away, member) in group.members.iter().enumerate() {
        let standings = group.standings(&|number| number as usize != away);
        let is_hit = |at: usize| {
            standings[at] != Standing::Complete
                && (group.volumes[at].name != "sno" || member.device_hint == "/dev/vda")
        };
        lines.push(format!("without {} {}", member.device_hint, names(&is_hit)));
    }
    let said = golden("lvm-mapped.said");
    assert_eq!(lines, said.lines().collect::<Vec<_>>());
}
