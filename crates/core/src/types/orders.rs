//! What all types share at their start, stop and reload: conditions, limits, and which type it is.
//!
//! Must not: hold what only one type does.
