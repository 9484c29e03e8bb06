//! What a change of its unit does to a running job: it is over, it goes into its second half, or it waits again.
