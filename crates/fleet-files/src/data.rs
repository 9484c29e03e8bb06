//! Inventories: JSON, YAML and CSV, as a configuration reads them.

use std::fmt;
use std::path::Path;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use warren_fleet::Source;
use warren_fleet::outside::Data;

/// How deep values may be nested.
const DEPTH_MAX: usize = 100;

/// What a file says; its name says in which language.
///
/// # Errors
/// In words, with the line: it is none of these files, or is wrong.
pub fn parse(source: &Source) -> Result<Data, String> {
    let path = &source.path;
    let extension = Path::new(&**path).extension().and_then(|e| e.to_str()).unwrap_or_default();
    let text = std::str::from_utf8(&source.text).map_err(|error| format!("{path}: {error}"))?;
    let data = match extension.to_ascii_lowercase().as_str() {
        "json" => serde_json::from_str(text).map(|Read(data)| data).map_err(|e| e.to_string()),
        "yaml" | "yml" => serde_saphyr::from_str(text).map(|Read(data)| data).map_err(first_line),
        "csv" => rows(text),
        _ => Err("an inventory is a file that ends in .json, .yaml, .yml or .csv".to_owned()),
    };
    let data = data.map_err(|what| format!("{path}: {what}"))?;
    match is_deeper(&data, DEPTH_MAX) {
        true => Err(format!("{path}: values are nested more than {DEPTH_MAX} levels deep")),
        false => Ok(data),
    }
}

/// A message without the drawing of the text below it.
fn first_line(error: serde_saphyr::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn is_deeper(data: &Data, depth: usize) -> bool {
    match (data, depth) {
        (Data::List(_) | Data::Table(_), 0) => true,
        (Data::List(items), _) => items.iter().any(|item| is_deeper(item, depth - 1)),
        (Data::Table(items), _) => items.iter().any(|(_, item)| is_deeper(item, depth - 1)),
        _ => false,
    }
}

/// Rows as dictionaries, by the names in the first row. All values are texts.
fn rows(text: &str) -> Result<Data, String> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let says = |error: csv::Error| error.to_string();
    let names: Vec<String> = reader.headers().map_err(says)?.iter().map(str::to_owned).collect();
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() || names[..at].contains(name) {
            let what = if name.is_empty() { "has no name" } else { "has the name of another one" };
            return Err(format!("line 1: column {} {what}", at + 1));
        }
    }
    let row = |record: Result<csv::StringRecord, csv::Error>| {
        let record = record.map_err(says)?;
        let values = record.iter().map(|value| Data::Text(value.to_owned()));
        Ok(Data::Table(names.iter().cloned().zip(values).collect()))
    };
    reader.records().map(row).collect::<Result<_, _>>().map(Data::List)
}

/// A value of any of these languages.
struct Read(Data);

impl<'d> Deserialize<'d> for Read {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Read, D::Error> {
        from.deserialize_any(Values)
    }
}

struct Values;

impl<'d> Visitor<'d> for Values {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Read, E> {
        Ok(Read(Data::Null))
    }

    fn visit_none<E>(self) -> Result<Read, E> {
        Ok(Read(Data::Null))
    }

    fn visit_some<D: Deserializer<'d>>(self, from: D) -> Result<Read, D::Error> {
        from.deserialize_any(Values)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Read, E> {
        Ok(Read(Data::Boolean(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Read, E> {
        Ok(Read(Data::Number(value as f64)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Read, E> {
        Ok(Read(Data::Number(value as f64)))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Read, E> {
        match value.is_finite() {
            true => Ok(Read(Data::Number(value))),
            false => Err(E::custom("a number must be finite")),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Read, E> {
        Ok(Read(Data::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut items: A) -> Result<Read, A::Error> {
        let mut out = Vec::new();
        while let Some(Read(item)) = items.next_element()? {
            out.push(item);
        }
        Ok(Read(Data::List(out)))
    }

    fn visit_map<A: MapAccess<'d>>(self, mut items: A) -> Result<Read, A::Error> {
        let mut out: Vec<(String, Data)> = Vec::new();
        while let Some(Read(key)) = items.next_key()? {
            let key = match key {
                Data::Text(key) => key,
                Data::Number(key) => key.to_string(),
                Data::Boolean(key) => key.to_string(),
                _ => return Err(de::Error::custom("a key must be a text")),
            };
            let Read(value) = items.next_value()?;
            out.push((key, value));
        }
        out.sort_by(|a, b| a.0.cmp(&b.0));
        if let Some(twice) = out.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(de::Error::custom(format!("the key '{}' appears twice", twice[0].0)));
        }
        Ok(Read(Data::Table(out)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(data: &Data) -> String {
        match data {
            Data::Null => "null".to_owned(),
            Data::Boolean(value) => value.to_string(),
            Data::Number(value) => value.to_string(),
            Data::Text(text) => format!("{text:?}"),
            Data::List(items) => {
                format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(","))
            }
            Data::Table(items) => {
                let items: Vec<String> =
                    items.iter().map(|(key, value)| format!("{key}={}", shown(value))).collect();
                format!("{{{}}}", items.join(","))
            }
        }
    }

    #[track_caller]
    fn check(name: &str, text: &str, expected: &str) {
        let found = match parse(&Source::new(name, text.as_bytes())) {
            Ok(data) => shown(&data),
            Err(what) => what,
        };
        assert!(found.starts_with(expected), "{text}\n{found}");
    }

    #[test]
    fn files_are_read_by_their_names() {
        let expected = "{a=1,b=[true,null,\"x\"],c={d=1.5}}";
        check("a.json", "{\"b\": [true, null, \"x\"], \"a\": 1, \"c\": {\"d\": 1.5}}", expected);
        check("a.yaml", "b: [true, null, x]\na: 1\nc:\n  d: 1.5\n", expected);
        check(
            "a.YML",
            "- 1\n- shop: &s {tier: gold}\n- *s\n",
            "[1,{shop={tier=\"gold\"}},{tier=\"gold\"}]",
        );
        check(
            "a.csv",
            "name, tier\nshop, gold\n\"a, b\",\n",
            "[{name=\"shop\",tier=\"gold\"},{name=\"a, b\",tier=\"\"}]",
        );
        check("a.csv", "name\n", "[]");
        check("a.txt", "", "a.txt: an inventory is a file that ends in");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        check("a.json", "{\"a\":\n x}", "a.json: expected value at line 2 column 2");
        check("a.json", "{\"a\": 1, \"a\": 2}", "a.json: the key 'a' appears twice");
        check("a.json", &"[".repeat(200), "a.json: ");
        check("a.yaml", "a: [1\nb: 2\n", "a.yaml: ");
        check("a.yaml", "a: .inf\n", "a.yaml: ");
        check("a.csv", "a,b\n1\n", "a.csv: CSV error: record 1 (line: 2");
        check("a.csv", "a,a\n1,2\n", "a.csv: line 1: column 2 has the name of another one");
        check("a.csv", "\u{ff}a\n", "[]");
    }

    /// Aliases of aliases: a small text that stands for billions of values.
    #[test]
    fn a_small_text_makes_no_large_value() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}, ", level - 1).repeat(10);
            text.push_str(&format!("a{level}: &a{level} [{before}]\n"));
        }
        check("a.yaml", &text, "a.yaml: ");
    }
}
