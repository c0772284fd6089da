//! Converts options from C, of this or another version, to the configuration of the crates below.

use std::mem::size_of;
use std::ptr;

use burstline_log::{MAX_WINDOW, Policy, Start};
use burstline_share::{AttachConfig, Trust};

use crate::border::Fault;
use crate::types::{
    ALL_LOGS, FOLLOW, FROM_NOW, FROM_OLDEST, LOSSLESS, LOSSY, NO_FOLLOW, Options, TRUST_ANYBODY,
    TRUST_NOBODY, TRUST_OWN_USER, VERDICTS,
};

/// Maximum size of any version of the options, in bytes; a larger `size` is an error.
const SIZE_MAX: u32 = 4096;

/// The configuration of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) attach: AttachConfig,
    /// Whether to continue with the next writer.
    pub(crate) is_following: bool,
}

/// Reads options of any size. Fields unknown to an older program are 0. Fields that only a newer
/// program knows must be 0.
///
/// # Safety
/// `options` points to as many bytes as its first field says; it is not null, and aligned.
pub(crate) unsafe fn read(options: *const Options) -> Result<Options, Fault> {
    // SAFETY: the caller's promise; every version starts with the size.
    let size = unsafe { ptr::addr_of!((*options).size).read() };
    let ours = size_of::<Options>();
    if !(ours as u32..=SIZE_MAX).contains(&size) {
        return Err(Fault::argument(format!(
            "options.size is {size}, and there is no struct burstline_options of that size: \
             start from BURSTLINE_OPTIONS_INIT"
        )));
    }
    let bytes = options.cast::<u8>();
    // SAFETY: `ours..size` is inside what the caller promises.
    let is_newer = (ours..size as usize).any(|at| unsafe { bytes.add(at).read() } != 0);
    if is_newer {
        return Err(Fault::argument(format!(
            "options.size is {size}, but this library knows only {ours} bytes of it, and the rest \
             is not 0: this program needs a newer libburstline"
        )));
    }
    // SAFETY: at least as large as ours, as just checked.
    Ok(unsafe { options.read() })
}

impl Wishes {
    /// Checks each field.
    pub(crate) fn of(options: &Options) -> Result<Self, Fault> {
        let Options { size: _, window, policy, start, trust, restarts, log, verdicts } = *options;
        let window = (window as usize).max(1);
        if window > MAX_WINDOW {
            return Err(Fault::argument(format!(
                "options.window is {window}: it must be from 1 to {MAX_WINDOW}"
            )));
        }
        let unknown = |field, value| {
            Fault::argument(format!(
                "options.{field} is {value}, which is not one of its constants"
            ))
        };
        let policy = match policy {
            LOSSY => Policy::Lossy,
            LOSSLESS => Policy::Lossless,
            _ => return Err(unknown("policy", policy)),
        };
        let start = match start {
            FROM_NOW => Start::Now,
            FROM_OLDEST => Start::Oldest,
            _ => return Err(unknown("start", start)),
        };
        // SAFETY: by requesting one of the two, the program vouches for its publishers, as these
        // constants in the header and docs/c-interface.md state.
        let (own_user, anyone) = unsafe { (Trust::own_user(), Trust::anyone()) };
        let trust = match trust {
            TRUST_OWN_USER => own_user,
            TRUST_NOBODY => Trust::NOBODY,
            TRUST_ANYBODY => anyone,
            _ => return Err(unknown("trust", trust)),
        };
        let is_following = match restarts {
            FOLLOW => true,
            NO_FOLLOW => false,
            _ => return Err(unknown("restarts", restarts)),
        };
        let gives_verdicts = match verdicts {
            0 => false,
            VERDICTS => true,
            _ => return Err(unknown("verdicts", verdicts)),
        };
        let log = (log != ALL_LOGS).then_some(log);
        let attach = AttachConfig { policy, window, start, log, trust, gives_verdicts };
        Ok(Self { attach, is_following })
    }
}

impl Default for Options {
    /// The values of `BURSTLINE_OPTIONS_INIT`.
    fn default() -> Self {
        Self {
            size: size_of::<Self>() as u32,
            window: 1,
            policy: LOSSY,
            start: FROM_NOW,
            trust: TRUST_NOBODY,
            restarts: FOLLOW,
            log: ALL_LOGS,
            verdicts: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Newer {
        known: Options,
        unknown: u32,
    }

    fn read_newer(size: u32, unknown: u32) -> Result<Options, Fault> {
        let newer = Newer { known: Options { size, ..Options::default() }, unknown };
        // SAFETY: it has 36 bytes, and larger sizes are rejected before they are read.
        unsafe { read(ptr::addr_of!(newer).cast()) }
    }

    #[test]
    fn options_of_other_versions() {
        assert_eq!(read_newer(32, 1).unwrap(), Options::default(), "ours: the rest is not ours");
        assert_eq!(read_newer(36, 0).unwrap().log, ALL_LOGS, "newer, but asks for nothing new");
        let fault = read_newer(36, 1).unwrap_err();
        assert!(fault.text.ends_with("this program needs a newer libburstline"), "{}", fault.text);
        for size in [0, 31, 4097, u32::MAX] {
            let fault = read_newer(size, 0).unwrap_err();
            assert!(fault.text.contains(&format!("options.size is {size},")), "{}", fault.text);
        }
    }

    #[test]
    fn every_field_is_checked() {
        let fine = Options::default();
        assert_eq!(Wishes::of(&fine).unwrap().attach, AttachConfig::default());
        assert_eq!(Wishes::of(&Options { window: 0, ..fine }), Wishes::of(&fine));
        for (wrong, field) in [
            (Options { window: 9, ..fine }, "window is 9"),
            (Options { policy: 2, ..fine }, "policy is 2"),
            (Options { start: 2, ..fine }, "start is 2"),
            (Options { trust: 3, ..fine }, "trust is 3"),
            (Options { restarts: 2, ..fine }, "restarts is 2"),
            (Options { verdicts: 2, ..fine }, "verdicts is 2"),
        ] {
            let fault = Wishes::of(&wrong).unwrap_err();
            assert!(fault.text.contains(field), "{}", fault.text);
        }
    }
}
