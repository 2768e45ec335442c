//! A real daemon that is killed, whose calls fail and whose power goes, under load. `make soak`
//! does it for longer.

use mount_tests::crashes::{Until, run};

#[test]
fn kills_faults_and_power_losses_under_load_lose_nothing() {
    let summary = run(Until::Rounds(5), 3, |line| println!("{line}"));
    println!("{summary}");
    assert!(summary.losses.is_empty(), "{:?}", summary.losses);
    assert!(summary.kills >= 5 && summary.power_losses >= 4, "{summary}");
    assert!(summary.faults > 0 && summary.saves > 0, "{summary}");
}
