//! Sandboxes of services as plans: what a unit's settings ask for, as values that an exec helper applies.
//!
//! Owns: the meaning of sandboxing settings (systemd.exec(5)).
//! Must not: make a system call, read a file or know a unit; everything here is a function of its arguments.
//! Start reading at [`seccomp::compile`] for system calls and at [`mounts::Plan`] for the file system.

pub mod bpf;
pub mod credentials;
pub mod images;
pub mod mounts;
mod paths;
pub mod seccomp;
