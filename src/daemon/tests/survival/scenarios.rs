//! What is done while calls fail, processes die and power goes.

use std::path::Path;

use super::story::with_key;
use super::world::Durable::{No, Yes};
use super::{Story, World};
use crate::daemon::import;
use crate::model::{Actor, Rev, Via, View};
use crate::store::LOCK_NAME;
use crate::vfs::Error;
use crate::vfs::ports::Documents;

/// One of them.
pub struct Scenario {
    pub name: &'static str,
    /// What is done to the store first, with nobody having it open.
    pub prepare: fn(&Path),
    /// What is done first, with nothing failing.
    pub before: fn(&World) -> Keep,
    /// What is done while things fail.
    pub run: fn(&World, &mut Story, Keep),
}

/// What has to live as long as a scenario.
pub type Keep = Option<std::fs::File>;

const PLAIN: Scenario = Scenario { name: "", prepare: |_| {}, before: |_| None, run: |_, _, _| {} };

/// The directory that all begin with.
pub fn files(dir: &Path) {
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
    std::fs::create_dir_all(dir.join("memory")).unwrap();
    write("missions.md", "# M\n\n## Pending\n- m-one.\n- m-two.\n\n## Done\n- m-three.\n");
    write("config.json", "{\n  \"c-one.\": 1,\n  \"c-two.\": 2\n}\n");
    write("outbox.md", "o-one.\no-two.\n");
    write("memory/notes.md", "n-one.\nn-two.\n");
    write("memory/long.md", &format!("l-one.\n{}", "_\n".repeat(33_000)));
    write("plain.txt", "p-one.\n");
}

/// Whether an ordinary directory has everything that [`files`] made.
pub fn expect_files(dir: &Path, what: &str) {
    for (file, base) in super::story::BASE {
        let text = std::fs::read_to_string(dir.join(file)).unwrap_or_default();
        for word in base {
            assert_eq!(text.matches(word).count(), 1, "{what}: {word} in {file}:\n{text}");
        }
    }
}

/// The store that all begin with.
pub fn furnish(dir: &Path) {
    files(dir);
    import::in_place(dir, None).unwrap();
    World::open(dir).unwrap().close().unwrap();
}

fn sql(dir: &Path, text: &str) {
    let db = rusqlite::Connection::open(dir.join("missions.db")).unwrap();
    db.execute_batch(text).unwrap();
}

fn hold(world: &World) -> Keep {
    let path = world.instance.dir.join(LOCK_NAME);
    let file = std::fs::File::options().create(true).append(true).open(path).unwrap();
    let how = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::flock(&file, how).unwrap();
    Some(file)
}

/// A text with a line beside one that is there.
fn beside(text: &str, old: &str, word: &str) -> String {
    let (line, new) = (format!("{old}\n"), format!("{old}\n- {word}\n"));
    assert!(text.contains(&line), "{old} in {text}");
    text.replacen(&line, &new, 1)
}

/// The scenario of this name.
pub fn named(name: &str) -> &'static Scenario {
    ALL.iter().find(|s| s.name == name).unwrap()
}

const ALL: &[Scenario] = &[
    Scenario {
        name: "append",
        run: |w, story, _| {
            for word in ["m-a.", "m-b."] {
                let line = |word: &str| format!("- {word}\n");
                story.adds("missions.md", word, No, |word| {
                    w.append(1, "missions.md", &line(word), No)
                });
            }
            story.adds("missions.md", "m-c.", Yes, |word| {
                w.append(2, "missions.md", &format!("{word}\n"), Yes)
            });
        },
        ..PLAIN
    },
    Scenario {
        name: "whole save that meets another change",
        run: |w, story, _| {
            let Ok(text) = w.read(1, "missions.md") else { return };
            story.adds("missions.md", "m-theirs.", No, |word| {
                w.append(2, "missions.md", &format!("- {word}\n"), No)
            });
            story.adds("missions.md", "m-mine.", No, |word| {
                w.save(1, "missions.md", &beside(&text, "- m-one.", word), No)
            });
            let Ok(text) = w.read(3, "missions.md") else { return };
            story.removes("missions.md", "m-two.", Yes, |word| {
                w.save(3, "missions.md", &text.replace(&format!("- {word}\n"), ""), Yes)
            });
        },
        ..PLAIN
    },
    Scenario {
        name: "save by rename",
        run: |w, story, _| {
            for (durable, word) in [(No, "m-a."), (Yes, "m-b.")] {
                let Ok(text) = w.read(1, "missions.md") else { return };
                story.adds("missions.md", word, durable, |word| {
                    let text = beside(&text, "- m-one.", word);
                    w.save(1, "missions.md.tmp.7", &text, durable)?;
                    w.rename(1, "missions.md.tmp.7", "missions.md")
                });
            }
        },
        ..PLAIN
    },
    Scenario {
        name: "config",
        run: |w, story, _| {
            for (durable, word) in [(No, "c-a."), (Yes, "c-b.")] {
                let Ok(text) = w.read(1, "config.json") else { return };
                story.adds("config.json", word, durable, |word| {
                    w.save(1, "config.json", &with_key(&text, word), durable)
                });
            }
            story.adds("config.json", "c-yaml.", No, |word| {
                w.append(2, "config.yaml", &format!("{word}: 3\n"), No)
            });
        },
        ..PLAIN
    },
    Scenario {
        name: "refused",
        run: |w, story, _| {
            let bad = "{ \"c-bad.\": \n";
            let refused = w.save(1, "config.json", bad, No);
            assert!(refused.is_err(), "a broken config was taken");
            if matches!(refused, Err(Error::Refused(_))) {
                assert!(
                    Story::kept(&w.instance.dir, "c-bad.") || super::faults::said("config.json"),
                    "a refused text is nowhere"
                );
            }
            let Ok(text) = w.read(1, "config.json") else { return };
            story.adds("config.json", "c-good.", Yes, |word| {
                w.save(1, "config.json", &with_key(&text, word), Yes)
            });
        },
        ..PLAIN
    },
    Scenario {
        name: "undo",
        before: |w| {
            let text = w.read(1, "missions.md").unwrap();
            w.save(1, "missions.md", &text.replace("- m-two.\n", ""), No).unwrap();
            None
        },
        run: |w, story, _| {
            let doc = View::MissionsMd.doc();
            story.adds("missions.md", "m-two.", Yes, |_| {
                let numbers = w.instance.documents.numbers(doc, Rev(0), 100)?;
                let before = numbers.iter().rev().nth(1).map_or(Rev(0), |(rev, _)| *rev);
                let old = w.instance.documents.at(doc, before)?;
                let old = old.ok_or(Error::NotFound)?;
                let actor = Actor::this_process(Via::Command);
                let done = w.instance.documents.restore(View::MissionsMd, &old, &actor);
                done.map_err(|e| match e {
                    crate::documents::live::SaveError::Refused(r) => Error::Refused(r),
                    crate::documents::live::SaveError::Store(e) => Error::Store(e),
                })?;
                w.instance.documents.sync()?;
                Ok(())
            });
        },
        ..PLAIN
    },
    Scenario {
        name: "rows that wait for missions.lock",
        before: hold,
        run: |w, story, keep| {
            story.adds("missions.md", "m-a.", No, |word| {
                w.append(1, "missions.md", &format!("- {word}\n"), No)
            });
            let Ok(text) = w.read(2, "missions.md") else { return };
            story.adds("missions.md", "m-b.", Yes, |word| {
                w.save(2, "missions.md", &beside(&text, "- m-one.", word), Yes)
            });
            drop(keep);
            let _ = w.instance.live.settle();
        },
        ..PLAIN
    },
    Scenario {
        name: "a change by SQL",
        before: |w| {
            sql(
                &w.instance.dir,
                "insert into missions (text, state, sequence) values ('m-sql.', 'pending', 90);
                 update missions set state = 'done' where text = 'm-two.'",
            );
            None
        },
        run: |w, story, _| {
            story.adds("missions.md", "m-sql.", No, |_| {
                w.read(1, "missions.md")?;
                Ok(())
            });
            story.adds("missions.md", "m-a.", Yes, |word| {
                w.append(2, "missions.md", &format!("- {word}\n"), Yes)
            });
        },
        ..PLAIN
    },
    Scenario {
        name: "managed files",
        run: |w, story, _| {
            story.adds("outbox.md", "o-a.", No, |word| {
                w.append(1, "outbox.md", &format!("{word}\n"), No)
            });
            let Ok(text) = w.read(1, "memory/notes.md") else { return };
            story.adds("memory/notes.md", "n-a.", No, |word| {
                w.save(1, "memory/notes.md", &format!("{text}{word}\n"), No)
            });
            story.adds("memory/notes.md", "n-b.", Yes, |word| {
                w.save(2, "memory/notes.md.tmp.7", &format!("{text}n-a.\n{word}\n"), Yes)?;
                w.rename(2, "memory/notes.md.tmp.7", "memory/notes.md")
            });
            // Added to in place.
            story.adds("memory/long.md", "l-a.", No, |word| {
                w.append(1, "memory/long.md", &format!("{word}\n"), No)
            });
            story.adds("memory/long.md", "l-b.", Yes, |word| {
                w.append(1, "memory/long.md", &format!("{word}\n"), Yes)
            });
            story.removes("outbox.md", "o-one.", Yes, |word| {
                let text = w.read(3, "outbox.md")?.replace(&format!("{word}\n"), "");
                w.save(3, "outbox.md", &text, Yes)
            });
        },
        ..PLAIN
    },
    Scenario {
        name: "a managed file behind the mount",
        prepare: |dir| {
            // On record, then changed by a program that knows nothing of us.
            let w = World::open(dir).unwrap();
            w.append(1, "outbox.md", "o-before.\n", No).unwrap();
            w.close().unwrap();
            let text = std::fs::read_to_string(dir.join("outbox.md")).unwrap();
            std::fs::write(dir.join("outbox.md"), text.replace("o-before.\n", "o-after.\n"))
                .unwrap();
        },
        run: |w, story, _| {
            story.adds("outbox.md", "o-after.", No, |_| w.read(1, "outbox.md").map(drop));
            story.adds("outbox.md", "o-a.", Yes, |word| {
                w.append(1, "outbox.md", &format!("{word}\n"), Yes)
            });
            w.instance.documents.managed.tick();
        },
        ..PLAIN
    },
    Scenario {
        name: "plain files",
        run: |w, story, _| {
            story.adds("plain.txt", "p-a.", Yes, |word| {
                w.append(1, "plain.txt", &format!("{word}\n"), Yes)
            });
        },
        ..PLAIN
    },
    Scenario {
        name: "housekeeping and a checkpoint",
        before: |w| {
            // Enough in the log for a checkpoint.
            let long = format!("- m-long.{}\n", "_".repeat(1 << 20));
            for _ in 0..3 {
                w.append(1, "missions.md", &long, No).unwrap();
                let text = w.read(1, "missions.md").unwrap();
                w.save(1, "missions.md", &text.replace(&long, ""), No).unwrap();
            }
            None
        },
        run: |w, story, _| {
            let _ = w.instance.documents.maintain();
            story.adds("missions.md", "m-a.", No, |word| {
                w.append(1, "missions.md", &format!("- {word}\n"), No)
            });
            let _ = w.instance.documents.maintain();
            story.adds("config.json", "c-a.", Yes, |word| {
                let text = w.read(1, "config.json")?;
                w.save(1, "config.json", &with_key(&text, word), Yes)
            });
        },
        ..PLAIN
    },
];
