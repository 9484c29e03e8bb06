//! What all answers have in common.
//!
//! - Owns: the attributes of their types, and how a field says that it is null.
//! - Must not: refuse an answer of a newer or an older program.
//! - Runs on the thread of its caller.

use serde::{Deserialize, Deserializer};

/// Makes types of answers: a field that is missing has its default, one that is not known is passed over.
macro_rules! answers {
    ($($item:item)*) => {$(
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default)]
        $item
    )*};
}

/// Reads a field that is told apart from one that is left out though it is null.
pub(crate) fn said<'de, T, D>(from: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::<T>::deserialize(from).map(Some)
}
