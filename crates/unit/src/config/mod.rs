//! Typed, frozen configuration: what the settings of a unit mean after everything is merged,
//! specifiers are replaced and defaults are applied.
//!
//! Plain data with public fields; made by the compile functions, then only read. Timeouts are
//! `Option<Duration>`, where `None` is no timeout. Sizes are bytes unless a name says otherwise.

/// Declares an enum of words as they stand in unit files.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $( $(#[$vdoc:meta])* $variant:ident = $text:literal, )* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $( $(#[$vdoc])* $variant, )* }

        impl $name {
            /// Every word, in order.
            pub const WORDS: &'static [&'static str] = &[$( $text, )*];

            /// Every variant, in order.
            pub const ALL: &'static [$name] = &[$( $name::$variant, )*];

            /// The word in unit files and on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $text, )* }
            }

            /// The variant that this word means.
            pub fn from_word(word: &str) -> Option<$name> {
                match word { $( $text => Some($name::$variant), )* _ => None }
            }
        }
    };
}

mod cgroup;
mod command;
mod crash;
pub mod dynamic_user;
mod exec;
mod kill;
mod mount;
mod nft;
mod path;
mod scope;
mod service;
mod socket;
mod status;
mod timer;
mod unit;
mod watchdog;

pub use cgroup::*;
pub use command::*;
pub use crash::*;
pub use exec::*;
pub use kill::*;
pub use mount::*;
pub use nft::*;
pub use path::*;
pub use scope::*;
pub use service::*;
pub use socket::*;
pub use status::*;
pub use timer::*;
pub use unit::*;
pub use watchdog::*;
