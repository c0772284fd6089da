//! The Kafka client, based on librdkafka.
//!
//! The producer is idempotent: within one start the library retries a message until it is
//! acknowledged, and the broker drops duplicates. The library never gives up (no timeout), so an
//! outage costs only time. If the broker has lost acknowledged messages, the producer has to give
//! up. Then a new producer sends the remaining messages, and a reader drops duplicates by name.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use burstline_flow::Origin;
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext, PurgeConfig};

use super::{
    ABSENT, Bus, BusAddress, BusError, FULL, ID, Message, PLACE, REFUSED, SLOW, Trouble, Verdict,
};

/// Results of the library's callbacks.
#[derive(Default)]
struct Heard {
    verdicts: Vec<Verdict>,
    /// Set if no broker answers.
    absent: Option<String>,
}

#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Heard>>);

impl Ear {
    fn hear<T>(&self, work: impl FnOnce(&mut Heard) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientContext for Ear {
    /// Important events arrive as errors or verdicts.
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        if code == Some(RDKafkaErrorCode::AllBrokersDown) {
            self.hear(|heard| heard.absent = Some(reason.to_owned()));
        }
    }
}

impl ProducerContext for Ear {
    /// The ticket.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: usize) {
        let outcome = result.as_ref().map(|_| ()).map_err(|(error, _)| trouble(error));
        self.hear(|heard| {
            if outcome.is_ok() {
                heard.absent = None;
            }
            heard.verdicts.push((ticket as u64, outcome));
        });
    }
}

pub(super) struct Kafka {
    config: ClientConfig,
    producer: BaseProducer<Ear>,
    ear: Ear,
    topic: String,
    sensor: String,
}

impl Kafka {
    /// Starts to connect without waiting.
    pub(super) fn new(address: &BusAddress, origin: &Origin) -> Result<Self, BusError> {
        let sensor = origin.sensor.as_str().to_owned();
        let (servers, client) = (address.servers.join(","), format!("burstline-{sensor}"));
        let mut config = ClientConfig::new();
        for (key, value) in [
            ("bootstrap.servers", &servers[..]),
            ("client.id", &client),
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("message.timeout.ms", "0"),
            // A batch is one compressed message: there are few to wait for.
            ("linger.ms", "5"),
            ("compression.codec", "none"),
            // A silent broker is dropped after this time.
            ("socket.timeout.ms", "10000"),
            ("request.timeout.ms", "10000"),
            ("reconnect.backoff.max.ms", "1000"),
            // For a topic that does not exist yet.
            ("topic.metadata.propagation.max.ms", "5000"),
        ] {
            config.set(key, value);
        }
        let ear = Ear::default();
        let producer = config.create_with_context(ear.clone()).map_err(|error| {
            let error = io::Error::other(error);
            BusError::Client { kind: "kafka", error }
        })?;
        Ok(Self { config, producer, ear, topic: address.topic.clone(), sensor })
    }

    /// Replaces a producer that has failed: it hands everything back.
    fn replace(&mut self) {
        self.producer.purge(PurgeConfig::default().queue().inflight());
        self.producer.poll(Duration::from_millis(100));
        // The settings were valid before.
        if let Ok(producer) = self.config.create_with_context(self.ear.clone()) {
            self.producer = producer;
        }
    }
}

fn trouble(error: &KafkaError) -> Trouble {
    use RDKafkaErrorCode as Code;
    let name = match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::InvalidMessage) => {
            REFUSED
        }
        Some(Code::KafkaStorageError | Code::PolicyViolation) => FULL,
        Some(
            Code::AllBrokersDown
            | Code::BrokerTransportFailure
            | Code::UnknownTopic
            | Code::UnknownTopicOrPartition
            | Code::LeaderNotAvailable
            | Code::NotEnoughReplicas,
        ) => ABSENT,
        _ => SLOW,
    };
    Trouble { name, error: error.to_string() }
}

impl Bus for Kafka {
    fn submit(&mut self, ticket: u64, message: &Message) -> Result<(), Trouble> {
        let id = Header { key: ID, value: Some(&message.id) };
        let place = Header { key: PLACE, value: Some(&message.place) };
        let record = BaseRecord::with_opaque_to(&self.topic, ticket as usize)
            .key(&self.sensor)
            .payload(&message.bytes[..])
            .headers(OwnedHeaders::new().insert(id).insert(place));
        self.producer.send(record).map_err(|(error, _)| trouble(&error))
    }

    fn settle(&mut self, patience: Duration) -> Vec<Verdict> {
        self.producer.poll(patience);
        if self.producer.client().fatal_error().is_some() {
            self.replace();
        }
        self.ear.hear(|heard| std::mem::take(&mut heard.verdicts))
    }

    fn trouble(&self) -> Option<Trouble> {
        let absent = self.ear.hear(|heard| heard.absent.clone());
        absent.map(|error| Trouble { name: ABSENT, error })
    }
}
