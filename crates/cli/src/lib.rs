//! `warren`: the command. A client of the control socket, an offline checker of unit files, and
//! the launcher of nested managers.
//!
//! What must not be here: decisions about units. What is printed comes from the manager's answers
//! (or, for `verify`, from `warren_unit`); rendering is pure, text in and text out. Start reading
//! at [`args`] (what there is), then [`client`] and [`verbs`]; [`nest`] is `warren run`.

/// A line on standard error. That nobody reads it any more is no reason to end.
#[macro_export]
macro_rules! complain {
    ($($words:tt)*) => {
        $crate::output::complain(format_args!($($words)*))
    };
}

pub mod answers;
pub mod args;
mod author;
pub mod chart;
pub mod client;
mod complete;
mod connection;
pub mod console;
pub mod devices;
pub mod devices_scan;
mod elsewhere;
pub mod fleet;
mod host;
mod leaving;
mod live;
mod logs;
mod lsp;
pub mod machine;
mod manual;
mod names;
pub mod nest;
pub mod output;
mod ranking;
pub mod render;
pub mod security;
pub mod timers;
pub mod top;
pub mod tour;
mod unit_files;
mod values;
pub mod verbs;
pub mod verify;
mod waiting;
pub mod words;
