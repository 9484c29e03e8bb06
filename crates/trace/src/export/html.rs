//! One file that shows everything: opens offline, asks no network, needs no server.
//!
//! The page, its style and its program are the files in `src/html/`. The data is JSON, deflated
//! and in base64, and is inflated by the browser. A policy in the page forbids everything but what
//! the page itself brings.

use miniz_oxide::deflate::compress_to_vec_zlib;

use super::data::data;
use super::show;
use crate::analysis::Analysis;
use crate::analysis::repeat::Repeats;
use crate::base64;

/// How hard data is compressed: 6 of 10.
const LEVEL: u8 = 6;

const PAGE: &str = include_str!("../html/page.html");
const STYLE: &str = include_str!("../html/style.css");

/// The program, in the order in which its parts use each other.
const PROGRAM: [&str; 7] = [
    include_str!("../html/model.js"),
    include_str!("../html/align.js"),
    include_str!("../html/rows.js"),
    include_str!("../html/lane.js"),
    include_str!("../html/draw.js"),
    include_str!("../html/panel.js"),
    include_str!("../html/main.js"),
];

/// One recording as a page.
pub fn html(analysis: &Analysis<'_>) -> String {
    page(&show::headline(analysis), &data(&[analysis], None))
}

/// The same with the least, the median and the most of many recordings, of which it is one.
pub fn repeated(analysis: &Analysis<'_>, repeats: &Repeats) -> String {
    page(&show::headline(analysis), &data(&[analysis], Some(repeats)))
}

/// Two recordings as a page that compares them: `a` is what was before.
pub fn compared(a: &Analysis<'_>, b: &Analysis<'_>) -> String {
    let (was, is) = (show::headline(a), show::headline(b));
    page(&format!("A: {was} B: {is}"), &data(&[a, b], None))
}

fn page(title: &str, data: &str) -> String {
    let packed = base64::encode(&compress_to_vec_zlib(data.as_bytes(), LEVEL));
    let parts = [("title", escaped(title)), ("style", STYLE.into()), ("data", packed)];
    let parts = [&parts[..], &[("program", PROGRAM.join("\n"))]].concat();
    let mut out = String::with_capacity(parts.iter().map(|(_, text)| text.len()).sum());
    let mut pieces = PAGE.split("{{");
    out.push_str(pieces.next().unwrap_or(""));
    for piece in pieces {
        let (name, rest) = piece.split_once("}}").expect("the page closes its braces");
        let part = parts.iter().find(|(part, _)| *part == name);
        out.push_str(&part.expect("the page names parts that exist").1);
        out.push_str(rest);
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
