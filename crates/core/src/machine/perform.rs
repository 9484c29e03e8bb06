//! The job whose turn it is: what its unit is told to do, and what comes of that.
//!
//! Start at [`run_next_job`].
