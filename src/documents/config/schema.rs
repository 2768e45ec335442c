//! `config.schema.json`: the part of JSON Schema that configs use.
//!
//! Understood: `type`, `enum`, `const`; of numbers `minimum`, `maximum`, `exclusiveMinimum`,
//! `exclusiveMaximum`, `multipleOf`; of strings `minLength`, `maxLength` (characters), `pattern`;
//! of arrays `items`, `prefixItems` (also `items` as an array, with `additionalItems`),
//! `contains`, `minContains`, `maxContains`, `minItems`, `maxItems`, `uniqueItems`; of objects
//! `properties`, `patternProperties`, `additionalProperties`, `propertyNames`, `required`,
//! `dependentRequired`, `dependentSchemas`, `minProperties`, `maxProperties`; and `anyOf`,
//! `oneOf`, `allOf`, `not`, `if` with `then` and `else`, `$ref` within the file. Every other
//! keyword is ignored, such as `format`, and so is a value of a wrong kind for a keyword or a
//! pattern that is no regular expression; both are logged. A schema file that cannot be read
//! refuses nothing; it is logged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::path::KeyPath;
use super::schema_check::{Checker, Patterns};
use super::schema_sense;
use super::tree::{Form, Node, read, text_of};
use super::value::Value;
use crate::model::{Reason, Refusal};

/// A schema.
#[derive(Debug)]
pub(super) struct Schema {
    root: Value,
    patterns: Patterns,
}

/// A violation.
#[derive(Debug)]
pub(super) struct Fault {
    /// Where.
    pub path: KeyPath,
    /// What is wrong there.
    pub message: String,
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
        let root = read(Form::Json, text_of(bytes)?)?.value;
        let patterns = Patterns::of(&root);
        Ok(Schema { root, patterns })
    }

    /// Whether the value is allowed.
    pub fn check(&self, value: &Value) -> Result<(), Fault> {
        Checker::new(&self.root, &self.patterns).run(value)
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
            Ok(s) => {
                for complaint in schema_sense::complaints(&s.root) {
                    log::warn!("{}: {complaint}, and is not checked", self.path.display());
                }
                Some(Arc::new(s))
            }
            Err(e) => {
                log::warn!("{}: {e}; saves of the config are not checked", self.path.display());
                None
            }
        };
        *last = Some((stat, schema.clone()));
        schema
    }
}
