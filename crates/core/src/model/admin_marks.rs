//! What administrators say of a unit: marks, and the comment of its last stop.
//!
//! Only data; what a mark does is in `machine::admin_marks`.

use crate::model::reason::Cause;
use crate::model::time::Moment;
use serde::{Deserialize, Serialize};

/// Longest text of a remark, in bytes.
pub const REMARK_BYTES_MAX: usize = 1024;

/// What somebody said, and when.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Remark {
    /// Who.
    pub by: Cause,
    /// When.
    pub at: Moment,
    /// What; may be empty.
    pub text: String,
}

/// What others have noted that a unit needs, until it comes to that (org.freedesktop.systemd1(5), `Markers`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Markers {
    /// `needs-reload`
    pub reload: bool,
    /// `needs-restart`
    pub restart: bool,
}

impl Markers {
    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self == Markers::default()
    }

    /// The words for them.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let words = [("needs-reload", self.reload), ("needs-restart", self.restart)];
        words.into_iter().filter(|(_, is_on)| *is_on).map(|(word, _)| word)
    }
}

/// A change of what a unit is marked with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MarkersChange {
    /// Nothing but what is set is left.
    pub replaces: bool,
    /// Those are set.
    pub on: Markers,
    /// Those are taken away.
    pub off: Markers,
}

impl MarkersChange {
    /// What is left of these.
    pub fn of(self, markers: Markers) -> Markers {
        let keep = |is_on: bool, off: bool, on: bool| on || is_on && !self.replaces && !off;
        Markers {
            reload: keep(markers.reload, self.off.reload, self.on.reload),
            restart: keep(markers.restart, self.off.restart, self.on.restart),
        }
    }
}

/// What an administrator clears.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Marked {
    /// Put aside: not started by anybody.
    Maintenance,
    /// Up, with less than it should have.
    Degraded,
}

impl Marked {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Marked::Maintenance => "maintenance",
            Marked::Degraded => "degraded",
        }
    }
}

/// What is kept of what was said of one unit.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Notes {
    /// It is marked, and who did it.
    pub mark: Option<(Marked, Remark)>,
    /// Said with the last stop.
    pub comment: Option<Remark>,
}

impl Notes {
    /// Nothing is said.
    pub fn is_empty(&self) -> bool {
        self.mark.is_none() && self.comment.is_none()
    }
}

/// The text of a remark as it is kept: one line, bounded.
pub fn remark_text(text: &str) -> String {
    let line: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let end = (0..=REMARK_BYTES_MAX.min(line.len())).rev().find(|&at| line.is_char_boundary(at));
    line[..end.unwrap_or(0)].to_owned()
}
