//! Stops of units that are down and wait for what the run has left to be removed.
