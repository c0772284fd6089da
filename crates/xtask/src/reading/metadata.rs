//! Cargo's metadata of the workspace: its packages and their dependencies.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The packages that the workspace's builds and tests use on Linux, including loom's model checks.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// Members and everything they depend on.
    pub(crate) packages: Vec<Package>,
}

/// A package.
#[derive(Debug, Default)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its manifest; relative to the root of the repository if it is inside.
    pub(crate) manifest: String,
    /// Whether it is a member of the workspace.
    pub(crate) is_member: bool,
    /// Root files of its libraries, programs and build script, relative to the repository's root.
    pub(crate) roots: Vec<String>,
    /// Its dependencies.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency on another package.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// Name of the other package.
    pub(crate) name: String,
    /// Whether it is only for tests and examples.
    pub(crate) is_dev: bool,
}

impl Metadata {
    /// Reads the metadata of the workspace in `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        // One platform keeps cargo from fetching crates of other systems; the flag includes loom's
        // conditional dependencies.
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked", "--quiet"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
            .env("RUSTFLAGS", "--cfg loom")
            .current_dir(root)
            .output()
            .map_err(|error| format!("cargo metadata did not start ({error})"))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("cargo metadata failed: {}", stderr.trim()));
        }
        let json = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata is not JSON: {error}"))?;
        Ok(Self::from_json(root, &json))
    }

    /// Returns the packages that are members of the workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_member)
    }

    fn from_json(root: &Path, json: &Value) -> Self {
        let members = array(&json["workspace_members"]);
        let packages = array(&json["packages"]).iter().map(|package| {
            let mut read = Package::from_json(root, package);
            read.is_member = members.contains(&package["id"]);
            read
        });
        Self { packages: packages.collect() }
    }
}

impl Package {
    fn from_json(root: &Path, json: &Value) -> Self {
        let targets = array(&json["targets"]).iter();
        let roots = targets.filter(|target| {
            let kinds = array(&target["kind"]);
            !kinds.iter().any(|kind| ["test", "bench", "example"].contains(&text(kind)))
        });
        let dependencies = array(&json["dependencies"]).iter().map(|dependency| Dependency {
            name: text(&dependency["name"]).to_owned(),
            is_dev: dependency["kind"] == "dev",
        });
        Self {
            name: text(&json["name"]).to_owned(),
            manifest: relative(root, text(&json["manifest_path"])),
            is_member: false,
            roots: roots.map(|target| relative(root, text(&target["src_path"]))).collect(),
            dependencies: dependencies.collect(),
        }
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn relative(root: &Path, path: &str) -> String {
    let inside = Path::new(path).strip_prefix(root).ok().and_then(Path::to_str);
    inside.unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_cargo_prints() {
        let json = serde_json::json!({
            "workspace_members": ["id-a"],
            "packages": [
                {"id": "id-a", "name": "a",
                 "manifest_path": "/r/crates/a/Cargo.toml",
                 "targets": [{"kind": ["lib"], "src_path": "/r/crates/a/src/lib.rs"},
                             {"kind": ["test"], "src_path": "/r/crates/a/tests/t.rs"}],
                 "dependencies": [{"name": "b", "kind": null}, {"name": "c", "kind": "dev"}]},
                {"id": "id-b", "name": "b", "manifest_path": "/else/b/Cargo.toml",
                 "targets": [], "dependencies": []}]});
        let metadata = Metadata::from_json(Path::new("/r"), &json);
        let [a, b] = metadata.packages.as_slice() else { panic!("two packages") };
        assert_eq!(a.manifest, "crates/a/Cargo.toml");
        assert_eq!(a.roots, ["crates/a/src/lib.rs"]);
        let kinds: Vec<bool> = a.dependencies.iter().map(|d| d.is_dev).collect();
        assert_eq!((a.is_member, kinds), (true, vec![false, true]));
        assert!(!b.is_member);
    }
}
