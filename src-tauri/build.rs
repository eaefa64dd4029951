//! Checks the configuration and the capabilities of the app.

fn main() {
    #[cfg(feature = "desktop")]
    tauri_build::build();
}
