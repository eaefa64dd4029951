//! One JSON object a line.

use serde::{Serialize, de::DeserializeOwned};

use crate::{Command, Event, Notice, Request};

/// Longest line that is read as a message; a longer one is kept as log text.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// A line that is no message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`MAX_LINE_BYTES`].
    #[error("a line of {bytes} bytes, more than {MAX_LINE_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A JSON object that is no known message.
    #[error("not a message of the protocol: {0}")]
    Message(#[from] serde_json::Error),
}

/// A line that an engine wrote.
#[derive(Clone, Debug, PartialEq)]
pub enum ParentLine {
    /// A message.
    Event(Box<Event>),
    /// Anything else: libraries write to stdout too, and nothing of it may be lost.
    Text(String),
}

/// The line for a message, newline included.
pub fn encode<T: Serialize>(message: &T) -> String {
    // The types of this crate hold no map with other than string keys, so they always serialise.
    let mut line = serde_json::to_string(message).unwrap_or_default();
    line.push('\n');
    line
}

/// Reads a line of an engine. Whatever is not a message is text; this never fails.
pub fn decode_event(line: &str) -> ParentLine {
    let line = line.trim_end_matches(['\n', '\r']);
    if line.starts_with('{')
        && line.len() <= MAX_LINE_BYTES
        && let Ok(event) = serde_json::from_str(line)
    {
        return ParentLine::Event(Box::new(event));
    }
    ParentLine::Text(line.to_owned())
}

/// Reads a line of the parent.
///
/// # Errors
/// [`FrameError`] when the line is no request.
pub fn decode_request(line: &str) -> Result<Request, FrameError> {
    decode(line)
}

/// Reads a line of a window.
///
/// # Errors
/// [`FrameError`] when the line is no command.
pub fn decode_command(line: &str) -> Result<Command, FrameError> {
    decode(line)
}

/// Reads a line of the service.
///
/// # Errors
/// [`FrameError`] when the line is no notice.
pub fn decode_notice(line: &str) -> Result<Notice, FrameError> {
    decode(line)
}

fn decode<T: DeserializeOwned>(line: &str) -> Result<T, FrameError> {
    if line.len() > MAX_LINE_BYTES {
        return Err(FrameError::TooLong { bytes: line.len() });
    }
    Ok(serde_json::from_str(line)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bye, CalibrateJob, Job, Level, Log, RunStatus, StopHow, Work};

    #[test]
    fn a_job_is_one_flat_object() {
        let request = Request::Job(Box::new(Job {
            run_dir: "/tmp/run".into(),
            resume_from: None,
            device: "cpu".into(),
            threads: Some(2),
            work: Work::Calibrate(CalibrateJob {
                budget_secs: 20.0,
                ..CalibrateJob::default()
            }),
        }));
        let line = encode(&request);
        assert_eq!(
            line,
            "{\"type\":\"job\",\"run_dir\":\"/tmp/run\",\"device\":\"cpu\",\"threads\":2,\"kind\":\"calibrate\",\"budget_secs\":20.0,\"bf16_in_hardware\":false}\n"
        );
        assert_eq!(decode_request(&line).unwrap(), request);
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let line = r#"{"type":"stop","how":"save","why":"later versions may say"}"#;
        assert_eq!(
            decode_request(line).unwrap(),
            Request::Stop { how: StopHow::Save }
        );
    }

    #[test]
    fn text_and_unknown_messages_are_kept_as_text() {
        for text in [
            "MIOpen(HIP): Warning",
            "{\"type\":\"novelty\"}",
            "{broken",
            "",
            "[1,2]",
        ] {
            assert_eq!(
                decode_event(&format!("{text}\r\n")),
                ParentLine::Text(text.to_owned())
            );
        }
        let bye = Event::Bye(Bye {
            status: RunStatus::Ok,
        });
        assert_eq!(decode_event(&encode(&bye)), ParentLine::Event(Box::new(bye)));
    }

    #[test]
    fn a_message_never_spans_lines() {
        let log = Event::Log(Log {
            level: Level::Info,
            text: "two\nlines".into(),
        });
        assert_eq!(encode(&log).matches('\n').count(), 1);
    }
}
