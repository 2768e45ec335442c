//! Whom a scratch directory belongs to: `mission-<pid>-<id>`.
//!
//! In the names that are made here the id says when the process was started, in which boot and in
//! which pid namespace: `bbbbbbnnnnnnsssssssssswwwwww` in hexadecimal, six digits of the boot id,
//! six of the namespace, ten of the start time in clock ticks, six at random. So a pid that was
//! given to another process keeps nothing, a directory of an earlier boot is nobody's, and a
//! process of another container is not judged by its number.

use std::ffi::OsStr;
use std::path::Path;

use crate::model::proc_text;

/// Digits of boot and namespace each.
const PLACE: usize = 6;
/// Digits of the start time.
const START: usize = 10;
/// Digits at random.
const RANDOM: usize = 6;

/// A process, told apart from every other one of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its pid.
    pub pid: u32,
    boot: String,
    namespace: String,
    start: u64,
}

/// What is known of the owner of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It is there.
    Alive,
    /// It has ended.
    Dead,
    /// Nothing can be said: no name of a scratch directory, another pid namespace, or a name that
    /// others made, with the pid of some process.
    Unknown,
}

impl Owner {
    /// A process that is there.
    pub fn of(pid: u32) -> Option<Owner> {
        let boot = proc_text("/proc/sys/kernel/random/boot_id").ok()?;
        let boot: String =
            boot.chars().filter(char::is_ascii_hexdigit).take(PLACE).collect::<String>();
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let number: String =
            namespace.to_str()?.chars().filter(char::is_ascii_digit).collect::<String>();
        let namespace = format!("{:06x}", number.parse::<u64>().ok()? & 0xff_ffff);
        let Start::At(start) = start_of(pid) else { return None };
        Some(Owner { pid, boot, namespace, start })
    }

    /// The name of a directory of it.
    pub fn name(&self, random: u32) -> String {
        let (start, random) = (self.start & 0xff_ffff_ffff, random & 0xff_ffff);
        format!("mission-{}-{}{}{start:010x}{random:06x}", self.pid, self.boot, self.namespace)
    }
}

/// Pid and id in the name of a scratch directory; `None` for any other name.
pub fn parse(name: &OsStr) -> Option<(u32, &str)> {
    let (pid, id) = name.to_str()?.strip_prefix("mission-")?.split_once('-')?;
    let digits =
        !pid.is_empty() && !pid.starts_with('0') && pid.bytes().all(|b| b.is_ascii_digit());
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if !digits || id.is_empty() || !id.bytes().all(plain) {
        return None;
    }
    Some((pid.parse().ok()?, id))
}

/// What is known of the owner of the directory with this name. `here`: any process of ours.
pub fn life(name: &OsStr, here: &Owner) -> Life {
    let Some((pid, id)) = parse(name) else { return Life::Unknown };
    let recorded = recorded(id);
    if let Some((boot, namespace, _)) = recorded {
        if boot != here.boot {
            return Life::Dead;
        }
        if namespace != here.namespace {
            return Life::Unknown;
        }
    }
    match (start_of(pid), recorded) {
        (Start::Gone, _) => Life::Dead,
        (Start::At(start), Some((_, _, then))) => {
            if start & 0xff_ffff_ffff == then {
                Life::Alive
            } else {
                Life::Dead
            }
        }
        (Start::At(_), None) | (Start::Hidden, _) => Life::Unknown,
    }
}

/// Boot, namespace and start time in an id that was made here.
fn recorded(id: &str) -> Option<(&str, &str, u64)> {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if id.len() != 2 * PLACE + START + RANDOM || !id.bytes().all(digit) {
        return None;
    }
    let (boot, rest) = id.split_at(PLACE);
    let (namespace, rest) = rest.split_at(PLACE);
    Some((boot, namespace, u64::from_str_radix(&rest[..START], 16).ok()?))
}

enum Start {
    /// Clock ticks after the boot.
    At(u64),
    Gone,
    Hidden,
}

fn start_of(pid: u32) -> Start {
    let path = format!("/proc/{pid}/stat");
    let stat = match proc_text(Path::new(&path)) {
        Ok(stat) => stat,
        Err(e) => {
            let gone =
                e.kind() == std::io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ESRCH);
            return if gone { Start::Gone } else { Start::Hidden };
        }
    };
    // The program's name, in parentheses, may hold anything.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    match (fields.next(), fields.nth(18).map(str::parse)) {
        // Ended, though nobody has asked for its exit code yet.
        (Some("Z" | "X" | "x"), _) => Start::Gone,
        (_, Some(Ok(start))) => Start::At(start),
        _ => Start::Hidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life_of(name: &str, here: &Owner) -> Life {
        life(OsStr::new(name), here)
    }

    #[test]
    fn a_name_tells_its_process_from_every_other_one() {
        let here = Owner::of(std::process::id()).unwrap();
        let name = here.name(7);
        assert_eq!(life_of(&name, &here), Life::Alive);
        let other = Owner { start: here.start + 1, ..here.clone() };
        assert_eq!(life_of(&other.name(7), &here), Life::Dead, "a reused pid");
        let other = Owner { boot: "zzzzzz".replace('z', "0"), ..here.clone() };
        assert_eq!(life_of(&other.name(7), &here), Life::Dead, "an earlier boot");
        let other = Owner { namespace: "000000".into(), pid: 999_999_999, ..here.clone() };
        assert_eq!(life_of(&other.name(7), &here), Life::Unknown, "another container");
        let other = Owner { pid: 999_999_999, ..here.clone() };
        assert_eq!(life_of(&other.name(7), &here), Life::Dead);
    }

    #[test]
    fn names_of_others_count_as_far_as_they_say_something() {
        let here = Owner::of(std::process::id()).unwrap();
        assert_eq!(life_of("mission-999999999-abc", &here), Life::Dead);
        assert_eq!(life_of(&format!("mission-{}-abc", here.pid), &here), Life::Unknown);
        for name in [
            "mission-",
            "mission-1",
            "mission-01-a",
            "mission-x-a",
            "mission-1-",
            "mission-1-a b",
            "x",
        ] {
            assert_eq!(parse(OsStr::new(name)), None, "{name}");
            assert_eq!(life_of(name, &here), Life::Unknown);
        }
        assert_eq!(parse(OsStr::new("mission-12-a-b.c_d")), Some((12, "a-b.c_d")));
    }

    #[test]
    fn a_process_that_nobody_has_waited_for_is_dead() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let owner = Owner::of(child.id()).unwrap();
        let here = Owner::of(std::process::id()).unwrap();
        assert_eq!(life_of(&owner.name(1), &here), Life::Alive);
        child.kill().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while life_of(&owner.name(1), &here) != Life::Dead {
            assert!(std::time::Instant::now() < until);
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
