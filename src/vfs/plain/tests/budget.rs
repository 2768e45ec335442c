//! Descriptors.

use super::*;

#[test]
fn open_files_take_their_descriptors_from_those_of_known_files() {
    let f = with_budget(64);
    let open: Vec<_> = (0..60).map(|i| f.create(ROOT, &format!("f{i}"))).collect();
    let usage = f.plain.usage();
    assert_eq!((usage.nodes, usage.handles), (60, 60));
    assert!(usage.descriptors <= 4 + 2, "{usage:?}");
    for (i, (_, fh)) in open.iter().enumerate() {
        f.write(*fh, 0, &i.to_string());
    }
    for (i, (node, fh)) in open.into_iter().enumerate() {
        assert_eq!(f.plain.getattr(&f.me, node, None).unwrap().0.size, i.to_string().len() as u64);
        assert_eq!(f.read(fh), i.to_string());
        f.plain.release(node, fh).unwrap();
    }
    // The room is theirs again.
    for i in 0..60 {
        let node = f.look(ROOT, &format!("f{i}")).unwrap().node;
        let fh = f.plain.open(&f.me, node, libc::O_RDONLY).unwrap().fh;
        f.plain.release(node, fh).unwrap();
    }
    let usage = f.plain.usage();
    assert!(usage.descriptors > 30 && usage.descriptors <= 64 + 2, "{usage:?}");
}

#[test]
fn a_setuid_file_is_asked_about_every_time() {
    let f = fixture();
    let (node, _) = f.create(ROOT, "f");
    let told = |mode| {
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        f.plain.setattr(&f.me, node, &set).unwrap().1
    };
    assert_eq!((told(0o4755), told(0o2755)), (Duration::ZERO, Duration::ZERO));
    assert_eq!(f.look(ROOT, "f").unwrap().attr_ttl, Duration::ZERO);
    assert_eq!((told(0o755), f.look(ROOT, "f").unwrap().attr_ttl), (TTL, TTL));
}

#[test]
fn a_change_of_nothing_takes_setuid_away_like_any_chown() {
    let f = fixture();
    let (node, _) = f.create(ROOT, "f");
    let set = SetAttr { mode: Some(0o4755), ..SetAttr::default() };
    assert_eq!(f.plain.setattr(&f.me, node, &set).unwrap().0.perm, 0o4755);
    let nothing = SetAttr::default();
    assert_eq!(f.plain.setattr(&f.me, node, &nothing).unwrap().0.perm, 0o755);
}

#[test]
fn open_files_leave_descriptors_for_everything_else() {
    let f = with_budget(64);
    let plain = Plain::with_limits(f.dir.path(), 64, 10).unwrap();
    let make =
        |i: i32| plain.create(&f.me, ROOT, OsStr::new(&format!("f{i}")), 0o600, 0, libc::O_RDWR);
    let open: Vec<_> = (0..10).map(|i| make(i).unwrap()).collect();
    let full = make(10).map(|_| ());
    assert!(matches!(full, Err(Error::Os(rustix::io::Errno::NFILE))), "{full:?}");
    assert!(!f.dir.path().join("f10").exists(), "what cannot be opened is not made");
    assert!(plain.opendir(&f.me, ROOT, 0).is_err());
    plain.release(open[0].entry.node, open[0].opened.fh).unwrap();
    make(10).unwrap();
}
