//! A clock that goes backwards: order comes from revisions, not from times.

use super::*;

const DAY: i64 = 24 * 3600 * 1000;

#[test]
fn saves_and_looks_keep_their_order_when_the_clock_goes_back() {
    let w = World::new();
    let p = w.stranger("node");
    p.cat("missions.md").unwrap();
    p.save("missions.md", &format!("{FIRST}- one\n")).unwrap();
    w.clock.forward(-400 * DAY);
    let other = w.stranger("vim");
    other.cat("missions.md").unwrap();
    p.append("missions.md", "- two\n").unwrap();
    // What it has seen is still the version before the append.
    other.save("missions.md", &format!("{FIRST}- one\n- three\n")).unwrap();
    let text = w.text();
    for line in ["- one", "- two", "- three"] {
        assert_eq!(text.matches(line).count(), 1, "{line} in {text}");
    }
}

#[test]
fn nothing_waits_for_a_time_that_is_a_year_away() {
    let w = World::new();
    let p = w.stranger("bash");
    // A freed name comes back, a long-lived append is committed, expectations end.
    p.unlink("config.json").unwrap();
    w.clock.forward(-400 * DAY);
    w.clock.forward(6_000);
    w.tree.tick();
    assert!(w.stranger("cat").cat("config.json").is_ok());
    assert!(p.cat("config.json").is_ok(), "the name is back for whoever freed it");
    let fd = p.open("missions.md", WR | libc::O_APPEND).unwrap();
    p.write(fd, "- slow\n").unwrap();
    w.clock.forward(-400 * DAY);
    w.clock.forward(1_000);
    w.tree.tick();
    assert!(w.text().contains("- slow"), "an append that rests is committed");
}
