//! libpcap itself: its functions by name, and owned values for its handle and its program.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};

use super::{PcapError, RawInstruction};

/// Netmask of an unknown network. Source: `PCAP_NETMASK_UNKNOWN`, `pcap/pcap.h`.
const NETMASK_UNKNOWN: u32 = 0xffff_ffff;

/// libpcap's `pcap_t`.
#[repr(C)]
struct RawHandle {
    _private: [u8; 0],
}

/// Source: `struct bpf_program`, `pcap/bpf.h`.
#[repr(C)]
struct RawProgram {
    count: c_uint,
    instructions: *mut RawInstruction,
}

/// The functions of a loaded libpcap. Their types are those of `pcap/pcap.h` and `pcap/bpf.h`.
///
/// # Invariants
/// - L1. Each field points to the function of that name, in a library that stays loaded.
pub(super) struct Library {
    open_dead: unsafe extern "C" fn(c_int, c_int) -> *mut RawHandle,
    close: unsafe extern "C" fn(*mut RawHandle),
    error: unsafe extern "C" fn(*mut RawHandle) -> *mut c_char,
    compile:
        unsafe extern "C" fn(*mut RawHandle, *mut RawProgram, *const c_char, c_int, u32) -> c_int,
    free_code: unsafe extern "C" fn(*mut RawProgram),
    validate: unsafe extern "C" fn(*const RawInstruction, c_int) -> c_int,
    filter: unsafe extern "C" fn(*const RawInstruction, *const u8, c_uint, c_uint) -> c_uint,
    version: unsafe extern "C" fn() -> *const c_char,
}

impl Library {
    /// Loads the first available library of `names` (at least one).
    pub(super) fn load(names: &[&CStr]) -> Result<Self, PcapError> {
        let mut reason = String::new();
        for name in names {
            // SAFETY: `name` ends in NUL. Loading runs the library's initialisers; those of libpcap
            // and its dependencies only set up themselves, and may run in any thread.
            let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            match NonNull::new(library) {
                // SAFETY: it was just loaded and is never closed.
                Some(library) => return unsafe { Self::find_functions(library, name) },
                None => reason = loader_error(),
            }
        }
        Err(PcapError::NotInstalled { reason })
    }

    /// # Safety
    /// `library` comes from dlopen and stays loaded.
    unsafe fn find_functions(library: NonNull<c_void>, name: &CStr) -> Result<Self, PcapError> {
        // SAFETY: the library stays loaded. Since libpcap 0.8, each of these functions has had the
        // type of its field here.
        unsafe {
            Ok(Self {
                open_dead: find(library, name, c"pcap_open_dead")?,
                close: find(library, name, c"pcap_close")?,
                error: find(library, name, c"pcap_geterr")?,
                compile: find(library, name, c"pcap_compile")?,
                free_code: find(library, name, c"pcap_freecode")?,
                validate: find(library, name, c"bpf_validate")?,
                filter: find(library, name, c"bpf_filter")?,
                version: find(library, name, c"pcap_lib_version")?,
            })
        }
    }

    pub(super) fn version(&self) -> String {
        // SAFETY: L1; the text ends in NUL and lives as long as the library.
        unsafe { CStr::from_ptr((self.version)()) }.to_string_lossy().into_owned()
    }

    /// Opens a handle without a device; `None` if there is no memory for it.
    pub(super) fn open_dead(&mut self, data_link: i32, snapshot_bytes: u32) -> Option<Handle<'_>> {
        let snapshot_bytes = c_int::try_from(snapshot_bytes).unwrap_or(c_int::MAX);
        // SAFETY: L1; any two numbers are valid arguments.
        let raw = unsafe { (self.open_dead)(data_link, snapshot_bytes) };
        NonNull::new(raw).map(|raw| Handle { library: self, raw })
    }

    /// Returns the verdict of `bpf_filter`, or `None` if `bpf_validate` refuses the program.
    pub(super) fn filter(
        &mut self,
        program: &[RawInstruction],
        packet: &[u8],
        original_length: u32,
    ) -> Option<u32> {
        let length = u32::try_from(packet.len()).expect("a packet below 4 GiB");
        let count = c_int::try_from(program.len()).ok()?;
        // SAFETY: L1; `program` has `count` instructions, which are only read.
        let is_valid = unsafe { (self.validate)(program.as_ptr(), count) } != 0;
        // SAFETY: L1; libpcap has just verified that the program stays inside itself and the 16
        // words of memory; it checks loads against `length`, the length of `packet`.
        let verdict =
            || unsafe { (self.filter)(program.as_ptr(), packet.as_ptr(), original_length, length) };
        is_valid.then(verdict)
    }
}

/// An open handle, closed on drop.
///
/// # Invariants
/// - H1. `raw` was opened by `library` and is not closed yet.
pub(super) struct Handle<'a> {
    library: &'a mut Library,
    raw: NonNull<RawHandle>,
}

impl Handle<'_> {
    /// Compiles an expression, or returns libpcap's message.
    pub(super) fn compile(
        &self,
        expression: &CStr,
        optimise: bool,
    ) -> Result<Vec<RawInstruction>, String> {
        let mut program = RawProgram { count: 0, instructions: ptr::null_mut() };
        // SAFETY: L1, H1; `expression` ends in NUL, `program` is ours to be written; no other
        // thread is inside libpcap, because a handle borrows the library exclusively (`&mut`).
        let result = unsafe {
            (self.library.compile)(
                self.raw.as_ptr(),
                &raw mut program,
                expression.as_ptr(),
                c_int::from(optimise),
                NETMASK_UNKNOWN,
            )
        };
        if result != 0 {
            return Err(self.last_error());
        }
        let instructions = match program.instructions.is_null() {
            true => Vec::new(),
            // SAFETY: pcap_compile has succeeded, so `count` instructions are there until freed
            // below.
            false => unsafe {
                std::slice::from_raw_parts(program.instructions, program.count as usize).to_vec()
            },
        };
        // SAFETY: L1; the program was made by pcap_compile and is freed once.
        unsafe { (self.library.free_code)(&raw mut program) };
        Ok(instructions)
    }

    fn last_error(&self) -> String {
        // SAFETY: L1, H1; the text is stored in the handle and ends in NUL.
        let text = unsafe { CStr::from_ptr((self.library.error)(self.raw.as_ptr())) };
        text.to_string_lossy().into_owned()
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: L1, H1; the handle is not used afterwards.
        unsafe { (self.library.close)(self.raw.as_ptr()) };
    }
}

/// Looks a function up.
///
/// # Safety
/// `library` comes from dlopen and stays loaded; `F` is the type of a pointer to that function.
unsafe fn find<F: Copy>(
    library: NonNull<c_void>,
    library_name: &CStr,
    function: &'static CStr,
) -> Result<F, PcapError> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the library is loaded (the caller's duty); the name ends in NUL.
    let address = unsafe { libc::dlsym(library.as_ptr(), function.as_ptr()) };
    if address.is_null() {
        let library = library_name.to_string_lossy().into_owned();
        let function = function.to_str().unwrap_or_default();
        return Err(PcapError::Function { library, function });
    }
    // SAFETY: not NULL. `F` is as wide, by the assertion above, and is the type of this function,
    // by the caller's duty. POSIX requires that a data pointer from dlsym can represent a function
    // pointer.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
}

/// Returns the dynamic loader's message for the last failure in this thread.
fn loader_error() -> String {
    // SAFETY: dlerror returns NULL or a text that lives until this thread's next call of dl*.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: not NULL, ends in NUL, and copied before any further call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
