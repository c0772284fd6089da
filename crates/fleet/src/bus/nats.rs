//! The NATS JetStream client, based on the client by the NATS project.
//!
//! The client is asynchronous. Its tasks run only on this thread, while it waits here: no more
//! threads. A message without an acknowledgement is sent again under the same `Nats-Msg-Id`. The
//! server drops a duplicate within the stream's window (2 minutes by default). After that a reader
//! drops it by the same name.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{
    Context, ContextBuilder, CreateStreamError, CreateStreamErrorKind, PublishError,
    PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, ErrorCode, stream};
use async_nats::{Client, ClientError, ConnectOptions, Event, ServerAddr};
use burstline_flow::Origin;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::{self, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{
    ABSENT, Bus, BusAddress, BusError, FULL, Message, PLACE, REFUSED, SLOW, Trouble, Verdict,
};

/// Timeout of an acknowledgement.
const ACKNOWLEDGED: Duration = Duration::from_secs(5);
/// Timeout of a connection, and interval of pings on a silent one.
const CONNECTED: Duration = Duration::from_secs(2);
/// Delay between connection attempts.
const RETRY: Duration = Duration::from_millis(500);

type Waiting = Pin<Box<dyn Future<Output = (u64, Result<(), PublishError>)> + Send>>;

pub(super) struct Nats {
    runtime: Runtime,
    client: Client,
    context: Context,
    subject: String,
    stream: stream::Config,
    /// Whether the stream is known to exist, and the task that checks.
    has_stream: bool,
    look: Option<JoinHandle<Result<(), String>>>,
    /// Why it does not exist, as far as known.
    no_stream: String,
    /// The server's last message before it accepts the connection.
    said: Arc<Mutex<Option<String>>>,
    waiting: FuturesUnordered<Waiting>,
}

impl Nats {
    /// Starts to connect without waiting.
    pub(super) fn new(address: &BusAddress, origin: &Origin) -> Result<Self, BusError> {
        let failed = |error| BusError::Client { kind: "nats", error };
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let servers: Result<Vec<ServerAddr>, io::Error> =
            address.servers.iter().map(|server| server.parse()).collect();
        let said = Arc::new(Mutex::new(None));
        let hears = Arc::clone(&said);
        let hear = move |event| {
            heard(&hears, &event);
            std::future::ready(())
        };
        let options = ConnectOptions::new()
            .event_callback(hear)
            .name(format!("burstline {}", origin.sensor.as_str()))
            .retry_on_initial_connect()
            // Landlock allows this thread to connect to the named ports only.
            .ignore_discovered_servers()
            .connection_timeout(CONNECTED)
            .ping_interval(CONNECTED)
            .reconnect_delay_callback(|_| RETRY);
        let connecting = options.connect(servers.map_err(failed)?);
        let client =
            runtime.block_on(connecting).map_err(|error| failed(io::Error::other(error)))?;
        let context = {
            // The context spawns a task.
            let _inside = runtime.enter();
            ContextBuilder::new().timeout(ACKNOWLEDGED).build(client.clone())
        };
        // A dot would start another token of the subject.
        let sensor = origin.sensor.as_str().replace('.', "_");
        let stream = stream::Config {
            name: address.stream.clone(),
            subjects: vec![format!("{}.>", address.topic)],
            ..stream::Config::default()
        };
        Ok(Self {
            runtime,
            client,
            context,
            subject: format!("{}.{sensor}", address.topic),
            no_stream: format!("no stream {} yet", stream.name),
            stream,
            has_stream: false,
            look: None,
            said,
            waiting: FuturesUnordered::new(),
        })
    }

    /// Spawns a task that looks up the stream, and creates it if it does not exist.
    fn look_for_stream(&mut self) {
        match self.look.take_if(|look| look.is_finished()) {
            Some(look) => match self.runtime.block_on(look) {
                Ok(Ok(())) => self.has_stream = true,
                Ok(Err(why)) => self.no_stream = why,
                // A failed task has not found the stream.
                Err(_) => {}
            },
            None if self.look.is_some() => {}
            None => {
                let (context, config) = (self.context.clone(), self.stream.clone());
                let look = async move {
                    let name = config.name.clone();
                    let found = context.get_or_create_stream(config).await;
                    found.map(drop).map_err(|error| no_stream(&name, &error))
                };
                self.look = Some(self.runtime.spawn(look));
            }
        }
    }
}

/// Notes events that explain why the server rejects the connection.
fn heard(said: &Mutex<Option<String>>, event: &Event) {
    let what = match event {
        Event::Connected => None,
        Event::ClientError(ClientError::Other(text)) if text.starts_with("auth") => {
            Some("the server refused the credentials: burstline sends none".to_owned())
        }
        Event::ServerError(error) => Some(format!("the server says: {error}")),
        _ => return,
    };
    *said.lock().unwrap_or_else(PoisonError::into_inner) = what;
}

fn no_stream(name: &str, error: &CreateStreamError) -> String {
    use CreateStreamErrorKind::{JetStream, JetStreamUnavailable};
    let code = match error.kind() {
        JetStreamUnavailable => Some(ErrorCode::JETSTREAM_NOT_ENABLED),
        JetStream(error) => Some(error.error_code()),
        _ => None,
    };
    match code {
        Some(ErrorCode::JETSTREAM_NOT_ENABLED) => {
            "JetStream is not enabled on that server: start it with -js".to_owned()
        }
        Some(ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT) => {
            "JetStream is not enabled for that account".to_owned()
        }
        _ => format!("no stream {name}: {error}"),
    }
}

fn trouble(error: &PublishError) -> Trouble {
    let answer =
        std::error::Error::source(error).and_then(|e| e.downcast_ref::<jetstream::Error>());
    let code = answer.map(jetstream::Error::error_code);
    let name = match (error.kind(), code) {
        (PublishErrorKind::MaxPayloadExceeded, _)
        | (_, Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM)) => REFUSED,
        (PublishErrorKind::StreamNotFound | PublishErrorKind::BrokenPipe, _) => ABSENT,
        // "maximum bytes exceeded", "maximum messages exceeded", a full disk
        (
            _,
            Some(
                ErrorCode::STREAM_STORE_FAILED
                | ErrorCode::STORAGE_RESOURCES_EXCEEDED
                | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
                | ErrorCode::INSUFFICIENT_RESOURCES
                | ErrorCode::MEMORY_RESOURCES_EXCEEDED,
            ),
        ) => FULL,
        _ => SLOW,
    };
    Trouble { name, error: error.to_string() }
}

impl Bus for Nats {
    fn submit(&mut self, ticket: u64, message: &Message) -> Result<(), Trouble> {
        if !self.has_stream && self.client.connection_state() == State::Connected {
            self.look_for_stream();
        }
        if let Some(trouble) = self.trouble() {
            return Err(trouble);
        }
        let publish = PublishMessage::build()
            .payload(message.bytes.clone())
            .header(PLACE, &message.place[..])
            .message_id(&message.id);
        let sent = self.context.send_publish(self.subject.clone(), publish);
        let sent = self.runtime.block_on(sent).map_err(|error| trouble(&error))?;
        self.waiting.push(Box::pin(async move { (ticket, sent.await.map(drop)) }));
        Ok(())
    }

    fn settle(&mut self, patience: Duration) -> Vec<Verdict> {
        let waiting = &mut self.waiting;
        let settled = self.runtime.block_on(async {
            let mut settled = Vec::new();
            // Let the client's own tasks run in any case.
            tokio::task::yield_now().await;
            if waiting.is_empty() {
                tokio::time::sleep(patience).await;
                return settled;
            }
            let Ok(Some(first)) = timeout(patience, waiting.next()).await else { return settled };
            settled.push(first);
            while let Ok(Some(next)) = timeout(Duration::ZERO, waiting.next()).await {
                settled.push(next);
            }
            settled
        });
        let is_gone = |error: &PublishError| error.kind() == PublishErrorKind::StreamNotFound;
        let gone = settled.iter().any(|(_, outcome)| outcome.as_ref().is_err_and(is_gone));
        self.has_stream &= !gone;
        let verdict = |(ticket, outcome): (u64, Result<(), PublishError>)| {
            (ticket, outcome.map_err(|error| trouble(&error)))
        };
        settled.into_iter().map(verdict).collect()
    }

    fn trouble(&self) -> Option<Trouble> {
        let said = || self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let error = match self.client.connection_state() {
            State::Connected if self.has_stream => return None,
            State::Connected => said().unwrap_or_else(|| self.no_stream.clone()),
            State::Pending | State::Disconnected => {
                said().unwrap_or_else(|| "no connection".to_owned())
            }
        };
        Some(Trouble { name: ABSENT, error })
    }
}
