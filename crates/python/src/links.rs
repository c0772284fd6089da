//! The link type and the name of each port.

use std::sync::Arc;

use burstline_log::Desc;
use burstline_wire::headers::LinkType;

/// The ports of one log whose packets have been seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links(Vec<Option<(LinkType, String)>>);

impl Links {
    /// Returns the link type of a port; Ethernet by default.
    pub(crate) fn link(&self, port: u8) -> LinkType {
        let known = self.0.get(usize::from(port)).and_then(Option::as_ref);
        known.map_or(LinkType::ETHERNET, |(link, _)| *link)
    }

    /// Returns the port's name, if it has one.
    pub(crate) fn name(&self, port: u8) -> Option<&str> {
        self.0.get(usize::from(port))?.as_ref().map(|(_, name)| name.as_str())
    }
}

/// Looks up each port of a worklist that is missing in `known`. Cost: a comparison per packet.
pub(crate) fn learn(
    known: &mut Arc<Links>,
    worklist: &[Desc],
    ask: impl Fn(u8) -> Option<(u32, String)>,
) -> Arc<Links> {
    let mut last = None;
    for desc in worklist {
        let port = desc.port();
        if last == Some(port) {
            continue;
        }
        last = Some(port);
        let is_known = known.0.get(usize::from(port)).is_some_and(Option::is_some);
        if !is_known && let Some((link, name)) = ask(port) {
            let own = Arc::make_mut(known);
            if own.0.len() <= usize::from(port) {
                own.0.resize(usize::from(port) + 1, None);
            }
            // A number outside libpcap's range becomes a link type that nothing here knows.
            let link = LinkType(u16::try_from(link).unwrap_or(u16::MAX));
            own.0[usize::from(port)] = Some((link, name));
        }
    }
    Arc::clone(known)
}
