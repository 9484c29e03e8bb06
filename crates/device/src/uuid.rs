//! 128-bit identifiers, in the usual 8-4-4-4-12 form.

use std::fmt;

/// An identifier of a file system, an array or a partition table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The identifier of GPT: its first three fields are little-endian on disk (UEFI
    /// specification, appendix A).
    pub fn from_guid(b: [u8; 16]) -> Uuid {
        let [a0, a1, a2, a3, b0, b1, c0, c1, rest @ ..] = b;
        let mut out = [a3, a2, a1, a0, b1, b0, c1, c0, 0, 0, 0, 0, 0, 0, 0, 0];
        out[8..].copy_from_slice(&rest);
        Uuid(out)
    }

    /// Reads 32 hexadecimal digits, with dashes and colons wherever they please.
    pub fn parse(text: &str) -> Option<Uuid> {
        let digits: Vec<u32> = text
            .chars()
            .filter(|c| !matches!(c, '-' | ':'))
            .map(|c| c.to_digit(16))
            .collect::<Option<_>>()?;
        let bytes: Vec<u8> = digits.chunks(2).map(|d| fold_digits(d) as u8).collect();
        (digits.len() == 32).then_some(Uuid(bytes.try_into().ok()?))
    }

    /// True for the identifier that stands for none.
    pub fn is_nil(&self) -> bool {
        self.0 == [0; 16]
    }
}

fn fold_digits(digits: &[u32]) -> u32 {
    digits.iter().fold(0, |sum, digit| sum << 4 | digit)
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_comes_back_from_its_text() {
        let uuid = Uuid::parse("00112233-4455-6677-8899-aabbccddeeff").expect("32 digits");
        assert_eq!(uuid.to_string(), "00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(Uuid::from_guid(uuid.0).to_string(), "33221100-5544-7766-8899-aabbccddeeff");
        assert_eq!(Uuid::parse("00112233:44556677:8899aabb:ccddeeff"), Some(uuid));
        for wrong in
            ["", "0", "zz112233445566778899aabbccddeeff", "00112233445566778899aabbccddeef"]
        {
            assert_eq!(Uuid::parse(wrong), None, "{wrong}");
        }
    }
}
