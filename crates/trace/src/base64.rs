//! Base64 with padding (RFC 4648, section 4): data of pages, recordings within JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The text of bytes.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a text; `None` if it is not one that [`encode`] could have made.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_rfc() {
        let known =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (text, expect) in known {
            assert_eq!(encode(text.as_bytes()), expect);
            assert_eq!(decode(expect).as_deref(), Some(text.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["Zg=", "Zg", "Z===", "Zg=a", "Zm9\n", "====", "Zmé"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
