//! Which file systems the processes of a unit may open files of (systemd.exec(5), "RestrictFileSystems=").
//!
//! The program is asked each time that a process of the group opens a file, also to execute it, and tells file systems
//! apart by the number that they have in statfs(2). Types that share a number cannot be told apart: ext2, ext3 and ext4,
//! or tmpfs and devtmpfs.
//!
//! A process that is not the unit's program yet may open all files, as its standard streams: it marks itself in the
//! program's map (a number of 32 bits in task storage, 0 to begin with), and says by an open with certain flags, the
//! seal, that it is done; the program makes the number 1 then. A mark is the task's own and goes with it, children have
//! none, and the map is open to nobody who runs a unit's program: so nothing that a service does brings a mark back.

use super::instruction::{
    CONTEXT, Instruction, R, RESULT, and, answer, call, copy, load, load_64, map, set,
    skip_if_0_64, skip_unless, store, to_end,
};
use super::kernel_types::FileLayout;
use super::{ALLOW, DENY};

/// File systems by name, and their numbers in statfs(2): those of that page and of linux/magic.h.
const KNOWN: &[(&str, &[u32])] = &[
    ("9p", &[0x0102_1997]),
    ("adfs", &[0xadf5]),
    ("affs", &[0xadff]),
    ("afs", &[0x5346_414f, 0x6b41_4653]),
    ("anon_inodefs", &[0x0904_1934]),
    ("apparmorfs", &[0x5a3c_69f0]),
    ("autofs", &[0x0187]),
    ("balloon-kvm", &[0x1366_1366]),
    ("bcachefs", &[0xca45_1a4e]),
    ("bdev", &[0x6264_6576]),
    ("binder", &[0x6c6f_6f70]),
    ("binfmt_misc", &[0x4249_4e4d]),
    ("bpf", &[0xcafe_4a11]),
    ("btrfs", &[0x9123_683e]),
    ("btrfs_test_fs", &[0x7372_7279]),
    ("ceph", &[0x00c3_6400]),
    ("cgroup", &[0x0027_e0eb]),
    ("cgroup2", &[0x6367_7270]),
    ("cifs", &[0xff53_4d42, 0xfe53_4d42]),
    ("coda", &[0x7375_7245]),
    ("configfs", &[0x6265_6570]),
    ("cpuset", &[0x0027_e0eb]),
    ("cramfs", &[0x28cd_3d45]),
    ("dax", &[0x6464_6178]),
    ("debugfs", &[0x6462_6720]),
    ("devmem", &[0x454d_444d]),
    ("devpts", &[0x1cd1]),
    ("devtmpfs", &[0x0102_1994]),
    ("dmabuf", &[0x444d_4142]),
    ("ecryptfs", &[0xf15f]),
    ("efivarfs", &[0xde5e_81e4]),
    ("efs", &[0x0041_4a53]),
    ("erofs", &[0xe0f5_e1e2]),
    ("exfat", &[0x2011_bab0]),
    ("ext2", &[0xef53]),
    ("ext3", &[0xef53]),
    ("ext4", &[0xef53]),
    ("f2fs", &[0xf2f5_2010]),
    ("failfs", &[0x4641_494c]),
    ("fuse", &[0x6573_5546]),
    ("fuseblk", &[0x6573_5546]),
    ("fusectl", &[0x6573_5543]),
    ("gfs", &[0x0116_1970]),
    ("gfs2", &[0x0116_1970]),
    ("gmem", &[0x474d_454d]),
    ("hostfs", &[0x00c0_ffee]),
    ("hpfs", &[0xf995_e849]),
    ("hugetlbfs", &[0x9584_58f6]),
    ("iso9660", &[0x9660]),
    ("jffs2", &[0x72b6]),
    ("jfs", &[0x3153_464a]),
    ("minix", &[0x137f, 0x138f, 0x2468, 0x2478, 0x4d5a]),
    ("mqueue", &[0x1980_0202]),
    ("msdos", &[0x4d44]),
    ("ncp", &[0x564c]),
    ("ncpfs", &[0x564c]),
    ("nfs", &[0x6969]),
    ("nfs4", &[0x6969]),
    ("nilfs2", &[0x3434]),
    ("nsfs", &[0x6e73_6673]),
    ("ntfs", &[0x5346_544e]),
    ("ntfs3", &[0x7366_746e]),
    ("nullfs", &[0x4e55_4c4c]),
    ("ocfs2", &[0x7461_636f]),
    ("openpromfs", &[0x9fa1]),
    ("orangefs", &[0x2003_0528, 0x2003_0529]),
    ("overlay", &[0x794c_7630]),
    ("pidfs", &[0x5049_4446]),
    ("pipefs", &[0x5049_5045]),
    ("ppc-cmm", &[0xc757_1590]),
    ("proc", &[0x9fa0]),
    ("pstore", &[0x6165_676c]),
    ("pvfs2", &[0x2003_0528, 0x2003_0529]),
    ("qnx4", &[0x002f]),
    ("qnx6", &[0x6819_1122]),
    ("ramfs", &[0x8584_58f6]),
    ("reiserfs", &[0x5265_4973]),
    ("resctrl", &[0x0765_5821]),
    ("rpc_pipefs", &[0x6759_6969]),
    ("secretmem", &[0x5345_434d]),
    ("securityfs", &[0x7363_6673]),
    ("selinuxfs", &[0xf97c_ff8c]),
    ("shiftfs", &[0x6a65_6a62]),
    ("smackfs", &[0x4341_5d53]),
    ("smb3", &[0xff53_4d42, 0xfe53_4d42]),
    ("smbfs", &[0x517b]),
    ("sockfs", &[0x534f_434b]),
    ("squashfs", &[0x7371_7368]),
    ("sysfs", &[0x6265_6572]),
    ("tmpfs", &[0x0102_1994]),
    ("tracefs", &[0x7472_6163]),
    ("udf", &[0x1501_3346]),
    ("usbdevfs", &[0x9fa2]),
    ("v7", &[0x0012_ff7f]),
    ("v9fs", &[0x0102_1997]),
    ("vboxsf", &[0x786f_4256]),
    ("vfat", &[0x4d44]),
    ("virtiofs", &[0x6573_5546]),
    ("vxfs", &[0xa501_fcf5]),
    ("xenfs", &[0xabba_1974]),
    ("xfs", &[0x5846_5342]),
    ("z3fold", &[0x33]),
    ("zonefs", &[0x5a4f_4653]),
    ("zsmalloc", &[0x5829_5829]),
];

/// Sets of them, as `systemd-analyze filesystems` of systemd 262 prints them; 252 has neither `@anonymous` nor
/// `@application` and `@security`. [`ALL`] is a set, too.
const SETS: &[(&str, &[&str])] = &[
    ("@basic-api", &["cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "proc", "sysfs"]),
    ("@anonymous", &["anon_inodefs", "pipefs", "sockfs"]),
    ("@application", &["autofs", "fuse", "overlay"]),
    (
        "@auxiliary-api",
        &[
            "binfmt_misc",
            "configfs",
            "efivarfs",
            "fusectl",
            "hugetlbfs",
            "rpc_pipefs",
            "securityfs",
        ],
    ),
    (
        "@common-block",
        &[
            "btrfs", "erofs", "exfat", "ext4", "f2fs", "iso9660", "ntfs3", "squashfs", "udf",
            "vfat", "xfs",
        ],
    ),
    ("@historical-block", &["ext2", "ext3", "minix"]),
    (
        "@network",
        &[
            "afs", "ceph", "cifs", "gfs", "gfs2", "ncp", "ncpfs", "nfs", "nfs4", "ocfs2",
            "orangefs", "pvfs2", "smb3", "smbfs",
        ],
    ),
    ("@privileged-api", &["bpf", "debugfs", "pstore", "tracefs"]),
    ("@security", &["apparmorfs", "selinuxfs", "smackfs"]),
    ("@temporary", &["ramfs", "tmpfs"]),
];

/// The set of all.
const ALL: &str = "@known";

/// The setting.
pub const SETTING: &str = "RestrictFileSystems";

/// File systems by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileSystems {
    /// Files of those that are listed may be opened, and of no others; else it is the other way round.
    pub is_allowed: bool,
    /// Their names, each once and in order.
    pub names: Vec<&'static str>,
}

/// The names that a word stands for; none if it is not known.
pub fn members(word: &str) -> Option<Vec<&'static str>> {
    if word == ALL {
        return Some(KNOWN.iter().map(|(name, _)| *name).collect());
    }
    match SETS.iter().find(|(set, _)| *set == word) {
        Some((_, names)) => Some(names.to_vec()),
        None => numbers(word).map(|(name, _)| vec![name]),
    }
}

/// The names of all sets.
pub fn sets() -> impl Iterator<Item = &'static str> {
    SETS.iter().map(|(set, _)| *set).chain([ALL])
}

/// The numbers that a file system has in statfs(2).
pub fn numbers_of(name: &str) -> &'static [u32] {
    numbers(name).map_or(&[], |(_, numbers)| numbers)
}

fn numbers(name: &str) -> Option<(&'static str, &'static [u32])> {
    let at = KNOWN.binary_search_by(|(known, _)| known.cmp(&name)).ok()?;
    KNOWN.get(at).copied()
}

impl FileSystems {
    /// What the setting says, an assignment a line: the first says which kind of list it is, later ones add to it or,
    /// of the other kind, take away from it. Words that are not known are left out. None: nothing is restricted.
    pub fn of(text: &str) -> Option<FileSystems> {
        let mut list: Option<FileSystems> = None;
        for line in text.lines() {
            let (is_allowed, words) = split(line);
            let names: Vec<_> = words.filter_map(members).flatten().collect();
            let list = list.get_or_insert(FileSystems { is_allowed, names: Vec::new() });
            match list.is_allowed == is_allowed {
                true => list.names.extend(names),
                false => list.names.retain(|name| !names.contains(name)),
            }
            list.names.sort_unstable();
            list.names.dedup();
        }
        list.filter(|list| list.is_allowed || !list.names.is_empty())
    }
}

/// The words of an assignment, and whether it is a list of what is allowed.
fn split(line: &str) -> (bool, impl Iterator<Item = &str>) {
    let inverted = line.strip_prefix('~');
    (inverted.is_none(), inverted.unwrap_or(line).split_whitespace())
}

/// The words of an assignment that mean nothing.
pub fn unknown_words(setting: &str, text: &str) -> Vec<Box<str>> {
    let words = split(text).1.filter(|_| setting == SETTING);
    words.filter(|word| members(word).is_none()).map(Into::into).collect()
}

/// BPF_FUNC_task_storage_get and BPF_FUNC_get_current_task_btf
const TASK_STORAGE_GET: i32 = 156;
const CURRENT_TASK: i32 = 158;

const HOOK: R = R(6);
const FILE: R = R(2);
const FOUND: R = R(3);

/// The program. Its map is the one with the marks; `seal`: flags of the open(2) that says that a process is done with
/// what is not asked about.
pub fn program(list: &FileSystems, layout: FileLayout, seal: u32) -> Vec<Instruction> {
    let (listed, others) = if list.is_allowed { (ALLOW, DENY) } else { (DENY, ALLOW) };
    let mut magics: Vec<u32> =
        list.names.iter().flat_map(|name| numbers_of(name)).copied().collect();
    magics.sort_unstable();
    magics.dedup();
    let mut out = spared(layout, seal);
    out.extend([
        load_64(FILE, HOOK, 0),
        load_64(FOUND, FILE, layout.inode),
        load_64(FOUND, FOUND, layout.super_block),
        load_64(FOUND, FOUND, layout.magic),
    ]);
    for magic in magics {
        let found = answer(listed);
        out.push(skip_unless(FOUND, magic.cast_signed(), to_end(0, found.len() + 1)));
        out.extend(found);
    }
    out.extend(answer(others));
    out
}

/// Lets a process through that has a mark, and takes it away from one that says so.
fn spared(layout: FileLayout, seal: u32) -> Vec<Instruction> {
    const TASK: R = R(2);
    const MARK: R = R(1);
    const NO_VALUE: R = R(3);
    const NO_FLAGS: R = R(4);
    let seal = seal.cast_signed();
    let begin = vec![copy(HOOK, CONTEXT), call(CURRENT_TASK), copy(TASK, RESULT)];
    let ask = [set(NO_VALUE, 0), set(NO_FLAGS, 0), call(TASK_STORAGE_GET)];
    // If there is a mark that counts.
    let seal_it = [store(RESULT, 0, 1)];
    let look = [
        load_64(FILE, HOOK, 0),
        load(FOUND, FILE, layout.flags),
        and(FOUND, seal),
        skip_unless(FOUND, seal, seal_it.len() as i16),
    ];
    let through: Vec<Instruction> = look.into_iter().chain(seal_it).chain(answer(ALLOW)).collect();
    let check = [load(MARK, RESULT, 0), skip_unless(MARK, 0, through.len() as i16)];
    let none = skip_if_0_64(RESULT, (check.len() + through.len()) as i16);
    let mut out = begin;
    out.extend(map(CONTEXT));
    out.extend(ask);
    out.push(none);
    out.extend(check);
    out.extend(through);
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn names_are_in_order_and_sets_are_of_known_ones() {
        assert!(KNOWN.is_sorted_by(|a, b| a.0 < b.0), "they are searched");
        for set in sets() {
            let names = members(set).expect("a set");
            assert!(names.iter().all(|name| numbers(name).is_some()), "{set}: {names:?}");
        }
        assert_eq!(members("@none"), None);
        assert_eq!(members("ext5"), None);
        assert_eq!(unknown_words(SETTING, "~ext4 @none @known x"), ["@none".into(), "x".into()]);
        assert!(unknown_words("SystemCallFilter", "x").is_empty());
    }

    /// The examples of the manual, and more.
    #[test]
    fn the_first_assignment_says_which_kind_of_list_it_is() {
        let check = |text: &str, expected: &str| {
            let list = FileSystems::of(text).expect("something is restricted");
            let sign = if list.is_allowed { "" } else { "~" };
            assert_eq!(format!("{sign}{}", list.names.join(" ")), expected, "{text}");
        };
        check("ext4 tmpfs\next2 ext4", "ext2 ext4 tmpfs");
        check("ext4 tmpfs\n~ext4", "tmpfs");
        check("~ext4 tmpfs\next4", "~tmpfs");
        check("~@temporary proc\n@temporary", "~proc");
        check("ext4\n~ext4", "");
        check("unknown", "");
        assert_eq!(FileSystems::of(""), None);
        assert_eq!(FileSystems::of("~"), None);
        assert_eq!(FileSystems::of("~ext4\next4"), None);
    }

    const LAYOUT: FileLayout =
        FileLayout { function: 1, flags: 20, inode: 32, super_block: 40, magic: 96 };
    const SEAL: u32 = 0x31000;

    /// What happens when a process opens a file.
    struct Open {
        magic: u32,
        flags: u32,
        mark: Option<u32>,
    }

    /// The answer, and the mark afterwards.
    fn run(program: &[Instruction], open: &Open) -> (u64, Option<u32>) {
        const ADDRESSES: [u64; 6] = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000];
        let [context, file, inode, super_block, task, mark] = ADDRESSES;
        let mut memory = BTreeMap::from([
            (context, file),
            (file + 20, u64::from(open.flags)),
            (file + 32, inode),
            (inode + 40, super_block),
            (super_block + 96, u64::from(open.magic)),
        ]);
        memory.extend(open.mark.map(|value| (mark, u64::from(value))));
        let mut r = [0u64; 11];
        r[1] = context;
        let mut at = 0usize;
        for _ in 0..10_000 {
            let i = program[at];
            at += 1;
            let (to, from) = (usize::from(i.registers & 15), usize::from(i.registers >> 4));
            let place = |base: u64| base.wrapping_add_signed(i64::from(i.offset));
            let read = |base: u64| *memory.get(&place(base)).expect("it may be read");
            let is_taken = match i.code {
                0xb7 => (r[to] = i64::from(i.constant) as u64, false).1,
                0xbf => (r[to] = r[from], false).1,
                0x54 => (r[to] = u64::from(r[to] as u32 & i.constant as u32), false).1,
                0x79 | 0x61 => (r[to] = read(r[from]), false).1,
                0x62 => (memory.insert(place(r[to]), i.constant as u64), false).1,
                0x18 => {
                    (r[to], at) = (7, at + 1);
                    false
                }
                0x85 => {
                    r[0] = match i.constant {
                        CURRENT_TASK => task,
                        _ => {
                            assert_eq!((i.constant, &r[1..5]), (156, &[7, task, 0, 0][..]));
                            open.mark.map_or(0, |_| mark)
                        }
                    };
                    // What it was called with is not there any more.
                    r[1..6].fill(1);
                    false
                }
                0x15 => r[to] == i.constant as u64,
                0x56 => r[to] as u32 != i.constant as u32,
                0x95 => return (r[0], memory.get(&mark).map(|value| *value as u32)),
                code => panic!("{code:#x}"),
            };
            if is_taken {
                at = at.checked_add_signed(isize::from(i.offset)).expect("inside");
            }
        }
        panic!("it does not end");
    }

    fn check(text: &str, open: Open, expected: (u64, Option<u32>)) {
        let list = FileSystems::of(text).expect("something is restricted");
        let (magic, flags, mark) = (open.magic, open.flags, open.mark);
        let found = run(&program(&list, LAYOUT, SEAL), &open);
        assert_eq!(found, expected, "{text}: {magic:#x} {flags:#x} {mark:?}");
    }

    #[test]
    fn what_is_listed_is_told_from_what_is_not() {
        for (magic, is_listed) in [(0xef53, 1), (0xff53_4d42, 1), (0x137f, 1), (0x9fa0, 0), (0, 0)]
        {
            let open = || Open { magic, flags: 0, mark: None };
            check("ext3 cifs minix", open(), (is_listed, None));
            check("~ext3 cifs minix", open(), (1 - is_listed, None));
            check("ext4\n~ext4", open(), (0, None));
        }
    }

    #[test]
    fn who_is_not_its_program_yet_is_spared_until_it_says_so() {
        let open = |flags, mark| Open { magic: 0x9fa0, flags, mark };
        for text in ["ext4", "~proc"] {
            check(text, open(0, Some(0)), (1, Some(0)));
            // Not all of the flags.
            check(text, open(0x30000, Some(0)), (1, Some(0)));
            check(text, open(SEAL | 0x8000, Some(0)), (1, Some(1)));
            check(text, open(0, Some(1)), (0, Some(1)));
            check(text, open(SEAL, Some(1)), (0, Some(1)));
            // Nobody makes a mark for himself.
            check(text, open(SEAL, None), (0, None));
        }
    }
}
