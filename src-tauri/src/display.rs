//! Whether there is a screen to open a window on. Without one, toolkits end a program with words that help nobody.

use std::ffi::OsString;

/// Exit status of a start without a screen: it was asked for something that cannot be, as with a wrong argument.
pub(crate) const NO_DISPLAY_STATUS: u8 = 2;

/// Whether a screen is named, by the variables of this system.
pub(crate) fn is_named(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    if cfg!(any(windows, target_os = "macos")) {
        return true;
    }
    ["WAYLAND_DISPLAY", "WAYLAND_SOCKET", "DISPLAY"]
        .into_iter()
        .any(|name| variable(name).is_some_and(|value| !value.is_empty()))
}

/// What to do instead.
pub(crate) fn advice(why: &str) -> String {
    format!(
        "error: there is no screen to open a window on ({why})\n\
         hint: everything that the window does, the command line does too:\n\
         hint:   tunesmith doctor       what is missing on this machine\n\
         hint:   tunesmith setup        installs it, and shows each command first\n\
         hint:   tunesmith quickstart   calibrates, trains, evaluates and writes a report\n\
         hint: over ssh, `ssh -X` lends your screen to the other machine\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(any(windows, target_os = "macos")))]
    fn one_variable_with_a_value_is_a_screen() {
        let named = |there: &'static str, value: &'static str| {
            is_named(move |name| (name == there).then(|| value.into()))
        };
        assert!(named("DISPLAY", ":0") && named("WAYLAND_DISPLAY", "wayland-0"));
        assert!(!named("DISPLAY", "") && !named("TERM", "xterm"));
        assert!(advice("DISPLAY is not set").contains("tunesmith quickstart"));
    }
}
