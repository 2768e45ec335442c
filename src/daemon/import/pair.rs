//! Two config files that should say the same.

use std::path::{Path, PathBuf};

use super::{in_the_way, read_document};
use crate::daemon::error::{DaemonError, Result};
use crate::model::View;

/// `config.json` and `config.yaml` are two views of one config. When a directory has both,
/// they must say the same, else one of them would be lost.
pub(super) fn config_pair(dir: &Path) -> Result<()> {
    let json = read_document(dir, View::ConfigJson)?.filter(|b| !b.trim_ascii().is_empty());
    let yaml = read_document(dir, View::ConfigYaml)?.filter(|b| !b.trim_ascii().is_empty());
    let (Some(json), Some(yaml)) = (json, yaml) else { return Ok(()) };
    let first = dir.join(View::ConfigJson.name());
    let second = dir.join(View::ConfigYaml.name());
    let broken = |path: &PathBuf, message: String| in_the_way(path, &message);
    let a: serde_json::Value =
        serde_json::from_slice(&json).map_err(|e| broken(&first, format!("not JSON: {e}")))?;
    let b: serde_json::Value =
        serde_yaml::from_slice(&yaml).map_err(|e| broken(&second, format!("not YAML: {e}")))?;
    match difference(&a, &b, String::new()) {
        None => Ok(()),
        Some(place) => {
            let place = if place.is_empty() { place } else { format!(": {place}") };
            Err(DaemonError::TwoTruths { first, second, place })
        }
    }
}

/// The first key path at which two values differ.
fn difference(a: &serde_json::Value, b: &serde_json::Value, at: String) -> Option<String> {
    use serde_json::Value;
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let below =
                |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
            for (key, value) in a {
                match b.get(key) {
                    Some(other) => {
                        if let Some(place) = difference(value, other, below(key)) {
                            return Some(place);
                        }
                    }
                    None => return Some(below(key)),
                }
            }
            b.keys().find(|key| !a.contains_key(*key)).map(|key| below(key))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(n, (a, b))| difference(a, b, format!("{at}[{n}]"))),
        (Value::Number(a), Value::Number(b)) => {
            (a.to_string() != b.to_string() && a.as_f64() != b.as_f64()).then_some(at)
        }
        _ => (a != b).then_some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_configs_must_say_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        put("config.json", r#"{"a": {"b": 1.0, "c": [1, "x"]}, "d": null}"#);
        put("config.yaml", "# comment\na:\n  b: 1\n  c: [1, x]\nd:\n");
        config_pair(dir.path()).unwrap();
        for (yaml, place) in [
            ("a: {b: 1, c: [1, y]}\nd:\n", "a.c[1]"),
            ("a: {b: 2, c: [1, x]}\nd:\n", "a.b"),
            ("a: {b: 1, c: [1, x]}\nd:\ne: 1\n", "e"),
            ("a: {b: 1, c: [1, x]}\n", "d"),
        ] {
            put("config.yaml", yaml);
            let message = config_pair(dir.path()).unwrap_err().to_string();
            assert!(message.contains("config.json and ") && message.ends_with(place), "{message}");
        }
        put("config.yaml", "a: [");
        assert!(config_pair(dir.path()).unwrap_err().to_string().contains("config.yaml: not YAML"));
        put("config.yaml", "\n");
        config_pair(dir.path()).unwrap();
    }
}
