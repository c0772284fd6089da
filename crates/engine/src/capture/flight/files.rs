//! The files of a flight recorder, one after another, as one sink with one account.

use burstline_log::Burst;
use burstline_port::{
    Capabilities, InterfaceTotals, LostPackets, Port, PortAccount, PortError, PortInfo, Sink,
    TimestampSource,
};

/// Opens the next file, and returns its name.
pub(super) type Open<'a> = &'a mut (dyn FnMut() -> Result<NamedFile, PortError> + Send);

/// A file to write, and its display name.
pub(super) type NamedFile = (String, Box<dyn Sink>);

/// A sink that starts a new file after each [`finish`](burstline_port::Port::finish).
pub(super) struct Files<'a> {
    open: Open<'a>,
    info: PortInfo,
    current: Option<Box<dyn Sink>>,
    /// Sum of the accounts of the files before the current one.
    finished: PortAccount,
    lost: LostPackets,
}

impl<'a> Files<'a> {
    pub(super) fn new(open: Open<'a>) -> Self {
        let (name, timestamps) = ("files".to_owned(), TimestampSource::File);
        let capabilities = Capabilities::default();
        let info = PortInfo { name, capabilities, timestamps };
        Self {
            open,
            info,
            current: None,
            finished: PortAccount::default(),
            lost: LostPackets::default(),
        }
    }

    /// Opens a file and returns its name.
    pub(super) fn begin(&mut self) -> Result<String, PortError> {
        let (name, file) = (self.open)()?;
        self.current = Some(file);
        Ok(name)
    }
}

impl Port for Files<'_> {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Finishes the current file, if there is one; its counts are kept.
    fn finish(&mut self) -> Result<(), PortError> {
        let Some(mut file) = self.current.take() else { return Ok(()) };
        let outcome = file.finish();
        self.finished.add(file.account());
        self.lost.merge(&file.lost());
        outcome
    }

    fn account(&self) -> PortAccount {
        let mut account = self.finished.clone();
        if let Some(file) = &self.current {
            account.add(file.account());
        }
        account
    }
}

impl Sink for Files<'_> {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        match &mut self.current {
            Some(file) => file.transmit(burst),
            None => Err(PortError::CannotTransmit { port: self.info.name.clone() }),
        }
    }

    fn lost(&self) -> LostPackets {
        let mut lost = self.lost.clone();
        if let Some(file) = &self.current {
            lost.merge(&file.lost());
        }
        lost
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.current.as_mut().map_or(Ok(()), |file| file.flush())
    }

    fn flush_when_due(&mut self) -> Result<bool, PortError> {
        self.current.as_mut().map_or(Ok(true), |file| file.flush_when_due())
    }

    fn tell_gap(&mut self, port: u8, packets: u64) {
        self.current.iter_mut().for_each(|file| file.tell_gap(port, packets));
    }

    fn tell_overrun(&mut self, port: u8, packets: u64) {
        self.current.iter_mut().for_each(|file| file.tell_overrun(port, packets));
    }

    fn set_totals(&mut self, totals: &[InterfaceTotals]) {
        self.current.iter_mut().for_each(|file| file.set_totals(totals));
    }
}
