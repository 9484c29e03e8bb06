//! Searching texts: a pattern, and the literal that saves reading most of them.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};

use crate::block::{Block, TEXT_FIELD};
use crate::error::Damage;
use crate::segment::trigram::Filters;

/// Whether case counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// As written.
    Sensitive,
    /// `a` is `A`, for ASCII letters and, in the expression itself, for Unicode.
    Insensitive,
}

/// A pattern to find in `MESSAGE`.
#[derive(Debug, Clone)]
pub struct Grep {
    regex: Regex,
    case: Case,
    /// Bytes that every text that matches must contain; lower case when case does not count.
    literal: Option<Vec<u8>>,
    /// The literal is the whole pattern.
    is_literal: bool,
}

impl Grep {
    /// Compiles a pattern. Without a word on case, a pattern without capitals ignores it;
    /// journalctl(1), `--case-sensitive`.
    ///
    /// # Errors
    /// The message of the expression engine.
    pub fn new(pattern: &str, case: Option<Case>) -> std::result::Result<Grep, String> {
        let capitals = pattern.chars().any(char::is_uppercase);
        let case = case.unwrap_or(if capitals { Case::Sensitive } else { Case::Insensitive });
        let regex = RegexBuilder::new(pattern)
            .case_insensitive(case == Case::Insensitive)
            .build()
            .map_err(|e| e.to_string())?;
        let hir = regex_syntax::parse(pattern).map_err(|e| e.to_string())?;
        let mut literal = longest_literal(&hir);
        if case == Case::Insensitive {
            // Letters outside ASCII, and the two that fold into it, have more than one form.
            let folds_only_in_ascii = |byte: &u8| byte.is_ascii() && !b"kKsS".contains(byte);
            literal = literal
                .map(|literal| longest_run(&literal, folds_only_in_ascii).to_ascii_lowercase());
        }
        let literal = literal.filter(|literal| !literal.is_empty());
        let is_literal = literal.as_deref() == Some(pattern.as_bytes())
            || (case == Case::Sensitive && matches!(hir.kind(), HirKind::Literal(_)));
        Ok(Grep { regex, case, literal, is_literal })
    }

    /// Whether one text matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// False when the text filters rule a block out.
    pub fn may_be_in(&self, filters: &Filters, block: usize) -> bool {
        self.literal.as_ref().is_none_or(|literal| filters.may_contain(block, literal))
    }

    /// True when a filter can help.
    pub fn has_literal(&self) -> bool {
        self.literal.as_ref().is_some_and(|literal| literal.len() >= 3)
    }

    /// False when none of the texts, given end to end, can match.
    pub fn may_match(&self, text: &[u8]) -> bool {
        let Some(literal) = &self.literal else { return true };
        match self.case {
            Case::Sensitive => memchr::memmem::find(text, literal).is_some(),
            Case::Insensitive => {
                memchr::memmem::find(&text.to_ascii_lowercase(), literal).is_some()
            }
        }
    }

    /// For each row of a block, whether one of its texts matches. Unpacks only the text.
    pub fn rows(&self, block: &Block) -> std::result::Result<Vec<bool>, Damage> {
        let mut found = vec![false; block.rows().len()];
        let (text, ends) = block.text()?;
        let rows = block.rows_of(TEXT_FIELD);
        let span = |at: usize| {
            let begin = if at == 0 { 0 } else { ends[at - 1] as usize };
            begin..ends[at] as usize
        };
        let Some(literal) = &self.literal else {
            for at in 0..ends.len() {
                found[rows[at] as usize] |= self.matches(&text[span(at)]);
            }
            return Ok(found);
        };
        let folded = (self.case == Case::Insensitive).then(|| text.to_ascii_lowercase());
        let searched = folded.as_deref().unwrap_or(text);
        let finder = memchr::memmem::Finder::new(literal);
        let mut from = 0;
        while let Some(hit) = finder.find(&searched[from..]) {
            let at = ends.partition_point(|&end| end as usize <= from + hit);
            let (row, whole) = (rows[at] as usize, span(at));
            let inside = from + hit + literal.len() <= whole.end;
            found[row] |= (self.is_literal && inside) || self.matches(&text[whole.clone()]);
            from = whole.end;
        }
        Ok(found)
    }
}

/// The longest row of literal bytes that every match must contain.
fn longest_literal(hir: &Hir) -> Option<Vec<u8>> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(literal.0.to_vec()),
        HirKind::Capture(capture) => longest_literal(&capture.sub),
        HirKind::Repetition(repeat) if repeat.min > 0 => longest_literal(&repeat.sub),
        HirKind::Concat(parts) => parts.iter().filter_map(longest_literal).max_by_key(Vec::len),
        _ => None,
    }
}

fn longest_run(bytes: &[u8], belongs: impl Fn(&u8) -> bool) -> &[u8] {
    bytes.split(|byte| !belongs(byte)).max_by_key(|run| run.len()).unwrap_or(&[])
}
