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
            (Value::Num(a), Value::Num(b)) => same_number(a, b),
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
    pub fn canonical(&self) -> String {
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

/// Equal as doubles (merge.md, Config), so that a program that knows nothing else does not
/// change what it only passes on. Two whole numbers with more digits than a double can hold are
/// different all the same: no such program wrote either of them.
fn same_number(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let exact = |s: &str| {
        let digits = s.trim_start_matches('-');
        digits.bytes().all(|b| b.is_ascii_digit()) && digits.trim_end_matches('0').len() > 17
    };
    !(exact(a) && exact(b)) && matches!((number(a), number(b)), (Some(x), Some(y)) if x == y)
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
}
