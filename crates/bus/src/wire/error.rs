//! What may be wrong with bytes.

/// Containers in containers that a value may have (the specification allows 64).
pub const MAX_DEPTH: u32 = 64;

/// What is wrong with bytes that a client sent. A connection of its own is dropped for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// It ends before its value does.
    Truncated,
    /// A length, a byte order mark, a boolean or a padding that the format does not allow.
    Malformed,
    /// Text that is not UTF-8, or that holds a NUL.
    Text,
    /// Longer than this server takes.
    TooLong,
    /// Nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// A type code that does not exist, or a signature that is not one.
    Signature,
}
