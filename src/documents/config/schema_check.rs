//! A config held against a schema, keyword by keyword.

use std::collections::{HashMap, HashSet};

use regex::Regex;

use super::path::KeyPath;
use super::schema::Fault;
use super::value::{Value, number};

/// Deepest chain of `$ref`, `anyOf` and so on; beyond it nothing is checked.
const MAX_DEPTH: usize = 256;
/// Most schemas that are applied to one config; beyond it nothing is checked.
const MAX_STEPS: usize = 1_000_000;

/// The regular expressions of a schema.
#[derive(Debug, Default)]
pub(super) struct Patterns(HashMap<String, Regex>);

impl Patterns {
    /// All that stand anywhere in a schema.
    pub fn of(schema: &Value) -> Patterns {
        let mut patterns = Patterns::default();
        patterns.collect(schema);
        patterns
    }

    fn collect(&mut self, schema: &Value) {
        match schema {
            Value::Map(m) => {
                for (key, value) in m {
                    match (key.as_str(), value) {
                        ("pattern", Value::Str(text)) => self.add(text),
                        ("patternProperties", Value::Map(m)) => {
                            m.iter().for_each(|(text, _)| self.add(text));
                        }
                        _ => {}
                    }
                    self.collect(value);
                }
            }
            Value::Seq(s) => s.iter().for_each(|value| self.collect(value)),
            _ => {}
        }
    }

    fn add(&mut self, text: &str) {
        if self.0.contains_key(text) {
            return;
        }
        match Regex::new(text) {
            Ok(regex) => {
                self.0.insert(text.to_owned(), regex);
            }
            Err(e) => log::warn!("config.schema.json: pattern {text:?} is not checked: {e}"),
        }
    }

    /// Whether the text fits; a pattern that is none fits nothing.
    fn fits(&self, pattern: &str, text: &str) -> Option<bool> {
        self.0.get(pattern).map(|regex| regex.is_match(text))
    }
}

/// One check of one config.
pub(super) struct Checker<'s> {
    root: &'s Value,
    patterns: &'s Patterns,
    steps: usize,
}

type Checked = Result<(), Fault>;

fn fault(path: &KeyPath, message: impl Into<String>) -> Checked {
    Err(Fault { path: path.clone(), message: message.into() })
}

fn num(v: Option<&Value>) -> Option<f64> {
    match v {
        Some(Value::Num(n)) => number(n),
        _ => None,
    }
}

fn list(v: Option<&Value>) -> &[Value] {
    match v {
        Some(Value::Seq(s)) => s,
        _ => &[],
    }
}

fn entries(v: Option<&Value>) -> &[(String, Value)] {
    match v {
        Some(Value::Map(m)) => m,
        _ => &[],
    }
}

fn strings(v: Option<&Value>) -> impl Iterator<Item = &str> {
    list(v).iter().filter_map(|v| if let Value::Str(s) = v { Some(&**s) } else { None })
}

fn is_type(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("integer", Value::Num(n)) => number(n).is_some_and(|x| x.fract() == 0.0),
        _ => name == value.type_name(),
    }
}

impl<'s> Checker<'s> {
    /// Of a schema with these patterns.
    pub fn new(root: &'s Value, patterns: &'s Patterns) -> Checker<'s> {
        Checker { root, patterns, steps: 0 }
    }

    /// Checks a whole config.
    pub fn run(mut self, value: &Value) -> Checked {
        self.check(self.root, value, &KeyPath::default(), 0)
    }

    fn check(&mut self, schema: &'s Value, value: &Value, path: &KeyPath, depth: usize) -> Checked {
        self.steps += 1;
        if depth > MAX_DEPTH || self.steps > MAX_STEPS {
            return Ok(());
        }
        match schema {
            Value::Bool(false) => return fault(path, "nothing is allowed here"),
            Value::Map(_) => {}
            _ => return Ok(()),
        }
        if let Some(target) = schema.entry("$ref").and_then(|r| self.resolve(r)) {
            self.check(target, value, path, depth + 1)?;
        }
        kinds(schema, value, path)?;
        match value {
            Value::Num(n) => bounds(schema, n, path)?,
            Value::Str(s) => self.string(schema, s, path)?,
            Value::Seq(items) => self.array(schema, items, path, depth)?,
            Value::Map(m) => self.object(schema, m, value, path, depth)?,
            Value::Null | Value::Bool(_) => {}
        }
        self.combined(schema, value, path, depth)
    }

    fn fits(&mut self, schema: &'s Value, value: &Value, path: &KeyPath, depth: usize) -> bool {
        self.check(schema, value, path, depth + 1).is_ok()
    }

    fn resolve(&self, reference: &Value) -> Option<&'s Value> {
        let Value::Str(r) = reference else { return None };
        let rest = r.strip_prefix('#')?;
        rest.split('/').skip(1).try_fold(self.root, |at, part| {
            let part = part.replace("~1", "/").replace("~0", "~");
            match at {
                Value::Seq(s) => part.parse::<usize>().ok().and_then(|i| s.get(i)),
                _ => at.entry(&part),
            }
        })
    }

    fn string(&self, schema: &Value, s: &str, path: &KeyPath) -> Checked {
        lengths(schema, s.chars().count(), "Length", "characters", path)?;
        if let Some(Value::Str(pattern)) = schema.entry("pattern")
            && self.patterns.fits(pattern, s) == Some(false)
        {
            return fault(path, format!("does not fit the pattern {pattern}"));
        }
        Ok(())
    }

    fn array(
        &mut self,
        schema: &'s Value,
        items: &[Value],
        path: &KeyPath,
        depth: usize,
    ) -> Checked {
        lengths(schema, items.len(), "Items", "elements", path)?;
        let (first, rest) = match (schema.entry("prefixItems"), schema.entry("items")) {
            (Some(Value::Seq(first)), rest) => (&first[..], rest),
            (_, Some(Value::Seq(first))) => (&first[..], schema.entry("additionalItems")),
            (_, rest) => (&[][..], rest),
        };
        for (i, item) in items.iter().enumerate() {
            if let Some(each) = first.get(i).or(rest) {
                self.check(each, item, &path.at(i), depth + 1)?;
            }
        }
        if let Some(Value::Bool(true)) = schema.entry("uniqueItems") {
            let mut seen = HashSet::new();
            if let Some(i) = items.iter().position(|item| !seen.insert(item.canonical())) {
                return fault(&path.at(i), "stands twice in the array");
            }
        }
        if let Some(wanted) = schema.entry("contains") {
            let have = items.iter().filter(|i| self.fits(wanted, i, path, depth)).count() as f64;
            let least = num(schema.entry("minContains")).unwrap_or(1.0);
            if have < least {
                return fault(path, format!("must have at least {least} elements of a form"));
            }
            if let Some(most) = num(schema.entry("maxContains")).filter(|most| have > *most) {
                return fault(path, format!("must have at most {most} elements of a form"));
            }
        }
        Ok(())
    }

    fn object(
        &mut self,
        schema: &'s Value,
        m: &[(String, Value)],
        value: &Value,
        path: &KeyPath,
        depth: usize,
    ) -> Checked {
        let missing = |names: Option<&Value>| {
            strings(names).find(|name| value.entry(name).is_none()).map(str::to_owned)
        };
        if let Some(name) = missing(schema.entry("required")) {
            return fault(path, format!("the key {name:?} is missing"));
        }
        for (k, names) in entries(schema.entry("dependentRequired")) {
            if value.entry(k).is_some()
                && let Some(name) = missing(Some(names))
            {
                return fault(path, format!("the key {name:?} is missing beside {k:?}"));
            }
        }
        lengths(schema, m.len(), "Properties", "keys", path)?;
        let properties = schema.entry("properties");
        let by_pattern = entries(schema.entry("patternProperties"));
        let more = schema.entry("additionalProperties");
        for (k, v) in m {
            let at = path.key(k);
            let mut known = false;
            if let Some(s) = properties.and_then(|p| p.entry(k)) {
                known = true;
                self.check(s, v, &at, depth + 1)?;
            }
            for (pattern, s) in by_pattern {
                if self.patterns.fits(pattern, k) == Some(true) {
                    known = true;
                    self.check(s, v, &at, depth + 1)?;
                }
            }
            match more {
                Some(Value::Bool(false)) if !known => return fault(&at, "no such key is known"),
                Some(s) if !known => self.check(s, v, &at, depth + 1)?,
                _ => {}
            }
            if let Some(names) = schema.entry("propertyNames") {
                let name = Value::Str(k.clone());
                if let Err(f) = self.check(names, &name, &at, depth + 1) {
                    return fault(&at, format!("the key itself is not allowed: {}", f.message));
                }
            }
        }
        for (k, s) in entries(schema.entry("dependentSchemas")) {
            if value.entry(k).is_some() {
                self.check(s, value, path, depth + 1)?;
            }
        }
        Ok(())
    }

    fn combined(
        &mut self,
        schema: &'s Value,
        value: &Value,
        path: &KeyPath,
        depth: usize,
    ) -> Checked {
        for s in list(schema.entry("allOf")) {
            self.check(s, value, path, depth + 1)?;
        }
        let mut first = None;
        let mut good = list(schema.entry("anyOf")).is_empty();
        for s in list(schema.entry("anyOf")) {
            match self.check(s, value, path, depth + 1) {
                Ok(()) => {
                    good = true;
                    break;
                }
                Err(f) => first = first.or(Some(f)),
            }
        }
        if let (false, Some(f)) = (good, first) {
            return fault(&f.path, format!("fits none of the allowed forms ({})", f.message));
        }
        let one = list(schema.entry("oneOf"));
        if !one.is_empty() {
            let fits = one.iter().filter(|s| self.fits(s, value, path, depth)).count();
            if fits != 1 {
                let what = format!("must fit exactly one of the allowed forms, fits {fits}");
                return fault(path, what);
            }
        }
        if let Some(not) = schema.entry("not")
            && self.fits(not, value, path, depth)
        {
            return fault(path, "is of a form that is not allowed");
        }
        if let Some(condition) = schema.entry("if") {
            let then = match self.fits(condition, value, path, depth) {
                true => schema.entry("then"),
                false => schema.entry("else"),
            };
            if let Some(s) = then {
                self.check(s, value, path, depth + 1)?;
            }
        }
        Ok(())
    }
}

fn kinds(schema: &Value, value: &Value, path: &KeyPath) -> Checked {
    let names: Vec<&str> = match schema.entry("type") {
        Some(Value::Str(s)) => vec![s],
        several => strings(several).collect(),
    };
    if !names.is_empty() && !names.iter().any(|n| is_type(n, value)) {
        let wanted = names.join(" or ");
        return fault(path, format!("must be {wanted}, not {}", value.type_name()));
    }
    if let Some(Value::Seq(allowed)) = schema.entry("enum")
        && !allowed.iter().any(|a| a.same(value))
    {
        let names: Vec<String> = allowed.iter().take(12).map(Value::canonical).collect();
        return fault(path, format!("must be one of {}", names.join(", ")));
    }
    if let Some(only) = schema.entry("const")
        && !only.same(value)
    {
        return fault(path, format!("must be {}", only.canonical()));
    }
    Ok(())
}

fn bounds(schema: &Value, n: &str, path: &KeyPath) -> Checked {
    let Some(x) = number(n) else { return Ok(()) };
    let bound = |key: &str| num(schema.entry(key));
    if let Some(b) = bound("minimum").filter(|b| x < *b) {
        return fault(path, format!("must be at least {b}"));
    }
    if let Some(b) = bound("maximum").filter(|b| x > *b) {
        return fault(path, format!("must be at most {b}"));
    }
    if let Some(b) = bound("exclusiveMinimum").filter(|b| x <= *b) {
        return fault(path, format!("must be more than {b}"));
    }
    if let Some(b) = bound("exclusiveMaximum").filter(|b| x >= *b) {
        return fault(path, format!("must be less than {b}"));
    }
    // 0.3 is a multiple of 0.1 for people, if not for doubles.
    let times = |b: &f64| (x / b - (x / b).round()).abs() > 1e-9 * (x / b).abs().max(1.0);
    if let Some(b) = bound("multipleOf").filter(|b| *b > 0.0 && times(b)) {
        return fault(path, format!("must be a multiple of {b}"));
    }
    Ok(())
}

fn lengths(schema: &Value, len: usize, of: &str, what: &str, path: &KeyPath) -> Checked {
    let len = len as f64;
    if let Some(b) = num(schema.entry(&format!("min{of}"))).filter(|b| len < *b) {
        return fault(path, format!("must have at least {b} {what}"));
    }
    if let Some(b) = num(schema.entry(&format!("max{of}"))).filter(|b| len > *b) {
        return fault(path, format!("must have at most {b} {what}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::schema::Schema;
    use super::super::tree::{Form, read};

    /// Every keyword with a value that fits and one that does not, and where that is.
    #[test]
    fn keywords() {
        for (schema, good, bad, at) in [
            (r#"{"pattern": "^[a-z]+$"}"#, r#""abc""#, r#""aBc""#, "x"),
            (r#"{"multipleOf": 5}"#, "10", "12", "x"),
            (r#"{"multipleOf": 0.1}"#, "0.3", "0.35", "x"),
            (r#"{"uniqueItems": true}"#, "[1, 2]", "[1, 2, 1.0]", "x[2]"),
            (r#"{"prefixItems": [{"type": "string"}], "items": false}"#, r#"["a"]"#, "[1]", "x[0]"),
            (r#"{"prefixItems": [{}], "items": false}"#, "[1]", "[1, 2]", "x[1]"),
            (r#"{"items": [{}], "additionalItems": false}"#, "[1]", "[1, 2]", "x[1]"),
            (r#"{"contains": {"const": 1}}"#, "[2, 1]", "[2]", "x"),
            (r#"{"contains": {"const": 1}, "maxContains": 1}"#, "[2, 1]", "[1, 1]", "x"),
            (r#"{"contains": {"const": 1}, "minContains": 0}"#, "[2]", "\"no array\"", ""),
            (
                r#"{"patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": false}"#,
                r#"{"n_a": 1}"#,
                r#"{"n_a": "1"}"#,
                "x.n_a",
            ),
            (
                r#"{"patternProperties": {"^n_": {}}, "additionalProperties": false}"#,
                r#"{"n_a": 1}"#,
                r#"{"m": 1}"#,
                "x.m",
            ),
            (r#"{"propertyNames": {"maxLength": 2}}"#, r#"{"ab": 1}"#, r#"{"abc": 1}"#, "x.abc"),
            (r#"{"dependentRequired": {"a": ["b"]}}"#, r#"{"c": 1}"#, r#"{"a": 1}"#, "x"),
            (
                r#"{"dependentSchemas": {"a": {"properties": {"b": {"const": 1}}}}}"#,
                r#"{"b": 2}"#,
                r#"{"a": 1, "b": 2}"#,
                "x.b",
            ),
            (
                r#"{"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 2}}"#,
                r#""ab""#,
                r#""a""#,
                "x",
            ),
            (r#"{"if": {"type": "string"}, "else": {"minimum": 2}}"#, r#""a""#, "1", "x"),
        ] {
            let schema = format!(r#"{{"properties": {{"x": {schema}}}}}"#);
            let schema = Schema::parse(schema.as_bytes()).unwrap();
            let check = |text: &str| {
                let text = format!("{{\"x\": {text}}}");
                schema.check(&read(Form::Json, &text).unwrap().value)
            };
            assert!(check(good).is_ok(), "{schema:?} {good}: {:?}", check(good));
            match check(bad) {
                Err(fault) => assert_eq!(fault.path.to_string(), at, "{schema:?} {bad}"),
                Ok(()) => assert_eq!(at, "", "{schema:?} {bad}"),
            }
        }
    }

    #[test]
    fn a_pattern_that_is_none_refuses_nothing() {
        let schema = Schema::parse(br#"{"properties": {"x": {"pattern": "("}}}"#).unwrap();
        assert!(schema.check(&read(Form::Json, "{\"x\": \"a\"}").unwrap().value).is_ok());
    }
}
