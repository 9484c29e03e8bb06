//! Installed jobs that wait for each other in a circle, and how one of them is let out.
