//! A question on its way: chosen from the list, told what it is about, and answered. Pure.
//!
//! - Owns: the list, what is typed, the answer that is shown and how far it is scrolled.
//! - Must not: know a unit but by what it is told; ask anybody.

use crate::keys::Key;
use crate::page::of_text;
use crate::questions::{ALL, Needs, Question, Subject};

/// Characters that are typed at most.
const TYPED_CHARS_MAX: usize = 300;

/// Rows of the screen that an answer does not have.
const ROWS_OTHER: usize = 3;

/// Where the person is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asking {
    /// The list; the one under the cursor.
    List(usize),
    /// What it is about is typed.
    About(About),
    /// The answer is shown, or waited for.
    Answer(Answer),
}

/// What is typed about a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The question.
    pub question: usize,
    /// What was typed.
    pub typed: String,
    /// What is wrong with it.
    pub trouble: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The question.
    pub question: usize,
    /// What it is about.
    pub subject: Subject,
    /// What is known; none before it came.
    pub told: Option<Result<String, String>>,
    /// Lines that are scrolled.
    pub scrolled: usize,
}

/// What follows from a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    /// This is shown.
    Show(Asking),
    /// The question is to be asked, and this is shown meanwhile.
    Ask(Asking),
    /// All is as it was before.
    Close,
}

impl Asking {
    /// Takes a key; `unit` is the one under the cursor, `size` the columns and rows of the terminal.
    pub fn key(self, key: Key, unit: Option<&str>, size: (u16, u16)) -> Then {
        match self {
            Asking::List(at) => list_key(at, key, unit),
            Asking::About(about) => about.key(key),
            Asking::Answer(answer) => answer.key(key, size),
        }
    }
}

fn list_key(at: usize, key: Key, unit: Option<&str>) -> Then {
    let last = ALL.len() - 1;
    match key {
        Key::Escape | Key::Backspace => Then::Close,
        Key::Up => Then::Show(Asking::List(at.saturating_sub(1))),
        Key::Down => Then::Show(Asking::List((at + 1).min(last))),
        Key::Home | Key::PageUp => Then::Show(Asking::List(0)),
        Key::End | Key::PageDown => Then::Show(Asking::List(last)),
        Key::Enter => choose(at, unit),
        Key::Char(c) => match (0..=last).find(|place| Question::key(*place) == c) {
            Some(place) => choose(place, unit),
            None => Then::Show(Asking::List(at)),
        },
        _ => Then::Show(Asking::List(at)),
    }
}

/// Of a unit it is asked at once if there is one under the cursor; what else it needs is typed.
fn choose(question: usize, unit: Option<&str>) -> Then {
    let typed = match (ALL[question].needs, unit) {
        (Needs::Unit, Some(unit)) => {
            let subject = Subject { unit: Some(unit.to_owned()), ..Subject::default() };
            return Answer::ask(question, subject);
        }
        (Needs::UnitAndTime, Some(unit)) => format!("{unit} "),
        (Needs::Nothing, _) => return Answer::ask(question, Subject::default()),
        _ => String::new(),
    };
    Then::Show(Asking::About(About { question, typed, trouble: None }))
}

impl About {
    fn key(mut self, key: Key) -> Then {
        self.trouble = None;
        match key {
            Key::Escape => return Then::Close,
            Key::Enter => match ALL[self.question].needs.subject(&self.typed) {
                Ok(subject) => return Answer::ask(self.question, subject),
                Err(trouble) => self.trouble = Some(trouble),
            },
            Key::Backspace => drop(self.typed.pop()),
            Key::Control('u') => self.typed.clear(),
            Key::Char(c) if self.typed.chars().count() < TYPED_CHARS_MAX => self.typed.push(c),
            _ => {}
        }
        Then::Show(Asking::About(self))
    }
}

impl Answer {
    fn ask(question: usize, subject: Subject) -> Then {
        Then::Ask(Asking::Answer(Answer { question, subject, told: None, scrolled: 0 }))
    }

    fn key(mut self, key: Key, size: (u16, u16)) -> Then {
        let rows = rows(size);
        let most = self.lines(size).len().saturating_sub(rows);
        self.scrolled = match key {
            Key::Escape | Key::Backspace | Key::Char('q') => return Then::Close,
            Key::Char('a') => return Then::Show(Asking::List(self.question)),
            Key::Char('r') => return Answer::ask(self.question, self.subject),
            Key::Up | Key::Char('k') => self.scrolled.saturating_sub(1),
            Key::Down | Key::Char('j') => self.scrolled + 1,
            Key::PageUp => self.scrolled.saturating_sub(rows),
            Key::PageDown | Key::Char(' ') => self.scrolled + rows,
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => most,
            _ => self.scrolled,
        }
        .min(most);
        Then::Show(Asking::Answer(self))
    }

    /// Turns the wheel by so many lines.
    pub fn turn(&mut self, is_down: bool, lines: usize, size: (u16, u16)) {
        let most = self.lines(size).len().saturating_sub(rows(size));
        let to = if is_down { self.scrolled + lines } else { self.scrolled.saturating_sub(lines) };
        self.scrolled = to.min(most);
    }

    /// All of its lines, for a terminal of this size.
    pub fn lines(&self, size: (u16, u16)) -> Vec<String> {
        match &self.told {
            None => vec!["...".to_owned()],
            Some(Ok(text) | Err(text)) => of_text(text, usize::from(size.0)),
        }
    }
}

/// Rows that an answer has.
pub fn rows(size: (u16, u16)) -> usize {
    usize::from(size.1).saturating_sub(ROWS_OTHER).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: (u16, u16) = (80, 24);

    fn press(begin: Asking, keys: &str, unit: Option<&str>) -> Then {
        let key = |c: char| match c {
            '\n' => Key::Enter,
            '\x1b' => Key::Escape,
            '↓' => Key::Down,
            c => Key::Char(c),
        };
        let mut then = Then::Show(begin);
        for c in keys.chars() {
            let (Then::Show(asking) | Then::Ask(asking)) = then else { return Then::Close };
            then = asking.key(key(c), unit, SIZE);
        }
        then
    }

    /// The command of what is asked.
    #[track_caller]
    fn check(keys: &str, unit: Option<&str>, command: &str) {
        let then = press(Asking::List(0), keys, unit);
        let Then::Ask(Asking::Answer(answer)) = then else { panic!("{keys}: {then:?}") };
        assert_eq!(ALL[answer.question].command_for(&answer.subject), command);
    }

    #[test]
    fn a_question_takes_two_keys_and_what_it_is_about() {
        check("a", None, "warren why");
        check("↓↓↓\n", None, "warren list --by memory");
        check("c", Some("a.service"), "warren why a.service");
        check("cb.service\n", None, "warren why b.service");
        check("i10:00\n", Some("a.service"), "warren logs a.service --since 10:00");
        check("j77\n", Some("a.service"), "warren status 77");
    }

    #[test]
    fn what_is_missing_is_said_and_esc_closes() {
        let then = press(Asking::List(0), "j\n", None);
        let Then::Show(Asking::About(about)) = then else { panic!("{then:?}") };
        assert_eq!(about.trouble.as_deref(), Some("A process has a number."));
        for keys in ["\x1b", "a\x1b", "aq", "j\x1b"] {
            assert_eq!(press(Asking::List(0), keys, None), Then::Close, "{keys}");
        }
        assert_eq!(press(Asking::List(3), "z", None), Then::Show(Asking::List(3)));
    }

    #[test]
    fn a_long_answer_is_scrolled_as_far_as_there_is_something() {
        let text = (0..100).map(|n| format!("line {n}\n")).collect::<String>();
        let told = Some(Ok(text));
        let answer = Answer { question: 0, subject: Subject::default(), told, scrolled: 0 };
        let at = |keys: &str| match press(Asking::Answer(answer.clone()), keys, None) {
            Then::Show(Asking::Answer(answer)) => answer.scrolled,
            other => panic!("{other:?}"),
        };
        assert_eq!((at("jjk"), at(" "), at("G"), at("Gj"), at("Gg")), (1, 21, 79, 79, 0));
        let mut turned = answer.clone();
        turned.turn(true, 3, SIZE);
        assert_eq!(turned.scrolled, 3);
        turned.turn(false, 9, SIZE);
        assert_eq!(turned.scrolled, 0);
    }
}
