//! Runs queries in DuckDB, through Python's package.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

const SCRIPT: &str = include_str!("engine.py");
/// The script's exit codes.
const NO_DUCKDB: i32 = 9;
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

impl Query<'_> {
    /// Runs the query in the first Python that has DuckDB.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn ask(&self) -> Result<Answered, QueryError> {
        let shown = self.tree.display();
        let failed = |what: String| QueryError::Failed(format!("{shown}: {what}"));
        let tree = std::path::absolute(self.tree).map_err(|error| failed(error.to_string()))?;
        let tree = tree.to_str().ok_or_else(|| {
            failed("DuckDB cannot open a folder whose path is not UTF-8: rename it".to_owned())
        })?;
        let candidates = pythons();
        for python in &candidates {
            if let Some(answered) = self.ask_one(python, tree)? {
                return Ok(answered);
            }
        }
        let names: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
        Err(QueryError::NoEngine { looked: names.join(", ") })
    }

    /// Returns `None` if the program does not exist or has no DuckDB.
    fn ask_one(&self, python: &Path, tree: &str) -> Result<Option<Answered>, QueryError> {
        let broken =
            |what: String| QueryError::Broken { python: python.display().to_string(), what };
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(broken(error.to_string())),
        };
        let request = json!({
            "tree": tree,
            "sql": self.sql,
            "from_ns": self.span.from_ns,
            "to_ns": self.span.to_ns,
        });
        if let Some(mut input) = child.stdin.take() {
            // A Python without DuckDB reads nothing; its exit code shows that.
            let _ = input.write_all(request.to_string().as_bytes());
        }
        let Some(output) = child.stdout.take() else { return Err(broken("no output".into())) };
        let mut lines = BufReader::new(output).lines();
        let first = lines.next().transpose().map_err(|error| broken(error.to_string()))?;
        let Some(first) = first else {
            let status = child.wait().map_err(|error| broken(error.to_string()))?;
            return match status.code() {
                Some(NO_DUCKDB) => Ok(None),
                _ => Err(broken(format!("exited without an answer, {status}"))),
            };
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
        Ok(Some(Answered { columns, types, lines, child }))
    }
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

/// Returns the Pythons that may have DuckDB, the likeliest first.
fn pythons() -> Vec<PathBuf> {
    if let Some(python) = std::env::var_os(VARIABLE) {
        return vec![python.into()];
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.or(home.map(|home| home.join(".local/share")));
    let installed = data.map(|data| data.join(INSTALLED));
    installed.into_iter().chain([PathBuf::from("python3")]).collect()
}
