//! What a terminal sends, as keys and mouse reports (ECMA-48, xterm's `ctlseqs`). Pure.
//!
//! - Owns: the beginning of a sequence whose rest has not come.
//! - Must not: trust the terminal. Whoever writes to it chooses the bytes: none of them may end the program, be kept
//!   without a bound, or become keys where they are part of an answer or a name.

use std::time::Duration;

/// How long what follows ESC is waited for, and the rest of a sequence.
const ESCAPE_TIME: Duration = Duration::from_millis(50);
const SEQUENCE_TIME: Duration = Duration::from_secs(1);

/// Bytes of a control sequence that are kept; a longer one is no key.
const SEQUENCE_BYTES_MAX: usize = 32;

/// Bytes of a string (title, answer to a question) that are passed over; a longer one has no end.
const STRING_BYTES_MAX: usize = 4096;

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Key {
    Char(char),
    Control(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// What was done at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A key was pressed.
    Key(Key),
    /// The first button of the mouse was pressed at this column and row, from 0.
    Click(u16, u16),
    /// The wheel of the mouse was turned, towards the person where that is true.
    Wheel(bool),
}

/// Where in a sequence the reader is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Ground,
    /// Behind ESC.
    Escape,
    /// Behind ESC O.
    Single,
    /// In a control sequence: its bytes so far; none once there were too many.
    Control(Option<Vec<u8>>),
    /// Behind `ESC [ [` of a Linux console, which one more byte follows.
    Linux,
    /// In the three bytes of a mouse report of X11's first way.
    Mouse(Vec<u8>),
    /// In a string that ends with BEL, or with ESC and another byte: how many bytes came.
    Text(usize),
    /// In a character of several bytes: what came of it.
    Character(Vec<u8>),
}

/// Reads what a terminal sends, in pieces of any size.
#[derive(Debug, Default)]
pub struct Reader {
    place: Place,
}

impl Reader {
    /// Takes bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Input> {
        let mut out = Vec::new();
        bytes.iter().for_each(|byte| self.take(*byte, &mut out));
        out
    }

    /// How long the rest of what has begun is waited for: ESC is a key of its own if nothing follows it soon. Of a sequence
    /// over a slow connection the rest may take longer, but it is no sequence if a person types on.
    pub fn patience(&self) -> Option<Duration> {
        match self.place {
            Place::Ground => None,
            Place::Escape => Some(ESCAPE_TIME),
            _ => Some(SEQUENCE_TIME),
        }
    }

    /// Nothing followed. What had begun is over: it was ESC, or it is no key.
    pub fn nothing_follows(&mut self) -> Option<Input> {
        match std::mem::take(&mut self.place) {
            Place::Escape => Some(Input::Key(Key::Escape)),
            _ => None,
        }
    }

    fn take(&mut self, byte: u8, out: &mut Vec<Input>) {
        self.place = match std::mem::take(&mut self.place) {
            Place::Ground => ground(byte, out),
            Place::Escape => escape(byte, out),
            Place::Single => {
                out.extend(named(byte).map(Input::Key));
                Place::Ground
            }
            Place::Control(sequence) => control(sequence, byte, out),
            Place::Linux => Place::Ground,
            Place::Mouse(mut report) => {
                report.push(byte);
                match report[..] {
                    [buttons, column, row] => {
                        let shifted = |byte: u8| byte.checked_sub(32).map(u16::from);
                        out.extend(mouse([buttons, column, row].map(shifted)));
                        Place::Ground
                    }
                    _ => Place::Mouse(report),
                }
            }
            Place::Text(count) => text(count, byte),
            Place::Character(begun) => character(begun, byte, out),
        };
    }
}

fn ground(byte: u8, out: &mut Vec<Input>) -> Place {
    let key = match byte {
        0x1b => return Place::Escape,
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x08 | 0x7f => Key::Backspace,
        0x01..=0x1a => Key::Control(char::from(byte - 1 + b'a')),
        0x00 | 0x1c..=0x1f => return Place::Ground,
        0x20..=0x7e => Key::Char(char::from(byte)),
        _ => return character(Vec::new(), byte, out),
    };
    out.push(Input::Key(key));
    Place::Ground
}

/// ESC and a key that follow one another closely, as over a slow connection or with Alt, are both.
fn escape(byte: u8, out: &mut Vec<Input>) -> Place {
    match byte {
        b'[' => Place::Control(Some(Vec::new())),
        b'O' => Place::Single,
        // Strings: of a device, of the system, of a program, private.
        b'P' | b']' | b'_' | b'^' | b'X' => Place::Text(0),
        _ => {
            out.push(Input::Key(Key::Escape));
            ground(byte, out)
        }
    }
}

fn control(sequence: Option<Vec<u8>>, byte: u8, out: &mut Vec<Input>) -> Place {
    let is_begin = sequence.as_ref().is_some_and(Vec::is_empty);
    match byte {
        b'[' if is_begin => Place::Linux,
        b'M' if is_begin => Place::Mouse(Vec::new()),
        0x20..=0x3f => {
            let room = sequence.filter(|sequence| sequence.len() < SEQUENCE_BYTES_MAX);
            Place::Control(room.map(|mut sequence| {
                sequence.push(byte);
                sequence
            }))
        }
        0x40..=0x7e => {
            out.extend(sequence.and_then(|sequence| of_sequence(&sequence, byte)));
            Place::Ground
        }
        // Cut off: what follows begins anew.
        _ => ground(byte, out),
    }
}

/// A whole control sequence without its beginning.
fn of_sequence(parameters: &[u8], last: u8) -> Option<Input> {
    if let Some(report) = parameters.strip_prefix(b"<") {
        let mut numbers = report.split(|byte| *byte == b';').map(number);
        let three = [numbers.next()?, numbers.next()?, numbers.next()?];
        return (last == b'M' && numbers.next().is_none()).then(|| mouse(three))?;
    }
    let key = match (last, parameters.split(|byte| *byte == b';').next().and_then(number)) {
        (b'Z', _) => Key::BackTab,
        (b'~', Some(1 | 7)) => Key::Home,
        (b'~', Some(4 | 8)) => Key::End,
        (b'~', Some(5)) => Key::PageUp,
        (b'~', Some(6)) => Key::PageDown,
        (b'~', _) => return None,
        (last, _) => named(last)?,
    };
    Some(Input::Key(key))
}

fn number(text: &[u8]) -> Option<u16> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn named(last: u8) -> Option<Key> {
    Some(match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'M' => Key::Enter,
        _ => return None,
    })
}

/// A report of what the mouse did: its button with the keys that were held, its column and its row from 1.
fn mouse([buttons, column, row]: [Option<u16>; 3]) -> Option<Input> {
    /// Shift, Alt and Control.
    const HELD: u16 = 4 | 8 | 16;
    match buttons? & !HELD {
        0 => Some(Input::Click(column?.checked_sub(1)?, row?.checked_sub(1)?)),
        64 => Some(Input::Wheel(false)),
        65 => Some(Input::Wheel(true)),
        _ => None,
    }
}

fn text(count: usize, byte: u8) -> Place {
    match byte {
        // Of ESC and a backslash the latter is no key either.
        0x1b => Place::Linux,
        0x07 => Place::Ground,
        _ if count >= STRING_BYTES_MAX => Place::Ground,
        _ => Place::Text(count + 1),
    }
}

/// A character of several bytes, UTF-8; what is none is passed over.
fn character(mut begun: Vec<u8>, byte: u8, out: &mut Vec<Input>) -> Place {
    if !begun.is_empty() && byte & 0xc0 != 0x80 {
        return ground(byte, out);
    }
    begun.push(byte);
    match std::str::from_utf8(&begun) {
        Ok(text) => {
            let printed = text.chars().filter(|c| !c.is_control());
            out.extend(printed.map(|c| Input::Key(Key::Char(c))));
            Place::Ground
        }
        Err(error) if error.error_len().is_none() => Place::Character(begun),
        Err(_) => Place::Ground,
    }
}

#[cfg(test)]
mod tests {
    use warren_testkit::Dice;

    use super::*;

    /// What is read, whole and byte by byte, when nothing follows.
    fn read(bytes: &[u8]) -> Vec<Input> {
        let whole = |piece: usize| {
            let mut reader = Reader::default();
            let mut all: Vec<Input> =
                bytes.chunks(piece.max(1)).flat_map(|part| reader.push(part)).collect();
            all.extend(reader.nothing_follows());
            assert_eq!(reader.patience(), None);
            all
        };
        let all = whole(bytes.len());
        assert_eq!(all, whole(1), "{bytes:?}");
        all
    }

    #[track_caller]
    fn check(bytes: &str, keys: &[Key]) {
        let expected: Vec<Input> = keys.iter().map(|key| Input::Key(*key)).collect();
        assert_eq!(read(bytes.as_bytes()), expected, "{bytes:?}");
    }

    #[test]
    fn keys_of_terminals() {
        use Key::*;
        check("aZ ~", &[Char('a'), Char('Z'), Char(' '), Char('~')]);
        check("\r\n\t\x7f\x08\x03", &[Enter, Enter, Tab, Backspace, Backspace, Control('c')]);
        check("\x1b[A\x1b[B\x1b[C\x1b[D", &[Up, Down, Right, Left]);
        check("\x1bOA\x1bOB\x1bOH\x1bOF", &[Up, Down, Home, End]);
        check(
            "\x1b[1~\x1b[4~\x1b[5~\x1b[6~\x1b[H\x1b[F",
            &[Home, End, PageUp, PageDown, Home, End],
        );
        check("\x1b[1;5A\x1b[5;2~\x1b[Z", &[Up, PageUp, BackTab]);
        check("é漢🦀", &[Char('é'), Char('漢'), Char('🦀')]);
        check("\x1b", &[Escape]);
        check("\x1b\x1b[A", &[Escape, Up]);
        check("\x1bq", &[Escape, Char('q')]);
    }

    #[test]
    fn what_is_no_key_becomes_none() {
        check("\x1b[15~\x1bOPx", &[Key::Char('x')]);
        check("\x1b[[Ax", &[Key::Char('x')]);
        check("\x1b[?1;2c\x1b[24;80Rx", &[Key::Char('x')]);
        check("\x1b]0;Ry\x07\x1bP1$rRy\x1b\\x", &[Key::Char('x')]);
        check(&format!("\x1b[{}Ax", "1".repeat(100)), &[Key::Char('x')]);
        check("\x1b[1\u{1}x", &[Key::Control('a'), Key::Char('x')]);
        check("\u{9b}\u{85}x", &[Key::Char('x')]);
        assert_eq!(
            read(b"\xff\xc3x\xe2\x28y"),
            "x(y".chars().map(|c| Input::Key(Key::Char(c))).collect::<Vec<_>>()
        );
    }

    #[test]
    fn mouse_reports() {
        assert_eq!(read(b"\x1b[<0;1;1M"), [Input::Click(0, 0)]);
        assert_eq!(read(b"\x1b[<0;80;24M\x1b[<0;80;24m"), [Input::Click(79, 23)]);
        assert_eq!(read(b"\x1b[<64;1;1M\x1b[<81;5;5M"), [Input::Wheel(false), Input::Wheel(true)]);
        assert_eq!(read(b"\x1b[M !\""), [Input::Click(0, 1)]);
    }

    /// One with the coordinate 0 ended the thread that reads keys.
    #[test]
    fn a_mouse_report_from_outside_of_the_screen_is_none() {
        let reports: [&[u8]; 10] = [
            b"\x1b[<0;0;0M",
            b"\x1b[<0;0;5M",
            b"\x1b[<0;5;0M",
            b"\x1b[<0;65536;1M",
            b"\x1b[<0;-1;1M",
            b"\x1b[<0;;M",
            b"\x1b[<0;1M",
            b"\x1b[<0;1;1;1M",
            b"\x1b[M   ",
            b"\x1b[M\x00\x00\x00",
        ];
        for report in reports {
            assert_eq!(read(report), [], "{report:?}");
        }
    }

    #[test]
    fn what_is_drawn_by_lot_does_no_harm() {
        const PIECES: [&[u8]; 16] = [
            b"\x1b",
            b"[",
            b"<",
            b"0",
            b";",
            b"M",
            b"m",
            b"O",
            b"~",
            b"]",
            b"\x07",
            b"\x1b\\",
            b"A",
            b"\xe2\x82",
            b"\xff",
            b"65535",
        ];
        let mut dice = Dice(39);
        for _ in 0..20_000 {
            let count = dice.roll(24);
            let bytes: Vec<u8> = (0..count)
                .flat_map(|_| PIECES[dice.roll(PIECES.len() as u64) as usize].to_vec())
                .collect();
            let read = read(&bytes);
            assert!(read.len() <= bytes.len());
        }
    }
}
