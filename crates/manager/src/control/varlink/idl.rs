//! Descriptions of varlink interfaces (varlink.org, 'Interface Definition'): read, and held against values. Pure.
//!
//! A description is the one table of what a method takes and says: parameters of clients are held against it, and tests
//! hold all that is said against it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Interface {
    /// Its name.
    pub name: String,
    /// Types that fields refer to.
    types: BTreeMap<String, Type>,
    /// What methods take, and what they say.
    methods: BTreeMap<String, (Fields, Fields)>,
    /// What errors say.
    errors: BTreeMap<String, Fields>,
}

/// Names and types, in order.
pub(crate) type Fields = Vec<(String, Type)>;

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `float`
    Float,
    /// `string`
    Text,
    /// Anything that is an object.
    Object,
    /// Anything at all.
    Any,
    /// One that the interface names.
    Named(String),
    /// Null, too, or left out.
    Maybe(Box<Type>),
    /// Any number of these.
    List(Box<Type>),
    /// By texts.
    Map(Box<Type>),
    /// These fields.
    Struct(Fields),
    /// One of these words.
    Enum(Vec<String>),
}

/// Types in types, and structures in structures of a value.
const DEPTH_MAX: usize = 16;

impl Interface {
    /// Reads a description.
    ///
    /// # Errors
    /// What was expected, and the words from there on.
    pub(crate) fn parse(text: &str) -> Result<Interface, String> {
        let mut tokens = Tokens { words: words(text), at: 0 };
        tokens.expect("interface")?;
        let mut interface = Interface { name: tokens.word()?.to_owned(), ..Interface::default() };
        while tokens.at < tokens.words.len() {
            let kind = tokens.word()?;
            let name = tokens.word()?.to_owned();
            match kind {
                "type" => drop(interface.types.insert(name, tokens.group(0)?)),
                "method" => {
                    let input = tokens.fields()?;
                    tokens.expect("->")?;
                    drop(interface.methods.insert(name, (input, tokens.fields()?)));
                }
                "error" => drop(interface.errors.insert(name, tokens.fields()?)),
                other => return Err(format!("no member begins with {other}")),
            }
        }
        Ok(interface)
    }

    /// The fields of a structure that has a name.
    pub(crate) fn fields(&self, name: &str) -> &[(String, Type)] {
        match self.types.get(name) {
            Some(Type::Struct(fields)) => fields,
            _ => &[],
        }
    }

    /// All structures that have a name.
    pub(crate) fn structures(&self) -> impl Iterator<Item = (&str, &Fields)> {
        self.types.iter().filter_map(|(name, of)| match of {
            Type::Struct(fields) => Some((&**name, fields)),
            _ => None,
        })
    }

    /// The type behind names.
    pub(crate) fn resolved<'a>(&'a self, mut of: &'a Type) -> &'a Type {
        while let Type::Named(name) = of
            && let Some(named) = self.types.get(name)
        {
            of = named;
        }
        of
    }

    /// Whether it has a method of this name.
    pub(crate) fn has_method(&self, name: &str) -> bool {
        self.methods.contains_key(name)
    }

    /// Holds the parameters of a call against what its method takes.
    ///
    /// # Errors
    /// The parameter that it does not take, that is of another type, or that is missing.
    pub(crate) fn check_call(
        &self,
        method: &str,
        parameters: &Map<String, Value>,
    ) -> Result<(), String> {
        let (input, _) = self.methods.get(method).ok_or_else(|| method.to_owned())?;
        self.check_fields(input, parameters, 0).map_err(first_part)
    }

    /// Holds what a method says against its description.
    ///
    /// # Errors
    /// The path of the field that is not as described.
    pub(crate) fn check_reply(
        &self,
        method: &str,
        parameters: &Map<String, Value>,
    ) -> Result<(), String> {
        let (_, output) = self.methods.get(method).ok_or_else(|| method.to_owned())?;
        self.check_fields(output, parameters, 0)
    }

    /// Holds what an error says against its description.
    ///
    /// # Errors
    /// The path of the field that is not as described.
    #[cfg(test)]
    pub(crate) fn check_error(
        &self,
        error: &str,
        parameters: &Map<String, Value>,
    ) -> Result<(), String> {
        let fields = self.errors.get(error).ok_or_else(|| error.to_owned())?;
        self.check_fields(fields, parameters, 0)
    }

    fn check_fields(
        &self,
        fields: &Fields,
        values: &Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        let is_known = |name: &String| fields.iter().any(|(field, _)| field == name);
        if let Some(unknown) = values.keys().find(|name| !is_known(name)) {
            return Err(unknown.clone());
        }
        for (name, field) in fields {
            let value = values.get(name).unwrap_or(&Value::Null);
            self.check(field, value, depth + 1).map_err(|below| match &*below {
                "" => name.clone(),
                below => format!("{name}.{below}"),
            })?;
        }
        Ok(())
    }

    /// Errors: the path below the value; empty for itself.
    fn check(&self, expected: &Type, value: &Value, depth: usize) -> Result<(), String> {
        let is_so = |holds: bool| if holds { Ok(()) } else { Err(String::new()) };
        if depth > DEPTH_MAX {
            return Err(String::new());
        }
        match (expected, value) {
            (Type::Maybe(_), Value::Null) => Ok(()),
            (Type::Maybe(inner), value) => self.check(inner, value, depth),
            (Type::Any, value) => is_so(!value.is_null()),
            (Type::Bool, value) => is_so(value.is_boolean()),
            (Type::Int, value) => is_so(value.is_i64() || value.is_u64()),
            (Type::Float, value) => is_so(value.is_number()),
            (Type::Text, value) => is_so(value.is_string()),
            (Type::Object, value) => is_so(value.is_object()),
            (Type::Enum(words), value) => {
                is_so(value.as_str().is_some_and(|word| words.iter().any(|known| known == word)))
            }
            (Type::Named(name), value) => match self.types.get(name) {
                Some(named) => self.check(named, value, depth + 1),
                None => Err(String::new()),
            },
            (Type::List(inner), Value::Array(items)) => {
                items.iter().try_for_each(|item| self.check(inner, item, depth + 1))
            }
            (Type::Map(inner), Value::Object(items)) => {
                items.values().try_for_each(|item| self.check(inner, item, depth + 1))
            }
            (Type::Struct(fields), Value::Object(values)) => {
                self.check_fields(fields, values, depth + 1)
            }
            (Type::List(_) | Type::Map(_) | Type::Struct(_), _) => Err(String::new()),
        }
    }
}

/// Of the path of a field that of its parameter.
fn first_part(path: String) -> String {
    path.split('.').next().unwrap_or_default().to_owned()
}

/// Words and signs, without comments.
fn words(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.flat_map(words_of_line).collect()
}

fn words_of_line(line: &str) -> Vec<&str> {
    const SIGNS: [&str; 8] = ["->", "[string]", "[]", "(", ")", ",", ":", "?"];
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
        let end = |c: char| c.is_whitespace() || "()[],:?".contains(c);
        let length = sign.map_or_else(|| rest.find(end).unwrap_or(rest.len()), str::len);
        // A sign that is none is a word of its own, which nothing expects.
        let length = length.max(rest.chars().next().map_or(1, char::len_utf8));
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found
}

/// What is left of a description.
struct Tokens<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> &'a str {
        self.words.get(self.at).copied().unwrap_or_default()
    }

    fn word(&mut self) -> Result<&'a str, String> {
        let word = self.words.get(self.at).copied().ok_or("the description ends too early")?;
        self.at += 1;
        Ok(word)
    }

    fn expect(&mut self, expected: &str) -> Result<(), String> {
        let rest = self.words[self.at..].iter().take(4).copied().collect::<Vec<_>>().join(" ");
        match self.word()? {
            word if word == expected => Ok(()),
            _ => Err(format!("expected {expected} before {rest}")),
        }
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_there = self.peek() == sign;
        self.at += usize::from(is_there);
        is_there
    }

    fn fields(&mut self) -> Result<Fields, String> {
        match self.group(0)? {
            Type::Struct(fields) => Ok(fields),
            Type::Enum(_) => Err("words where fields are expected".to_owned()),
            _ => unreachable!("a group is one of both"),
        }
    }

    /// `(a: int, b: string)` or `(a, b)`; nothing between is a structure without fields.
    fn group(&mut self, depth: usize) -> Result<Type, String> {
        if depth > DEPTH_MAX {
            return Err("types in types without end".to_owned());
        }
        self.expect("(")?;
        let (mut fields, mut words) = (Fields::new(), Vec::new());
        while !self.takes(")") {
            let name = self.word()?.to_owned();
            match self.takes(":") {
                true => fields.push((name, self.field(depth)?)),
                false => words.push(name),
            }
            if !self.takes(",") && self.peek() != ")" {
                return Err(format!("expected , or ) before {}", self.peek()));
            }
        }
        match (fields.is_empty(), words.is_empty()) {
            (_, true) => Ok(Type::Struct(fields)),
            (true, false) => Ok(Type::Enum(words)),
            (false, false) => Err("fields beside words".to_owned()),
        }
    }

    fn field(&mut self, depth: usize) -> Result<Type, String> {
        if depth > DEPTH_MAX {
            return Err("types in types without end".to_owned());
        }
        let wrapped = |inner: Type, wrap: fn(Box<Type>) -> Type| wrap(Box::new(inner));
        if self.takes("?") {
            return Ok(wrapped(self.field(depth + 1)?, Type::Maybe));
        }
        if self.takes("[]") {
            return Ok(wrapped(self.field(depth + 1)?, Type::List));
        }
        if self.takes("[string]") {
            return Ok(wrapped(self.field(depth + 1)?, Type::Map));
        }
        if self.peek() == "(" {
            return self.group(depth + 1);
        }
        Ok(match self.word()? {
            "bool" => Type::Bool,
            "int" => Type::Int,
            "float" => Type::Float,
            "string" => Type::Text,
            "object" => Type::Object,
            "any" => Type::Any,
            name => Type::Named(name.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EXAMPLE: &str = "# What it is.\ninterface org.example.A\n\n\
        type Kind (one, two)\n\
        # With a remark: (and signs).\n\
        type Part (name: string, kinds: ?[]Kind, sizes: [string]int, inner: ?(deep: bool))\n\
        method Do(part: ?Part, id: int) -> (parts: []Part, any: ?any, object: ?object)\n\
        method Nothing() -> ()\n\
        error No(why: ?string)\n";

    fn example() -> Interface {
        Interface::parse(EXAMPLE).expect("a description")
    }

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[track_caller]
    fn check(parameters: Value, wrong: Option<&str>) {
        let found = example().check_call("Do", &object(parameters.clone()));
        assert_eq!(found.err().as_deref(), wrong, "{parameters}");
    }

    #[test]
    fn parameters_are_what_the_description_says() {
        check(json!({"id": 3}), None);
        check(json!({"id": 3, "part": null}), None);
        check(json!({}), Some("id"));
        check(json!({"id": "3"}), Some("id"));
        check(json!({"id": 3.5}), Some("id"));
        check(json!({"id": 3, "more": 1}), Some("more"));
        let part = json!({"name": "a", "kinds": ["one", "two"], "sizes": {"x": 1}, "inner": {"deep": true}});
        check(json!({"id": 1, "part": part}), None);
        for (field, wrong) in
            [("name", json!(1)), ("kinds", json!(["three"])), ("sizes", json!({"x": "y"}))]
        {
            let mut other = part.clone();
            other[field] = wrong;
            check(json!({"id": 1, "part": other}), Some("part"));
        }
    }

    #[test]
    fn replies_and_errors_are_held_against_it_with_the_path_of_what_is_wrong() {
        let say = |value: Value| example().check_reply("Do", &object(value));
        assert_eq!(say(json!({"parts": []})), Ok(()));
        let parts = json!([{"name": "a", "sizes": {}, "inner": {"deep": 1}}]);
        assert_eq!(say(json!({"parts": parts})), Err("parts.inner.deep".to_owned()));
        let error = |value: Value| example().check_error("No", &object(value));
        assert_eq!(error(json!({"why": "so"})), Ok(()));
        assert_eq!(error(json!({"reason": "so"})), Err("reason".to_owned()));
    }

    #[test]
    fn what_is_no_description_is_refused_and_says_where() {
        for text in [
            "",
            "interface",
            "interface a type",
            "interface a type B",
            "interface a type B (c: )",
            "interface a method B() (c: int)",
            "interface a method B(c, d) -> ()",
            "interface a type B (c: int d: int)",
            "interface a type B (c, d: int)",
            "interface a constant B ()",
        ] {
            assert!(Interface::parse(text).is_err(), "{text:?}");
        }
        let deep = format!("interface a type B {}", "(c: ".repeat(100_000));
        assert!(Interface::parse(&deep).is_err());
    }
}
