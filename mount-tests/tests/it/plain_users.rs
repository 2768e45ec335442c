//! Section 9: an ordinary user's mount, made with `fusermount3`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use mount_tests::{Instance, Ran, instancefs, is_root};

/// The user `nobody`, who owns nothing else.
const USER: u32 = 65534;

/// A place of an ordinary user. `None` unless run as root, who can be one.
fn place() -> Option<Instance> {
    if !is_root() {
        return None;
    }
    let it = Instance::builder().unmounted().start();
    let home = it.scratch("user");
    for dir in [home.clone(), home.join("mnt")] {
        fs::create_dir(&dir).expect("mkdir");
        chown(&dir, Some(USER), Some(USER)).expect("chown");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
    // The build directory may be closed to others.
    fs::copy(instancefs(), home.join("instancefs")).expect("a copy of the program");
    Some(it)
}

/// A bash script with `as USER...` to be somebody else in the user's directory. It may be at a
/// place that only root can walk to, so it is shown at /mnt, in a namespace of its own.
fn script(it: &Instance, text: &str) -> Ran {
    let prelude = r#"
        mount --bind "$SCRATCH/user" /mnt && cd /mnt || exit 99
        # Desktops let everybody open the device; here that holds for this test alone.
        mknod -m 666 "$SCRATCH/fuse" c 10 229 && mount --bind "$SCRATCH/fuse" /dev/fuse || exit 96
        as() { local id=$1; shift
            setpriv --reuid $id --regid $id --clear-groups env HOME=/mnt "$@"; }
        user() { as 65534 "$@"; }
        trap 'user ./instancefs unmount /mnt/mnt >/dev/null 2>&1; umount -l /mnt/mnt 2>/dev/null || true' EXIT
        user ./instancefs init store >/dev/null || exit 98
    "#;
    let whole = format!("{prelude}{text}");
    let args = ["-m", "--propagation", "private", "bash", "-c", &whole];
    it.outside().run("unshare", &args)
}

#[test]
fn an_ordinary_user_mounts_uses_and_unmounts() {
    let Some(it) = place() else { return };
    let out = script(
        &it,
        r#"
        set -e
        user ./instancefs mount store mnt
        user bash -ec 'cd mnt; echo "- one" >> missions.md; grep -c "^- one" missions.md
            mkdir d; echo text > d/f; cp d/f d/g; mv d/g d/h; cat d/h; stat -c %u:%g d/h
            dd if=/dev/zero of=big bs=1M count=5 status=none; stat -c %s big; rm big'
        user ./instancefs unmount mnt
        cat store/d/f
        user ls -A mnt | wc -l
        trap - EXIT"#,
    );
    assert_eq!(out.ok(), "1\ntext\n65534:65534\n5242880\ntext\n0\n");
}

#[test]
fn others_and_root_are_kept_out() {
    let Some(it) = place() else { return };
    let out = script(
        &it,
        r#"
        user ./instancefs mount store mnt || exit 1
        user bash -c 'echo x > mnt/f; chmod 777 mnt mnt/f'
        for id in 0 1; do
            as $id cat mnt/f 2>&1 | grep -o 'Permission denied'
            as $id ls mnt 2>&1 | grep -o 'Permission denied'
        done
        user cat mnt/f"#,
    );
    assert_eq!(out.ok(), format!("{}x\n", "Permission denied\n".repeat(4)));
}

#[test]
fn allow_other_follows_fuse_conf() {
    let Some(it) = place() else { return };
    let text = r#"
        printf "$CONF" > fuse.conf; mount --bind fuse.conf /etc/fuse.conf || exit 97
        user ./instancefs mount store mnt --allow-other; echo $?
        user bash -c 'echo x > mnt/f; chmod 755 mnt'
        as 1 cat mnt/f; as 0 cat mnt/f; as 1 touch mnt/f || echo no"#;
    let refused = script(&it, &format!("CONF='# nothing\\n'\n{text}"));
    assert!(refused.stdout.starts_with("1\n"), "{refused:?}");
    assert!(refused.stderr.contains("user_allow_other in /etc/fuse.conf"), "{refused:?}");
    let Some(it) = place() else { return };
    let allowed = script(&it, &format!("CONF='user_allow_other\\n'\n{text}"));
    assert_eq!(allowed.ok(), "0\nx\nx\nno\n");
}
