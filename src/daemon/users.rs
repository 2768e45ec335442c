//! Who uses a directory or a mount, as far as `/proc` lets us look. Only for messages: the
//! answer is old when it is given. Called by commands, never by the serving daemon: reading
//! another process's `/proc` entries can wait for that process.

use std::path::{Path, PathBuf};

use crate::model::proc_text;

/// Processes, other than this one, that work in `dir` or have a file below it open: pid and
/// program name.
pub fn of(dir: &Path) -> Vec<(u32, String)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found: Vec<(u32, String)> = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id() && uses(*pid, dir))
        .map(|pid| (pid, program(pid)))
        .collect();
    found.sort();
    found
}

fn uses(pid: u32, dir: &Path) -> bool {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let below = |link: PathBuf| std::fs::read_link(link).is_ok_and(|p| p.starts_with(dir));
    if below(proc.join("cwd")) || below(proc.join("root")) || below(proc.join("exe")) {
        return true;
    }
    let open = std::fs::read_dir(proc.join("fd"));
    open.is_ok_and(|fds| fds.flatten().any(|fd| below(fd.path()))) || maps(&proc, dir)
}

fn maps(proc: &Path, dir: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let mut needle = dir.as_os_str().as_bytes().to_vec();
    needle.push(b'/');
    std::fs::read(proc.join("maps"))
        .is_ok_and(|maps| maps.windows(needle.len()).any(|w| w == needle.as_slice()))
}

fn program(pid: u32) -> String {
    let name = proc_text(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_who_works_in_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(of(&real), []);
        let mut child =
            std::process::Command::new("sleep").arg("30").current_dir(&real).spawn().unwrap();
        let found = of(&real);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, [(child.id(), "sleep".to_owned())]);
    }
}
