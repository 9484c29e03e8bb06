//! What follows the start or stop of a unit that no job brought about, and which relations are looked at again.
