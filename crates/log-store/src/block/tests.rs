//! Blocks go round; what is cut or flipped is damage, never a panic and never another entry.

use std::sync::Arc;

use super::*;
use crate::entry::{Entry, Fields, Id128, Stamp};

/// A line is an entry: `seqnum realtime context | A=1 B=2`; values end at a blank.
fn parse(text: &str) -> Vec<Entry> {
    text.lines().filter(|line| !line.trim().is_empty()).map(parse_line).collect()
}

fn parse_line(line: &str) -> Entry {
    let (head, fields) = line.split_once('|').expect("a bar");
    let pairs = |text: &str| -> Fields {
        text.split_whitespace().map(|field| field.split_once('=').expect("A=b")).collect()
    };
    let mut head = head.split_whitespace();
    let mut number = || head.next().expect("a number").parse::<u64>().expect("a number");
    let (seqnum, realtime_us) = (number(), number());
    let context: Vec<&str> = head.collect();
    Entry {
        sequence: identity().sequence,
        seqnum,
        stamp: Stamp {
            realtime_us,
            monotonic_us: realtime_us / 7,
            boot: Id128([seqnum as u8 / 4; 16]),
        },
        context: Arc::new(pairs(&context.join(" "))),
        fields: pairs(fields),
    }
}

const SAMPLE: &str = "
    4 1700000000000001 _PID=1 _COMM=init | MESSAGE=hello PRIORITY=6
    5 1700000000000005 _PID=1 _COMM=init | MESSAGE=again PRIORITY=6
    7 1700000000000003 _PID=2 | PRIORITY=3 MESSAGE= TAG=a TAG=b
    8 1600000000000000 |
    9 1700000000000009 _PID=2 | _SOURCE_REALTIME_TIMESTAMP=1700000000000008 PRIORITY=6
    10 18446744073709551615 _PID=2 | MESSAGE=one MESSAGE=two PRIORITY=6
";

fn identity() -> Identity {
    Identity { file: Id128([1; 16]), sequence: Id128([2; 16]) }
}

fn build(entries: &[Entry]) -> Vec<u8> {
    let mut builder = Builder::default();
    entries.iter().for_each(|e| builder.push(e.seqnum, &e.stamp, &e.context, &e.fields));
    let mut out = Vec::new();
    builder.finish(&mut out, identity(), 4096, (0, 0));
    assert!(builder.is_empty());
    out
}

fn read(bytes: &[u8]) -> Result<Vec<Entry>, crate::error::Damage> {
    let block = Block::parse(bytes, 4096)?;
    (0..block.rows().len()).map(|row| block.entry(row)).collect()
}

fn check(entries: &[Entry]) {
    let bytes = build(entries);
    let header = Header::parse(&bytes, 4096).expect("a header");
    assert_eq!(header.end() - header.offset, bytes.len() as u64);
    assert_eq!(read(&bytes).as_deref(), Ok(entries));
}

#[test]
fn entries_come_back() {
    check(&parse(SAMPLE));
}

#[test]
fn every_length_of_block_comes_back() {
    let all = parse(SAMPLE);
    (0..all.len()).for_each(|at| check(&all[at..=at]));
    (1..=all.len()).for_each(|to| check(&all[..to]));
}

#[test]
fn many_like_entries_pack_well() {
    let line = |n: u64| {
        format!(
            "{n} {} _PID=1 _COMM=init | PRIORITY=6 MESSAGE=line-{n} T={}\n",
            1_700_000_000_000_000 + n,
            1_700_000_000_000_000 + n
        )
    };
    let entries = parse(&(1..2000).map(line).collect::<String>());
    check(&entries);
    let per_entry = build(&entries).len() / entries.len();
    assert!(per_entry <= 8, "{per_entry} bytes for an entry of little news");
}

#[test]
fn a_header_is_read_only_where_it_was_written() {
    let bytes = build(&parse(SAMPLE));
    assert!(Block::parse(&bytes, 4096).is_ok());
    assert!(Block::parse(&bytes, 0).is_err());
}

#[test]
fn a_cut_block_is_damage() {
    let entries = parse(SAMPLE);
    let bytes = build(&entries);
    let stored: usize =
        Header::parse(&bytes, 4096).expect("a header").section_range(Section::Text).end;
    for cut in 0..bytes.len() {
        assert!(read(&bytes[..cut]).is_err(), "cut at {cut} of {stored}");
    }
}

#[test]
fn a_flipped_bit_is_damage_or_padding() {
    let entries = parse(SAMPLE);
    let mut bytes = build(&entries);
    let header = Header::parse(&bytes, 4096).expect("a header");
    let end = BLOCK_HEADER_BYTES + header.section_range(Section::Text).end;
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(read(&bytes).is_ok(), bit / 8 >= end, "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}
