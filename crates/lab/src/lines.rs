//! Lines of a pipe, read on a thread of its own: a reader that waits for one pipe would let another fill up and stop
//! whoever writes into it.

use std::{
    io::{BufRead, BufReader, Read},
    thread,
};

use tunesmith_protocol::MAX_LINE_BYTES;

/// Calls `each` with every line of `pipe`, without its end, and with `None` when the pipe has ended. It stops early when
/// `each` says that nobody listens any more. A line of more than [`MAX_LINE_BYTES`] comes in parts; what is not UTF-8 in
/// it is replaced.
pub fn read_lines_in_thread(
    pipe: impl Read + Send + 'static,
    mut each: impl FnMut(Option<String>) -> bool + Send + 'static,
) {
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        loop {
            let mut line = Vec::new();
            let read = (&mut reader)
                .take(MAX_LINE_BYTES as u64)
                .read_until(b'\n', &mut line);
            if !matches!(read, Ok(bytes) if bytes > 0) {
                break;
            }
            let text = String::from_utf8_lossy(&line);
            if !each(Some(text.trim_end_matches(['\n', '\r']).to_owned())) {
                return;
            }
        }
        each(None);
    });
}
