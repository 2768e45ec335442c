//! R10 and section 9: several users in one mount, as on the disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use mount_tests::{Actor, Instance};

const OWNERS: &str = include_str!("../../programs/owners.py");

/// Runs the program in an empty directory of the mount and in one of the store's file system.
fn same_as_on_the_disk(it: &Instance) {
    fs::set_permissions(it.mount_point(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let run = |at: &Actor| {
        let out = at.python(OWNERS, &[]).ok();
        out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (here, disk) = (it.path("w"), it.scratch("w"));
    for dir in [&here, &disk] {
        fs::create_dir(dir).expect("mkdir");
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
    let (ours, theirs) = (run(&it.actor().within(&here)), run(&it.actor().within(&disk)));
    assert!(theirs.len() > 50, "{theirs:?}");
    let differ: Vec<_> = ours.iter().zip(&theirs).filter(|(a, b)| a != b).collect();
    assert!(differ.is_empty(), "in the mount, and on the disk: {differ:#?}");
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn owners_groups_and_access_lists() {
    // Only root can be several users.
    if mount_tests::is_root() {
        same_as_on_the_disk(&Instance::builder().mount_arg("--allow-other").start());
    }
}
