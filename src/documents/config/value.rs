//! The values of a config, apart from how they are written.

use std::collections::HashMap;

/// A config value. Numbers keep their spelling; maps keep their order.
#[derive(Debug, Clone)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number exactly as written, such as `1e3`, `0x10` or `1.0`.
    Num(String),
    /// Any other scalar: also dates, `.inf` and tagged scalars (`!secret x`), which are text.
    Str(String),
    /// An array.
    Seq(Vec<Value>),
    /// An object; no key occurs twice.
    Map(Vec<(String, Value)>),
}

/// Keys of a map (or identities of an array) to their places.
pub(super) struct Index<'a>(HashMap<&'a str, usize>);

impl<'a> Index<'a> {
    /// Of these keys, in order; of equal ones the last counts.
    pub(super) fn new(keys: impl IntoIterator<Item = &'a str>) -> Index<'a> {
        Index(keys.into_iter().enumerate().map(|(i, k)| (k, i)).collect())
    }

    /// Where the key stands.
    pub(super) fn get(&self, key: &str) -> Option<usize> {
        self.0.get(key).copied()
    }

    /// Whether the key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
}

impl Value {
    /// The kind in the words of JSON Schema, except that every number is a `number`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Num(_) => "number",
            Value::Str(_) => "string",
            Value::Seq(_) => "array",
            Value::Map(_) => "object",
        }
    }

    /// Equal in content: numbers as doubles, maps whatever their order.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Num(a), Value::Num(b)) => {
                a == b || matches!((number(a), number(b)), (Some(x), Some(y)) if x == y)
            }
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Seq(a), Value::Seq(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same(y))
            }
            (Value::Map(a), Value::Map(b)) => {
                if a.len() != b.len() {
                    return false;
                }
                if a.iter().zip(b).all(|(x, y)| x.0 == y.0) {
                    return a.iter().zip(b).all(|(x, y)| x.1.same(&y.1));
                }
                let at = Index::new(b.iter().map(|(k, _)| k.as_str()));
                a.iter().all(|(k, v)| at.get(k).is_some_and(|i| v.same(&b[i].1)))
            }
            _ => false,
        }
    }

    /// A text that is equal for values that are the [same](Value::same).
    pub(super) fn canonical(&self) -> String {
        match self {
            Value::Null => "null".into(),
            Value::Bool(b) => b.to_string(),
            Value::Num(n) => match number(n) {
                Some(x) => format!("{}", if x == 0.0 { 0.0 } else { x }),
                None => n.clone(),
            },
            Value::Str(s) => super::render::json_string(s),
            Value::Seq(s) => {
                format!("[{}]", s.iter().map(Value::canonical).collect::<Vec<_>>().join(","))
            }
            Value::Map(m) => {
                let mut all: Vec<String> = m
                    .iter()
                    .map(|(k, v)| format!("{}:{}", super::render::json_string(k), v.canonical()))
                    .collect();
                all.sort();
                format!("{{{}}}", all.join(","))
            }
        }
    }

    /// The entry of a map; `None` for a missing key and for everything that is no map.
    pub fn entry(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Map(m) => m.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The whole number, if it is one (`3`, `3.0`, `0x10`) and fits.
    pub fn integer(&self) -> Option<i64> {
        let Value::Num(text) = self else { return None };
        if let Ok(n) = text.parse::<i64>() {
            return Some(n);
        }
        let n = number(text)?;
        (n.fract() == 0.0 && n.abs() < 9.0e15).then_some(n as i64)
    }
}

/// The number behind a spelling of JSON or YAML 1.2; `None` when it is none.
pub(super) fn number(text: &str) -> Option<f64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    for (prefix, radix) in [("0x", 16u32), ("0o", 8)] {
        if let Some(d) = digits.strip_prefix(prefix) {
            let mut n = 0f64;
            for c in d.chars() {
                n = n * f64::from(radix) + f64::from(c.to_digit(radix)?);
            }
            return (!d.is_empty()).then_some(sign * n);
        }
    }
    let first = *digits.as_bytes().first()?;
    if !(first.is_ascii_digit() || first == b'.') {
        return None;
    }
    digits.parse::<f64>().ok().map(|n| sign * n)
}

/// One step of a key path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A key of an object.
    Key(String),
    /// A place in an array, from 0.
    At(usize),
}

/// Where in a config: `koan.budget.daily`, `tools[2].name`, `hosts."a.b"`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyPath(pub Vec<Step>);

impl KeyPath {
    /// Reads the written form; `Err` says what is wrong with it, in one line.
    pub fn parse(text: &str) -> Result<KeyPath, String> {
        let mut steps = Vec::new();
        let mut rest = text;
        let mut first = true;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let (inside, tail) =
                    after.split_once(']').ok_or_else(|| format!("{text:?}: `[` without `]`"))?;
                let at = inside.parse().map_err(|_| format!("{text:?}: [{inside}] is no place"))?;
                steps.push(Step::At(at));
                rest = tail;
            } else {
                if !first {
                    rest = rest
                        .strip_prefix('.')
                        .ok_or_else(|| format!("{text:?}: a dot is missing before {rest:?}"))?;
                }
                if rest.starts_with('"') {
                    let mut it = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                    let key = match it.next() {
                        Some(Ok(key)) => key,
                        _ => return Err(format!("{text:?}: a quoted key has no end")),
                    };
                    rest = &rest[it.byte_offset()..];
                    steps.push(Step::Key(key));
                } else {
                    let end = rest.find(['.', '[']).unwrap_or(rest.len());
                    if end == 0 {
                        return Err(format!("{text:?}: a key is empty"));
                    }
                    steps.push(Step::Key(rest[..end].to_owned()));
                    rest = &rest[end..];
                }
            }
            first = false;
        }
        Ok(KeyPath(steps))
    }

    /// The path to a key of what this path leads to.
    pub fn key(&self, key: &str) -> KeyPath {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_owned()));
        KeyPath(steps)
    }

    /// The path to an element of what this path leads to.
    pub fn at(&self, place: usize) -> KeyPath {
        let mut steps = self.0.clone();
        steps.push(Step::At(place));
        KeyPath(steps)
    }

    /// What stands there.
    pub fn get<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |v, step| match (step, v) {
            (Step::Key(k), Value::Map(_)) => v.entry(k),
            (Step::At(i), Value::Seq(s)) => s.get(*i),
            _ => None,
        })
    }

    /// Sets what stands there, making the objects on the way. An array takes an existing
    /// place or the one after its last. `Err` says in one line what is in the way.
    pub fn set(&self, value: &mut Value, new: Value) -> Result<(), String> {
        let mut at = value;
        for step in &self.0 {
            at = match step {
                Step::Key(k) => {
                    if matches!(at, Value::Null) {
                        *at = Value::Map(Vec::new());
                    }
                    let kind = at.type_name();
                    let Value::Map(m) = at else {
                        return Err(format!("{self}: `{k}` would be a key of a {kind}"));
                    };
                    let place = m.iter().position(|(have, _)| have == k).unwrap_or(m.len());
                    if place == m.len() {
                        m.push((k.clone(), Value::Null));
                    }
                    &mut m[place].1
                }
                Step::At(i) => {
                    let kind = at.type_name();
                    let Value::Seq(s) = at else {
                        return Err(format!("{self}: [{i}] of a {kind}"));
                    };
                    if *i > s.len() {
                        return Err(format!("{self}: the array has {} elements", s.len()));
                    }
                    if *i == s.len() {
                        s.push(Value::Null);
                    }
                    &mut s[*i]
                }
            };
        }
        *at = new;
        Ok(())
    }

    /// Takes out what stands there; `false` when there was nothing.
    pub fn unset(&self, value: &mut Value) -> bool {
        let Some((last, way)) = self.0.split_last() else { return false };
        let mut at = value;
        for step in way {
            let next = match (step, at) {
                (Step::Key(k), Value::Map(m)) => {
                    m.iter_mut().find(|(have, _)| have == k).map(|(_, v)| v)
                }
                (Step::At(i), Value::Seq(s)) => s.get_mut(*i),
                _ => None,
            };
            match next {
                Some(v) => at = v,
                None => return false,
            }
        }
        match (last, at) {
            (Step::Key(k), Value::Map(m)) => {
                let before = m.len();
                m.retain(|(have, _)| have != k);
                m.len() < before
            }
            (Step::At(i), Value::Seq(s)) if *i < s.len() => {
                s.remove(*i);
                true
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for KeyPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::At(n) => write!(f, "[{n}]")?,
                Step::Key(k) => {
                    if i > 0 {
                        f.write_str(".")?;
                    }
                    let plain = !k.is_empty()
                        && !k.contains(|c: char| {
                            c.is_control() || c.is_whitespace() || matches!(c, '.' | '[' | '"')
                        });
                    if plain {
                        f.write_str(k)?;
                    } else {
                        f.write_str(&super::render::json_string(k))?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_as_doubles() {
        let same = |a: &str, b: &str| Value::Num(a.into()).same(&Value::Num(b.into()));
        assert!(same("1", "1.0"));
        assert!(same("1e3", "1000"));
        assert!(same("0x10", "16"));
        assert!(same("12345678901234567890", "12345678901234567000"));
        assert!(!same("1", "2"));
        assert!(!Value::Num("1".into()).same(&Value::Str("1".into())));
    }

    #[test]
    fn paths_round_trip() {
        for text in ["a", "a.b.c", "tools[2].name", "hosts.\"a.b\".c", "\"x y\"[0][1]"] {
            assert_eq!(KeyPath::parse(text).unwrap().to_string(), text);
        }
        for bad in ["a..b", "a[", "a[x]", "a[1]b", "\"a"] {
            assert!(KeyPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn set_and_unset() {
        let mut v = Value::Map(vec![]);
        let path = KeyPath::parse("a.b").unwrap();
        path.set(&mut v, Value::Bool(true)).unwrap();
        assert!(matches!(path.get(&v), Some(Value::Bool(true))));
        assert!(KeyPath::parse("a.b.c").unwrap().set(&mut v, Value::Null).is_err());
        assert!(path.unset(&mut v));
        assert!(!path.unset(&mut v));
        assert!(path.get(&v).is_none());
    }
}
