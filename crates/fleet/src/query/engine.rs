//! Runs queries in DuckDB, through Python's package.
//!
//! An engine says that it is ready before it gets a question. Until then it has run only what the
//! user installed, and after that it reads files of others. So whoever starts it may confine it in
//! between: it enters a list of calls by itself, because only then does it map no more code.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

const SCRIPT: &str = include_str!("engine.py");
/// The script's exit codes.
const NO_DUCKDB: i32 = 9;
/// What the script says before it reads the question.
const READY_LINE: &str = "ready";
/// The variable that names the Python to use.
const VARIABLE: &str = "BURSTLINE_PYTHON";
/// Where `scripts/setup query` installs DuckDB, below the user's data.
const INSTALLED: &str = "burstline/query/bin/python";

/// A time range in ns since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Records that ended earlier are left out.
    pub from_ns: Option<u64>,
    /// Records that began at this time or later are left out.
    pub to_ns: Option<u64>,
}

/// A query.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// The folder with the `date=` folders.
    pub tree: &'a Path,
    /// One SELECT over `flows`.
    pub sql: &'a str,
    /// Time range of the records in `flows`.
    pub span: Span,
}

/// A result, row by row.
#[derive(Debug)]
pub struct Answered {
    /// Column names from DuckDB.
    pub columns: Vec<String>,
    /// Column types from DuckDB.
    pub types: Vec<String>,
    lines: io::Lines<BufReader<ChildStdout>>,
    child: Child,
}

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// No Python on this machine has the package.
    #[error(
        "DuckDB is not installed in {looked}; run: scripts/setup query, or python3 -m pip install \
         duckdb==2.0.0 pytz==2026.6 and set {VARIABLE} to that python3"
    )]
    NoEngine {
        /// Where it was searched.
        looked: String,
    },
    /// The SQL is invalid; DuckDB gives the position.
    #[error("SQL line {line}, column {column}: {what}")]
    Sql {
        /// Line, from 1.
        line: u64,
        /// Column, from 1, in characters.
        column: u64,
        /// DuckDB's message.
        what: String,
    },
    /// DuckDB failed: no tree, a damaged file, too little memory.
    #[error("{0}")]
    Failed(String),
    /// The engine ended in the middle of a result.
    #[error("{python}: {what}")]
    Broken {
        /// Path of the Python.
        python: String,
        /// The problem.
        what: String,
    },
}

/// What an engine is started with.
#[derive(Debug, Default)]
pub struct EngineOptions {
    /// Its whole environment; `None` for that of this process.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// Where DuckDB puts what does not fit in memory; `None` for nowhere.
    pub temporary: Option<PathBuf>,
    /// A user who has changed places with root in the mounts that the engine sees.
    pub swapped_with_root: Option<u32>,
}

/// A Python that has loaded DuckDB and waits for its question.
#[derive(Debug)]
pub struct Engine {
    python: PathBuf,
    child: Child,
    input: ChildStdin,
    lines: io::Lines<BufReader<ChildStdout>>,
}

/// Why there is no engine.
#[derive(Debug)]
#[non_exhaustive]
pub enum NoEngine {
    /// No such program.
    NotFound,
    /// It has no DuckDB.
    NoPackage,
    /// It ended, or could not be started: what happened.
    Broken(String),
}

impl Engine {
    /// Starts a Python, and waits until it has loaded DuckDB. Nothing of a tree is read.
    ///
    /// `calls_of` gets the number of the process before any of its output is read. It returns the
    /// filter of calls that the process shall enter, as instructions for seccomp(2), and may
    /// confine the calling thread. An error ends the process.
    ///
    /// # Errors
    /// [`NoEngine`].
    pub fn start(
        python: &Path,
        options: &EngineOptions,
        calls_of: impl FnOnce(u32) -> io::Result<Option<Vec<u8>>>,
    ) -> Result<Self, NoEngine> {
        let broken = |error: io::Error| NoEngine::Broken(error.to_string());
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(environment) = &options.environment {
            // The folder that this process is in may be closed to it.
            command.env_clear().envs(environment.iter().cloned()).current_dir("/");
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(NoEngine::NotFound);
            }
            Err(error) => return Err(broken(error)),
        };
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(NoEngine::Broken("no pipes".into()));
        };
        // Without its input the process ends.
        let calls = calls_of(child.id()).map_err(broken)?;
        let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let settings = json!({
            "calls": calls.map::<String, _>(hex),
            "temporary": options.temporary.as_deref().map(|path| path.to_string_lossy()),
            "swapped_with_root": options.swapped_with_root,
        });
        // A Python without DuckDB reads nothing; its exit code shows that.
        let _ = input.write_all(format!("{settings}\n").as_bytes());
        let mut lines = BufReader::new(output).lines();
        match lines.next().transpose().map_err(broken)? {
            Some(line) if line == READY_LINE => {
                Ok(Self { python: python.to_owned(), child, input, lines })
            }
            Some(line) => {
                let said = read(&line).ok().and_then(|value| failure(&value));
                let what = said.map_or("it is no engine".to_owned(), |error| error.to_string());
                Err(NoEngine::Broken(what))
            }
            None => {
                let status = child.wait().map_err(broken)?;
                match status.code() {
                    Some(NO_DUCKDB) => Err(NoEngine::NoPackage),
                    _ => Err(NoEngine::Broken(format!("exited without an answer, {status}"))),
                }
            }
        }
    }

    /// Starts the first Python that has DuckDB, with the rights of the calling thread.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn first() -> Result<Self, QueryError> {
        let candidates = pythons();
        for python in &candidates {
            match Self::start(python, &EngineOptions::default(), |_| Ok(None)) {
                Err(NoEngine::NotFound | NoEngine::NoPackage) => {}
                Err(NoEngine::Broken(what)) => {
                    let python = python.display().to_string();
                    return Err(QueryError::Broken { python, what });
                }
                Ok(engine) => return Ok(engine),
            }
        }
        Err(no_engine(&candidates))
    }
}

/// Returns the path of a tree as DuckDB gets it.
///
/// # Errors
/// [`QueryError::Failed`]: it is not UTF-8, or is relative to a folder that is gone.
pub fn tree_text(tree: &Path) -> Result<String, QueryError> {
    let failed = |what: String| QueryError::Failed(format!("{}: {what}", tree.display()));
    let whole = std::path::absolute(tree).map_err(|error| failed(error.to_string()))?;
    let not_text = "DuckDB cannot open a folder whose path is not UTF-8: rename it";
    whole.into_os_string().into_string().map_err(|_| failed(not_text.to_owned()))
}

impl Query<'_> {
    /// Asks an engine that is ready.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn ask_of(&self, engine: Engine) -> Result<Answered, QueryError> {
        let tree = tree_text(self.tree)?;
        let Engine { python, mut child, mut input, mut lines } = engine;
        let broken =
            |what: String| QueryError::Broken { python: python.display().to_string(), what };
        let request = json!({
            "tree": tree,
            "sql": self.sql,
            "from_ns": self.span.from_ns,
            "to_ns": self.span.to_ns,
        });
        // If it has ended, it has no answer, which is seen below.
        let _ = input.write_all(request.to_string().as_bytes());
        drop(input);
        let first = lines.next().transpose().map_err(|error| broken(error.to_string()))?;
        let Some(first) = first else {
            let status = child.wait().map_err(|error| broken(error.to_string()))?;
            return Err(broken(format!("exited without an answer, {status}")));
        };
        let head = read(&first).map_err(&broken)?;
        if let Some(error) = failure(&head) {
            let _ = child.wait();
            return Err(error);
        }
        let texts = |key: &str| {
            let values = head[key].as_array().into_iter().flatten();
            values.map(|value| value.as_str().unwrap_or_default().to_owned()).collect()
        };
        let (columns, types) = (texts("columns"), texts("types"));
        Ok(Answered { columns, types, lines, child })
    }
}

/// Returns the error if none of these Pythons has DuckDB.
pub fn no_engine(looked: &[PathBuf]) -> QueryError {
    let names: Vec<_> = looked.iter().map(|path| path.display().to_string()).collect();
    QueryError::NoEngine { looked: names.join(", ") }
}

impl Answered {
    /// Returns the next row.
    ///
    /// # Errors
    /// [`QueryError`]: the engine failed after the rows returned so far.
    pub fn next_row(&mut self) -> Result<Option<Vec<Value>>, QueryError> {
        let broken = |what: String| QueryError::Broken { python: "python3".into(), what };
        let Some(line) = self.lines.next() else {
            let status = self.child.wait().map_err(|error| broken(error.to_string()))?;
            return match status.success() {
                true => Ok(None),
                false => Err(broken(format!("exited in the middle of an answer, {status}"))),
            };
        };
        let value = line.map_err(|error| error.to_string()).and_then(|line| read(&line));
        match value.map_err(broken)? {
            Value::Array(row) => Ok(Some(row)),
            other => Err(failure(&other).unwrap_or_else(|| broken("a row is not an array".into()))),
        }
    }
}

impl Drop for Answered {
    /// Stops the engine if the caller wants no more rows.
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(line: &str) -> Result<Value, String> {
    serde_json::from_str(line).map_err(|error| format!("invalid JSON: {error}"))
}

fn failure(value: &Value) -> Option<QueryError> {
    let what = value["error"].as_str()?.trim().to_owned();
    match (value["line"].as_u64(), value["column"].as_u64()) {
        (Some(line), Some(column)) => Some(QueryError::Sql { line, column, what }),
        _ => Some(QueryError::Failed(what)),
    }
}

/// Returns the Pythons that may have DuckDB, the likeliest first. A name without a slash is looked
/// up in `PATH`.
pub fn pythons() -> Vec<PathBuf> {
    if let Some(python) = std::env::var_os(VARIABLE) {
        return vec![python.into()];
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.or(home.map(|home| home.join(".local/share")));
    let installed = data.map(|data| data.join(INSTALLED));
    installed.into_iter().chain([PathBuf::from("python3")]).collect()
}
