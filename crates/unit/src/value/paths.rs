//! Absolute paths.

use super::fault::{Fault, Parsed};

/// An absolute path, simplified.
pub fn path(text: &str) -> Parsed<String> {
    if !text.starts_with('/') {
        return Err(Fault::new(0, format!("'{text}' is not an absolute path")));
    }
    crate::escape::simplify_path(text)
        .ok_or_else(|| Fault::new(0, format!("'{text}' is not a normalized path")))
}
