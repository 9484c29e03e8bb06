//! What is wrong with a value.

/// What is wrong with a value, and at which byte of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Offset in bytes from the start of the value.
    pub offset: usize,
    /// What is wrong, for people.
    pub message: String,
}

impl Fault {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Fault {
        Fault { offset, message: message.into() }
    }
}

pub(crate) type Parsed<T> = Result<T, Fault>;
