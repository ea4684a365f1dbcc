//! What the log looks like: KubeRay's JSON lines (`level`, `ts`, `logger`, `msg`, then fields), or text for people.

use std::fmt;
use std::path::{Path, PathBuf};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};
use thiserror::Error;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::rotate::RotatingFile;
use crate::config::{LogConfig, LogEncoder};

/// The client library reports each failed request as an error of its own, retried ones too; we report what comes of it.
const QUIET: &str = "kube_client::client::builder=off";
/// Size of the log file before it is rotated, and how many old ones are kept (KubeRay's numbers).
const FILE_BYTES: u64 = 500 * 1024 * 1024;
const FILES_KEPT: usize = 10;

/// Why there is no log.
#[derive(Debug, Error)]
pub enum LogError {
    #[error(
        "--log-level: {filter:?} is not a filter: {problem}. Write a level (debug, info, warn, error) or RUST_LOG's form, as in info,ray_operator=debug"
    )]
    Filter { filter: String, problem: String },
    #[error("--log-file-path: cannot write {path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("logging was set up before: {0}")]
    Twice(#[from] TryInitError),
}

/// Sends the log where the configuration says. Once in a process.
pub fn start(config: &LogConfig) -> Result<(), LogError> {
    let from_env = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let wanted = config.filter.clone().or(from_env).unwrap_or_else(|| "info".to_string());
    let filter = filter(&wanted)?;
    let stdout = tracing_subscriber::fmt::layer()
        .event_format(Lines(config.stdout))
        .fmt_fields(JsonFields::new())
        .with_ansi(false)
        .with_filter(filter);
    let file = config.file.as_deref().map(open).transpose()?.map(|file| {
        tracing_subscriber::fmt::layer()
            .event_format(Lines(config.file_encoder))
            .fmt_fields(JsonFields::new())
            .with_ansi(false)
            .with_writer(file)
            .with_filter(LevelFilter::INFO)
    });
    tracing_subscriber::registry().with(stdout).with(file).try_init()?;
    Ok(())
}

fn filter(wanted: &str) -> Result<EnvFilter, LogError> {
    let fail = |problem: String| LogError::Filter { filter: wanted.to_string(), problem };
    // What the user asks for comes last, and so wins.
    EnvFilter::builder().parse(format!("{QUIET},{wanted}")).map_err(|error| fail(error.to_string()))
}

fn open(path: &Path) -> Result<std::sync::Mutex<RotatingFile>, LogError> {
    RotatingFile::open(path, FILE_BYTES, FILES_KEPT)
        .map(std::sync::Mutex::new)
        .map_err(|source| LogError::File { path: path.to_path_buf(), source })
}

/// Writes one event as one line.
struct Lines(LogEncoder);

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        for span in ctx.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            // Spans were formatted as JSON objects when they were made.
            if let Some(text) = span.extensions().get::<FormattedFields<N>>()
                && let Ok(Value::Object(map)) = serde_json::from_str(&text.fields)
            {
                fields.map.extend(map);
            }
        }
        event.record(&mut fields);
        let meta = event.metadata();
        let level = level(*meta.level());
        let ts = timestamp(Timestamp::now());
        let logger = logger(meta.target());
        match self.0 {
            LogEncoder::Json => {
                let mut line = Map::new();
                // serde_json sorts or keeps keys as other crates choose: the fixed ones are written first, by hand.
                for (key, value) in [("level", level), ("ts", &ts), ("logger", &logger), ("msg", &fields.message)] {
                    out.write_char(if key == "level" { '{' } else { ',' })?;
                    write!(out, "\"{key}\":{}", Value::from(value))?;
                }
                for (key, value) in fields.map {
                    let key =
                        if matches!(key.as_str(), "level" | "ts" | "logger" | "msg") { format!("{key}_") } else { key };
                    line.insert(key, value);
                }
                for (key, value) in line {
                    write!(out, ",{}:{value}", Value::from(key))?;
                }
                out.write_str("}\n")
            }
            LogEncoder::Console => {
                write!(out, "{ts}\t{}\t{logger}\t{}", level.to_uppercase(), fields.message)?;
                if !fields.map.is_empty() {
                    write!(out, "\t{}", Value::Object(fields.map))?;
                }
                out.write_char('\n')
            }
        }
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    map: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => {
                self.map.insert(name.to_string(), value);
            }
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// `ray_operator::run::leader` is logger `run.leader`; a target like `controllers.RayCluster` is left as it is.
fn logger(target: &str) -> String {
    target.strip_prefix("ray_operator::").unwrap_or(target).replace("::", ".")
}

/// ISO 8601 with milliseconds, in UTC, as zap writes it.
fn timestamp(now: Timestamp) -> String {
    format!("{now:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(encoder: LogEncoder, filtered: &str, work: impl FnOnce()) -> String {
        let memory = Memory::default();
        let writer = memory.clone();
        let layer = tracing_subscriber::fmt::layer()
            .event_format(Lines(encoder))
            .fmt_fields(JsonFields::new())
            .with_writer(move || writer.clone())
            .with_filter(filter(filtered).unwrap());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
        String::from_utf8(memory.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn json_lines_have_kuberays_keys() {
        let text = logged(LogEncoder::Json, "info", || {
            let span = tracing::info_span!("pass", reconcileID = "r-1", RayCluster = "ns/a");
            let _in = span.enter();
            tracing::info!(target: "controllers.RayCluster", pods = 3, level = "x", quote = "a\"b", "made \"pods\"");
            tracing::debug!("not shown");
        });
        let line: Value = serde_json::from_str(text.trim_end()).unwrap();
        assert!(text.starts_with("{\"level\":\"info\",\"ts\":\"20"), "{text}");
        assert_eq!(line["logger"], "controllers.RayCluster");
        assert_eq!(line["msg"], "made \"pods\"");
        assert_eq!(
            (&line["pods"], &line["reconcileID"], &line["RayCluster"]),
            (&3.into(), &"r-1".into(), &"ns/a".into())
        );
        assert_eq!((&line["level_"], &line["quote"]), (&"x".into(), &"a\"b".into()));
    }

    #[test]
    fn console_lines() {
        let text = logged(LogEncoder::Console, "warn,ray_operator=debug", || {
            tracing::debug!(n = 1, "here");
            tracing::info!(target: "kube_client::client", "not shown");
        });
        assert!(text.ends_with("\tDEBUG\trun.logs.tests\there\t{\"n\":1}\n"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn the_clients_own_errors_are_quiet_unless_asked_for() {
        let shout = || tracing::error!(target: "kube_client::client::builder", "failed with status 503");
        assert_eq!(logged(LogEncoder::Json, "debug", shout), "");
        assert_ne!(logged(LogEncoder::Json, "info,kube_client::client::builder=error", shout), "");
    }

    #[test]
    fn times_and_filters() {
        let at = Timestamp::from_millisecond(1_700_000_000_000).unwrap();
        assert_eq!(timestamp(at), "2023-11-14T22:13:20.000Z");
        assert!(filter("a=b=c").unwrap_err().to_string().contains("Write a level"));
    }
}
