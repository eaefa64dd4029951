//! Which words of this machine are nobody else's business.

use tunesmith_report::Secret;

/// Words of this machine that are nobody else's business: what every report leaves out.
pub fn secrets() -> Vec<Secret> {
    let mut secrets = Vec::new();
    let mut add = |what: &str, text: Option<String>, replacement: &str| {
        if let Some(text) = text.filter(|text| !text.is_empty() && text != "/") {
            secrets.push(Secret {
                what: what.to_owned(),
                text,
                replacement: replacement.to_owned(),
            });
        }
    };
    let variable = |name: &str| std::env::var(name).ok();
    add(
        "the home folder",
        variable("HOME").or_else(|| variable("USERPROFILE")),
        "~",
    );
    add(
        "Tunesmith's own folder",
        variable("TUNESMITH_HOME"),
        "<tunesmith home>",
    );
    let user = variable("USER")
        .or_else(|| variable("USERNAME"))
        .filter(|user| user != "root");
    add("the user's name", user, "<user>");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned());
    add(
        "the machine's name",
        host.filter(|host| host != "localhost"),
        "<host>",
    );
    secrets
}
