//! What a property is, and how its value is written: the words of all tables of properties.
//!
//! Must not: know a property. The tables are in the files beside it.

use super::subject::Subject;
use super::values;
use crate::wire::{Writer, encode_text};

/// What subscribers are told when the value changes
/// (`org.freedesktop.DBus.Property.EmitsChangedSignal`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emits {
    /// The new value.
    Value,
    /// That it changed.
    Invalidates,
    /// It cannot change while the object exists.
    Const,
    /// Nothing.
    Never,
}

/// Reads a value and writes it, without its signature.
pub type Getter = for<'w> fn(&Subject<'_>, &'w mut Writer) -> &'w mut Writer;

/// Where a value comes from.
#[derive(Clone, Copy)]
pub enum Value {
    /// Always this, in the notation of busctl(1).
    Fixed(&'static str),
    /// The default of a setting that protects the host.
    Sandbox(&'static str),
    /// Read from the view or the unit's settings.
    Of(Getter),
}

/// One property.
pub struct Property {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub signature: &'static str,
    /// What a change does.
    pub emits: Emits,
    /// Where the value comes from.
    pub value: Value,
}

/// Some properties, in the order in which clients see them.
pub type Table = &'static [Property];

/// An interface and the tables that make it up.
pub struct Interface {
    /// Its name, in full.
    pub name: &'static str,
    /// Its properties.
    pub tables: &'static [Table],
}

/// `NAME: Property "signature" Emits = fixed; ...`, with `~` before a sandbox default and `=>`
/// before a getter.
macro_rules! properties {
    ($(#[$doc:meta])* $table:ident:
        $($name:ident $signature:literal $emits:ident $kind:tt $value:expr;)*) => {
        $(#[$doc])*
        pub static $table: &[$crate::properties::property::Property] = &[$($crate::properties::property::Property {
            name: stringify!($name),
            signature: $signature,
            emits: $crate::properties::property::Emits::$emits,
            value: $crate::properties::property::property_value!($kind $value),
        },)*];
    };
}

macro_rules! property_value {
    (= $text:expr) => {
        $crate::properties::property::Value::Fixed($text)
    };
    (~ $text:expr) => {
        $crate::properties::property::Value::Sandbox($text)
    };
    (=> $getter:expr) => {
        $crate::properties::property::Value::Of($getter)
    };
}
pub(crate) use {properties, property_value};

impl Interface {
    /// All properties in order.
    pub fn properties(&self) -> impl Iterator<Item = &'static Property> {
        self.tables.iter().flat_map(|table| table.iter())
    }

    /// The property with this name.
    pub fn find(&self, name: &str) -> Option<&'static Property> {
        self.properties().find(|property| property.name == name)
    }
}

impl Property {
    /// Writes the value as a variant.
    pub fn write(&self, subject: &Subject<'_>, out: &mut Writer) {
        out.variant(self.signature);
        match self.value {
            Value::Fixed(text) => encode_text(self.signature, text, out),
            Value::Of(getter) => {
                getter(subject, out);
            }
            Value::Sandbox(default) => self.write_sandbox(subject, default, out),
        }
    }

    /// A setting that asks for protection is shown as it was asked for, where it is a switch or a
    /// word.
    fn write_sandbox(&self, subject: &Subject<'_>, default: &str, out: &mut Writer) {
        let exec = subject.exec();
        let mut all = exec.sandbox.iter().chain(&exec.protections);
        let asked = all.find(|asked| asked.setting == self.name);
        match (asked, self.signature) {
            (Some(asked), "b") => {
                out.bool(values::is_yes(&asked.value));
            }
            (Some(asked), "s") => {
                out.str(values::normal_word(&asked.value));
            }
            _ => encode_text(self.signature, default, out),
        }
    }

    /// Writes a dictionary entry: name and value.
    pub fn write_entry(&self, subject: &Subject<'_>, out: &mut Writer) {
        out.structure().str(self.name);
        self.write(subject, out);
    }
}
