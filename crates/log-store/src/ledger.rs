//! Proof that sealed segments are as they were: a list of them, each line signed with a key that is
//! forgotten soon after.
//!
//! Time is cut into epochs (15 minutes by default). The key of an epoch is made of the one before by a
//! function that cannot be turned round, and the old one is overwritten; whoever gets into the machine
//! finds today's key and cannot sign anything in yesterday's name. The ledger has a line for every
//! epoch, also for those in which no daemon ran, and one for each segment that came or went; each
//! line is signed together with the signature before it. So no line of a past epoch can be changed,
//! left out or put elsewhere, and a segment's line has the checksum of the whole file: its entries,
//! indexes and all.
//!
//! The first key is the verification key: it is printed once and kept elsewhere. What is written
//! in the current epoch can be forged by who has its key, and a whole directory with its state can be
//! put back to an older copy: that is seen by the time until which it is sealed.
//!
//! [`keys`] is pure, `record` is what lines are, [`book`] is the daemon's side, [`audit`] checks.
//! While there is a ledger nothing is merged: a merged file would be signed today.

pub mod audit;
pub mod book;
pub mod keys;
mod record;

#[cfg(test)]
mod tests;

/// Name of the list in the store's directory.
pub const LEDGER_NAME: &str = "ledger";

/// Name of the file with the current key.
pub const KEY_NAME: &str = "ledger.key";

/// Largest ledger that is read, bytes: some decades of quarter hours.
pub const LEDGER_BYTES_MAX: u64 = 256 << 20;
