use super::*;

/// A partition of a table that a test makes: type, first and last sector, attributes.
type Row = (u128, u64, u64, u64);

const ROOT: u128 = 0x4f68bce3_e8cd_4db1_96e7_fbcaf984b709;
const USR: u128 = 0x8484680c_9521_48c6_9c11_b0720656f69e;
const HOME: u128 = 0x933ac7e1_2eb4_4f13_b844_0e14e2aef915;
const GENERIC: u128 = 0x0fc63daf_8483_4772_8e79_3d69d8477de4;

fn guid(id: u128) -> [u8; 16] {
    let mut bytes = id.to_be_bytes();
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

/// The beginning of a disk with such partitions.
fn disk(sector: usize, rows: &[Row]) -> Vec<u8> {
    let mut entries = vec![0; 128 * 128];
    for (entry, (kind, first, last, flags)) in entries.chunks_exact_mut(128).zip(rows) {
        entry[..16].copy_from_slice(&guid(*kind));
        entry[32..40].copy_from_slice(&first.to_le_bytes());
        entry[40..48].copy_from_slice(&last.to_le_bytes());
        entry[48..56].copy_from_slice(&flags.to_le_bytes());
    }
    let mut header = vec![0; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[12..16].copy_from_slice(&92u32.to_le_bytes());
    header[24..32].copy_from_slice(&1u64.to_le_bytes());
    header[72..80].copy_from_slice(&2u64.to_le_bytes());
    header[80..84].copy_from_slice(&128u32.to_le_bytes());
    header[84..88].copy_from_slice(&128u32.to_le_bytes());
    header[88..92].copy_from_slice(&crc32fast::hash(&entries).to_le_bytes());
    let sum = crc32fast::hash(&header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    let mut out = vec![0; HEAD_BYTES];
    out[sector..sector + 92].copy_from_slice(&header);
    out[2 * sector..2 * sector + entries.len()].copy_from_slice(&entries);
    out
}

fn shown(found: Result<Layout, String>) -> String {
    match found {
        Err(why) => why,
        Ok(Layout::Whole(kind)) => kind.to_owned(),
        Ok(Layout::Parts(parts)) => {
            let one = |part: &Part| {
                let end = if part.read_only { " ro" } else { "" };
                format!("{:?} {}..{}{end}", part.role, part.bytes.start, part.bytes.end)
            };
            parts.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn partitions_are_found_by_what_they_are() {
    const BYTES: u64 = 1 << 20;
    let check = |rows: &[Row], want: &str| {
        for sector in SECTOR_SIZES {
            // Of larger sectors the same numbers are other bytes.
            let got = shown(layout(&disk(sector, rows), BYTES * sector as u64 / 512));
            if sector == 512 || !want.chars().any(|c| c.is_ascii_digit()) {
                assert_eq!(got, want, "{rows:?} {sector}");
            }
        }
    };
    check(&[(ROOT, 100, 199, 0)], "Root 51200..102400");
    let read_only = 1 << 60;
    check(
        &[
            (HOME, 300, 399, 0),
            (USR, 200, 299, read_only),
            (ROOT, 100, 199, 0),
            (ROOT, 400, 499, 0),
        ],
        "Root 51200..102400, Usr 102400..153600 ro, Home 153600..204800",
    );
    check(&[(USR, 100, 199, 0)], "Usr 51200..102400");
    check(&[(GENERIC, 100, 199, 0)], "Root 51200..102400");
    check(&[(ROOT, 100, 199, 1 << 63), (GENERIC, 300, 399, 0)], "Root 153600..204800");
    let several = "it has several partitions, and none is marked as the root";
    check(&[(GENERIC, 100, 199, 0), (GENERIC, 200, 299, 0)], several);
    check(&[(HOME, 100, 199, 0)], "it has no root partition for this architecture");
    check(&[], "it has no root partition for this architecture");
    let behind = "a partition at bytes 51200 to 1049088 extends past its end: it has 1048576 bytes";
    check(&[(ROOT, 100, 2048, 0)], behind);
    let damaged = "its partition table is damaged";
    check(&[(ROOT, 100, 99, 0)], damaged);
    check(&[(ROOT, u64::MAX - 1, u64::MAX, 0)], damaged);
    let large = shown(layout(&disk(4096, &[(ROOT, 100, 199, 0)]), 1 << 30));
    assert_eq!(large, "Root 409600..819200");
}

/// Whatever a table says, it is refused or lies within the image; nothing is read behind the head.
#[test]
fn a_damaged_table_is_refused() {
    let good = disk(512, &[(GENERIC, 100, 199, 0)]);
    assert_eq!(shown(layout(&good, 1 << 20)), "Root 51200..102400");
    for at in (512..604).chain(1024..1100) {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        let got = layout(&bad, 1 << 20);
        assert!(got.is_err(), "byte {at}: {got:?}");
    }
    for length in [0, 511, 512, 600, 1023, 1024, 2000, 17_407] {
        assert!(layout(&good[..length], 1 << 20).is_err(), "{length}");
    }
}

#[test]
fn file_systems_are_known_by_their_first_bytes() {
    let check = |at: usize, magic: &[u8], want: &str| {
        let mut head = vec![0; HEAD_BYTES];
        head[at..at + magic.len()].copy_from_slice(magic);
        assert_eq!(shown(layout(&head, 1 << 20)), want);
        let unknown = "it has no file system or partition table that Warrener knows";
        assert_eq!(shown(layout(&head[..at], 1 << 20)), unknown);
    };
    check(0, b"hsqs", "squashfs");
    check(1080, &[0x53, 0xef], "ext4");
    check(1024, &[0xe2, 0xe1, 0xf5, 0xe0], "erofs");
    check(0, b"XFSB", "xfs");
    check(0x10040, b"_BHRfS_M", "btrfs");
    let mut head = vec![0; HEAD_BYTES];
    head[510..512].copy_from_slice(&[0x55, 0xaa]);
    assert_eq!(
        shown(layout(&head, 1 << 20)),
        "its partition table does not have exactly one Linux partition"
    );
    head[446 + 4] = 0x83;
    head[446 + 8] = 8;
    head[446 + 12] = 16;
    assert_eq!(shown(layout(&head, 1 << 20)), "Root 4096..12288");
    assert!(layout(&head, 12_287).is_err());
    head[446 + 12] = 0;
    assert!(layout(&head, 1 << 20).is_err());
}

#[test]
fn words_of_settings() {
    let image = |made: Result<Image, String>| match made {
        Err(why) => why,
        Ok(Image { path, optional, place, options }) => {
            format!("{}{path} {place:?} {options:?}", if optional { "-" } else { "" })
        }
    };
    let check = |made, want: &str| assert_eq!(image(made), want);
    check(Image::mounted("/a:/b"), "/a Path(\"/b\") []");
    check(Image::mounted(r"-/a\:x:/b\:y:ro,dev"), "-/a:x Path(\"/b:y\") [(Root, \"ro,dev\")]");
    check(
        Image::mounted("/a:/b:root:ro:home:dev"),
        "/a Path(\"/b\") [(Root, \"ro\"), (Home, \"dev\")]",
    );
    check(Image::mounted("/a"), "has no mount point");
    check(Image::mounted("a:/b"), "is not an absolute path");
    check(Image::mounted("/a:/../b"), "has '..' in it");
    check(Image::mounted("/a:/b:root:ro:home"), "has a partition without options");
    check(Image::mounted("/a:/b:all:ro"), "has 'all', which is not a partition designator");
    check(Image::extension("-/a.raw:ro"), "-/a.raw Extension [(Root, \"ro\")]");
    check(Image::extension("a.raw"), "is not an absolute path");
    check(Image::directory("-/d:x"), "-/d:x ExtensionDirectory []");
    check(Image::root("/a.raw"), "/a.raw Root []");
    assert_eq!(parse_options("usr:ro,nodev"), Ok((Role::Usr, "ro,nodev".to_owned())));
    assert_eq!(parse_options("ro"), Ok((Role::Root, "ro".to_owned())));
    assert!(parse_options("boot:ro").is_err());
}
