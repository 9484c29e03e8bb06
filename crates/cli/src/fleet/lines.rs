//! The difference of two texts, line by line.

use crate::output::{Style, Tone};

/// Longer texts are shown as removed and added as a whole, in lines.
const LINES_MAX: usize = 2000;

/// Every line, marked as in diff(1)'s unified form.
pub(super) fn diff(before: &str, after: &str, style: Style) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let mut out = String::new();
    let mut put = |sign: char, line: &str, tone: Tone| {
        out.push_str(&style.paint(tone, &format!("{sign}{line}")));
        out.push('\n');
    };
    let common = match a.len().max(b.len()) <= LINES_MAX {
        true => common_lines(&a, &b),
        false => Vec::new(),
    };
    let (mut i, mut j) = (0, 0);
    for (x, y) in common.into_iter().chain([(a.len(), b.len())]) {
        a[i..x].iter().for_each(|line| put('-', line, Tone::Bad));
        b[j..y].iter().for_each(|line| put('+', line, Tone::Good));
        if let Some(line) = a.get(x) {
            put(' ', line, Tone::Plain);
        }
        (i, j) = (x + 1, y + 1);
    }
    out
}

/// A longest common subsequence, as pairs of indexes.
fn common_lines(a: &[&str], b: &[&str]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    // How long the longest is from here on.
    let mut longest = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i * width + j] = match a[i] == b[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            out.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    out
}
