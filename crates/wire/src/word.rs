//! Open enums: words of a vocabulary of ours, of which a newer program may know more.
//!
//! - Owns: the macro that makes them, and how they are read.
//! - Must not: refuse a word.
//! - Runs on the thread of its caller.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Visitor};

/// Reads a word.
pub(crate) fn read<'de, W, D>(from: D) -> Result<W, D::Error>
where
    W: for<'a> From<&'a str>,
    D: Deserializer<'de>,
{
    struct Word<W>(PhantomData<W>);
    impl<W: for<'a> From<&'a str>> Visitor<'_> for Word<W> {
        type Value = W;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<W, E> {
            Ok(W::from(text))
        }
    }
    from.deserialize_str(Word(PhantomData))
}

/// Makes an open enum: each known word a variant, and `Other` for those of newer programs.
macro_rules! words {
    ($($(#[$about:meta])* $name:ident { $($variant:ident = $word:literal,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $(#[doc = concat!("`", $word, "`")] $variant,)*
            /// A word of a newer program; an empty one where none was said.
            Other(Box<str>),
        }

        impl $name {
            /// The words that this version knows.
            pub const KNOWN: &'static [&'static str] = &[$($word),*];

            /// The word.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $word,)*
                    $name::Other(word) => word,
                }
            }

            /// Whether this version knows the word.
            pub fn is_known(&self) -> bool {
                !matches!(self, $name::Other(_))
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> $name {
                match word {
                    $($word => $name::$variant,)*
                    other => $name::Other(other.into()),
                }
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::Other("".into())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                crate::word::read(from)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "examples": $name::KNOWN})
            }
        }
    )*};
}

#[cfg(test)]
mod tests {
    words! {
        /// For the test.
        Fruit { Apple = "apple", GreenPear = "green-pear", }
    }

    #[test]
    fn a_word_of_a_newer_program_is_kept_and_written_back() {
        let known: Fruit = serde_json::from_str("\"green-pear\"").expect("a word");
        assert_eq!((&known, known.is_known()), (&Fruit::GreenPear, true));
        let newer: Fruit = serde_json::from_str("\"plum\"").expect("a word");
        assert_eq!((newer.as_str(), newer.is_known()), ("plum", false));
        assert_eq!(serde_json::to_string(&newer).expect("a word"), "\"plum\"");
        assert!(serde_json::from_str::<Fruit>("5").is_err());
        let all: Vec<Fruit> = Fruit::KNOWN.iter().map(|&word| Fruit::from(word)).collect();
        assert_eq!(all, [Fruit::Apple, Fruit::GreenPear]);
        assert_eq!(Fruit::default().as_str(), "");
    }
}
