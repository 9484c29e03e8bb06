//! The text of a catalog: `-- ID [LANGUAGE]` behind a blank line begins a message; the lines up to the
//! next blank one are its head. Comments begin with `#`. Pure.

use std::path::Path;

use super::Text;
use warren_log_store::entry::Id128;

/// Longest name of a language, bytes.
const LANGUAGE_BYTES_MAX: usize = 31;

/// Texts by message and language.
type Texts = Vec<((Id128, String), Text)>;

/// `NAME.LANGUAGE.catalog` is of that language.
pub fn language_of_file(path: &Path) -> String {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let language = stem.rsplit_once('.').map_or("", |(_, language)| language);
    language.to_owned()
}

/// Reads a catalog, or says what is wrong in which line.
pub fn parse(text: &str, language: &str) -> Result<Texts, (usize, &'static str)> {
    let mut texts: Texts = Vec::new();
    // One blank line stands for several.
    let (mut after_blank, mut in_head) = (true, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.starts_with('#') {
            continue;
        }
        if let Some(begun) = line.strip_prefix("-- ").filter(|_| after_blank).and_then(heading) {
            let (id, own) = begun;
            if own.is_some_and(|own| !(2..=LANGUAGE_BYTES_MAX).contains(&own.len())) {
                return Err((number + 1, "not a valid language tag"));
            }
            let key = (id, own.unwrap_or(language).to_owned());
            if texts.iter().any(|(known, _)| *known == key) {
                return Err((number + 1, "this message is given twice"));
            }
            texts.push((key, Text::default()));
            (after_blank, in_head) = (false, true);
            continue;
        }
        let Some((_, text)) = texts.last_mut() else {
            match line.is_empty() {
                true => continue,
                false => return Err((number + 1, "this is before the first message")),
            }
        };
        match line.is_empty() {
            true => (after_blank, in_head) = (true, false),
            false if in_head => text.head.push(line.to_owned()),
            false => {
                if after_blank && !text.body.is_empty() {
                    text.body.push(String::new());
                }
                text.body.push(line.to_owned());
                after_blank = false;
            }
        }
    }
    Ok(texts)
}

/// An id and a language, if that is what it is.
fn heading(text: &str) -> Option<(Id128, Option<&str>)> {
    let (id, language) = match text.split_once(' ') {
        Some((id, language)) => (id, Some(language.trim())),
        None => (text, None),
    };
    let is_plain = id.len() == 32;
    Some((Id128::parse(id).filter(|_| is_plain)?, language))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A catalog with `|` for the ends of lines, and `ID LANGUAGE head / body` of each text.
    fn check(text: &str, expected: &[&str]) {
        let text = text.replace('|', "\n").replace("ID1", &"1".repeat(32));
        let text = text.replace("ID2", &"2".repeat(32));
        let shown = match parse(&text, "xx") {
            Err((line, what)) => vec![format!("{line}: {what}")],
            Ok(texts) => texts
                .iter()
                .map(|((id, language), text)| {
                    let first = &id.to_string()[..1];
                    let (head, body) = (text.head.join("|"), text.body.join("|"));
                    format!("{first} {language} {head} / {body}")
                })
                .collect(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn texts() {
        check("", &[]);
        check("# c||-- ID1|A: b|C: d||body||# c|||more||", &["1 xx A: b|C: d / body||more"]);
        check("-- ID1 de|A: b||-- ID1|A: c", &["1 de A: b / ", "1 xx A: c / "]);
        check(
            "-- ID1||body|-- ID2|more",
            &["1 xx  / body|-- ID2|more"]
                .map(|text| text.replace("ID2", &"2".repeat(32)).leak() as &str),
        );
        check("-- ID1|A: b||-- 1111-1111|", &["1 xx A: b / -- 1111-1111"]);
    }

    #[test]
    fn what_is_no_catalog() {
        check("rubbish", &["1: this is before the first message"]);
        check("-- ID1 x|", &["1: not a valid language tag"]);
        check("-- ID1|A: b||-- ID1|", &["4: this message is given twice"]);
    }

    #[test]
    fn languages_of_files() {
        let check = |path: &str, expected: &str| {
            assert_eq!(language_of_file(Path::new(path)), expected, "{path}");
        };
        check("/a/systemd.catalog", "");
        check("/a.b/systemd.be@latin.catalog", "be@latin");
    }
}
