//! The budget against the way in which Kōan's own processes write.

use std::path::Path;
use std::time::Duration;

use super::Row;
use super::pairs::{Floor, instance};
use crate::measure::{bare_database, missions};

/// A Python program that appends through the mount, in turns with the same program's replacing
/// all rows and exporting them in a directory without a mount.
pub(super) fn replace_all(_: f64) -> Vec<Row> {
    let text = missions(1_000);
    let it = instance("missions.md", &text);
    let floor = Floor::new(&it, &text);
    let plain = it.scratch("plain");
    std::fs::create_dir(&plain).expect("mkdir");
    drop(bare_database(&plain.join("missions.db"), 1_000));
    let program = crate::programs_dir().join("koan_bench.py");
    let mounted = it.path("missions.md");
    let args = [program.as_path(), &mounted, &floor.path, &plain, Path::new("100")];
    let told = it.outside().limit(Duration::from_secs(300)).run("python3", &args).ok();
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let number = |name: &str| told[name].as_f64().expect("a number");
    let ratio = number("ratio");
    vec![Row {
        work: "append through the mount against a replace-all writer, 1,000 missions",
        budget: "100 x faster",
        measured: format!(
            "{ratio:.0} x faster ({:.0} µs, {:.0} µs; on the floor {:.0} µs)",
            number("append"),
            number("replace"),
            number("floor")
        ),
        share: 100.0 / ratio,
        because: "opening, writing and closing the file in Python takes so long on the floor alone, and \
                  the disk here syncs the exported file in some milliseconds",
    }]
}
