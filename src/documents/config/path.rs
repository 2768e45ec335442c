//! Key paths, and getting and setting what they lead to.

use super::tree::MAX_DEPTH;
use super::value::{Value, number};

/// One step of a key path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A key of an object. Of an array: a place when it is a number, else the `id` or `name`
    /// of an element.
    Key(String),
    /// A place in an array, from 0.
    At(usize),
    /// The element of an array that is called so.
    Element {
        /// By which key; `None`: by `id`, else by `name`.
        field: Option<String>,
        /// What stands there, as text.
        is: String,
    },
}

/// Where in a config: `koan.budget.daily`, `tools[2].name`, `tools[id=web].on`, `hosts."a.b"`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyPath(pub Vec<Step>);

/// A string in double quotes at the beginning of `rest`, and what follows it.
fn quoted<'t>(text: &str, rest: &'t str) -> Result<(String, &'t str), String> {
    let mut it = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    match it.next() {
        Some(Ok(key)) => Ok((key, &rest[it.byte_offset()..])),
        _ => Err(format!("{text:?}: a quoted key has no end")),
    }
}

/// What stands between `[` and `]`, and what follows.
fn bracket<'t>(text: &str, inside: &'t str) -> Result<(Step, &'t str), String> {
    let close =
        |rest: &'t str| rest.strip_prefix(']').ok_or_else(|| format!("{text:?}: `[` without `]`"));
    if inside.starts_with('"') {
        let (key, rest) = quoted(text, inside)?;
        return Ok((Step::Key(key), close(rest)?));
    }
    let end = inside.find([']', '=']).ok_or_else(|| format!("{text:?}: `[` without `]`"))?;
    let (word, rest) = inside.split_at(end);
    if word.is_empty() {
        return Err(format!("{text:?}: nothing stands between `[` and `]`"));
    }
    if word.contains(char::is_control) {
        return Err(format!("{text:?}: a control character stands between `[` and `]`"));
    }
    let Some(after) = rest.strip_prefix('=') else {
        let step = match word.parse() {
            Ok(at) => Step::At(at),
            Err(_) if word.bytes().all(|b| b.is_ascii_digit()) => {
                return Err(format!("{text:?}: [{word}] is no place"));
            }
            Err(_) => Step::Element { field: None, is: word.to_owned() },
        };
        return Ok((step, close(rest)?));
    };
    let field = Some(word.to_owned());
    if after.starts_with('"') {
        let (is, rest) = quoted(text, after)?;
        return Ok((Step::Element { field, is }, close(rest)?));
    }
    let end = after.find(']').ok_or_else(|| format!("{text:?}: `[` without `]`"))?;
    let (is, rest) = after.split_at(end);
    Ok((Step::Element { field, is: is.to_owned() }, close(rest)?))
}

impl KeyPath {
    /// Reads the written form: keys with dots between them, a key of any characters in double
    /// quotes as in JSON (`hosts."a.b"` or `hosts["a.b"]`), `[2]` for a place in an array,
    /// `[id=web]`, `[name=web]` or `[web]` for an element. `Err` says in one line what is wrong
    /// with it. The empty path is the whole config.
    pub fn parse(text: &str) -> Result<KeyPath, String> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if steps.len() == MAX_DEPTH {
                return Err(format!("a key path has at most {MAX_DEPTH} steps"));
            }
            if let Some(inside) = rest.strip_prefix('[') {
                let (step, tail) = bracket(text, inside)?;
                steps.push(step);
                rest = tail;
                continue;
            }
            if !steps.is_empty() {
                rest = rest
                    .strip_prefix('.')
                    .ok_or_else(|| format!("{text:?}: a dot is missing before {rest:?}"))?;
            }
            if rest.starts_with('"') {
                let (key, tail) = quoted(text, rest)?;
                steps.push(Step::Key(key));
                rest = tail;
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                if end == 0 {
                    return Err(format!("{text:?}: a key is empty"));
                }
                steps.push(Step::Key(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
        Ok(KeyPath(steps))
    }

    /// The path to a key of what this path leads to.
    pub fn key(&self, key: &str) -> KeyPath {
        self.step(Step::Key(key.to_owned()))
    }

    /// The path to an element of what this path leads to.
    pub fn at(&self, place: usize) -> KeyPath {
        self.step(Step::At(place))
    }

    /// The path one step further.
    pub(super) fn step(&self, step: Step) -> KeyPath {
        let mut steps = self.0.clone();
        steps.push(step);
        KeyPath(steps)
    }

    /// What stands there.
    pub fn get<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |v, step| match (step, v) {
            (Step::Key(k), Value::Map(_)) => v.entry(k),
            (step, Value::Seq(s)) => step.place(s).and_then(|i| s.get(i)),
            _ => None,
        })
    }

    /// Sets what stands there, making the objects on the way. An array takes an existing
    /// place or the one after its last; an element that is not there yet is added at the end
    /// with its `id` or `name`. `Err` says in one line what is in the way.
    pub fn set(&self, value: &mut Value, new: Value) -> Result<(), String> {
        let mut at = value;
        let mut called = None;
        for step in &self.0 {
            if matches!(at, Value::Null) {
                *at = match step {
                    Step::Key(_) => Value::Map(Vec::new()),
                    Step::At(_) | Step::Element { .. } => Value::Seq(Vec::new()),
                };
            }
            called = None;
            let kind = at.type_name();
            at = match (step, at) {
                (Step::Key(k), Value::Map(m)) => {
                    let place = m.iter().position(|(have, _)| have == k).unwrap_or(m.len());
                    if place == m.len() {
                        m.push((k.clone(), Value::Null));
                    }
                    &mut m[place].1
                }
                (step, Value::Seq(s)) => {
                    let (place, name) = self.place_for(step, s)?;
                    called = name;
                    &mut s[place]
                }
                (Step::Key(k), _) => {
                    return Err(format!("{self}: `{k}` would be a key of a {kind}"));
                }
                (step, _) => {
                    let step = KeyPath(vec![step.clone()]);
                    return Err(format!("{self}: `{step}` would be an element of a {kind}"));
                }
            };
        }
        *at = new;
        if let (Some((field, name)), Value::Map(m)) = (called, at)
            && !m.iter().any(|(k, _)| *k == field)
        {
            m.insert(0, (field, name));
        }
        Ok(())
    }

    /// The place in an array that is to be set, made if need be, and what the element there is
    /// called by.
    fn place_for(
        &self,
        step: &Step,
        s: &mut Vec<Value>,
    ) -> Result<(usize, Option<(String, Value)>), String> {
        let (field, is) = match step.as_element() {
            Ok(place) if place > s.len() => {
                return Err(format!("{self}: the array has {} elements", s.len()));
            }
            Ok(place) => {
                if place == s.len() {
                    s.push(Value::Null);
                }
                return Ok((place, None));
            }
            Err(called) => called,
        };
        let used = |f: &str| s.iter().any(|v| v.entry(f).is_some());
        let usual = if !used("id") && used("name") { "name" } else { "id" };
        if let Some(place) = step.place(s) {
            let own = |f: &str| s[place].entry(f).map(|v| (f.to_owned(), v.clone()));
            let called = match field {
                Some(field) => own(field),
                None => own("id").or_else(|| own("name")),
            };
            return Ok((place, called));
        }
        let field = field.unwrap_or(usual).to_owned();
        let numbers = s.iter().any(|v| matches!(v.entry(&field), Some(Value::Num(_))));
        let name = match super::json::is_number(is) && numbers {
            true => Value::Num(is.to_owned()),
            false => Value::Str(is.to_owned()),
        };
        s.push(Value::Map(vec![(field.clone(), name.clone())]));
        Ok((s.len() - 1, Some((field, name))))
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
                (step, Value::Seq(s)) => step.place(s).and_then(|i| s.get_mut(i)),
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
            (step, Value::Seq(s)) => match step.place(s) {
                Some(i) if i < s.len() => {
                    s.remove(i);
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }
}

impl Step {
    /// Of an array: a place, or by what and how the element is called.
    fn as_element(&self) -> Result<usize, (Option<&str>, &str)> {
        match self {
            Step::At(i) => Ok(*i),
            Step::Key(k) => k.parse().map_err(|_| (None, &**k)),
            Step::Element { field, is } => Err((field.as_deref(), is)),
        }
    }

    /// The place of an element in an array, which may be beyond its end.
    fn place(&self, s: &[Value]) -> Option<usize> {
        let (field, is) = match self.as_element() {
            Ok(place) => return Some(place),
            Err(called) => called,
        };
        let same = |v: &Value| match v {
            Value::Str(s) => s == is,
            Value::Num(n) => n == is || (number(n).is_some() && number(n) == number(is)),
            _ => false,
        };
        let by = |f: &str| s.iter().position(|v| v.entry(f).is_some_and(same));
        match field {
            Some(field) => by(field),
            None => by("id").or_else(|| by("name")),
        }
    }
}

/// Whether a text can stand in a path without quotes.
fn is_plain(text: &str, special: &[char]) -> bool {
    !text.is_empty()
        && !text.contains(|c: char| c.is_control() || c.is_whitespace() || special.contains(&c))
}

impl std::fmt::Display for KeyPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quote = super::render::json_string;
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::At(n) => write!(f, "[{n}]")?,
                // As it was written: in quotes it would be a key.
                Step::Element { field: None, is } => write!(f, "[{is}]")?,
                Step::Element { field: Some(field), is } => match is_plain(is, &[']', '"']) {
                    true => write!(f, "[{field}={is}]")?,
                    false => write!(f, "[{field}={}]", quote(is))?,
                },
                Step::Key(k) => {
                    if i > 0 {
                        f.write_str(".")?;
                    }
                    match is_plain(k, &['.', '[', '"']) {
                        true => f.write_str(k)?,
                        false => f.write_str(&quote(k))?,
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Form, read};
    use super::*;

    fn json(text: &str) -> Value {
        read(Form::Json, text).unwrap().value
    }

    #[test]
    fn paths_round_trip() {
        for text in [
            "a",
            "a.b.c",
            "tools[2].name",
            "hosts.\"a.b\".c",
            "\"x y\"[0][1]",
            "tools[id=web].on",
            "tools[name=\"a]b\"]",
            "tools[web]",
            "tools[a b\"c]",
            "\"\"",
        ] {
            assert_eq!(KeyPath::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(KeyPath::parse("a[\"b.c\"].d").unwrap().to_string(), "a.\"b.c\".d");
        let deep = "a.".repeat(100_000) + "a";
        for bad in [
            "a..b",
            "a[",
            "a[]",
            "a[1]b",
            "\"a",
            ".a",
            "a.",
            "a[x",
            "a[id=x",
            "a[=x]",
            "a[\"x]",
            "a[x\ty]",
            "a[99999999999999999999]",
            &deep,
        ] {
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

    #[test]
    fn elements_by_place_and_by_name() {
        let v =
            json(r#"{"t": [{"id": "web", "n": 1}, {"id": 7, "n": 2}, {"name": "sh", "n": 3}]}"#);
        for (path, n) in [
            ("t[0].n", "1"),
            ("t.0.n", "1"),
            ("t[id=web].n", "1"),
            ("t[web].n", "1"),
            ("t.web.n", "1"),
            ("t[id=7].n", "2"),
            ("t[name=sh].n", "3"),
            ("t.sh.n", "3"),
        ] {
            let found = KeyPath::parse(path).unwrap().get(&v).map(Value::canonical);
            assert_eq!(found.as_deref(), Some(n), "{path}");
        }
        for none in ["t[3]", "t[id=sh]", "t[name=web]", "t.x", "t[id=web].x", "t[0][0]", "x[0]"] {
            assert!(KeyPath::parse(none).unwrap().get(&v).is_none(), "{none}");
        }
    }

    #[test]
    fn elements_are_set_and_made() {
        for (before, path, new, after) in [
            ("{}", "t[0]", "1", r#"{"t":[1]}"#),
            ("{}", "t[id=web].on", "true", r#"{"t":[{"id":"web","on":true}]}"#),
            ("{}", "t[web]", "{\"on\": true}", r#"{"t":[{"id":"web","on":true}]}"#),
            (
                r#"{"t": [{"name": "a"}]}"#,
                "t.b.n",
                "1",
                r#"{"t":[{"name":"a"},{"n":1,"name":"b"}]}"#,
            ),
            (r#"{"t": [{"id": 1}]}"#, "t[id=2].n", "1", r#"{"t":[{"id":1},{"id":2,"n":1}]}"#),
            // What an element is called by stays, unless it is set to something else.
            (r#"{"t": [{"id": 1, "n": 5}]}"#, "t[id=1]", "{}", r#"{"t":[{"id":1}]}"#),
            (r#"{"t": [{"id": 1}]}"#, "t[id=1]", "{\"id\": 2}", r#"{"t":[{"id":2}]}"#),
            (r#"{"t": [{"id": 1}]}"#, "t[0]", "{\"n\": 2}", r#"{"t":[{"n":2}]}"#),
            (r#"{"t": null}"#, "t.a", "1", r#"{"t":{"a":1}}"#),
        ] {
            let mut v = json(before);
            let new = json(&format!("{{\"x\": {new}}}")).entry("x").unwrap().clone();
            KeyPath::parse(path).unwrap().set(&mut v, new).unwrap();
            assert_eq!(v.canonical(), after, "{path} in {before}");
        }
        for (before, path) in [
            (r#"{"t": [1]}"#, "t[2]"),
            (r#"{"t": {}}"#, "t[0]"),
            (r#"{"t": {}}"#, "t[id=x]"),
            (r#"{"t": "x"}"#, "t.a"),
        ] {
            let set = KeyPath::parse(path).unwrap().set(&mut json(before), Value::Null);
            assert!(set.is_err(), "{path} in {before}");
        }
        let mut v = json(r#"{"t": [{"id": "a"}, {"id": "b"}]}"#);
        assert!(KeyPath::parse("t[id=a]").unwrap().unset(&mut v));
        assert!(!KeyPath::parse("t[id=a]").unwrap().unset(&mut v));
        assert_eq!(v.canonical(), r#"{"t":[{"id":"b"}]}"#);
    }
}
