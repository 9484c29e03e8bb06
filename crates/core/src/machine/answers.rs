//! What comes back: answers to effects, ends of processes, empty cgroups.
