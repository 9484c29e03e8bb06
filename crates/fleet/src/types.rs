//! The types of a run: those of values, and those of the objects that a schema defines.

use crate::eval::{Fault, World};
use crate::heap::Heap;
use crate::schema::Check;
use crate::value::{ObjectId, TypeId, Value};

/// What an attribute that nobody set reads as.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "named by the value")]
pub enum Unset {
    Null,
    Text(&'static str),
    Number(f64),
    Boolean(bool),
    /// Something of the program's own that is not known here; it reads as null.
    Own,
    /// An array without items.
    NoItems,
    /// The name that the object was given.
    ItsName,
    /// The name that it is found by.
    FullName,
    /// The object that it belongs to.
    Owner,
    /// Where it is defined.
    Location,
    /// What follows a directory of the program's `Configuration`.
    Below(&'static str, &'static str),
    /// A dictionary.
    Entries(&'static [(&'static str, Entry)]),
}

/// A value in a dictionary that an attribute is when nobody sets it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "named by the value")]
pub enum Entry {
    Text(&'static str),
    Entries(&'static [(&'static str, Entry)]),
}

/// What values an attribute takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Anything.
    Any,
    /// A string or a number.
    Text,
    /// A number or a string that is one.
    Number,
    /// A whole number: what is behind the point is cut off.
    Integer,
    /// Anything that is true or false: a boolean or a number.
    Boolean,
    /// An array.
    Array,
    /// A dictionary.
    Dictionary,
    /// A function.
    Function,
    /// The name of an object of this type.
    Name(&'static str),
    /// An array of names of objects of this type.
    Names(&'static str),
    /// A whole number of things: 0 to 10,000.
    Count,
    /// A setting of a unit: a text, or an array of texts for settings that may be repeated.
    Setting(warren_unit::settings::Id),
    /// Set by the engine alone.
    ReadOnly,
}

/// An attribute.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub kind: Kind,
    /// Whether an object without it is wrong.
    pub required: bool,
    /// What it reads as when nobody set it.
    pub unset: Unset,
    /// What it must be beyond its kind.
    pub check: Check,
    /// It says how things are, not how they are to be: it can be read and is not dumped.
    pub is_state: bool,
}

/// How an object's full name comes from the name it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// It is the same.
    #[default]
    Plain,
    /// `host!service`: after the full name of what it belongs to.
    Composite,
    /// `container-name`: after the name of what a rule made it for.
    Prefixed,
}

/// What rules may do with objects of a type.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Objects of a stage are made together, and see only those of earlier stages.
    pub stage: u8,
    /// How objects are named.
    pub naming: Naming,
    /// The types that `apply` can make objects of this type for; the first is the default only
    /// if there is no other.
    pub targets: Vec<&'static str>,
    /// The type whose objects are members of objects of this type by `assign where`.
    pub members: Option<&'static str>,
    /// The variable that an object of this type is in filters and bodies.
    pub variable: &'static str,
    /// The attributes of a product that hold its target's name, by the target's type.
    pub target_names: Vec<(&'static str, &'static str)>,
    /// More attributes of a product that hold a name of that kind, unless its rule sets them.
    pub preset_names: Vec<(&'static str, &'static str)>,
    /// A value becomes what an attribute takes when it is assigned, as in Icinga: 5 becomes "5".
    /// Otherwise it stays what it is, and must be of that kind. As in Icinga, too, a rule whose `for`
    /// fails makes nothing; otherwise that is a fault.
    pub converts: bool,
    /// Objects take attributes of any name: which ones there are is not known here.
    pub takes_any: bool,
    /// What is checked of an object once all of its stage are there.
    pub after: Option<After>,
}

/// Looks at an object among all that are there.
pub type After = fn(&World, &Types, ObjectId) -> Result<(), Box<Fault>>;

/// A type.
#[derive(Clone, Debug)]
pub struct Type {
    /// Its name.
    pub name: String,
    /// The type it extends; a schema's type that names none extends `Object`.
    pub base: Option<TypeId>,
    /// Its attributes, sorted by name; only types of objects have any.
    pub fields: Vec<Field>,
    /// What rules may do; only types that there can be objects of have it.
    pub rules: Option<Rules>,
}

/// Types of values have fixed numbers, types of a schema follow them.
#[expect(missing_docs, reason = "named by the type")]
impl Types {
    pub const OBJECT: TypeId = TypeId(0);
    pub const NUMBER: TypeId = TypeId(1);
    pub const STRING: TypeId = TypeId(2);
    pub const BOOLEAN: TypeId = TypeId(3);
    pub const ARRAY: TypeId = TypeId(4);
    pub const DICTIONARY: TypeId = TypeId(5);
    pub const FUNCTION: TypeId = TypeId(6);
    pub const NAMESPACE: TypeId = TypeId(7);
    pub const TYPE: TypeId = TypeId(8);
    pub const REFERENCE: TypeId = TypeId(9);
    pub const DATE_TIME: TypeId = TypeId(10);
    pub const PERFDATA_VALUE: TypeId = TypeId(11);
}

const VALUE_TYPES: [(&str, Option<TypeId>); 12] = [
    ("Object", None),
    ("Number", None),
    ("String", None),
    ("Boolean", None),
    ("Array", Some(Types::OBJECT)),
    ("Dictionary", Some(Types::OBJECT)),
    ("Function", Some(Types::OBJECT)),
    ("Namespace", Some(Types::OBJECT)),
    ("Type", Some(Types::OBJECT)),
    ("Reference", Some(Types::OBJECT)),
    ("DateTime", Some(Types::OBJECT)),
    ("PerfdataValue", Some(Types::OBJECT)),
];

/// The attributes of what `parse_performance_data()` makes, the only objects that no schema knows.
fn performance_fields() -> Vec<Field> {
    let number = (Kind::Any, Unset::Null);
    let text = (Kind::Text, Unset::Text(""));
    let field = |(name, (kind, unset)): (&str, (Kind, Unset))| Field {
        name: name.to_owned(),
        kind,
        required: false,
        unset,
        check: Check::Nothing,
        is_state: true,
    };
    let all = [
        ("counter", (Kind::Boolean, Unset::Boolean(false))),
        ("crit", number),
        ("label", text),
        ("max", number),
        ("min", number),
        ("unit", text),
        ("value", (Kind::Number, Unset::Number(0.0))),
        ("warn", number),
    ];
    all.into_iter().map(field).collect()
}

/// The types of a run.
#[derive(Clone, Debug)]
pub struct Types {
    list: Vec<Type>,
}

impl Types {
    /// The types of values and those of a schema, in the order in which objects are made.
    pub fn new(schema: Vec<Type>) -> Types {
        let plain = |(name, base): (&str, Option<TypeId>)| Type {
            name: name.to_owned(),
            base,
            fields: Vec::new(),
            rules: None,
        };
        let mut list: Vec<Type> = VALUE_TYPES.into_iter().map(plain).collect();
        list[Types::PERFDATA_VALUE.0 as usize].fields = performance_fields();
        for mut of_type in schema {
            of_type.base = of_type.base.or(Some(Types::OBJECT));
            of_type.fields.sort_by(|a, b| a.name.cmp(&b.name));
            list.push(of_type);
        }
        Types { list }
    }

    /// What the type at this position of a schema is called in a run.
    pub fn of_schema(position: usize) -> TypeId {
        TypeId((VALUE_TYPES.len() + position) as u32)
    }

    /// The stage in which objects of a type are made.
    pub fn stage(&self, id: TypeId) -> u8 {
        self.get(id).rules.as_ref().map_or(0, |rules| rules.stage)
    }

    /// A type.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.list[id.0 as usize]
    }

    /// Every type.
    pub fn ids(&self) -> impl Iterator<Item = TypeId> + use<> {
        (0..self.list.len() as u32).map(TypeId)
    }

    /// The types of objects, in the order in which objects are made, and those they extend.
    pub fn of_objects(&self) -> impl Iterator<Item = TypeId> + use<> {
        (VALUE_TYPES.len() as u32..self.list.len() as u32).map(TypeId)
    }

    /// The type with this name.
    pub fn find(&self, name: &[u8]) -> Option<TypeId> {
        self.ids().find(|id| self.get(*id).name.as_bytes() == name)
    }

    /// What a value's type is for `typeof()`: null is an `Object`.
    pub fn of(&self, heap: &Heap<'_>, value: Value) -> TypeId {
        match value {
            Value::Empty => Types::OBJECT,
            Value::Boolean(_) => Types::BOOLEAN,
            Value::Number(_) => Types::NUMBER,
            Value::String(_) => Types::STRING,
            Value::Array(_) => Types::ARRAY,
            Value::Dictionary(_) => Types::DICTIONARY,
            Value::Namespace(_) => Types::NAMESPACE,
            Value::Function(_) | Value::Builtin(_) => Types::FUNCTION,
            Value::Type(_) => Types::TYPE,
            Value::Reference(_) => Types::REFERENCE,
            Value::Object(id) => heap.object(id).of_type,
            Value::DateTime(_) => Types::DATE_TIME,
        }
    }

    /// What messages call a value's type.
    pub fn name_of(&self, heap: &Heap<'_>, value: Value) -> &str {
        match value {
            Value::Empty => "Empty",
            value => &self.get(self.of(heap, value)).name,
        }
    }
}
