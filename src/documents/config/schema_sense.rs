//! What a schema says that nobody can check: parts of a wrong kind, which are ignored and would
//! otherwise make people believe that their configs are checked.

use super::value::Value;

/// The kinds that `type` knows.
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
/// Complaints about one schema; a foreign file may have any number of faults.
const MOST: usize = 8;

/// What is wrong, one line each, at most [`MOST`].
pub(super) fn complaints(root: &Value) -> Vec<String> {
    let mut found = Vec::new();
    schema(root, "", &mut found);
    found
}

fn schema(value: &Value, at: &str, found: &mut Vec<String>) {
    let map = match value {
        Value::Map(map) => map,
        Value::Bool(_) => return,
        _ => return wrong(at, "neither an object nor true or false", found),
    };
    for (key, value) in map {
        let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        keyword(key, value, &at, found);
    }
}

fn keyword(key: &str, value: &Value, at: &str, found: &mut Vec<String>) {
    match key {
        "type" => {
            let known = |v: &Value| matches!(v, Value::Str(s) if TYPES.contains(&s.as_str()));
            let fits = known(value) || matches!(value, Value::Seq(all) if all.iter().all(known));
            if !fits {
                wrong(at, &format!("none of {}", TYPES.join(", ")), found);
            }
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
        | "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
        | "maxProperties" | "minContains" | "maxContains"
            if !matches!(value, Value::Num(_)) =>
        {
            wrong(at, "not a number", found);
        }
        "uniqueItems" if !matches!(value, Value::Bool(_)) => {
            wrong(at, "neither true nor false", found);
        }
        "required" => names(value, at, found),
        "enum" if !matches!(value, Value::Seq(_)) => {
            wrong(at, "not a list", found);
        }
        "pattern" | "$ref" if !matches!(value, Value::Str(_)) => {
            wrong(at, "not a string", found);
        }
        "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "propertyNames"
        | "additionalProperties"
        | "additionalItems" => schema(value, at, found),
        "items" if matches!(value, Value::Seq(_)) => all(value, at, found),
        "items" => schema(value, at, found),
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => all(value, at, found),
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
            each(value, at, found, schema);
        }
        "dependentRequired" => each(value, at, found, names),
        _ => {}
    }
}

fn all(value: &Value, at: &str, found: &mut Vec<String>) {
    let Value::Seq(items) = value else { return wrong(at, "not a list of schemas", found) };
    for (n, item) in items.iter().enumerate() {
        schema(item, &format!("{at}[{n}]"), found);
    }
}

fn each(
    value: &Value,
    at: &str,
    found: &mut Vec<String>,
    look: fn(&Value, &str, &mut Vec<String>),
) {
    let Value::Map(map) = value else { return wrong(at, "not an object", found) };
    for (key, value) in map {
        look(value, &format!("{at}.{key}"), found);
    }
}

fn names(value: &Value, at: &str, found: &mut Vec<String>) {
    let name = |v: &Value| matches!(v, Value::Str(_));
    if !matches!(value, Value::Seq(all) if all.iter().all(name)) {
        wrong(at, "not a list of names", found);
    }
}

fn wrong(at: &str, what: &str, found: &mut Vec<String>) {
    if found.len() < MOST {
        let at = if at.is_empty() { "the schema" } else { at };
        found.push(format!("{at} is {what}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::config::tree::{Form, read};

    fn of(text: &str) -> Vec<String> {
        complaints(&read(Form::Json, text).unwrap().value)
    }

    #[test]
    fn a_sensible_schema_is_not_complained_about() {
        let text = r##"{"$schema": "x", "type": ["object", "null"], "required": ["a"], "default": {"type": 5},
            "enum": [{"type": 7}], "properties": {"type": {"type": "string", "pattern": "^a"},
            "n": {"minimum": 1, "not": {"const": {"minimum": "x"}}}, "any": true},
            "patternProperties": {"^x": {"items": [{"type": "array"}]}}, "items": {"$ref": "#/$defs/d"},
            "$defs": {"d": {"anyOf": [false, {"uniqueItems": true}]}}}"##;
        assert_eq!(of(text), Vec::<String>::new());
    }

    #[test]
    fn what_cannot_be_checked_is_named() {
        let text = r#"{"type": "objekt", "properties": {"a": {"minimum": "5", "required": true}, "b": 3},
            "anyOf": {}, "dependentRequired": {"x": [1]}}"#;
        assert_eq!(
            of(text),
            [
                "type is none of object, array, string, number, integer, boolean, null",
                "properties.a.minimum is not a number",
                "properties.a.required is not a list of names",
                "properties.b is neither an object nor true or false",
                "anyOf is not a list of schemas",
                "dependentRequired.x is not a list of names",
            ]
        );
        let many: Vec<String> = (0..50).map(|n| format!("\"k{n}\": 1")).collect();
        assert_eq!(of(&format!("{{\"properties\": {{{}}}}}", many.join(", "))).len(), MOST);
    }
}
