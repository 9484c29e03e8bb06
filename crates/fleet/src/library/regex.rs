//! Regular expressions of `regex()`: Perl's syntax over bytes, as the installed program has it:
//! `.` matches line ends too, `^` and `$` match at every line.
//!
//! A pattern is compiled to a small program that is run with backtracking and a bound on its
//! steps. Look-around, back references, lazy and possessive repetition are there; named groups,
//! conditions and recursion are not, and say so.

mod compile;

use std::fmt;

/// The most steps of one search.
const STEPS_MAX: usize = 5_000_000;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegexError {
    /// The pattern is wrong; the position and the reason.
    Syntax(usize, &'static str),
    /// The pattern is larger than the bound.
    TooLarge,
    /// The search took more steps than the bound.
    TooComplex,
}

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegexError::Syntax(at, reason) => {
                write!(f, "the regular expression is wrong at byte {at}: {reason}")
            }
            RegexError::TooLarge => f.write_str("the regular expression is too large"),
            RegexError::TooComplex => f.write_str(
                "The complexity of matching the regular expression exceeded predefined bounds.",
            ),
        }
    }
}

/// A set of bytes.
type Set = [u64; 4];

fn has(set: &Set, byte: u8) -> bool {
    set[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
}

/// Conditions on a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    LineStart,
    LineEnd,
    TextStart,
    TextEnd,
    TextEndOrNewline,
    WordEdge,
    NoWordEdge,
    WordStart,
    WordEnd,
}

#[derive(Clone, Debug)]
enum Step {
    Set(Box<Set>),
    Condition(Condition),
    /// Goes on at the first, and at the second if that fails.
    Split(usize, usize),
    Jump(usize),
    /// Notes the position in a slot.
    Save(usize),
    /// Fails if nothing was taken since the slot was noted: an empty turn of a loop.
    Progress(usize),
    /// The text of a group again; letters in either case if asked.
    Again(usize, bool),
    /// What is between here and the step must match here (`behind` = 0) or end here after so many
    /// bytes; nothing is taken.
    Look {
        end: usize,
        behind: usize,
        negative: bool,
    },
    /// What is between here and the step is matched once and never otherwise.
    Atomic(usize),
    /// The end of a look-around, an atomic group or the whole.
    Match,
}

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Regex {
    steps: Vec<Step>,
    slots: usize,
}

impl Regex {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The pattern is wrong or too large.
    pub fn new(pattern: &[u8]) -> Result<Regex, RegexError> {
        compile::compile(pattern)
    }

    /// Whether it matches anywhere in a text.
    ///
    /// # Errors
    /// The search takes too many steps.
    pub fn find(&self, text: &[u8]) -> Result<bool, RegexError> {
        let mut search = Search { regex: self, text, steps: 0 };
        for start in 0..=text.len() {
            let mut slots = vec![usize::MAX; self.slots];
            if search.run(0, start, &mut slots, 0)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// How deep look-arounds and atomic groups may be nested.
const DEPTH_MAX: usize = 50;

struct Search<'s> {
    regex: &'s Regex,
    text: &'s [u8],
    steps: usize,
}

/// Where to go on after a failure: a step, a position and the slots there.
type Retry = (usize, usize, Vec<usize>);

impl Search<'_> {
    /// Runs from a step and position; where the match ends.
    fn run(
        &mut self,
        mut step: usize,
        mut at: usize,
        slots: &mut Vec<usize>,
        depth: usize,
    ) -> Result<Option<usize>, RegexError> {
        if depth > DEPTH_MAX {
            return Err(RegexError::TooComplex);
        }
        let mut retries: Vec<Retry> = Vec::new();
        loop {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(RegexError::TooComplex);
            }
            let next = match &self.regex.steps[step] {
                Step::Match => return Ok(Some(at)),
                Step::Split(first, second) => {
                    retries.push((*second, at, slots.clone()));
                    Some((*first, at))
                }
                Step::Jump(to) => Some((*to, at)),
                Step::Save(slot) => {
                    slots[*slot] = at;
                    Some((step + 1, at))
                }
                Step::Look { end, behind, negative } => {
                    let (end, behind, negative) = (*end, *behind, *negative);
                    let found = self.look(step + 1, at, behind, slots, depth)?;
                    (found != negative).then_some((end, at))
                }
                Step::Atomic(end) => {
                    let end = *end;
                    self.run(step + 1, at, slots, depth + 1)?.map(|after| (end, after))
                }
                simple => self.simple(simple, at, slots).map(|after| (step + 1, after)),
            };
            match next {
                Some(next) => (step, at) = next,
                None => match retries.pop() {
                    Some(retry) => (step, at, *slots) = retry,
                    None => return Ok(None),
                },
            }
        }
    }

    fn look(
        &mut self,
        step: usize,
        at: usize,
        behind: usize,
        slots: &mut Vec<usize>,
        depth: usize,
    ) -> Result<bool, RegexError> {
        let Some(start) = at.checked_sub(behind) else { return Ok(false) };
        let before = slots.clone();
        let end = self.run(step, start, slots, depth + 1)?;
        let found = end.is_some_and(|end| behind == 0 || end == at);
        if !found {
            *slots = before;
        }
        Ok(found)
    }

    /// A step that succeeds in one way at most: the position after it.
    fn simple(&self, step: &Step, at: usize, slots: &[usize]) -> Option<usize> {
        match step {
            Step::Set(set) => {
                self.text.get(at).is_some_and(|byte| has(set, *byte)).then_some(at + 1)
            }
            Step::Condition(condition) => self.holds(*condition, at).then_some(at),
            Step::Progress(slot) => (slots[*slot] != at).then_some(at),
            Step::Again(group, either_case) => {
                let taken = self.text.get(slots[group * 2]..slots[group * 2 + 1])?;
                let here = self.text.get(at..at + taken.len())?;
                let same = match either_case {
                    true => here.eq_ignore_ascii_case(taken),
                    false => here == taken,
                };
                same.then_some(at + taken.len())
            }
            _ => None,
        }
    }

    fn holds(&self, condition: Condition, at: usize) -> bool {
        let before = at.checked_sub(1).map(|at| self.text[at]);
        let after = self.text.get(at).copied();
        let is_word = |byte: Option<u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let is_newline = |byte: Option<u8>| byte.is_none_or(|byte| b"\n\r\x0c".contains(&byte));
        let rest = &self.text[at..];
        match condition {
            Condition::LineStart => is_newline(before),
            Condition::LineEnd => is_newline(after),
            Condition::TextStart => at == 0,
            Condition::TextEnd => rest.is_empty(),
            Condition::TextEndOrNewline => rest.is_empty() || rest == b"\n",
            Condition::WordEdge => is_word(before) != is_word(after),
            Condition::NoWordEdge => is_word(before) == is_word(after),
            Condition::WordStart => !is_word(before) && is_word(after),
            Condition::WordEnd => is_word(before) && !is_word(after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: bool) {
        let regex = Regex::new(pattern.as_bytes());
        let found = regex.and_then(|regex| regex.find(text.as_bytes()));
        assert_eq!(found, Ok(expected), "{pattern} in {text}");
    }

    #[test]
    fn patterns() {
        check("b", "abc", true);
        check("^b", "a\nb", true);
        check("a$", "a\nb", true);
        check("a.b", "a\nb", true);
        check("^(a|b)*c$", "ababc", true);
        check("^(a|b)*c$", "abdc", false);
        check("(a)\\1", "aa", true);
        check("(a+)b\\1$", "aabaa", true);
        check("a(?=b)", "ab", true);
        check("a(?!b)", "ab", false);
        check("(?<=a)b", "ab", true);
        check("(?<!a)b", "ab", false);
        check("(?i)B", "abc", true);
        check("(?i:B)c", "abC", false);
        check("a{2,3}$", "aaa", true);
        check("^a{2}$", "aaa", false);
        check("^a{2,}$", "aaaaa", true);
        check("[[:alpha:]]+$", "ab1", false);
        check("[^a-c]", "abc", false);
        check("[]a]", "]", true);
        check("\\d+\\s\\w", "1 a", true);
        check("\\bab\\b", "x ab", true);
        check("(?>a*)a", "aaa", false);
        check("a*+a", "aaa", false);
        check("a??b", "ab", true);
        check("(|a)+b", "aab", true);
        check("(a*)*b", "aab", true);
        check("\\x41\\.\\Q*+\\E", "A.*+", true);
        check("a|", "b", true);
        check("", "", true);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for pattern in ["[", "(", ")", "a{2,1}", "*", "\\", "[b-a]", "(?P<x>a)", "a{99999}", "\\9"]
        {
            assert!(Regex::new(pattern.as_bytes()).is_err(), "{pattern}");
        }
        let bad = Regex::new(b"(a*)*(a*)*(a*)*$b").expect("a valid pattern");
        assert_eq!(bad.find(&[b'a'; 300]), Err(RegexError::TooComplex));
    }

    #[test]
    fn made_up_patterns_do_no_harm() {
        let mut numbers = crate::fuzz::Numbers(9);
        for _ in 0..5000 {
            let length = numbers.below(10);
            let alphabet = b"ab()[]{}*+?|^$.\\1dw,-:<=!";
            let pattern: Vec<u8> =
                (0..length).map(|_| alphabet[numbers.below(alphabet.len())]).collect();
            if let Ok(regex) = Regex::new(&pattern) {
                let _ = regex.find(b"aab ba1");
            }
        }
    }
}
