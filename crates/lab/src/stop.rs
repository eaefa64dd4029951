//! How a user's wish to stop reaches whatever runs: a token that is cheap to ask and safe to set from a
//! signal handler's thread.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use tunesmith_protocol::StopHow;

/// Shared by the one who wants to stop a run and those who lead it.
#[derive(Clone, Debug, Default)]
pub struct StopToken(Arc<AtomicU8>);

impl StopToken {
    /// A token that asks for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop. A more urgent wish replaces a milder one, never the other way round.
    pub fn ask(&self, how: StopHow) {
        self.0.fetch_max(urgency(how), Ordering::SeqCst);
    }

    /// Whoever asked for the run is gone: nobody waits for what an engine might still save, so it is ended without
    /// being given time.
    pub fn abandon(&self) {
        self.0.fetch_max(ABANDONED, Ordering::SeqCst);
    }

    /// Whether nobody waits any more.
    pub fn is_abandoned(&self) -> bool {
        self.0.load(Ordering::SeqCst) == ABANDONED
    }

    /// The wish, if there is one.
    pub fn asked(&self) -> Option<StopHow> {
        match self.0.load(Ordering::SeqCst) {
            0 => None,
            1 => Some(StopHow::Save),
            2 => Some(StopHow::AfterStep),
            _ => Some(StopHow::Now),
        }
    }
}

/// More urgent than every [`StopHow`].
const ABANDONED: u8 = 4;

/// A larger number is a more urgent wish.
pub(crate) fn urgency(how: StopHow) -> u8 {
    match how {
        StopHow::Save => 1,
        StopHow::AfterStep => 2,
        StopHow::Now => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_more_urgent_wish_wins() {
        let token = StopToken::new();
        assert_eq!(token.asked(), None);
        token.ask(StopHow::Save);
        token.ask(StopHow::Now);
        token.ask(StopHow::Save);
        assert_eq!(token.clone().asked(), Some(StopHow::Now));
        assert!(!token.is_abandoned());
        token.abandon();
        token.ask(StopHow::Now);
        assert!(token.is_abandoned());
        assert_eq!(token.asked(), Some(StopHow::Now));
    }
}
