//! The daemon over a tree and disks of the test, in a network namespace of its own where the test
//! plays udev: boot, hot plug, removal, rubbish, bursts, lost events.

mod boot;
mod events;
mod groups;
mod machine;
mod quick;
mod restart;
