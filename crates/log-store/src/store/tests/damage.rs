//! Files that are cut, flipped, and made to imitate others.

use super::*;

/// The most entries that one block of a file has.
fn largest_block(memory: &Memory, name: &str) -> usize {
    let file = memory.open(name).expect("listed");
    let mut walk = Walk::new(None);
    walk.advance(&*file).expect("no read fails");
    walk.blocks.iter().map(|block| block.count as usize).max().expect("a block")
}

#[test]
fn a_flipped_bit_loses_at_most_one_block() {
    let (memory, mut numbers) = (sample(), Numbers(9));
    for file in Catalogue::of(memory.list().expect("a listing")).files {
        let (name, contents) = (file.name.to_string(), read_file(&memory, &file.name));
        let (whole, most) = (memory.content(&name), largest_block(&memory, &name));
        for at in 0..whole.len() {
            // Every byte of what frames the data, and a sample of the rest.
            if at > 512 && at + 512 < whole.len() && numbers.below(16) != 0 {
                continue;
            }
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << numbers.below(8);
            memory.set_content(&name, &flipped);
            let lost = missing(&contents, &read_file(&memory, &file.name));
            assert!(lost <= most, "{name}, byte {at}: {lost} entries lost, a block has {most}");
        }
        memory.set_content(&name, &whole);
    }
}

#[test]
fn a_cut_file_keeps_every_whole_block_before_the_cut() {
    let memory = sample();
    for file in Catalogue::of(memory.list().expect("a listing")).files {
        let (name, contents) = (file.name.to_string(), read_file(&memory, &file.name));
        let whole = memory.content(&name);
        let mut walk = Walk::new(None);
        walk.advance(&*memory.open(&name).expect("listed")).expect("no read fails");
        let total: u32 = walk.blocks.iter().map(|block| block.count).sum();
        for cut in 0..whole.len() {
            memory.set_content(&name, &whole[..cut]);
            let before = walk.blocks.iter().filter(|block| block.end() <= cut as u64);
            let kept: u32 = before.map(|block| block.count).sum();
            let lost = missing(&contents, &read_file(&memory, &file.name));
            assert_eq!(lost, (total - kept) as usize, "{name} cut at {cut}");
        }
        memory.set_content(&name, &whole);
    }
}

#[test]
fn a_damaged_segment_does_not_stop_the_upkeep_of_others() {
    let memory = Memory::new();
    let mut life = Life::begin(memory.clone(), Contents::new(), Numbers(6)).expect("empty");
    for id in 0..9 {
        life.append().expect("no faults");
        life.append().expect("no faults");
        life.rotate().expect("no faults");
        for log in life.store.take_sealable() {
            seal(&memory, &log, Id128::default(), Id128([id; 16])).expect("sealed");
        }
    }
    let catalogue = Catalogue::of(memory.list().expect("a listing"));
    let system = catalogue.segments().filter(|segment| segment.0.class == "system").nth(2);
    let name = system.expect("a third").0.to_string();
    let content = memory.content(&name);
    memory.set_content(&name, &content[..content.len() - 1]);
    let (before, mut skip, mut id) = (read_all(&memory), Default::default(), 100);
    let mut new_id = || {
        id += 1;
        Id128([id; 16])
    };
    let faults = merge_all(
        &memory,
        Id128::default(),
        &MergeBounds::bytes(MERGE_BYTES_MAX),
        &mut new_id,
        &mut skip,
    )
    .expect("goes on");
    assert_eq!((faults.len(), skip.len()), (1, 1));
    assert_eq!(read_all(&memory), before);
    let after = Catalogue::of(memory.list().expect("a listing"));
    assert!(after.segments().count() < catalogue.segments().count(), "the others are merged");
    let again = merge_all(
        &memory,
        Id128::default(),
        &MergeBounds::bytes(MERGE_BYTES_MAX),
        &mut new_id,
        &mut skip,
    );
    assert_eq!(again, Ok(Vec::new()), "it is reported once");
}

#[test]
fn verify_finds_every_flipped_bit_of_a_segment() {
    let memory = sample();
    let listing = Catalogue::of(memory.list().expect("a listing"));
    for (name, _) in listing.segments() {
        let name = name.to_string();
        let whole = memory.content(&name);
        assert_eq!(Segment::open(&memory, &name).and_then(|s| s.verify()), Ok(Vec::new()));
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            memory.set_content(&name, &flipped);
            let faults = Segment::open(&memory, &name).and_then(|s| s.verify());
            assert_ne!(faults, Ok(Vec::new()), "{name}, byte {at}");
        }
        memory.set_content(&name, &whole);
    }
}

#[test]
fn a_text_that_imitates_a_block_is_only_text() {
    let memory = sample();
    let catalogue = Catalogue::of(memory.list().expect("a listing"));
    let log = catalogue.logs().next().expect("a log").to_string();
    let stolen = memory.content(&log)[FILE_HEADER..].to_vec();
    let fresh = Memory::new();
    let (mut store, _) = Store::open(Arc::new(fresh.clone()), setup(77)).expect("empty");
    let mut fields = Fields::new();
    fields.push(b"MESSAGE", &stolen);
    store.append("system", &Stamp::default(), &Arc::default(), &fields).expect("in bounds");
    store.sync().expect("no faults");
    let name = fresh.list().expect("a listing")[0].name.clone();
    let mut content = fresh.content(&name);
    content[FILE_HEADER] ^= 1;
    fresh.set_content(&name, &content);
    let file = fresh.open(&name).expect("listed");
    let header = read_header(&*file, &name).expect("read").expect("whole");
    let mut walk = Walk::new(Some(header.identity));
    walk.advance(&*file).expect("no read fails");
    assert!(walk.blocks.iter().all(|block| block.kind != Kind::Entries), "no forged entry");
}

const FILE_HEADER: usize = crate::segment::layout::FILE_HEADER_BYTES as usize;
