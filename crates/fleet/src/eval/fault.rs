//! Faults of evaluation.

use crate::diagnostic::Diagnostic;
use crate::source::Place;

/// A fault of evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it happened.
    pub place: Place,
    /// What happened.
    pub message: String,
    /// Other places that belong to it.
    pub notes: Vec<(Place, String)>,
    /// What may have been meant.
    pub help: Option<String>,
    /// Whether `try` catches it: everything but running out of a bound.
    pub is_caught: bool,
}

impl Fault {
    /// A fault that `try` catches.
    pub fn at(place: Place, message: impl Into<String>) -> Box<Fault> {
        let (message, notes) = (message.into(), Vec::new());
        Box::new(Fault { place, message, notes, help: None, is_caught: true })
    }

    /// With another place.
    pub fn note(mut self: Box<Fault>, place: Place, text: &str) -> Box<Fault> {
        self.notes.push((place, text.to_owned()));
        self
    }

    /// With advice.
    pub fn help(mut self: Box<Fault>, help: Option<String>) -> Box<Fault> {
        self.help = help;
        self
    }

    /// The same for people.
    pub fn diagnostic(self) -> Diagnostic {
        let Fault { place, message, notes, help, .. } = self;
        Diagnostic { notes, ..Diagnostic::error(place, message).help(help) }
    }
}
