//! Numbers that never repeat, over restarts of the manager too: of jobs and of runs. Those of effects are in
//! [`crate::parts::outbox`].

use crate::model::ids::JobId;

/// Where the numbers are.
#[derive(Debug)]
pub(crate) struct Ids {
    /// The next job.
    pub job: u32,
    /// State of the generator of invocation ids.
    pub invocation: u128,
}

impl Ids {
    /// The first job is 1; `seed` makes invocation ids unpredictable.
    pub fn new(seed: u128) -> Ids {
        Ids { job: 1, invocation: seed }
    }

    pub fn new_job(&mut self) -> JobId {
        let id = JobId(self.job);
        self.job = self.job.checked_add(1).unwrap_or(1);
        id
    }

    /// 128 bits that do not repeat: one step of a splitmix-like permutation over the seed.
    pub fn new_invocation(&mut self) -> u128 {
        self.invocation = self.invocation.wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let mut x = self.invocation;
        x = (x ^ (x >> 67)).wrapping_mul(0xbf58_476d_1ce4_e5b9_94d0_49bb_1331_11eb);
        x = (x ^ (x >> 61)).wrapping_mul(0x2545_f491_4f6c_dd1d_da3e_39cb_94b9_5bdb);
        x ^ (x >> 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_number_is_never_zero_and_invocations_differ() {
        let mut ids = Ids { job: u32::MAX, invocation: 0 };
        assert_eq!([ids.new_job(), ids.new_job()], [JobId(u32::MAX), JobId(1)]);
        assert_ne!(ids.new_invocation(), ids.new_invocation());
    }
}
