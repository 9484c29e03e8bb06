//! What the lexer finds: kinds of tokens and the list of keywords.
//!
//! Keywords are those of the language reference, "Reserved Keywords".

use crate::source::Span;

macro_rules! keywords {
    ($( $name:ident = $text:literal, )*) => {
        /// A reserved word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each is the word of its name")]
        pub enum Keyword { $( $name, )* }

        impl Keyword {
            /// Every keyword.
            pub const ALL: &'static [Keyword] = &[$( Keyword::$name, )*];

            /// How it is written.
            pub const fn text(self) -> &'static str {
                match self { $( Keyword::$name => $text, )* }
            }
        }
    };
}

keywords! {
    Object = "object",
    Template = "template",
    Include = "include",
    IncludeRecursive = "include_recursive",
    IncludeZones = "include_zones",
    Library = "library",
    Null = "null",
    True = "true",
    False = "false",
    Const = "const",
    Var = "var",
    This = "this",
    Globals = "globals",
    Locals = "locals",
    Use = "use",
    Default = "default",
    IgnoreOnError = "ignore_on_error",
    CurrentFilename = "current_filename",
    CurrentLine = "current_line",
    Apply = "apply",
    To = "to",
    Where = "where",
    Import = "import",
    Assign = "assign",
    Ignore = "ignore",
    Function = "function",
    Return = "return",
    Break = "break",
    Continue = "continue",
    For = "for",
    If = "if",
    Else = "else",
    While = "while",
    Throw = "throw",
    Try = "try",
    Except = "except",
    In = "in",
    Using = "using",
    Namespace = "namespace",
    Debugger = "debugger",
}

impl Keyword {
    /// The keyword that is written so.
    pub fn find(text: &[u8]) -> Option<Keyword> {
        Keyword::ALL.iter().copied().find(|keyword| keyword.text().as_bytes() == text)
    }
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "operators are named by their signs")]
pub enum TokenKind {
    /// A word that is no keyword, or any word after `@`.
    Name,
    /// A reserved word.
    Keyword(Keyword),
    /// A number, with its unit of time if it has one.
    Number,
    /// `"..."`.
    String,
    /// `{{{...}}}`.
    Heredoc,
    /// `<...>` after `include`.
    AngleString,
    /// A line end.
    Newline,
    /// A comment, without the line end that ends it.
    Comment,
    /// Bytes that begin nothing, or a text that is not closed; already reported.
    Bad,
    /// The end of the file.
    End,
    Open,
    Close,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    /// `{{`.
    OpenLambda,
    Comma,
    Semicolon,
    Dot,
    Colon,
    Question,
    Arrow,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Caret,
    Ampersand,
    Pipe,
    AndAnd,
    OrOr,
    Not,
    Tilde,
    ShiftLeft,
    ShiftRight,
    Less,
    Greater,
    LessEqual,
    GreaterEqual,
    Equal,
    NotEqual,
    /// `!in`.
    NotIn,
    Set,
    SetAdd,
    SetSubtract,
    SetMultiply,
    SetDivide,
    SetModulo,
    SetXor,
    SetAnd,
    SetOr,
}

impl TokenKind {
    /// How many brackets it opens, or, below zero, closes.
    pub fn nesting(self) -> i32 {
        match self {
            TokenKind::Open | TokenKind::OpenBracket | TokenKind::OpenBrace => 1,
            // It is closed by two braces.
            TokenKind::OpenLambda => 2,
            TokenKind::Close | TokenKind::CloseBracket | TokenKind::CloseBrace => -1,
            _ => 0,
        }
    }
}

/// Signs, longest first where one begins another.
pub(crate) const SIGNS: &[(&str, TokenKind)] = &[
    ("<<", TokenKind::ShiftLeft),
    (">>", TokenKind::ShiftRight),
    ("<=", TokenKind::LessEqual),
    (">=", TokenKind::GreaterEqual),
    ("==", TokenKind::Equal),
    ("!=", TokenKind::NotEqual),
    ("&&", TokenKind::AndAnd),
    ("||", TokenKind::OrOr),
    ("=>", TokenKind::Arrow),
    ("+=", TokenKind::SetAdd),
    ("-=", TokenKind::SetSubtract),
    ("*=", TokenKind::SetMultiply),
    ("/=", TokenKind::SetDivide),
    ("%=", TokenKind::SetModulo),
    ("^=", TokenKind::SetXor),
    ("&=", TokenKind::SetAnd),
    ("|=", TokenKind::SetOr),
    ("{{", TokenKind::OpenLambda),
    ("(", TokenKind::Open),
    (")", TokenKind::Close),
    ("[", TokenKind::OpenBracket),
    ("]", TokenKind::CloseBracket),
    ("{", TokenKind::OpenBrace),
    ("}", TokenKind::CloseBrace),
    (",", TokenKind::Comma),
    (";", TokenKind::Semicolon),
    (".", TokenKind::Dot),
    (":", TokenKind::Colon),
    ("?", TokenKind::Question),
    ("+", TokenKind::Plus),
    ("-", TokenKind::Minus),
    ("*", TokenKind::Star),
    ("/", TokenKind::Slash),
    ("%", TokenKind::Percent),
    ("^", TokenKind::Caret),
    ("&", TokenKind::Ampersand),
    ("|", TokenKind::Pipe),
    ("!", TokenKind::Not),
    ("~", TokenKind::Tilde),
    ("<", TokenKind::Less),
    (">", TokenKind::Greater),
    ("=", TokenKind::Set),
];

/// One token. Spaces between tokens are not tokens; everything else of the file is in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Where it is.
    pub span: Span,
}
