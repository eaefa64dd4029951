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
    "invalid package format",
    "invalid metadata format",
    "failed to read from zip file",
    "error decoding response body",
];

const NO_PYTHON: &[&str] = &["no interpreter found", "no virtual environment"];

/// uv's explanations of a resolution without a result begin like this.
const UNSOLVED: &str = "no solution found";

const UNKNOWN_PACKAGE: &[&str] = &[
    "was not found in the package registry",
    "was not found in the provided package locations",
    "there is no version of",
    "there are no versions of",
    "is available and you require",
    "are available and you require",
];

const CLASH: &[&str] = &[
    "are incompatible",
    "is incompatible with",
    "conflicting dependencies",
];

const REFUSED: &[&str] = &[
    "401 unauthorized",
    "403 forbidden",
    "407 proxy authentication",
    "429 too many requests",
    "http status server error",
    "http status client error",
];

/// The error for an installer that ended with `status` after writing `lines` to its standard error.
///
/// The order matters: a full disk shows as a failed extraction, pip without a network ends with "no matching
/// distribution", and a damaged wheel leaves a resolution without a result.
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
    } else if says(REFUSED) {
        let detail = last_line_with(lines, REFUSED);
        SetupError::IndexRefused { stage, detail }
    } else if says(NO_NETWORK) {
        let detail = last_line_with(lines, NO_NETWORK);
        SetupError::NoNetwork { stage, detail }
    } else if text.contains(UNSOLVED) && says(DAMAGED) {
        let detail = explanation(lines);
        SetupError::Damaged { stage, detail }
    } else if text.contains(UNSOLVED) && says(UNKNOWN_PACKAGE) {
        let detail = explanation(lines);
        SetupError::PackageUnknown { stage, detail }
    } else if text.contains(UNSOLVED) && says(CLASH) {
        let detail = explanation(lines);
        SetupError::PackagesClash { stage, detail }
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

/// uv's whole explanation of why there is no result, in one line: each of its lines depends on the one before.
fn explanation(lines: &[String]) -> String {
    let from = lines
        .iter()
        .position(|line| line.contains("Because "))
        .unwrap_or_default();
    let words: Vec<_> = lines[from..]
        .iter()
        .take_while(|line| !line.trim().is_empty())
        .flat_map(|line| line.split_whitespace())
        .collect();
    let text = words.join(" ");
    let text = text.split_once("Because ").map_or(&*text, |(_, rest)| rest);
    text.split(", we can conclude that your requirements")
        .next()
        .unwrap_or(text)
        .trim_end_matches('.')
        .to_owned()
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
            (
                "error: No solution found when resolving dependencies\n  cause: Because xformers was not found in the \
                 package registry and you require xformers, we can conclude that your requirements are unsatisfiable.",
                "package_unknown",
            ),
            (
                "error: No solution found when resolving dependencies\n  cause: Because only xformers==0.0.35 is \
                 available and you require xformers>=9, we can conclude that your requirements are unsatisfiable.",
                "package_unknown",
            ),
            (
                "error: No solution found when resolving dependencies\n  cause: Because x==1.0 has an invalid package \
                 format and only x==1.0 is available, we can conclude that all versions of x cannot be used.\n\n\
                 hint: The structure of `x` (v1.0) was invalid:\n  Failed to read from zip file",
                "download_damaged",
            ),
            (
                "error: No solution found when resolving dependencies\n  cause: Because all versions of b depend on \
                 c<2 and all versions of a depend on c>=2, we can conclude that all versions of a and all versions \
                 of b are incompatible.",
                "packages_clash",
            ),
            (
                "error: Failed to fetch: `https://index/simple/torch/`\n  cause: HTTP status client error (403 \
                 Forbidden) for url (https://index/simple/torch/)",
                "index_refused",
            ),
            (
                "error: Failed to download `x==1.0`\n  cause: Hash mismatch for `x==1.0`\n\n         Expected:",
                "download_damaged",
            ),
            ("error: No interpreter found for Python 3.99", "python_missing"),
            ("error: something new", "tool_failed"),
        ];
        for (text, code) in cases {
            assert_eq!(code_of(text), code, "{text}");
        }
    }

    #[test]
    fn a_resolution_without_a_result_is_explained_whole() {
        let lines: Vec<String> = [
            "error: No solution found when resolving dependencies",
            "  cause: Because all versions of b depend on c<2 and all versions of a depend on c>=2, we can conclude \
             that all versions of a and all versions of b are incompatible.",
            "         And because you require a and b, we can conclude that your requirements are unsatisfiable.",
            "",
            "hint: something else",
        ]
        .map(str::to_owned)
        .to_vec();
        assert_eq!(
            explanation(&lines),
            "all versions of b depend on c<2 and all versions of a depend on c>=2, we can conclude that all versions \
             of a and all versions of b are incompatible. And because you require a and b"
        );
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
