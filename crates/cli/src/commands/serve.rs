//! `serve`: hosts the service for one window, over this program's own input and output.

use std::io;

use tunesmith_lab::service::{ServiceOptions, serve as serve_window};

use super::environments::guard;
use crate::args::Global;

/// Serves until the window is gone, then ends this program, whatever still waits in it.
pub(crate) fn serve(global: &Global, card: Option<String>) -> ! {
    let options = ServiceOptions {
        device: global.device.clone(),
        card,
        threads: global.threads.map(usize::from),
        guard: guard(),
    };
    serve_window(io::stdin(), io::stdout(), options);
    std::process::exit(0)
}
