use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn the_base_is_where_the_surroundings_say() {
    let around = |own: Option<&str>, runtime: Option<&str>| Surroundings {
        own: own.map(OsString::from),
        runtime: runtime.map(OsString::from),
    };
    let path = |own, runtime| base_path("koan", &around(own, runtime)).unwrap();
    assert_eq!(path(Some("/a"), Some("/run/u")), Path::new("/a"));
    assert_eq!(path(None, Some("/run/u")), Path::new("/run/u/koan"));
    let last = format!("/tmp/koan-{}", rustix::process::geteuid().as_raw());
    assert_eq!(path(Some(""), Some("")), Path::new(&last));
    assert_eq!(path(None, Some("relative")), Path::new(&last));
    assert!(base_path("koan", &around(Some("a"), None)).is_err());
    for bad in ["", ".", "..", "a/b", ".x", "a b"] {
        assert!(base_path(bad, &around(None, None)).is_err(), "{bad}");
    }
}

#[test]
fn a_base_is_made_closed_and_others_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("base");
    assert!(Base::existing(&path).unwrap().is_none());
    Base::open(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
    for open in [0o755, 0o711, 0o500] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(open)).unwrap();
        Base::open(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
    }
    for shared in [0o777, 0o770, 0o1777, 0o702] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(shared)).unwrap();
        assert!(Base::open(&path).is_err());
        assert_eq!(mode(&path), shared, "left as it is");
    }
    Base::open(&dir.path().join("a/b/c")).unwrap();
    assert_eq!(mode(&dir.path().join("a/b")), 0o700);
    let link = dir.path().join("link");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
    symlink(&path, &link).unwrap();
    assert!(Base::open(&link).unwrap_err().to_string().contains("symlink"));
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(Base::open(&file).is_err());
}

#[test]
fn only_direct_children_of_that_shape_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::open(&dir.path().join("base")).unwrap();
    let made = base.make(std::process::id()).unwrap();
    assert_eq!(mode(&made), 0o700);
    std::fs::create_dir_all(made.join("mission-1-a")).unwrap();
    let outside = dir.path().join("mission-1-a");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("precious"), "").unwrap();
    let path = base.path().to_owned();
    for given in [
        made.join("mission-1-a"),
        outside.clone(),
        path.join(".."),
        path.join("../base"),
        path.join("x"),
        PathBuf::from(".."),
        PathBuf::new(),
    ] {
        assert!(base.name_of(&given).is_err(), "{}", given.display());
    }
    // A shell completes a directory's name with a slash.
    assert_eq!(base.name_of(&made.join("")).unwrap(), made.file_name().unwrap());
    symlink(&outside, path.join("mission-2-link")).unwrap();
    for link in ["mission-2-link", "mission-2-link/"] {
        let link = base.name_of(Path::new(link)).unwrap();
        assert!(base.remove(&link).is_err());
    }
    assert!(outside.join("precious").exists());
    base.remove(&base.name_of(&made).unwrap()).unwrap();
    assert!(!made.exists());
    assert!(base.remove(made.file_name().unwrap()).is_err(), "it is gone");
}

#[test]
fn reaping_takes_what_dead_owners_left_and_follows_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let base = Base::open(&dir.path().join("base")).unwrap();
    let path = base.path().to_owned();
    let mine = base.make(std::process::id()).unwrap();
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("precious"), "").unwrap();
    let dead = path.join("mission-999999999-x");
    // Links out, closed directories, a chain that is deeper than descriptors would last.
    let mut deep = dead.join("a");
    std::fs::create_dir_all(&deep).unwrap();
    symlink(&outside, dead.join("link")).unwrap();
    for _ in 0..300 {
        deep.push("d");
        std::fs::create_dir(&deep).unwrap();
    }
    std::fs::write(deep.join("file"), "").unwrap();
    std::fs::create_dir(dead.join("closed")).unwrap();
    std::fs::write(dead.join("closed/file"), "").unwrap();
    std::fs::set_permissions(dead.join("closed"), PermissionsExt::from_mode(0o000)).unwrap();
    symlink(&outside, path.join("mission-999999998-x")).unwrap();
    std::fs::write(path.join("mission-999999997-x"), "").unwrap();
    std::fs::create_dir(path.join("other")).unwrap();

    let reaped = base.reap().unwrap();
    assert_eq!((reaped.removed, reaped.failed), (vec![dead.clone()], vec![]));
    assert!(!dead.exists() && mine.exists() && outside.join("precious").exists());
    assert!(path.join("other").exists() && path.join("mission-999999997-x").exists());
}
