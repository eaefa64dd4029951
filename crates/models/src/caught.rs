//! Calls into libraries that panic over a file from outside where they should refuse it.
//!
//! A damaged `tokenizer.json` is not a fault of this program, and must become a sentence like every other damaged file. What
//! the libraries are given here is theirs alone, so a panic leaves nothing half-changed behind that anyone uses.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of `call`, or the text of the panic that ended it.
///
/// # Errors
/// The text of the panic.
pub fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        format!(
            "it breaks the library that reads it: {}",
            text.unwrap_or("no reason given")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_text() {
        assert_eq!(caught(|| 7), Ok(7));
        let number = 3;
        for (caught, text) in [
            (caught(|| panic!("the vocabulary ends at {number}")), "ends at 3"),
            (caught(|| panic!("plain")), "plain"),
        ] {
            let reason: String = caught.map(|(): ()| String::new()).unwrap_err();
            assert!(reason.contains(text), "{reason}");
        }
    }
}
