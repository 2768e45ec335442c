//! `config.schema.json`: the part of JSON Schema that configs use.
//!
//! Understood: `type`, `properties`, `required`, `additionalProperties`, `enum`, `const`,
//! `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `minLength`, `maxLength`
//! (characters), `items`, `minItems`, `maxItems`, `minProperties`, `maxProperties`, `anyOf`, `oneOf`, `allOf`, `not`, and `$ref`
//! to `#`, `#/$defs/…` or `#/definitions/…`. Every other keyword is ignored, and so is a value of a wrong
//! kind for a keyword. A schema file that cannot be read refuses nothing; it is logged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::path::KeyPath;
use super::tree::{Form, Node, read, text_of};
use super::value::{Value, number};
use crate::model::{Reason, Refusal};

/// Deepest chain of `$ref`, `anyOf` and so on; beyond it nothing is checked.
const MAX_DEPTH: usize = 256;
/// Most schemas that are applied to one config; beyond it nothing is checked.
const MAX_STEPS: usize = 1_000_000;

/// A schema.
#[derive(Debug)]
pub(super) struct Schema(Value);

/// A violation.
#[derive(Debug)]
pub(super) struct Fault {
    path: KeyPath,
    message: String,
}

impl Fault {
    /// As a refusal; `tree`: the text that was to be saved.
    pub fn refusal(self, reason: Reason, tree: Option<&Node>) -> Refusal {
        let mut r = Refusal::new(reason, self.message).hint("config.schema.json does not allow it");
        if let Some(tree) = tree {
            r = r.at_line(tree.line_of(&self.path));
        }
        if self.path.0.is_empty() { r } else { r.at_key(self.path.to_string()) }
    }
}

impl Schema {
    /// From the text of a schema file.
    pub fn parse(bytes: &[u8]) -> Result<Schema, Refusal> {
        Ok(Schema(read(Form::Json, text_of(bytes)?)?.value))
    }

    /// Whether the value is allowed.
    pub fn check(&self, value: &Value) -> Result<(), Fault> {
        let mut c = Checker { root: &self.0, steps: 0 };
        c.check(&self.0, value, &KeyPath::default(), 0)
    }
}

struct Checker<'s> {
    root: &'s Value,
    steps: usize,
}

fn fault(path: &KeyPath, message: impl Into<String>) -> Result<(), Fault> {
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

fn is_type(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("integer", Value::Num(n)) => number(n).is_some_and(|x| x.fract() == 0.0),
        _ => name == value.type_name(),
    }
}

impl<'s> Checker<'s> {
    fn check(
        &mut self,
        schema: &'s Value,
        value: &Value,
        path: &KeyPath,
        depth: usize,
    ) -> Result<(), Fault> {
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
        self.kinds(schema, value, path)?;
        match value {
            Value::Num(n) => Self::bounds(schema, n, path)?,
            Value::Str(s) => {
                Self::lengths(schema, s.chars().count(), "Length", "characters", path)?
            }
            Value::Seq(items) => {
                Self::lengths(schema, items.len(), "Items", "elements", path)?;
                if let Some(each) = schema.entry("items") {
                    for (i, item) in items.iter().enumerate() {
                        self.check(each, item, &path.at(i), depth + 1)?;
                    }
                }
            }
            Value::Map(m) => self.object(schema, m, value, path, depth)?,
            Value::Null | Value::Bool(_) => {}
        }
        self.combined(schema, value, path, depth)
    }

    fn resolve(&self, reference: &Value) -> Option<&'s Value> {
        let Value::Str(r) = reference else { return None };
        let rest = r.strip_prefix('#')?;
        rest.split('/')
            .skip(1)
            .try_fold(self.root, |at, part| at.entry(&part.replace("~1", "/").replace("~0", "~")))
    }

    fn kinds(&self, schema: &Value, value: &Value, path: &KeyPath) -> Result<(), Fault> {
        let names: Vec<&str> = match schema.entry("type") {
            Some(Value::Str(s)) => vec![s],
            Some(Value::Seq(s)) => s
                .iter()
                .filter_map(|v| if let Value::Str(s) = v { Some(&**s) } else { None })
                .collect(),
            _ => Vec::new(),
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

    fn bounds(schema: &Value, n: &str, path: &KeyPath) -> Result<(), Fault> {
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
        Ok(())
    }

    fn lengths(
        schema: &Value,
        len: usize,
        of: &str,
        what: &str,
        path: &KeyPath,
    ) -> Result<(), Fault> {
        let len = len as f64;
        if let Some(b) = num(schema.entry(&format!("min{of}"))).filter(|b| len < *b) {
            return fault(path, format!("must have at least {b} {what}"));
        }
        if let Some(b) = num(schema.entry(&format!("max{of}"))).filter(|b| len > *b) {
            return fault(path, format!("must have at most {b} {what}"));
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
    ) -> Result<(), Fault> {
        for name in list(schema.entry("required")) {
            if let Value::Str(name) = name
                && value.entry(name).is_none()
            {
                return fault(path, format!("the key {name:?} is missing"));
            }
        }
        Self::lengths(schema, m.len(), "Properties", "keys", path)?;
        let properties = schema.entry("properties");
        let more = schema.entry("additionalProperties");
        for (k, v) in m {
            match (properties.and_then(|p| p.entry(k)), more) {
                (Some(s), _) => self.check(s, v, &path.key(k), depth + 1)?,
                (None, Some(Value::Bool(false))) => {
                    return fault(&path.key(k), "no such key is known");
                }
                (None, Some(s)) => self.check(s, v, &path.key(k), depth + 1)?,
                (None, None) => {}
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
    ) -> Result<(), Fault> {
        for s in list(schema.entry("allOf")) {
            self.check(s, value, path, depth + 1)?;
        }
        let any = list(schema.entry("anyOf"));
        if !any.is_empty() {
            let mut first = None;
            let mut good = false;
            for s in any {
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
        }
        let one = list(schema.entry("oneOf"));
        if !one.is_empty() {
            let fits = one.iter().filter(|s| self.check(s, value, path, depth + 1).is_ok()).count();
            if fits != 1 {
                return fault(
                    path,
                    format!("must fit exactly one of the allowed forms, fits {fits}"),
                );
            }
        }
        if let Some(not) = schema.entry("not")
            && self.check(not, value, path, depth + 1).is_ok()
        {
            return fault(path, "is of a form that is not allowed");
        }
        Ok(())
    }
}

/// Inode, size and modification time of a file.
type Stat = (u64, u64, i64, i64);

/// The schema file of a store, read again when its stat changes.
pub(super) struct SchemaFile {
    path: PathBuf,
    read: Mutex<Option<(Stat, Option<Arc<Schema>>)>>,
}

impl SchemaFile {
    /// Of the store in this directory.
    pub fn new(store: &Path) -> SchemaFile {
        SchemaFile { path: store.join("config.schema.json"), read: Mutex::new(None) }
    }

    /// The schema as it is now; `None` when there is none, or none that can be read.
    pub fn get(&self) -> Option<Arc<Schema>> {
        use std::os::unix::fs::MetadataExt;
        let mut last = self.read.lock();
        let meta = match std::fs::metadata(&self.path) {
            Ok(m) if m.is_file() => m,
            Ok(_) | Err(_) => {
                *last = None;
                return None;
            }
        };
        let stat = (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
        if let Some((known, schema)) = &*last
            && *known == stat
        {
            return schema.clone();
        }
        let schema = match std::fs::read(&self.path)
            .map_err(|e| e.to_string())
            .and_then(|b| Schema::parse(&b).map_err(|r| r.to_string()))
        {
            Ok(s) => Some(Arc::new(s)),
            Err(e) => {
                log::warn!("{}: {e}; saves of the config are not checked", self.path.display());
                None
            }
        };
        *last = Some((stat, schema.clone()));
        schema
    }
}
