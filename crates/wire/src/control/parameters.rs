//! Parameters of a request, read into its type.
//!
//! - Owns: what is said of a parameter that a method cannot take.
//! - Must not: take a value of another type for one that was left out: an order would be carried
//!   out that the caller did not give.
//! - Runs on the thread of its caller.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Expected, IntoDeserializer, Unexpected};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The parameters of a method, or what is wrong with them, in words for the client. One that is null
/// counts as left out.
pub(super) fn read<T: DeserializeOwned>(method: &str, parameters: Value) -> Result<T, String> {
    let given = match parameters {
        Value::Null => Map::new(),
        Value::Object(given) => given,
        _ => return Err("the parameters are not an object".to_owned()),
    };
    T::deserialize(Parameters(given)).map_err(|fault| match fault {
        Fault::Unknown(key) => format!("{key}: {method} has no such parameter"),
        Fault::At(key, wrong) => format!("{key}: not {wrong}"),
        Fault::Wrong(wrong) => format!("not {wrong}"),
    })
}

/// What is wrong with parameters.
#[derive(Debug)]
enum Fault {
    /// The method has no parameter of this name.
    Unknown(String),
    /// The parameter of this name is not this.
    At(String, String),
    /// A value is not this.
    Wrong(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(wrong: T) -> Fault {
        Fault::Wrong(wrong.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Fault {
        Fault::Wrong(expected.to_string())
    }

    fn unknown_field(field: &str, _: &'static [&'static str]) -> Fault {
        Fault::Unknown(field.to_owned())
    }
}

/// All parameters.
struct Parameters(Map<String, Value>);

impl<'de> de::Deserializer<'de> for Parameters {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(Entries { rest: self.0.into_iter(), value: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.0.retain(|key, value| !(value.is_null() && fields.contains(&key.as_str())));
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Parameters, one after the other.
struct Entries {
    rest: serde_json::map::IntoIter,
    value: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for Entries {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        let read = {
            let text: StrDeserializer<'_, Fault> = key.as_str().into_deserializer();
            seed.deserialize(text)?
        };
        self.value = Some((key, value));
        Ok(Some(read))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (key, value) = self.value.take().expect("its key was read");
        seed.deserialize(Parameter(value)).map_err(|fault| match fault {
            Fault::Wrong(wrong) => Fault::At(key, wrong),
            other => other,
        })
    }
}

/// The value of one.
struct Parameter(Value);

impl<'de> de::Deserializer<'de> for Parameter {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::String(text) => visitor.visit_string(text),
            Value::Array(values) => visitor.visit_seq(Elements(values.into_iter())),
            other => Err(de::Error::invalid_type(Unexpected::Other(kind_of(&other)), &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        // Null counts as left out, so there is something.
        visitor.visit_some(self)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::Bool(flag) => visitor.visit_bool(flag),
            _ => Err(Fault::Wrong("true or false".to_owned())),
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0.as_i64() {
            Some(number) => visitor.visit_i64(number),
            None => Err(Fault::Wrong("a whole number".to_owned())),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0.as_u64() {
            Some(number) => visitor.visit_u64(number),
            None => Err(Fault::Wrong("a whole number that is not negative".to_owned())),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::String(text) => visitor.visit_string(text),
            _ => Err(Fault::Wrong("a text".to_owned())),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::Array(values) if values.iter().all(Value::is_string) => {
                visitor.visit_seq(Elements(values.into_iter()))
            }
            _ => Err(Fault::Wrong("a list of texts".to_owned())),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 u8 u16 u32 f32 f64 char bytes byte_buf unit unit_struct newtype_struct tuple
        tuple_struct map struct enum identifier
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Elements of a list.
struct Elements(std::vec::IntoIter<Value>);

impl<'de> SeqAccess<'de> for Elements {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        self.0.next().map(|value| seed.deserialize(Parameter(value))).transpose()
    }
}
