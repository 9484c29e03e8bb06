//! Values from text, in the notation of busctl(1): a type's words in order, containers preceded
//! by their number of elements. The property tables' constant values are written in it.

use super::{Writer, first_type};

/// Writes the value of type `signature` that `text` stands for. Words are separated by spaces;
/// `""` is the empty text.
///
/// Panics if they do not fit: the texts are the program's own, and a test encodes each of them.
pub fn encode_text(signature: &str, text: &str, out: &mut Writer) {
    let mut words = text.split_ascii_whitespace();
    encode(signature, &mut words, out);
    assert!(words.next().is_none(), "words are left over in {text:?} for {signature}");
}

fn encode<'a>(signature: &str, words: &mut impl Iterator<Item = &'a str>, out: &mut Writer) {
    let mut word = || words.next().expect("a word for each basic type");
    match signature.as_bytes()[0] {
        b'y' => out.byte(number(word())),
        b'b' => out.bool(word() == "true"),
        b'q' => out.u16(number(word())),
        b'i' => out.i32(number(word())),
        b'u' => out.u32(number(word())),
        b't' => out.u64(number(word())),
        b'x' => out.i64(number(word())),
        b'd' => out.f64(number(word())),
        b's' | b'o' => out.str(Some(word()).filter(|w| *w != "\"\"").unwrap_or_default()),
        b'a' => {
            let (count, element) = (number::<u32>(word()), &signature[1..]);
            out.array(element.as_bytes()[0], |out| {
                (0..count).for_each(|_| encode(element, &mut *words, out));
            })
        }
        b'(' => {
            out.structure();
            let mut rest = &signature[1..];
            while rest != ")" {
                let (field, after) = first_type(rest).expect("signatures of tables are valid");
                encode(field, &mut *words, out);
                rest = after;
            }
            out
        }
        other => panic!("no notation for type {:?}", char::from(other)),
    };
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("{word:?} is not a number of this type"))
}

#[cfg(test)]
mod tests {
    use super::super::Reader;
    use super::*;

    #[test]
    fn containers_and_words() {
        let mut out = Writer::new();
        encode_text("(bas)", "true 2 a \"\"", &mut out);
        let bytes = out.finish();
        let mut r = Reader::new(&bytes, false);
        assert_eq!(r.clone().skip("(bas)"), Ok(()));
        assert_eq!((r.bool(), r.strs()), (Ok(true), Ok(vec!["a", ""])));
    }
}
