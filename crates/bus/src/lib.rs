//! org.freedesktop.systemd1 for stock clients: systemctl and busctl, over the private socket.
//!
//! This room reads published views and sends requests; it decides nothing about units, reads no
//! unit file and never waits for the manager's loop, nor the loop for it.
//!
//! Where to start: [`wire`] (bytes), [`sasl`] (the greeting), [`path`] (object paths).

pub mod glob;
pub mod path;
pub mod sasl;
pub mod wire;
