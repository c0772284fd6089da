//! Resolves a source's name: a published log, a file, a set, an interface, or a full address.

use burstline_port::{Address, Role};
use burstline_share::published_sockets;

use crate::fault::Fault;

/// The scheme of published logs.
pub(crate) const LOG: &str = "log";

/// Resolves `source`. A word without a scheme is whatever exists by that name: an interface, a
/// file, or a published log. If it is both a log and something else, it is an error. If nothing
/// exists, it is a log that may be published later.
pub(crate) fn resolve(source: &str) -> Result<Address, Fault> {
    let address: Address = source.parse()?;
    if !address.is_bare() {
        return Ok(address);
    }
    let as_log = || format!("{LOG}:{source}").parse::<Address>();
    let is_published = published_sockets()
        .iter()
        .any(|path| path.file_name().is_some_and(|name| name == address.target()));
    match address.resolved(Role::Source) {
        Ok(other) if is_published => {
            let other = format!("{}:{}", other.scheme(), other.target());
            Err(Fault::Ambiguous { word: source.to_owned(), other })
        }
        Ok(resolved) => Ok(resolved),
        Err(error) if error.is_about_machine() => Ok(as_log()?),
        Err(error) => Err(error.into()),
    }
}
