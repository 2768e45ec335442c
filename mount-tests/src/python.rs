//! A Python process that does one step at a time.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::Actor;

/// The longest that one step may take.
const STEP_LIMIT: Duration = Duration::from_secs(40);

/// A Python process in a session of its own that is told step by step what to do. `os`, `sys`,
/// `json`, `time`, `fcntl`, `mmap`, `struct`, `errno` and `stat` are imported.
pub struct Python {
    child: Child,
    /// What it has become by a fork: a child of nobody here.
    orphan: Option<i32>,
    stdin: Option<ChildStdin>,
    answers: Receiver<String>,
}

/// The exception that a step raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PyError {
    /// The class, such as `OSError`.
    pub kind: String,
    /// Its `errno`, 0 when it has none.
    pub errno: i32,
    /// Its text.
    pub text: String,
}

impl Actor {
    /// Starts a Python process that waits for steps.
    pub fn python_steps(&self) -> Python {
        let steps = crate::programs_dir().join("steps.py");
        self.python_of("python3", &["-u".as_ref(), steps.as_os_str()])
    }

    /// The same by a program that becomes `steps.py` in the end.
    pub fn python_of(&self, program: &str, args: &[&OsStr]) -> Python {
        let mut command = self.command(program);
        command.args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect(program);
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("piped");
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Python { child, orphan: None, stdin, answers }
    }
}

impl Python {
    /// Leaves its parent: from now on it has no ancestor in common with any other process of a test
    /// but the first one of the machine.
    pub fn leave(&mut self) {
        self.run("if os.fork(): os._exit(0)");
        self.orphan = Some(self.int("os.getpid()") as i32);
        self.reap_child();
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.orphan.map_or(self.child.id(), i32::cast_unsigned)
    }

    /// Begins a step without waiting for its answer ([`Python::finish`] does).
    #[track_caller]
    pub fn begin(&mut self, code: &str) {
        self.send(&json!({ "run": code }));
    }

    /// Waits for the answer to [`Python::begin`].
    #[track_caller]
    pub fn finish(&mut self) -> Result<(), PyError> {
        self.answer().map(|_| ())
    }

    /// Whether the step that was begun has not answered for `time`.
    pub fn blocks_for(&mut self, time: Duration) -> bool {
        matches!(self.answers.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    #[track_caller]
    fn send(&mut self, step: &Value) {
        let stdin = self.stdin.as_mut().expect("python was ended");
        writeln!(stdin, "{step}").expect("python has gone");
    }

    #[track_caller]
    fn answer(&mut self) -> Result<Value, PyError> {
        let line = match self.answers.recv_timeout(STEP_LIMIT) {
            Ok(line) => line,
            Err(error) => panic!("no answer from a python step: {error}"),
        };
        let mut answer: Value = serde_json::from_str(&line).expect("answer of steps.py");
        match answer.get("error").and_then(Value::as_str) {
            None => Ok(answer["value"].take()),
            Some(kind) => Err(PyError {
                kind: kind.to_owned(),
                errno: answer["errno"].as_i64().unwrap_or(0) as i32,
                text: answer["text"].as_str().unwrap_or_default().to_owned(),
            }),
        }
    }

    /// Runs statements; an exception is given back.
    #[track_caller]
    pub fn attempt(&mut self, code: &str) -> Result<(), PyError> {
        self.send(&json!({ "run": code }));
        self.answer().map(|_| ())
    }

    /// Runs statements that must succeed.
    #[track_caller]
    pub fn run(&mut self, code: &str) {
        if let Err(error) = self.attempt(code) {
            panic!("{code}\n{error:?}");
        }
    }

    /// Runs statements that must raise an `OSError`, and gives its errno.
    #[track_caller]
    pub fn errno(&mut self, code: &str) -> i32 {
        match self.attempt(code) {
            Err(error) if error.errno != 0 => error.errno,
            other => panic!("should have failed with an errno: {code}\n{other:?}"),
        }
    }

    /// Runs statements and gives the errno of the `OSError` that they raised, 0 if none.
    #[track_caller]
    pub fn outcome(&mut self, code: &str) -> i32 {
        self.attempt(code).map_or_else(|error| error.errno, |()| 0)
    }

    /// Evaluates an expression.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        self.send(&json!({ "eval": expression }));
        self.answer().unwrap_or_else(|error| panic!("{expression}\n{error:?}"))
    }

    /// Evaluates an expression that is a text or bytes.
    #[track_caller]
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression} is {value}")).to_owned()
    }

    /// Evaluates an expression that is an integer.
    #[track_caller]
    pub fn int(&mut self, expression: &str) -> i64 {
        let value = self.eval(expression);
        value.as_i64().unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub fn kill(&mut self) {
        match self.orphan {
            // SAFETY: kill touches nothing of this process.
            Some(pid) => assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0, "kill"),
            None => self.child.kill().expect("kill"),
        }
        self.reap();
    }

    /// Lets it end by itself (end of input), as a program that forgot to close its files.
    pub fn end(&mut self) {
        self.stdin = None;
        self.reap();
    }

    fn reap(&mut self) {
        if let Some(pid) = self.orphan {
            // Nobody here is told of its end; the first process may leave it as a zombie.
            crate::eventually("end of an orphan", || {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
                state.is_none_or(|state| state == 'Z').then_some(())
            });
            self.orphan = None;
        }
        self.reap_child();
    }

    fn reap_child(&mut self) {
        crate::eventually("end of python", || match self.child.try_wait() {
            Ok(None) => None,
            _ => Some(()),
        });
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        self.stdin = None;
        if let Some(pid) = self.orphan {
            // SAFETY: as above.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        let _ = self.child.kill();
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
