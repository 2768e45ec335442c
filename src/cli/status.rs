//! `instancefs status`.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::Status;
use super::failure::Result;
use super::output::{line, raw};
use super::target::Target;
use crate::daemon::control::{Answer, Connection, Request};
use crate::daemon::mounts::{self, Liveness};
use crate::daemon::{DaemonError, lock, status};

/// How long the daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the command.
pub fn run(args: &Status, instance: Option<&Path>) -> Result<()> {
    let target = Target::find(args.path.as_deref(), instance)?;
    let mut status = match ask(&target.store)? {
        Some(status) => status,
        None => idle(&target)?,
    };
    status["answers"] = json!(match &target.mountpoint {
        Some(at) if target.mounted => match mounts::probe(at, Duration::from_secs(3)) {
            Liveness::Alive => "yes",
            Liveness::Dead => "dead",
            Liveness::Silent => "silent",
        },
        _ => "not mounted",
    });
    if args.json {
        raw(format!("{status:#}\n"));
    } else {
        print(&status);
    }
    Ok(())
}

fn ask(store: &Path) -> Result<Option<Value>> {
    let Some(mut daemon) = Connection::open(store) else { return Ok(None) };
    daemon.ask(&Request::Status)?;
    match daemon.answer(PATIENCE) {
        Ok(Some(Answer::Status { status })) => Ok(Some(status)),
        Ok(Some(Answer::Failed { message })) => {
            Err(DaemonError::Daemon { path: store.to_owned(), message }.into())
        }
        // It has just ended, or it is stopped: what the store says is said without it.
        Ok(_) | Err(_) => Ok(None),
    }
}

fn idle(target: &Target) -> Result<Value> {
    let mut status = status::describe_idle(&target.store)?;
    if let Some(at) = &target.mountpoint {
        status["mountpoint"] = json!(at.display().to_string());
    }
    if let Some(holder) = lock::holder(&target.store) {
        status["held_by"] = json!({ "pid": holder.pid, "what": holder.what });
    }
    Ok(status)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn print(status: &Value) {
    let field = |name: &str| text(&status[name]);
    line(&format!("store       {}", field("store")));
    if status["mountpoint"].is_string() {
        line(&format!("mountpoint  {}", field("mountpoint")));
    }
    let mount = match status["answers"].as_str() {
        Some("yes") => "answers",
        Some("dead") => "dead: its daemon is gone; `instancefs mount` cleans it away",
        Some("silent") => "does not answer",
        _ => "not mounted",
    };
    if status["running"] == true {
        let only = if status["read_only"] == true { ", read-only" } else { "" };
        line(&format!(
            "daemon      pid {}, since {}, version {}",
            field("pid"),
            field("since"),
            field("version")
        ));
        line(&format!("mount       {mount}{only}"));
    } else {
        line(&format!("mount       {mount}"));
        if status["held_by"].is_object() {
            let by = &status["held_by"];
            line(&format!("held        {} by process {}", text(&by["what"]), by["pid"]));
        }
    }
    for (name, doc) in status["documents"].as_object().into_iter().flatten() {
        print_document(name, doc);
    }
    let files = &status["managed_files"];
    if files["with_history"].as_u64().unwrap_or(0) + files["looked_at"].as_u64().unwrap_or(0) > 0 {
        let later = match files["not_on_record_yet"].as_u64() {
            Some(n) if n > 0 => format!("; {n} changes not on record yet"),
            _ => String::new(),
        };
        line(&format!(
            "files       {} in use, {} with a history{later}",
            files["in_memory"], files["with_history"]
        ));
    }
    let living = |name: &str| status[name].as_u64().unwrap_or(0);
    let (leases, sessions) = (living("leases"), living("sessions"));
    if leases + sessions > 0 {
        let many = |n: u64, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        line(&format!("live        {}, {}", many(leases, "lease"), many(sessions, "session")));
    }
    if status["waiting_rows"] == true {
        line("waiting     rows wait for missions.lock, which another program holds");
    }
    if let Some(problem) = status["settings_problem"].as_str() {
        line(&format!("settings    {problem}; what was set before, or the default, holds"));
    }
    print_list("refusals", &status["refusals"]["last"], |r| {
        let place = match (&r["line"], &r["key"]) {
            (Value::Number(n), _) => format!(" line {n}:"),
            (_, Value::String(key)) => format!(" {key}:"),
            _ => String::new(),
        };
        let kept = match &r["kept_as"] {
            Value::String(name) => format!(" (kept as {name})"),
            _ => String::new(),
        };
        format!("{}:{place} {}{kept}", text(&r["file"]), text(&r["message"]))
    });
    let summary =
        |r: &Value| format!("{} rev {}: {}", text(&r["document"]), r["rev"], text(&r["summary"]));
    print_list("overlaps", &status["overlaps"], |r| {
        let what: Vec<String> =
            r["overlaps"].as_array().into_iter().flatten().map(|o| text(&o["what"])).collect();
        format!("{} ({})", summary(r), what.join(", "))
    });
    print_list("blind, undoing and merged saves of a day", &status["notable_saves"], summary);
}

fn print_document(name: &str, doc: &Value) {
    let files: Vec<String> = doc["files"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|f| format!("{} {} bytes", text(&f["name"]), f["bytes"]))
        .collect();
    let counts: Vec<String> = doc["counts"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(what, n)| format!("{n} {}", what.replace('_', " ")))
        .collect();
    let mut parts = vec![format!("rev {}", doc["rev"])];
    parts.extend(files);
    if !counts.is_empty() {
        parts.push(counts.join(", "));
    }
    line(&format!("{name:<11} {}", parts.join("; ")));
}

fn print_list(title: &str, list: &Value, describe: impl Fn(&Value) -> String) {
    for (n, item) in list.as_array().into_iter().flatten().enumerate() {
        if n == 0 {
            line(&format!("{title}:"));
        }
        line(&format!("  {} by {}: {}", text(&item["at"]), text(&item["by"]), describe(item)));
    }
}
