//! Hyperscan, the matcher of Snort and Suricata: searches for many contents at once in one pass.
//!
//! The library is loaded at run time, so building does not require it: `libhs.so.5` of Debian's
//! `libhyperscan5`.
//!
//! Invariants:
//! - H1: a database's scratch is used by one scan at a time: a scan borrows it mutably.
//! - H2: no panic unwinds through the library: programs of the lab abort on panic, and the match
//!   callback only counts.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// The library's file name, and the package to install.
const FILE: &CStr = c"libhs.so.5";
const MEND: &str = "libhs.so.5 is not installed: sudo apt-get install libhyperscan5";

/// Mode for one call on one run of memory. Source: `hs_compile.h` of Hyperscan 5.4, `HS_MODE_`.
const MODE_BLOCK: c_uint = 1;
/// Mode for one call on several runs of memory that count as one.
const MODE_VECTORED: c_uint = 4;

type OnMatch = unsafe extern "C" fn(c_uint, c_ulonglong, c_ulonglong, c_uint, *mut c_void) -> c_int;
type CompileLiterals = unsafe extern "C" fn(
    *const *const c_char,
    *const c_uint,
    *const c_uint,
    *const usize,
    c_uint,
    c_uint,
    *const c_void,
    *mut *mut c_void,
    *mut *mut CompileError,
) -> c_int;
type Scan = unsafe extern "C" fn(
    *const c_void,
    *const c_char,
    c_uint,
    c_uint,
    *mut c_void,
    Option<OnMatch>,
    *mut c_void,
) -> c_int;
type ScanVector = unsafe extern "C" fn(
    *const c_void,
    *const *const c_char,
    *const c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    Option<OnMatch>,
    *mut c_void,
) -> c_int;

type Version = unsafe extern "C" fn() -> *const c_char;
type Allocate = unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type FreeError = unsafe extern "C" fn(*mut CompileError) -> c_int;

/// Source: `hs_compile.h`, `hs_compile_error_t`.
#[repr(C)]
struct CompileError {
    message: *const c_char,
    expression: c_int,
}

/// The functions of the library.
struct Library {
    version: Version,
    compile: CompileLiterals,
    allocate: Allocate,
    scan: Scan,
    scan_vector: ScanVector,
    free_database: Free,
    free_scratch: Free,
    free_error: FreeError,
}

impl Library {
    fn loaded() -> Result<&'static Self, String> {
        static LOADED: OnceLock<Option<Library>> = OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref().ok_or_else(|| MEND.to_owned())
    }

    fn load() -> Option<Self> {
        // SAFETY: the name ends in NUL; the library's initialisers only look at the processor.
        let library = unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        /// Looks up the function of that name, with the type of its field.
        macro_rules! function {
            ($name:literal, $type:ty) => {{
                // SAFETY: the handle is of a library that stays loaded.
                let found = unsafe { libc::dlsym(library, $name.as_ptr()) };
                if found.is_null() {
                    return None;
                }
                // SAFETY: the function of this name has the type given in Hyperscan's headers,
                // which is the type of its field.
                unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
            }};
        }
        Some(Self {
            version: function!(c"hs_version", Version),
            compile: function!(c"hs_compile_lit_multi", CompileLiterals),
            allocate: function!(c"hs_alloc_scratch", Allocate),
            scan: function!(c"hs_scan", Scan),
            scan_vector: function!(c"hs_scan_vector", ScanVector),
            free_database: function!(c"hs_free_database", Free),
            free_scratch: function!(c"hs_free_scratch", Free),
            free_error: function!(c"hs_free_compile_error", FreeError),
        })
    }
}

/// Returns the library's version.
///
/// # Errors
/// If the library is not installed.
pub fn version() -> Result<String, String> {
    let library = Library::loaded()?;
    // SAFETY: it returns a text that is part of the library.
    let said = unsafe { CStr::from_ptr((library.version)()) };
    Ok(said.to_string_lossy().into_owned())
}

/// How a scan gets its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// One run at a time.
    One,
    /// Several runs, in order, that count as one.
    Several,
}

/// Compiled contents, with scratch memory for a scan.
pub struct Database {
    library: &'static Library,
    compiled: *mut c_void,
    scratch: *mut c_void,
}

// SAFETY: any thread may use a compiled database and its scratch, one at a time (`hs_alloc_scratch`
// in Hyperscan's reference). This type owns both, and a scan borrows the scratch for writing.
unsafe impl Send for Database {}

impl Database {
    /// Compiles at most `u32::MAX` contents; the number of each is its index.
    ///
    /// # Errors
    /// If Hyperscan is not installed or rejects the contents, or if one of them is empty.
    pub fn of(contents: &[Vec<u8>], memory: Memory) -> Result<Self, String> {
        let library = Library::loaded()?;
        // Hyperscan 5.4 crashes on an empty content.
        if let Some(number) = contents.iter().position(Vec::is_empty) {
            return Err(format!("content {number} is empty: give it 1 byte or more"));
        }
        let starts: Vec<*const c_char> = contents.iter().map(|one| one.as_ptr().cast()).collect();
        let lengths: Vec<usize> = contents.iter().map(Vec::len).collect();
        let flags = vec![0; contents.len()];
        let numbers: Vec<c_uint> = (0..contents.len() as c_uint).collect();
        let mode = match memory {
            Memory::One => MODE_BLOCK,
            Memory::Several => MODE_VECTORED,
        };
        let (mut compiled, mut error) = (null_mut(), null_mut());
        // SAFETY: four lists of the same length, alive during the call. Each start has its length
        // in bytes. A null platform means this one, and both places for results are valid.
        let code = unsafe {
            (library.compile)(
                starts.as_ptr(),
                flags.as_ptr(),
                numbers.as_ptr(),
                lengths.as_ptr(),
                contents.len() as c_uint,
                mode,
                null(),
                &raw mut compiled,
                &raw mut error,
            )
        };
        if code != 0 {
            return Err(said(library, code, error));
        }
        let mut this = Self { library, compiled, scratch: null_mut() };
        // SAFETY: a database just created, and a valid place for its scratch.
        match unsafe { (library.allocate)(this.compiled, &raw mut this.scratch) } {
            0 => Ok(this),
            code => Err(format!("hs_alloc_scratch: error {code}")),
        }
    }

    /// Calls `each` with the number of each content found and the offset of its end.
    ///
    /// # Errors
    /// Errors of Hyperscan, for instance if the database is for [`Memory::Several`].
    #[inline]
    pub fn scan<F: FnMut(u32, u64)>(&mut self, bytes: &[u8], mut each: F) -> Result<(), String> {
        // SAFETY: bytes, scratch and `each` are borrowed during the call, and `on_match` gets the
        // `each` of its type.
        let code = unsafe {
            (self.library.scan)(
                self.compiled,
                bytes.as_ptr().cast(),
                bytes.len() as c_uint,
                0,
                self.scratch,
                Some(on_match::<F>),
                (&raw mut each).cast(),
            )
        };
        checked("hs_scan", code)
    }

    /// Like [`scan`](Self::scan), over several runs as if they were one.
    ///
    /// # Safety
    /// There are as many lengths as starts, and each start is valid for reads of its length.
    ///
    /// # Errors
    /// Errors of Hyperscan, for instance if the database is for [`Memory::One`].
    #[inline]
    pub unsafe fn scan_several<F: FnMut(u32, u64)>(
        &mut self,
        starts: &[*const u8],
        lengths: &[u32],
        mut each: F,
    ) -> Result<(), String> {
        // SAFETY: the caller's promise; the rest as in `scan`.
        let code = unsafe {
            (self.library.scan_vector)(
                self.compiled,
                starts.as_ptr().cast(),
                lengths.as_ptr(),
                lengths.len() as c_uint,
                0,
                self.scratch,
                Some(on_match::<F>),
                (&raw mut each).cast(),
            )
        };
        checked("hs_scan_vector", code)
    }
}

fn checked(function: &str, code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{function}: error {code}")) }
}

/// Returns the message of a failed compilation and frees it.
fn said(library: &Library, code: c_int, error: *mut CompileError) -> String {
    if error.is_null() {
        return format!("hs_compile_lit_multi: error {code}");
    }
    // SAFETY: after a failure there is an error with a text, until it is freed, which happens once.
    unsafe {
        let text = CStr::from_ptr((*error).message).to_string_lossy().into_owned();
        let expression = (*error).expression;
        (library.free_error)(error);
        match expression {
            0.. => format!("hs_compile_lit_multi: content {expression}: {text}"),
            _ => format!("hs_compile_lit_multi: {text}"), // of none of them
        }
    }
}

/// # Safety
/// `each` is an `F` that no other code uses during the call.
unsafe extern "C" fn on_match<F: FnMut(u32, u64)>(
    number: c_uint,
    _: c_ulonglong,
    end: c_ulonglong,
    _: c_uint,
    each: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let each = unsafe { &mut *each.cast::<F>() };
    each(number, end);
    0
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: both are owned by this database, or null, which either function accepts; no
        // references to them remain.
        unsafe {
            (self.library.free_scratch)(self.scratch);
            (self.library.free_database)(self.compiled);
        }
    }
}

#[cfg(test)]
mod tests {
    use burstline_skip::skip;

    use super::*;

    #[test]
    fn every_place_of_every_content_is_found_in_one_run_and_in_several() {
        if let Err(why) = version() {
            return skip(why);
        }
        let contents = [b"abc".to_vec(), b"bcd".to_vec(), vec![0, 255, 10]];
        let mut found = Vec::new();
        let mut database = Database::of(&contents, Memory::One).unwrap();
        let text = b"xabcd\0\xff\nabc";
        database.scan(text, |number, end| found.push((number, end))).unwrap();
        found.sort_unstable();
        assert_eq!(found, [(0, 4), (0, 11), (1, 5), (2, 8)]);

        let mut several = Vec::new();
        let mut database = Database::of(&contents, Memory::Several).unwrap();
        let (starts, lengths) = ([text.as_ptr(), text[3..].as_ptr()], [3, text.len() as u32 - 3]);
        // SAFETY: both runs are parts of the text.
        let scanned = unsafe {
            database.scan_several(&starts, &lengths, |number, end| several.push((number, end)))
        };
        scanned.unwrap();
        several.sort_unstable();
        assert_eq!(several, found);
        let refused = database.scan(text, |_, _| {});
        assert!(refused.unwrap_err().contains("hs_scan: error"));
    }

    #[test]
    fn an_empty_content_is_refused_with_its_number() {
        if let Err(why) = version() {
            return skip(why);
        }
        let refused = Database::of(&[b"abc".to_vec(), Vec::new()], Memory::One);
        assert!(refused.err().is_some_and(|why| why.contains("content 1 is empty")));
    }

    #[test]
    fn why_contents_are_refused_is_said_in_hyperscans_words() {
        if let Err(why) = version() {
            return skip(why);
        }
        let refused = Database::of(&[], Memory::One).err().unwrap();
        let text = refused.strip_prefix("hs_compile_lit_multi: ").unwrap();
        assert!(text.starts_with("Invalid parameter"), "{refused}");
    }
}
