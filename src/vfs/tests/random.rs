//! Many processes doing anything in any order: what was acknowledged is there, once, and nobody
//! ever read anything but whole versions.

use super::*;

/// Xorshift: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// A save under way.
enum Work {
    None,
    /// Read completely; about to write this.
    Edit(String),
    /// Truncated and partly written.
    Half(Fd, String, String),
    /// An append handle and what was written through it.
    Append(Fd, String),
    /// A reader in the middle.
    Read(Fd, String),
}

fn run(seed: u64) {
    let w = World::new();
    let mut random = Random(seed * 2 + 1);
    let sh = w.stranger("bash");
    let mut works: Vec<(P<'_>, Work)> = (0..4).map(|_| (w.stranger("prog"), Work::None)).collect();
    let mut acknowledged: Vec<String> = Vec::new();
    let mut versions = vec![w.text()];
    for step in 0..120 {
        let i = random.below(works.len());
        let unique = format!("- s{seed}n{step}");
        let (p, work) = &mut works[i];
        let p = *p;
        *work = match std::mem::replace(work, Work::None) {
            Work::None => match random.below(5) {
                0 => Work::Append(p.open("missions.md", WR | APPEND).unwrap(), String::new()),
                1 => Work::Read(p.open("missions.md", RD).unwrap(), String::new()),
                2 => {
                    sh.append("missions.md", &format!("{unique}\n")).unwrap();
                    acknowledged.push(unique);
                    Work::None
                }
                _ => {
                    let text = p.cat("missions.md").unwrap();
                    assert!(versions.contains(&text), "seed {seed}: {text:?}");
                    Work::Edit(format!("{text}{unique}\n"))
                }
            },
            Work::Edit(text) => match random.below(4) {
                0 => {
                    let temp = format!("t{step}");
                    p.save(&temp, &text).unwrap();
                    p.rename(&temp, "missions.md").unwrap();
                    acknowledged.push(text.lines().last().unwrap().to_owned());
                    Work::None
                }
                1 => {
                    p.rename("missions.md", "missions.md~").unwrap();
                    p.save("missions.md", &text).unwrap();
                    p.unlink("missions.md~").unwrap();
                    acknowledged.push(text.lines().last().unwrap().to_owned());
                    Work::None
                }
                _ => {
                    let fd = p.open("missions.md", WR | CREAT | TRUNC).unwrap();
                    let (a, b) = text.split_at(random.below(text.len()));
                    p.write(fd, a).unwrap();
                    Work::Half(fd, b.to_owned(), text.lines().last().unwrap().to_owned())
                }
            },
            Work::Half(fd, rest, line) => {
                if random.below(4) == 0 {
                    p.kill();
                    works[i] = (w.stranger("prog"), Work::None);
                    continue;
                }
                p.write(fd, &rest).unwrap();
                if random.below(2) == 0 {
                    let child = p.fork("child");
                    child.exit();
                }
                p.close(fd).unwrap();
                acknowledged.push(line);
                Work::None
            }
            Work::Append(fd, mut text) => {
                if random.below(3) == 0 {
                    p.close(fd).unwrap();
                    acknowledged.extend(text.lines().map(str::to_owned));
                    Work::None
                } else {
                    let line = format!("{unique}\n");
                    p.write(fd, &line).unwrap();
                    text.push_str(&line);
                    w.clock.forward(random.below(300) as i64);
                    w.tree.tick();
                    Work::Append(fd, text)
                }
            }
            Work::Read(fd, mut text) => {
                let part = p.read_some(fd, 1 + random.below(40) as u32);
                if part.is_empty() {
                    assert!(versions.contains(&text), "seed {seed}: torn {text:?}");
                    p.close(fd).unwrap();
                    Work::None
                } else {
                    text.push_str(&part);
                    Work::Read(fd, text)
                }
            }
        };
        versions.push(w.text());
    }
    let text = w.text();
    for line in acknowledged {
        let times = text.lines().filter(|l| *l == line).count();
        assert_eq!(times, 1, "seed {seed}: {line:?} in {text:?}");
    }
    for line in FIRST.lines().filter(|l| l.starts_with('-')) {
        assert!(text.lines().any(|l| l == line), "seed {seed}: nobody removed {line:?}");
    }
    assert_eq!(w.names(".refused"), [""; 0]);
}

#[test]
fn whatever_is_acknowledged_is_there_once_and_no_read_is_torn() {
    for seed in 1..=60 {
        run(seed);
    }
}
