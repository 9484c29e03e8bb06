//! What a type can ask of its attributes beyond their kind. `check` and `shape` hold values against it.

/// A check of one attribute of an object.
#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// Whatever the kind takes.
    Nothing,
    /// A number above 0.
    AboveZero,
    /// One of these texts; else the message, in which `$` is the text.
    OneOf(&'static (&'static str, &'static [&'static str])),
    /// The same, or a whole number.
    OneOrNumber(&'static (&'static str, &'static [&'static str])),
    /// Every `$` has its other one.
    Macros,
    /// Custom variables: every `$` in them has its other one.
    Vars,
    /// A value with something inside.
    Shape(&'static Shape),
    /// `command` of commands.
    Command,
    /// `arguments` of commands.
    Arguments,
    /// `times` of notifications.
    Times,
    /// Days and hours.
    Ranges,
    /// States: their names, or numbers of them added up.
    States,
    /// Kinds of notifications.
    Kinds,
    /// `child_options` of downtimes.
    ChildOptions,
    /// A service of the host that another attribute names.
    Service,
    /// An endpoint in the zone of the object, or below it.
    Endpoint,
}

/// What a value inside an attribute must be. Nothing at all is always taken.
#[derive(Debug)]
pub enum Shape {
    /// A text, a number, true or false.
    Text,
    /// The same, in which every `$` has its other one.
    Macros,
    /// A number, or a text that is one.
    Number,
    /// A function.
    Function,
    /// One of these: the first that takes the value says what is inside.
    Either(&'static [Shape]),
    /// An array of these.
    Items(&'static Shape),
    /// A dictionary of these, whatever the keys.
    Entries(&'static Shape),
    /// A dictionary with these keys and no others; true for those that must be there.
    Keys(&'static [(&'static str, Shape, bool)]),
}
