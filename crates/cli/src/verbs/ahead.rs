//! Checks a verb's arguments before the verb starts, for `burstline run`.

use super::output::output_options;
use super::{merge, resume, switch};
use crate::args::{NOTHING, Verb};
use crate::failure::Failure;
use crate::paths::address_of;

/// Returns the errors of the verb that can be found without opening a port.
pub(crate) fn check_ahead(verb: &Verb) -> Result<(), Failure> {
    match verb {
        Verb::Capture(args) => {
            if args.output.is_none() {
                address_of(args.write(), args.format)?;
            }
            if args.resume {
                resume::check(args)?;
            }
            output_options(&args.files, args.write(), &args.common).map(drop)
        }
        Verb::Merge(args) => {
            merge::sink_address(args)?;
            let path = args.write.as_deref().unwrap_or(NOTHING);
            output_options(&args.files, path, &args.common).map(drop)
        }
        Verb::Switch(args) => switch::check(args),
        _ => Ok(()),
    }
}
