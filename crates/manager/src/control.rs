//! The control socket that `warren` talks to.
//!
//! Owns: connections, their quotas, and the answer of each method.
//! Must not: touch the state of the loop: it reads views and sends orders.
//! Thread: one thread for each connection.

pub(crate) mod answer;
mod authority;
pub(crate) mod caller;
pub(crate) mod careful_reader;
pub(crate) mod comments;
pub(crate) mod condition_probe;
pub(crate) mod detail;
pub(crate) mod device_report;
pub(crate) mod files;
pub(crate) mod held_starts;
pub(crate) mod jobs;
pub(crate) mod load_errors;
pub(crate) mod methods;
mod metrics;
mod overview;
pub(crate) mod quota;
pub(crate) mod records;
pub(crate) mod restarts;
mod rules_user;
pub(crate) mod server;
mod stop_plan;
pub(crate) mod timers;
mod top;
pub(crate) mod user_lookup;
pub(crate) mod varlink;
pub(crate) mod why;
