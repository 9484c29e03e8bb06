//! Patterns to programs.

use super::{Condition, Regex, RegexError, Set, Step};

/// The most steps of a program.
const PROGRAM_STEPS_MAX: usize = 50_000;

/// The most repetitions that can be asked for by number.
const REPEAT_MAX: usize = 1000;

/// How deep groups may be nested.
const GROUPS_DEPTH_MAX: usize = 100;

pub(super) fn compile(pattern: &[u8]) -> Result<Regex, RegexError> {
    let mut parser =
        Parser { pattern, at: 0, groups: 0, either_case: false, depth: 0, quoted: false };
    let tree = parser.alternatives()?;
    if parser.at < pattern.len() {
        return parser.fail("a parenthesis that was not opened");
    }
    let mut code = Code { steps: Vec::new(), slots: (parser.groups + 1) * 2 };
    code.node(&tree)?;
    code.push(Step::Match)?;
    Ok(Regex { steps: code.steps, slots: code.slots })
}

/// How often.
#[derive(Clone, Copy, Debug)]
struct Repeat {
    least: usize,
    /// None: any number of times.
    most: Option<usize>,
    greedy: bool,
    possessive: bool,
}

#[derive(Clone, Debug)]
enum Node {
    Empty,
    Set(Box<Set>),
    Condition(Condition),
    Again(usize, bool),
    Sequence(Vec<Node>),
    Either(Vec<Node>),
    Repeat(Box<Node>, Repeat),
    Group(usize, Box<Node>),
    Look { node: Box<Node>, behind: bool, negative: bool },
    Atomic(Box<Node>),
}

impl Node {
    /// How many bytes it takes, if that is always the same.
    fn width(&self) -> Option<usize> {
        match self {
            Node::Empty | Node::Condition(_) | Node::Look { .. } => Some(0),
            Node::Set(_) => Some(1),
            Node::Again(..) => None,
            Node::Sequence(nodes) => nodes.iter().map(Node::width).sum(),
            Node::Either(nodes) => {
                let mut widths = nodes.iter().map(Node::width);
                let first = widths.next()??;
                widths.all(|width| width == Some(first)).then_some(first)
            }
            Node::Repeat(node, repeat) if repeat.most == Some(repeat.least) => {
                Some(node.width()? * repeat.least)
            }
            Node::Repeat(..) => None,
            Node::Group(_, node) | Node::Atomic(node) => node.width(),
        }
    }
}

struct Parser<'p> {
    pattern: &'p [u8],
    at: usize,
    groups: usize,
    either_case: bool,
    depth: usize,
    /// Whether this is between `\Q` and `\E`.
    quoted: bool,
}

type Parsed<T> = Result<T, RegexError>;

impl Parser<'_> {
    fn fail<T>(&self, reason: &'static str) -> Parsed<T> {
        Err(RegexError::Syntax(self.at, reason))
    }

    fn next(&self) -> Option<u8> {
        self.pattern.get(self.at).copied()
    }

    fn take_if(&mut self, text: &[u8]) -> bool {
        let found = self.pattern[self.at..].starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn alternatives(&mut self) -> Parsed<Node> {
        self.depth += 1;
        if self.depth > GROUPS_DEPTH_MAX {
            return Err(RegexError::TooLarge);
        }
        let either_case = self.either_case;
        let mut all = vec![self.sequence()?];
        while !self.quoted && self.take_if(b"|") {
            all.push(self.sequence()?);
        }
        self.either_case = either_case;
        self.depth -= 1;
        Ok(if all.len() == 1 { all.remove(0) } else { Node::Either(all) })
    }

    fn sequence(&mut self) -> Parsed<Node> {
        let mut nodes = Vec::new();
        loop {
            if self.quoted {
                match self.next() {
                    None => break,
                    Some(_) if self.take_if(b"\\E") => self.quoted = false,
                    Some(byte) => {
                        self.at += 1;
                        nodes.push(self.literal(byte));
                    }
                }
                continue;
            }
            if self.take_if(b"\\Q") {
                self.quoted = true;
                continue;
            }
            match self.next() {
                None | Some(b'|' | b')') => break,
                Some(_) => {
                    let atom = self.atom()?;
                    let repeated = self.repeat(atom)?;
                    nodes.push(repeated);
                }
            }
        }
        Ok(Node::Sequence(nodes))
    }

    fn literal(&self, byte: u8) -> Node {
        let mut set = Set::default();
        add(&mut set, byte);
        Node::Set(Box::new(self.cased(set)))
    }

    /// A set with the letters of the other case, where case does not count.
    fn cased(&self, mut set: Set) -> Set {
        if self.either_case {
            for byte in b'a'..=b'z' {
                let upper = byte.to_ascii_uppercase();
                if super::has(&set, byte) || super::has(&set, upper) {
                    add(&mut set, byte);
                    add(&mut set, upper);
                }
            }
        }
        set
    }

    fn atom(&mut self) -> Parsed<Node> {
        let Some(byte) = self.next() else { return self.fail("nothing to match") };
        self.at += 1;
        match byte {
            b'.' => Ok(Node::Set(Box::new([u64::MAX; 4]))),
            b'^' => Ok(Node::Condition(Condition::LineStart)),
            b'$' => Ok(Node::Condition(Condition::LineEnd)),
            b'(' => self.group(),
            b'[' => self.class(),
            b'\\' => self.escape(),
            b'*' | b'+' | b'?' => {
                self.at -= 1;
                self.fail("nothing to repeat")
            }
            b'{' => {
                self.at -= 1;
                if self.counts()?.is_some() {
                    return self.fail("nothing to repeat");
                }
                self.at += 1;
                Ok(self.literal(byte))
            }
            byte => Ok(self.literal(byte)),
        }
    }

    fn group(&mut self) -> Parsed<Node> {
        if !self.take_if(b"?") {
            self.groups += 1;
            let number = self.groups;
            let inner = self.alternatives()?;
            return self.close(Node::Group(number, Box::new(inner)));
        }
        if self.take_if(b"#") {
            let length = self.pattern[self.at..].iter().position(|byte| *byte == b')');
            let Some(length) = length else { return self.fail("a comment is not closed") };
            self.at += length + 1;
            return Ok(Node::Empty);
        }
        for (sign, behind, negative) in [
            (&b"="[..], false, false),
            (b"!", false, true),
            (b"<=", true, false),
            (b"<!", true, true),
        ] {
            if self.take_if(sign) {
                let node = Box::new(self.alternatives()?);
                return self.close(Node::Look { node, behind, negative });
            }
        }
        if self.take_if(b">") {
            let inner = self.alternatives()?;
            return self.close(Node::Atomic(Box::new(inner)));
        }
        self.flags()
    }

    /// `(?i)`, `(?i:...)`, `(?:...)`.
    fn flags(&mut self) -> Parsed<Node> {
        let (mut on, mut either_case) = (true, self.either_case);
        loop {
            match self.next() {
                Some(b'i') => either_case = on,
                Some(b'-') => on = false,
                // Both are as they would be set: see the head of the module.
                Some(b's' | b'm') if on => {}
                Some(b')') => {
                    self.at += 1;
                    self.either_case = either_case;
                    return Ok(Node::Empty);
                }
                Some(b':') => {
                    self.at += 1;
                    let before = std::mem::replace(&mut self.either_case, either_case);
                    let inner = self.alternatives()?;
                    self.either_case = before;
                    return self.close(inner);
                }
                _ => return self.fail("this kind of group is not supported"),
            }
            self.at += 1;
        }
    }

    fn close(&mut self, node: Node) -> Parsed<Node> {
        match !self.quoted && self.take_if(b")") {
            true => Ok(node),
            false => self.fail("a parenthesis is not closed"),
        }
    }

    /// What a sign of repetition behind an atom makes of it; a second sign has nothing to repeat.
    fn repeat(&mut self, node: Node) -> Parsed<Node> {
        let (least, most) = match self.next() {
            Some(b'*') => (0, None),
            Some(b'+') => (1, None),
            Some(b'?') => (0, Some(1)),
            Some(b'{') => match self.counts()? {
                Some(counts) => counts,
                None => return Ok(node),
            },
            _ => return Ok(node),
        };
        self.at += 1;
        let possessive = self.take_if(b"+");
        let greedy = possessive || !self.take_if(b"?");
        let possessive = possessive || (!greedy && self.take_if(b"+"));
        Ok(Node::Repeat(Box::new(node), Repeat { least, most, greedy, possessive }))
    }

    /// `{2}`, `{2,}`, `{2,3}`; leaves the position at the closing brace. None if the brace counts
    /// nothing: it stands for itself.
    fn counts(&mut self) -> Parsed<Option<(usize, Option<usize>)>> {
        let start = self.at;
        self.at += 1;
        let least = self.digits();
        let open_ended = self.take_if(b",");
        let most = if open_ended { self.digits() } else { least };
        let open_ended = open_ended && most.is_none();
        if self.next() != Some(b'}') || least.is_none() {
            self.at = start;
            return Ok(None);
        }
        let least = least.unwrap_or(0);
        let most = if open_ended { None } else { most };
        if most.is_some_and(|most| most < least) {
            return self.fail("the greater count comes first");
        }
        if least > REPEAT_MAX || most.is_some_and(|most| most > REPEAT_MAX) {
            return Err(RegexError::TooLarge);
        }
        Ok(Some((least, most)))
    }

    /// A number, perhaps between spaces; one that is too large to count with is the largest.
    fn digits(&mut self) -> Option<usize> {
        while self.take_if(b" ") {}
        let start = self.at;
        while matches!(self.next(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        let digits = &self.pattern[start..self.at];
        while self.take_if(b" ") {}
        let number = std::str::from_utf8(digits).ok()?.parse();
        (!digits.is_empty()).then(|| number.unwrap_or(usize::MAX))
    }

    fn escape(&mut self) -> Parsed<Node> {
        let Some(byte) = self.next() else { return self.fail("a backslash at the end") };
        self.at += 1;
        let condition = match byte {
            b'b' => Condition::WordEdge,
            b'B' => Condition::NoWordEdge,
            b'<' => Condition::WordStart,
            b'>' => Condition::WordEnd,
            b'A' | b'`' => Condition::TextStart,
            b'z' | b'\'' => Condition::TextEnd,
            b'Z' => Condition::TextEndOrNewline,
            b'1'..=b'9' => {
                let group = usize::from(byte - b'0');
                return match group <= self.groups {
                    true => Ok(Node::Again(group, self.either_case)),
                    false => self.fail("there is no such group"),
                };
            }
            byte => {
                let set = match class_of(byte) {
                    Some(set) => set,
                    None => single(self.escaped_byte(byte)?),
                };
                return Ok(Node::Set(Box::new(self.cased(set))));
            }
        };
        Ok(Node::Condition(condition))
    }

    fn escaped_byte(&mut self, byte: u8) -> Parsed<u8> {
        Ok(match byte {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'f' => 12,
            b'v' => 11,
            b'a' => 7,
            b'e' => 27,
            b'x' => {
                let digits = self.pattern.get(self.at..self.at + 2);
                let text = digits.and_then(|digits| std::str::from_utf8(digits).ok());
                let value = text.and_then(|text| u8::from_str_radix(text, 16).ok());
                let Some(value) = value else { return self.fail("\\x needs two digits") };
                self.at += 2;
                value
            }
            byte if byte.is_ascii_alphanumeric() => {
                return self.fail("this escape is not supported");
            }
            byte => byte,
        })
    }

    fn class(&mut self) -> Parsed<Node> {
        let negative = self.take_if(b"^");
        let (mut set, mut first) = (Set::default(), true);
        loop {
            match self.next() {
                None => return self.fail("a character set is not closed"),
                Some(b']') if !first => break,
                Some(_) => self.class_item(&mut set)?,
            }
            first = false;
        }
        self.at += 1;
        let mut set = self.cased(set);
        if negative {
            set.iter_mut().for_each(|word| *word = !*word);
        }
        Ok(Node::Set(Box::new(set)))
    }

    fn class_item(&mut self, set: &mut Set) -> Parsed<()> {
        if self.take_if(b"[:") {
            return self.named_class(set);
        }
        let Some(low) = self.class_byte(set)? else { return Ok(()) };
        let is_range = self.next() == Some(b'-')
            && self.pattern.get(self.at + 1).is_some_and(|byte| *byte != b']');
        if !is_range {
            add(set, low);
            return Ok(());
        }
        self.at += 1;
        match self.class_byte(set)? {
            Some(high) if low <= high => {
                (low..=high).for_each(|byte| add(set, byte));
                Ok(())
            }
            _ => self.fail("a range of characters that ends before it begins"),
        }
    }

    /// One byte of a set; none if it was an escape for several, which are added.
    fn class_byte(&mut self, set: &mut Set) -> Parsed<Option<u8>> {
        let Some(byte) = self.next() else { return self.fail("a character set is not closed") };
        self.at += 1;
        if byte != b'\\' {
            return Ok(Some(byte));
        }
        let Some(escaped) = self.next() else { return self.fail("a backslash at the end") };
        self.at += 1;
        if let Some(class) = class_of(escaped) {
            set.iter_mut().zip(class).for_each(|(word, more)| *word |= more);
            return Ok(None);
        }
        if escaped == b'b' {
            return Ok(Some(8));
        }
        self.escaped_byte(escaped).map(Some)
    }

    fn named_class(&mut self, set: &mut Set) -> Parsed<()> {
        type Test = fn(&u8) -> bool;
        const NAMES: [(&str, Test); 14] = [
            ("alpha", u8::is_ascii_alphabetic),
            ("digit", u8::is_ascii_digit),
            ("alnum", u8::is_ascii_alphanumeric),
            ("upper", u8::is_ascii_uppercase),
            ("lower", u8::is_ascii_lowercase),
            ("punct", u8::is_ascii_punctuation),
            ("xdigit", u8::is_ascii_hexdigit),
            ("cntrl", u8::is_ascii_control),
            ("graph", u8::is_ascii_graphic),
            ("space", is_space),
            ("blank", |byte| b" \t".contains(byte)),
            ("print", |byte| (32..127).contains(byte)),
            ("word", is_word),
            ("w", is_word),
        ];
        let found = NAMES.iter().find(|(name, _)| {
            self.pattern[self.at..]
                .strip_prefix(name.as_bytes())
                .is_some_and(|r| r.starts_with(b":]"))
        });
        let Some((name, test)) = found else {
            return self.fail("there is no class of characters with this name");
        };
        self.at += name.len() + 2;
        (0..=255).filter(test).for_each(|byte| add(set, byte));
        Ok(())
    }
}

fn add(set: &mut Set, byte: u8) {
    set[usize::from(byte >> 6)] |= 1 << (byte & 63);
}

fn single(byte: u8) -> Set {
    let mut set = Set::default();
    add(&mut set, byte);
    set
}

fn is_space(byte: &u8) -> bool {
    b" \t\n\r\x0b\x0c".contains(byte)
}

fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

/// `\d`, `\w`, `\s`, `\h` and their opposites.
fn class_of(letter: u8) -> Option<Set> {
    let test: fn(&u8) -> bool = match letter.to_ascii_lowercase() {
        b'd' => u8::is_ascii_digit,
        b'w' => is_word,
        b's' => is_space,
        b'h' => |byte| b" \t".contains(byte),
        b'l' if letter == b'l' => u8::is_ascii_lowercase,
        b'u' if letter == b'u' => u8::is_ascii_uppercase,
        _ => return None,
    };
    let mut set = Set::default();
    (0..=255)
        .filter(|byte| test(byte) != letter.is_ascii_uppercase())
        .for_each(|b| add(&mut set, b));
    Some(set)
}

/// Emits steps.
struct Code {
    steps: Vec<Step>,
    slots: usize,
}

impl Code {
    fn push(&mut self, step: Step) -> Parsed<usize> {
        if self.steps.len() >= PROGRAM_STEPS_MAX {
            return Err(RegexError::TooLarge);
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    fn node(&mut self, node: &Node) -> Parsed<()> {
        match node {
            Node::Empty => {}
            Node::Set(set) => drop(self.push(Step::Set(set.clone()))?),
            Node::Condition(condition) => drop(self.push(Step::Condition(*condition))?),
            Node::Again(group, either_case) => drop(self.push(Step::Again(*group, *either_case))?),
            Node::Sequence(nodes) => {
                for node in nodes {
                    self.node(node)?;
                }
            }
            Node::Either(nodes) => self.either(nodes)?,
            Node::Repeat(inner, repeat) => self.repeat(inner, *repeat)?,
            Node::Group(number, inner) => {
                self.push(Step::Save(number * 2))?;
                self.node(inner)?;
                self.push(Step::Save(number * 2 + 1))?;
            }
            Node::Look { node, behind, negative } => {
                let behind = match behind {
                    true => node.width().ok_or(RegexError::Syntax(
                        0,
                        "what is looked for behind must have a fixed length",
                    ))?,
                    false => 0,
                };
                let look = self.push(Step::Match)?;
                self.node(node)?;
                self.push(Step::Match)?;
                let end = self.steps.len();
                self.steps[look] = Step::Look { end, behind, negative: *negative };
            }
            Node::Atomic(inner) => self.atomic(|code| code.node(inner))?,
        }
        Ok(())
    }

    fn atomic(&mut self, inner: impl FnOnce(&mut Code) -> Parsed<()>) -> Parsed<()> {
        let start = self.push(Step::Match)?;
        inner(self)?;
        self.push(Step::Match)?;
        self.steps[start] = Step::Atomic(self.steps.len());
        Ok(())
    }

    fn either(&mut self, nodes: &[Node]) -> Parsed<()> {
        let mut jumps = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            if at + 1 == nodes.len() {
                self.node(node)?;
                continue;
            }
            let split = self.push(Step::Match)?;
            self.node(node)?;
            jumps.push(self.push(Step::Match)?);
            self.steps[split] = Step::Split(split + 1, self.steps.len());
        }
        let end = self.steps.len();
        jumps.into_iter().for_each(|jump| self.steps[jump] = Step::Jump(end));
        Ok(())
    }

    fn repeat(&mut self, node: &Node, repeat: Repeat) -> Parsed<()> {
        if repeat.possessive {
            let repeat = Repeat { possessive: false, ..repeat };
            return self.atomic(|code| code.repeat(node, repeat));
        }
        for _ in 0..repeat.least {
            self.node(node)?;
        }
        match repeat.most {
            None => self.any_number(node, repeat.greedy),
            Some(most) => {
                let mut splits = Vec::new();
                for _ in repeat.least..most {
                    splits.push(self.push(Step::Match)?);
                    self.node(node)?;
                }
                let end = self.steps.len();
                splits
                    .into_iter()
                    .for_each(|at| self.steps[at] = split(at + 1, end, repeat.greedy));
                Ok(())
            }
        }
    }

    fn any_number(&mut self, node: &Node, greedy: bool) -> Parsed<()> {
        let slot = self.slots;
        self.slots += 1;
        let start = self.push(Step::Match)?;
        self.push(Step::Save(slot))?;
        self.node(node)?;
        self.push(Step::Progress(slot))?;
        self.push(Step::Jump(start))?;
        self.steps[start] = split(start + 1, self.steps.len(), greedy);
        Ok(())
    }
}

fn split(more: usize, end: usize, greedy: bool) -> Step {
    if greedy { Step::Split(more, end) } else { Step::Split(end, more) }
}
