//! What fields an entry must have.

use crate::block::{Block, TEXT_FIELD};
use crate::entry::{Entry, Id128};
use crate::error::{Damage, Result};
use crate::segment::Segment;

/// The field that every entry has, by its stamp.
pub const BOOT_FIELD: &[u8] = b"_BOOT_ID";

/// A condition on the fields of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expr {
    /// All of these; an empty list is true.
    All(Vec<Expr>),
    /// One of these at least.
    Any(Vec<Expr>),
    /// One of the field's values is this.
    Field {
        /// Name.
        name: Vec<u8>,
        /// Value.
        value: Vec<u8>,
    },
}

impl Default for Expr {
    fn default() -> Expr {
        Expr::All(Vec::new())
    }
}

impl Expr {
    /// A single match.
    pub fn field(name: &str, value: impl Into<Vec<u8>>) -> Expr {
        Expr::Field { name: name.into(), value: value.into() }
    }

    /// Both.
    pub fn and(self, other: Expr) -> Expr {
        match self {
            Expr::All(mut all) => {
                all.push(other);
                Expr::All(all)
            }
            one => Expr::All(vec![one, other]),
        }
    }

    /// The blocks of a segment that may have such entries; `None`: all of them.
    pub fn candidates(&self, segment: &Segment) -> Result<Option<Vec<u32>>> {
        match self {
            Expr::All(all) => {
                let mut found: Option<Vec<u32>> = None;
                for expr in all {
                    if found.as_ref().is_some_and(Vec::is_empty) {
                        break;
                    }
                    found = intersect(found, expr.candidates(segment)?);
                }
                Ok(found)
            }
            Expr::Any(any) => {
                let mut found = Vec::new();
                for expr in any {
                    match expr.candidates(segment)? {
                        Some(blocks) => found.extend(blocks),
                        None => return Ok(None),
                    }
                }
                found.sort_unstable();
                found.dedup();
                Ok(Some(found))
            }
            Expr::Field { name, value } if name == BOOT_FIELD => Ok(boot_blocks(segment, value)),
            Expr::Field { name, value } => segment.blocks_with(name, value),
        }
    }

    /// Whether one entry is such.
    pub fn holds(&self, entry: &Entry) -> bool {
        match self {
            Expr::All(all) => all.iter().all(|expr| expr.holds(entry)),
            Expr::Any(any) => any.iter().any(|expr| expr.holds(entry)),
            Expr::Field { name, value } if name == BOOT_FIELD => {
                Id128::parse(&String::from_utf8_lossy(value)) == Some(entry.stamp.boot)
            }
            Expr::Field { name, value } => entry.all_fields().any(|field| field == (name, value)),
        }
    }

    /// For each row of a block, whether it is such an entry. Unpacks only what it must.
    pub fn rows(&self, block: &Block) -> std::result::Result<Vec<bool>, Damage> {
        let count = block.rows().len();
        match self {
            Expr::All(all) => {
                let mut found = vec![true; count];
                for expr in all {
                    let more = expr.rows(block)?;
                    found.iter_mut().zip(more).for_each(|(to, more)| *to &= more);
                    if !found.contains(&true) {
                        break;
                    }
                }
                Ok(found)
            }
            Expr::Any(any) => {
                let mut found = vec![false; count];
                for expr in any {
                    let more = expr.rows(block)?;
                    found.iter_mut().zip(more).for_each(|(to, more)| *to |= more);
                }
                Ok(found)
            }
            Expr::Field { name, value } => field_rows(block, name, value),
        }
    }
}

fn intersect(a: Option<Vec<u32>>, b: Option<Vec<u32>>) -> Option<Vec<u32>> {
    match (a, b) {
        (Some(mut a), Some(b)) => {
            a.retain(|block| b.binary_search(block).is_ok());
            Some(a)
        }
        (a, b) => a.or(b),
    }
}

/// Blocks from the boot's first one on that its times touch.
fn boot_blocks(segment: &Segment, value: &[u8]) -> Option<Vec<u32>> {
    let directory = segment.directory();
    if directory.boots.is_empty() {
        return None;
    }
    let Some(boot) = std::str::from_utf8(value).ok().and_then(Id128::parse) else {
        return Some(Vec::new());
    };
    let Some(span) = directory.boots.iter().find(|span| span.boot == boot) else {
        return Some(Vec::new());
    };
    let touches = |at: &u32| {
        let block = &directory.blocks[*at as usize];
        block.first_seqnum >= span.first_seqnum
            && block.realtime_min_us <= span.realtime_max_us
            && block.realtime_max_us >= span.realtime_min_us
    };
    Some((0..directory.blocks.len() as u32).filter(touches).collect())
}

fn field_rows(block: &Block, name: &[u8], value: &[u8]) -> std::result::Result<Vec<bool>, Damage> {
    if name == BOOT_FIELD {
        let wanted: Vec<bool> =
            block.boots().iter().map(|boot| boot.to_string().as_bytes() == value).collect();
        return Ok(block.rows().iter().map(|row| wanted[row.boot as usize]).collect());
    }
    let in_context = |fields: &crate::Fields| fields.iter().any(|field| field == (name, value));
    let contexts: Vec<bool> = block.contexts().iter().map(|fields| in_context(fields)).collect();
    let mut found: Vec<bool> =
        block.rows().iter().map(|row| contexts[row.context as usize]).collect();
    let rows = block.rows_of(name);
    if rows.is_empty() {
        return Ok(found);
    }
    if name == TEXT_FIELD {
        each_text(block, |row, text| found[row] |= text == value)?;
    } else if let Some(column) = block.column(name)? {
        let equal = column.equal_to(value);
        rows.iter().zip(equal).for_each(|(&row, equal)| found[row as usize] |= equal);
    }
    Ok(found)
}

/// Every text of a block with the row of its entry.
pub fn each_text(
    block: &Block,
    mut each: impl FnMut(usize, &[u8]),
) -> std::result::Result<(), Damage> {
    let (text, ends) = block.text()?;
    let mut begin = 0;
    for (&row, &end) in block.rows_of(TEXT_FIELD).iter().zip(ends) {
        each(row as usize, &text[begin..end as usize]);
        begin = end as usize;
    }
    Ok(())
}
