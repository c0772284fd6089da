//! Installs the library with `make install-c` into a test folder, once, and compiles C programs
//! with it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use burstline_skip::{skip, without};

use crate::common::Directory;

/// How a program is linked to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Shared,
    Static,
}

/// A library installed below a folder.
pub(crate) struct Installed {
    folder: PathBuf,
}

/// Returns the library as users install it.
pub(crate) fn library() -> &'static Installed {
    static LIBRARY: OnceLock<Installed> = OnceLock::new();
    LIBRARY.get_or_init(|| Installed::make("capi", "", &target()))
}

/// Returns the same library with one more function, which makes it panic.
pub(crate) fn panicking_library() -> &'static Installed {
    static LIBRARY: OnceLock<Installed> = OnceLock::new();
    // A separate target folder, because the two libraries have the same name.
    let target = target().join("capi-panicking");
    LIBRARY.get_or_init(|| Installed::make("capi-panicking", "deliberate-panic", &target))
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Runs a program that must succeed, and returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

fn is_there(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// Returns whether all programs are there that install and use the library. If one is missing, the
/// calling test is counted as skipped, and returns.
fn has_tools() -> bool {
    let missing = ["make", "cc", "pkg-config", "readelf"].into_iter().find(|tool| !is_there(tool));
    if let Some(tool) = missing {
        skip(format!("{tool} is not installed: scripts/setup test"));
    }
    missing.is_none()
}

/// Creates a directory for a test that needs them.
pub(crate) fn with_tools() -> Option<Directory> {
    has_tools().then(Directory::new)
}

impl Installed {
    fn make(name: &str, features: &str, target: &Path) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        let make = |variable: &str, value: &Path| format!("{variable}={}", value.display());
        run(Command::new("make")
            .args(["install-c", "PREFIX=/opt/burstline", &make("DESTDIR", &folder)])
            .arg(format!("CAPI_FEATURES={features}"))
            .env("CARGO_TARGET_DIR", target)
            .env_remove("MAKEFLAGS")
            .current_dir(repository()));
        Self { folder }
    }

    pub(crate) fn libraries(&self) -> PathBuf {
        self.folder.join("opt/burstline/lib")
    }

    pub(crate) fn pkg_config(&self, arguments: &[&str]) -> String {
        let path = self.libraries().join("pkgconfig");
        let mut command = Command::new("pkg-config");
        command.args(arguments).arg("burstline").env("PKG_CONFIG_LIBDIR", path);
        run(command.env("PKG_CONFIG_SYSROOT_DIR", &self.folder)).trim().to_owned()
    }

    /// Compiles a C program into `folder`, with further flags.
    pub(crate) fn compile(
        &self,
        source: &Path,
        folder: &Path,
        link: Link,
        flags: &[&str],
    ) -> PathBuf {
        let name = source.file_stem().unwrap().to_str().unwrap();
        let program = folder.join(format!("{name}-{link:?}"));
        let mut command = Command::new("cc");
        command.args(["-std=c99", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        command.args(flags).args(self.pkg_config(&["--cflags"]).split(' ')).arg("-o");
        command.arg(&program).arg(source);
        match link {
            Link::Shared => command.args(self.pkg_config(&["--libs"]).split(' ')),
            Link::Static => command
                .arg("-Wl,-Bstatic")
                .args(self.pkg_config(&["--libs"]).split(' '))
                .arg("-Wl,-Bdynamic")
                .args(self.pkg_config(&["--variable=static_libs"]).split(' ')),
        };
        run(&mut command);
        program
    }

    /// Returns a command that runs a program made by [`compile`](Self::compile).
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.libraries());
        command
    }
}

#[test]
fn what_is_installed_is_what_was_promised() {
    if !has_tools() {
        return;
    }
    let library = library();
    let folder = library.folder.join("opt/burstline");
    let files = [
        "include/burstline.h",
        "lib/libburstline.a",
        "lib/libburstline.so.0",
        "share/man/man3/burstline.3",
    ];
    for file in files.into_iter().chain(["lib/libburstline.so", "lib/pkgconfig/burstline.pc"]) {
        assert!(folder.join(file).is_file(), "{file}");
    }
    let link = fs::read_link(folder.join("lib/libburstline.so")).unwrap();
    assert_eq!(link, Path::new("libburstline.so.0"));
    let shared = folder.join("lib/libburstline.so.0");
    let dynamic = run(Command::new("readelf").arg("-d").arg(&shared));
    assert!(dynamic.contains("Library soname: [libburstline.so.0]"), "{dynamic}");
    let symbols = run(Command::new("readelf").args(["--dyn-syms", "-W"]).arg(&shared));
    let ours = symbols.lines().filter(|line| line.contains("GLOBAL") && !line.contains(" UND "));
    let mut ours: Vec<&str> = ours.filter_map(|line| line.split_whitespace().last()).collect();
    ours.sort_unstable();
    assert_eq!(
        ours,
        [
            "burstline_abi_version",
            "burstline_account",
            "burstline_close",
            "burstline_error_text",
            "burstline_finish",
            "burstline_next",
            "burstline_open",
            "burstline_packet_flow",
            "burstline_port_name",
            "burstline_publish",
            "burstline_release",
            "burstline_replace",
            "burstline_verdict",
            "burstline_version",
            "burstline_write",
            "burstline_writer_account",
            "burstline_writer_port",
        ]
    );
    let below = |path: &str| library.folder.join(path).display().to_string();
    let flags = library.pkg_config(&["--cflags", "--libs"]);
    let (include, lib) = (below("opt/burstline/include"), below("opt/burstline/lib"));
    assert_eq!(flags, format!("-I{include} -L{lib} -lburstline"));
    assert_eq!(library.pkg_config(&["--modversion"]), env!("CARGO_PKG_VERSION"));
}

/// The manual page matches the header, and man(1) reports no errors.
#[test]
fn the_manual_page_has_every_function() {
    let folder = repository().join("include");
    let page = fs::read_to_string(folder.join("burstline.3")).unwrap();
    let promised = fs::read_to_string(folder.join("burstline.abi")).unwrap();
    let calls = promised.lines().filter_map(|line| line.strip_prefix("function "));
    let calls = calls.filter(|call| !call.starts_with("static inline"));
    let name =
        |call: &str| call.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap().to_owned();
    let statuses =
        promised.lines().filter_map(|line| line.strip_prefix("constant BURSTLINE_STATUS_"));
    let statuses =
        statuses.map(|line| format!("BURSTLINE_STATUS_{}", line.split(' ').next().unwrap()));
    let mut found = 0;
    for word in calls.map(name).chain(statuses) {
        assert!(page.contains(&word), "burstline.3 does not say {word}");
        found += 1;
    }
    assert!(found > 25, "{found}");
    if !is_there("man") {
        without("man is not installed: apt-get install man-db".to_owned());
        return;
    }
    let mut man = Command::new("man");
    man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(folder.join("burstline.3"));
    let said = man.env("LC_ALL", "C.UTF-8").env("MAN_KEEP_STDERR", "1").output().unwrap();
    assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
}

#[test]
fn the_header_is_c99_and_cpp() {
    let header = repository().join("include/burstline.h");
    let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"];
    for (compiler, language, standards) in
        [("cc", "c", ["c99", "c11"]), ("c++", "c++", ["c++11", "c++17"])]
    {
        if !is_there(compiler) {
            without(format!("{compiler} is not installed: scripts/setup test"));
            continue;
        }
        for standard in standards {
            let standard = format!("-std={standard}");
            // Include it twice, to test its include guard.
            let twice = ["-include", header.to_str().unwrap()];
            let mut command = Command::new(compiler);
            command.args(strict).args([&standard, "-fsyntax-only", "-x", language]).args(twice);
            run(command.arg(&header));
        }
    }
}
