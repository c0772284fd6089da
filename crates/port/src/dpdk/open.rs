//! Opens the ports of a device.

use std::sync::Arc;

use burstline_dpdk::{Device, DeviceRequest};

use super::settings::{self, Settings};
use super::sink::DpdkSink;
use super::source::DpdkSource;
use crate::{Address, OpenOptions, OpenedSources, PortError, Sink, Source};

/// Opens a port for each queue that the address requests.
pub(crate) fn open_sources(address: &Address, options: &OpenOptions) -> OpenedSources {
    let (settings, device) = open(address)?;
    let mut ports: Vec<Box<dyn Source>> = Vec::new();
    for queue in 0..settings.device.queues {
        ports.push(Box::new(DpdkSource::new(address, &settings, &device, queue, options)?));
    }
    Ok(ports)
}

/// Opens a device for sending.
pub(crate) fn open_sink(address: &Address, _: &OpenOptions) -> Result<Box<dyn Sink>, PortError> {
    let (settings, device) = open(address)?;
    Ok(Box::new(DpdkSink::new(address, &settings, &device)?))
}

fn open(address: &Address) -> Result<(Settings, Arc<Device>), PortError> {
    let settings = settings::parse(address)?;
    let device = Device::open(&settings.device, &settings.eal)?;
    Ok((settings, device))
}

/// Opens both ends of a crossing, which share a receive pool if they are similar.
pub(super) fn open_both(ends: [&Address; 2]) -> Result<[(Settings, Arc<Device>); 2], PortError> {
    let [first, second] = [settings::parse(ends[0])?, settings::parse(ends[1])?];
    let one = DeviceRequest { options: &first.device, eal: &first.eal };
    let other = DeviceRequest { options: &second.device, eal: &second.eal };
    let [device, beside] = Device::open_both(&one, &other)?;
    Ok([(first, device), (second, beside)])
}
