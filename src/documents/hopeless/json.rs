//! A JSON text as it comes, byte by byte: whether it can still become one that is taken.
//!
//! Taken in the widest sense: what other programs write and readers put up with counts as good here,
//! whether or not a save of it is refused in the end. Comments, commas before a closing bracket,
//! `NaN` and `Infinity`, halves of surrogate pairs, keys that stand twice, numbers of any size, a
//! byte order mark, blanks of any alphabet.

use crate::documents::config::{MAX_DEPTH, MAX_VALUES};

/// What may come between two tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// A value.
    Value,
    /// An element, or the end of the array.
    Element,
    /// A key, or the end of the object.
    Key,
    /// `:`
    Colon,
    /// `,`, or the end of what is open.
    Comma,
    /// Nothing any more.
    End,
}

/// What is not at its end yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// Nothing.
    Between,
    /// A string; whether it is a key is known by what comes after it.
    String,
    /// Behind a `\` in one.
    Escape,
    /// So many hexadecimal digits are missing.
    Hex(u8),
    /// A number.
    Number(Number),
    /// A word, of which so many letters are there.
    Word(&'static [u8], usize),
    /// So many bytes of a character that is no ASCII, between two others.
    Wide([u8; 4], usize),
    /// One `/`.
    Slash,
    /// `// …`
    Line,
    /// `/* …`
    Block,
    /// A `*` in one.
    Star,
}

/// How far a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

/// A text as far as it has come.
#[derive(Debug, Clone)]
pub(super) struct Json {
    /// The top level must be an object.
    object: bool,
    wanted: Wanted,
    token: Token,
    /// What is open, the innermost last: an object or an array.
    open: u128,
    depth: usize,
    values: usize,
}

impl Json {
    /// A text of which nothing has come.
    pub(super) fn new(object: bool) -> Json {
        Json { object, wanted: Wanted::Value, token: Token::Between, open: 0, depth: 0, values: 0 }
    }

    /// More of it, which must be UTF-8 but for characters that are cut; whether that makes it
    /// hopeless. Nothing may be asked after that.
    pub(super) fn more(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let [byte, after @ ..] = rest {
            rest = match self.token {
                Token::Between if matches!(byte, b' ' | b'\n') => {
                    let blanks = after.iter().take_while(|b| matches!(b, b' ' | b'\n')).count();
                    &after[blanks..]
                }
                Token::Between => match self.between(*byte) {
                    Some(()) => after,
                    None => return true,
                },
                Token::String => {
                    let at = in_string(rest);
                    match rest.get(at) {
                        None => return false,
                        Some(b'"') => {
                            self.token = Token::Between;
                            self.valued();
                            // What follows most keys, at once.
                            if self.wanted == Wanted::Colon && rest[at + 1..].starts_with(b": ") {
                                self.wanted = Wanted::Value;
                                rest = &rest[at + 3..];
                                continue;
                            }
                        }
                        Some(b'\\') => self.token = Token::Escape,
                        Some(_) => return true,
                    }
                    &rest[at + 1..]
                }
                Token::Number(number) => match number.then(*byte) {
                    Some(number) => {
                        self.token = Token::Number(number);
                        let digits = after.iter().take_while(|b| b.is_ascii_digit());
                        match number.has_digits() {
                            true => &after[digits.count()..],
                            false => after,
                        }
                    }
                    None if number.may_end() => {
                        self.token = Token::Between;
                        self.valued();
                        rest
                    }
                    // `-Infinity`
                    None if number == Number::Minus && *byte == b'I' => {
                        self.token = Token::Word(b"Infinity", 1);
                        after
                    }
                    None => return true,
                },
                _ => match self.within(*byte) {
                    Some(()) => after,
                    None => return true,
                },
            };
        }
        false
    }

    /// A byte between two tokens; `None`: it cannot stand there.
    #[inline(always)]
    fn between(&mut self, byte: u8) -> Option<()> {
        let in_object = self.open & 1 == 1;
        match (byte, self.wanted) {
            (b' ' | b'\t'..=b'\r', _) => {}
            (b'/', _) => self.token = Token::Slash,
            (0x80.., _) => self.token = Token::Wide([byte, 0, 0, 0], 1),
            (b'"', Wanted::Key) => self.token = Token::String,
            (b':', Wanted::Colon) => self.wanted = Wanted::Value,
            (b',', Wanted::Comma) => {
                self.wanted = if in_object { Wanted::Key } else { Wanted::Element };
            }
            (b'}', Wanted::Comma | Wanted::Key) if in_object => self.close(),
            (b']', Wanted::Comma | Wanted::Element) if !in_object => self.close(),
            (_, Wanted::Value | Wanted::Element) => return self.value(byte),
            _ => return None,
        }
        Some(())
    }

    /// The first byte of a value.
    #[inline(always)]
    fn value(&mut self, byte: u8) -> Option<()> {
        self.values += 1;
        if self.values > MAX_VALUES || (self.object && self.depth == 0 && byte != b'{') {
            return None;
        }
        self.token = match byte {
            b'{' | b'[' if self.depth >= MAX_DEPTH.min(128) => return None,
            b'{' => {
                (self.open, self.depth) = (self.open << 1 | 1, self.depth + 1);
                self.wanted = Wanted::Key;
                return Some(());
            }
            b'[' => {
                (self.open, self.depth) = (self.open << 1, self.depth + 1);
                self.wanted = Wanted::Element;
                return Some(());
            }
            b'"' => Token::String,
            b'-' => Token::Number(Number::Minus),
            b'0' => Token::Number(Number::Zero),
            b'1'..=b'9' => Token::Number(Number::Whole),
            b't' => Token::Word(b"true", 1),
            b'f' => Token::Word(b"false", 1),
            b'n' => Token::Word(b"null", 1),
            b'N' => Token::Word(b"NaN", 1),
            b'I' => Token::Word(b"Infinity", 1),
            _ => return None,
        };
        Some(())
    }

    /// A byte inside of a token, other than of a number or plain in a string.
    fn within(&mut self, byte: u8) -> Option<()> {
        self.token = match (self.token, byte) {
            (Token::Escape, b'u') => Token::Hex(4),
            (Token::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                Token::String
            }
            (Token::Hex(n), b) if b.is_ascii_hexdigit() => {
                if n == 1 {
                    Token::String
                } else {
                    Token::Hex(n - 1)
                }
            }
            (Token::Word(word, at), b) if word.get(at) == Some(&b) => {
                if at + 1 == word.len() {
                    self.valued();
                    Token::Between
                } else {
                    Token::Word(word, at + 1)
                }
            }
            (Token::Wide(mut bytes, at), b) => {
                *bytes.get_mut(at)? = b;
                match std::str::from_utf8(&bytes[..=at]) {
                    Ok(c) if c.contains(|c: char| c.is_whitespace() || c == '\u{feff}') => {
                        Token::Between
                    }
                    Err(e) if e.error_len().is_none() => Token::Wide(bytes, at + 1),
                    _ => return None,
                }
            }
            (Token::Slash, b'/') => Token::Line,
            (Token::Slash, b'*') => Token::Block,
            (Token::Line, b'\n' | b'\r') => Token::Between,
            (Token::Star, b'/') => Token::Between,
            (Token::Block | Token::Star, b'*') => Token::Star,
            (Token::Block | Token::Star, _) => Token::Block,
            (Token::Line, _) => Token::Line,
            _ => return None,
        };
        Some(())
    }

    /// A value or a key has come to its end.
    #[inline(always)]
    fn valued(&mut self) {
        self.wanted = match self.wanted {
            Wanted::Key => Wanted::Colon,
            _ if self.depth == 0 => Wanted::End,
            _ => Wanted::Comma,
        };
    }

    fn close(&mut self) {
        (self.open, self.depth) = (self.open >> 1, self.depth - 1);
        self.wanted = Wanted::Comma;
        self.valued();
    }
}

impl Number {
    /// With one more byte; `None`: it does not belong to the number.
    #[inline(always)]
    fn then(self, byte: u8) -> Option<Number> {
        Some(match (self, byte) {
            (Number::Minus, b'0') => Number::Zero,
            (Number::Minus | Number::Whole, b'0'..=b'9') => Number::Whole,
            (Number::Zero | Number::Whole, b'.') => Number::Point,
            (Number::Point | Number::Fraction, b'0'..=b'9') => Number::Fraction,
            (Number::Zero | Number::Whole | Number::Fraction, b'e' | b'E') => Number::E,
            (Number::E, b'+' | b'-') => Number::Sign,
            (Number::E | Number::Sign | Number::Exponent, b'0'..=b'9') => Number::Exponent,
            _ => return None,
        })
    }

    fn may_end(self) -> bool {
        self == Number::Zero || self.has_digits()
    }

    /// More digits change nothing.
    fn has_digits(self) -> bool {
        matches!(self, Number::Whole | Number::Fraction | Number::Exponent)
    }
}

/// Where a string has its next `"`, `\` or control character; a CR is none, for what has lone ones as
/// line ends. Eight bytes at a time.
#[inline]
fn in_string(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);
    // The top bit of each byte that is less than `n`. What borrows from a higher byte may flag that
    // one as well, so that only the lowest counts.
    let below = |word: u64, n: u8| word.wrapping_sub(ONES * u64::from(n)) & !word & TOPS;
    let plain = |b: u8| (b >= b' ' || b == b'\r') && b != b'"' && b != b'\\';
    let mut at = 0;
    while let Some(eight) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let slash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let found = quote | slash | below(word, b' ');
        if found == 0 {
            at += 8;
            continue;
        }
        at += found.trailing_zeros() as usize / 8;
        if bytes[at] != b'\r' {
            return at;
        }
        at += 1;
    }
    at + bytes[at..].iter().take_while(|b| plain(**b)).count()
}
