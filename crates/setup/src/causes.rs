//! Why an installer failed, read from what it wrote: uv and pip have one exit status for every cause.

use crate::error::SetupError;
use crate::progress::Stage;

const DISK_FULL: &[&str] = &["no space left on device", "os error 28)", "disk quota exceeded"];

const NO_BUILD: &[&str] = &[
    "no solution found",
    "no matching distribution",
    "no wheels with a matching",
    "is not a supported wheel",
];

const NO_NETWORK: &[&str] = &[
    "error sending request",
    "dns error",
    "failed to lookup address",
    "temporary failure in name resolution",
    "name or service not known",
    "connection refused",
    "connection reset",
    "network is unreachable",
    "no route to host",
    "timed out",
    "tcp connect error",
    "newconnectionerror",
    "proxyerror",
    "failed to fetch",
    "connection error",
];

const DAMAGED: &[&str] = &[
    "hash mismatch",
    "do not match the hashes",
    "checksum",
    " crc",
    "failed to extract",
    "invalid zip",
    "bad zip",
    "unexpected end of file",
    "incomplete",
    "corrupt",
];

const NO_PYTHON: &[&str] = &["no interpreter found", "no virtual environment found"];

/// The error for an installer that ended with `status` after writing `lines` to its standard error.
///
/// The order matters: a full disk shows as a failed extraction, and pip without a network ends with "no
/// matching distribution".
pub(crate) fn error_from_output(stage: Stage, program: &str, status: &str, lines: &[String]) -> SetupError {
    let text = lines.join("\n").to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    if says(DISK_FULL) {
        let detail = last_line_with(lines, DISK_FULL);
        SetupError::DiskFull { stage, detail }
    } else if says(NO_PYTHON) {
        SetupError::PythonMissing {
            oldest: crate::python::OLDEST_MINOR,
            found: None,
        }
    } else if says(NO_NETWORK) {
        let detail = last_line_with(lines, NO_NETWORK);
        SetupError::NoNetwork { stage, detail }
    } else if says(NO_BUILD) {
        let detail = last_line_with(lines, NO_BUILD);
        SetupError::NoBuild { stage, detail }
    } else if says(DAMAGED) {
        let detail = last_line_with(lines, DAMAGED);
        SetupError::Damaged { stage, detail }
    } else {
        let from = lines.len().saturating_sub(20);
        SetupError::Tool {
            stage,
            program: program.to_owned(),
            status: status.to_owned(),
            detail: lines[from..].join("\n"),
        }
    }
}

/// The most specific line: installers go from the general to the cause.
fn last_line_with(lines: &[String], phrases: &[&str]) -> String {
    let line = lines
        .iter()
        .rev()
        .find(|line| {
            let line = line.to_lowercase();
            phrases.iter().any(|phrase| line.contains(phrase))
        })
        .map_or("", |line| line.trim());
    line.trim_start_matches("error: ")
        .trim_start_matches("cause: ")
        .trim_start_matches("Caused by: ")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> &'static str {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        error_from_output(Stage::Runtime, "uv", "exit status: 2", &lines).code()
    }

    #[test]
    fn each_cause_is_told_from_what_the_installers_write() {
        let cases = [
            (
                "error: Request failed after 3 retries in 5.4s\n  cause: Failed to fetch: https://index/simple/x/\n  \
                 cause: tcp connect error\n  cause: Connection refused (os error 111)",
                "no_network",
            ),
            (
                "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: Could not find a version \
                 that satisfies the requirement uv\nERROR: No matching distribution found for uv",
                "no_network",
            ),
            (
                "error: Failed to download `x`\n  cause: Failed to extract archive: x.whl\n  cause: failed to write to \
                 file `x`: No space left on device (os error 28)",
                "disk_full",
            ),
            (
                "error: Failed to download `x`\n  cause: Failed to extract archive: x.whl\n  cause: invalid deflate stream",
                "download_damaged",
            ),
            (
                "error: No solution found when resolving dependencies\n  cause: Because torch==2.11.0 has no wheels with \
                 a matching Python ABI tag",
                "no_build",
            ),
            ("error: No interpreter found for Python 3.99", "python_missing"),
            ("error: something new", "tool_failed"),
        ];
        for (text, code) in cases {
            assert_eq!(code_of(text), code, "{text}");
        }
    }

    #[test]
    fn the_sentence_names_the_last_cause() {
        let lines = [
            "error: Failed to fetch: https://index/x".to_owned(),
            "  cause: dns error".to_owned(),
        ];
        let error = error_from_output(Stage::Model, "uv", "exit status: 2", &lines);
        assert_eq!(
            error.to_string(),
            "the default model could not be downloaded: no connection to the package index (dns error)"
        );
        assert!(!error.hints().is_empty());
    }
}
