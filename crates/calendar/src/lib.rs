//! Calendar expressions (systemd.time(7), "CALENDAR EVENTS"): read from text, written in the normal form, and
//! when they elapse next.
//!
//! Must not: read a clock, or the zone files of the host: moments and zones are arguments. Start at
//! [`Calendar::parse`] and [`Calendar::next_after`].

mod elapse;
mod expression;
mod field;
mod parse;
mod zone;

pub use elapse::UnknownZone;
pub use expression::{Calendar, ZoneWord};
pub use parse::{Fault, is_zone_name};
pub use zone::{Zone, Zones};
