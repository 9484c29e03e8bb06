//! Many hosts: the agent of a host, the command over all of them, and their store.
//!
//! - Owns: the connection to etcd, what a host remembers, and the rules that it has in force.
//! - Must not: decide; what is decided is in `warren-hosts`, which is pure.
//! - Start at `agent` (one host) and `commands` (an operator).

pub mod agent;
pub mod commands;
pub mod disk;
pub mod manager;
pub mod manual;
pub mod restarts;
pub mod rules;
pub mod service;
pub mod settings;
pub mod signing;
pub mod site;
pub mod store;
