//! Which sockets and automounts are in front of a unit, also when their file is gone.
