//! `burstline version`, and what `--version` prints.

use std::sync::LazyLock;

use clap::Args;

/// Print version, commit, features and libraries
///
/// Example: burstline version --json
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The commit that this program was built from; `make` passes it in `BURSTLINE_COMMIT`.
pub(crate) fn commit() -> Option<&'static str> {
    option_env!("BURSTLINE_COMMIT").filter(|commit| !commit.is_empty())
}

/// Returns `0.1.0 (commit 0123456789ab)`.
pub(crate) fn line() -> &'static str {
    static LINE: LazyLock<String> = LazyLock::new(|| {
        let commit = commit().map_or("commit unknown".to_owned(), |id| format!("commit {id}"));
        format!("{} ({commit})", env!("CARGO_PKG_VERSION"))
    });
    &LINE
}
