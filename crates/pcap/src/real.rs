//! The real libpcap, which handles all other devices.
//!
//! ```text
//! LD_PRELOAD=libburstline-pcap.so tcpdump      libpcap.so.0.8 is loaded too: RTLD_NEXT finds it
//! ours in place of libpcap.so.0.8              loaded from the distribution's path
//! BURSTLINE_REAL_PCAP=/path/libpcap.so.1       loaded from there
//! ```
//!
//! A name without a slash would find this library again, so libraries are loaded by their path. A
//! loaded library stays loaded, and each function is looked up once.

use std::env;
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStringExt;
use std::ptr;
use std::sync::OnceLock;

/// The variable with the path of the real library.
pub(crate) const VARIABLE: &str = "BURSTLINE_REAL_PCAP";

/// The distributions' paths: Debian's names, then upstream's.
const PATHS: [&CStr; 10] = [
    c"/usr/lib/x86_64-linux-gnu/libpcap.so.0.8",
    c"/usr/lib/aarch64-linux-gnu/libpcap.so.0.8",
    c"/lib/x86_64-linux-gnu/libpcap.so.0.8",
    c"/lib/aarch64-linux-gnu/libpcap.so.0.8",
    c"/usr/lib64/libpcap.so.1",
    c"/lib64/libpcap.so.1",
    c"/usr/lib/libpcap.so.1",
    c"/usr/lib/libpcap.so.0.8",
    c"/usr/local/lib/libpcap.so.1",
    c"/usr/local/lib/libpcap.so",
];

/// The result of `dlopen`; null if no libpcap was found.
struct Loaded(*mut c_void);

// SAFETY: a handle of the dynamic loader may be used by any thread: dlsym(3), MT-Safe.
unsafe impl Send for Loaded {}
// SAFETY: threads may use a handle of the loader at the same time: dlsym(3), MT-Safe.
unsafe impl Sync for Loaded {}

/// Loads the library from [`VARIABLE`] or [`PATHS`].
fn loaded() -> *mut c_void {
    static LOADED: OnceLock<Loaded> = OnceLock::new();
    let open = |path: &CStr| {
        // SAFETY: the path ends in NUL. Loading libpcap runs initialisers that only set up the
        // library and those it needs.
        unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
    };
    let found = LOADED.get_or_init(|| {
        let named = env::var_os(VARIABLE).and_then(|path| CString::new(path.into_vec()).ok());
        if let Some(path) = named {
            return Loaded(open(&path));
        }
        let found = PATHS.iter().map(|path| open(path)).find(|library| !library.is_null());
        Loaded(found.unwrap_or(ptr::null_mut()))
    });
    found.0
}

/// Returns the real library's function or variable of this name; null if there is none.
pub(crate) fn find(name: &CStr, ours: *const c_void) -> *mut c_void {
    let look_in = |library| {
        // SAFETY: a handle of the dynamic loader, or one of its constants; the name ends in NUL.
        unsafe { libc::dlsym(library, name.as_ptr()) }
    };
    if env::var_os(VARIABLE).is_none() {
        let next = look_in(libc::RTLD_NEXT);
        if !next.is_null() && next.cast_const() != ours {
            return next;
        }
    }
    let library = loaded();
    if library.is_null() { ptr::null_mut() } else { look_in(library) }
}

/// The result of a function if there is no real libpcap to call.
pub(crate) trait Absent {
    /// Returns libpcap's own result for a failure.
    fn absent() -> Self;
}

impl Absent for () {
    fn absent() -> Self {}
}

impl Absent for i32 {
    fn absent() -> Self {
        crate::abi::ERROR
    }
}

impl Absent for u32 {
    fn absent() -> Self {
        0
    }
}

impl Absent for i64 {
    fn absent() -> Self {
        -1
    }
}

impl<T> Absent for *mut T {
    fn absent() -> Self {
        ptr::null_mut()
    }
}

impl<T> Absent for *const T {
    fn absent() -> Self {
        ptr::null()
    }
}

/// Reports once that the real library is missing.
pub(crate) fn complain(function: &str) {
    static SAID: OnceLock<()> = OnceLock::new();
    SAID.get_or_init(|| {
        eprintln!(
            "libburstline-pcap: {function} needs the real libpcap, which was not found: \
             apt-get install libpcap0.8, or set {VARIABLE} to its path"
        );
    });
}

/// Calls the real library's function of this name, with the given types.
macro_rules! real {
    ($name:ident($($argument:expr => $type:ty),* $(,)?) $(-> $result:ty)?) => {{
        static FOUND: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        let name = const {
            match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes()
            ) {
                Ok(name) => name,
                Err(_) => panic!("a name without NUL"),
            }
        };
        let ours = crate::exports::$name as *const () as *const std::ffi::c_void;
        let found = *FOUND.get_or_init(|| $crate::real::find(name, ours).addr());
        if found == 0 {
            $crate::real::complain(stringify!($name));
            $crate::real::Absent::absent()
        } else {
            let at = std::ptr::with_exposed_provenance::<()>(found);
            // SAFETY: the real library's function of this name has the type in libpcap's headers,
            // which is the one written here; the library stays loaded. The caller's guarantees for
            // libpcap's arguments apply (module `exports`).
            unsafe {
                let function = std::mem::transmute::<
                    *const (),
                    unsafe extern "C" fn($($type),*) $(-> $result)?,
                >(at);
                function($($argument),*)
            }
        }
    }};
}
pub(crate) use real;
