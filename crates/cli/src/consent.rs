//! Asking before something is fetched, installed or removed.

use std::io::{self, IsTerminal, Write};

/// Shows `question` and takes the user's answer; without a terminal there is nobody to ask, and the answer is no.
pub(crate) fn agreed(question: &str) -> bool {
    if !can_ask() {
        return false;
    }
    let mut answer = String::new();
    let asked = write!(io::stderr(), "{question} [y/N] ").and_then(|()| io::stderr().flush());
    asked.and_then(|()| io::stdin().read_line(&mut answer)).is_ok()
        && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Whether somebody is there to answer.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}
