//! Key paths, and getting and setting what they lead to.

use super::value::Value;

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
