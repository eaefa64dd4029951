//! A question to the background of which only the newest counts. One is worked on at a time, so a form that changes with
//! every key is estimated as often as the machine manages and no more; what came of the last question stays until the next
//! is answered.

use crate::state::Problem;

/// The newest question, and the last answer.
#[derive(Clone, Debug)]
pub struct Latest<Q, A> {
    wanted: Option<Q>,
    working: bool,
    answered: Option<(Q, Result<A, Problem>)>,
}

impl<Q, A> Default for Latest<Q, A> {
    fn default() -> Self {
        Self {
            wanted: None,
            working: false,
            answered: None,
        }
    }
}

impl<Q: Clone + PartialEq, A> Latest<Q, A> {
    /// Asks.
    pub fn ask(&mut self, question: Q) {
        self.wanted = Some(question);
    }

    /// Asks nothing any more, and forgets the answer.
    pub fn forget(&mut self) {
        self.wanted = None;
        self.answered = None;
    }

    /// Whether this is what was asked last.
    pub fn asks(&self, question: &Q) -> bool {
        self.wanted.as_ref() == Some(question)
    }

    /// The question to be worked on now: the newest, unless one is worked on or it is answered already.
    pub fn begin(&mut self) -> Option<Q> {
        let question = self.wanted.as_ref()?;
        if self.working || self.is_answered() {
            return None;
        }
        self.working = true;
        Some(question.clone())
    }

    /// What came of a question.
    pub fn answer(&mut self, question: Q, answer: Result<A, Problem>) {
        self.working = false;
        // An answer that comes after everything was forgotten is for nobody.
        if self.wanted.is_some() {
            self.answered = Some((question, answer));
        }
    }

    /// Whether the last answer is that to the newest question.
    pub fn is_answered(&self) -> bool {
        self.answered().is_some() && self.answered() == self.wanted.as_ref()
    }

    /// The question that the last answer belongs to.
    pub fn answered(&self) -> Option<&Q> {
        self.answered.as_ref().map(|(question, _)| question)
    }

    /// The last answer, to whichever question.
    pub fn last(&self) -> Option<&Result<A, Problem>> {
        self.answered.as_ref().map(|(_, answer)| answer)
    }

    /// The answer to the newest question.
    pub fn current(&self) -> Option<&Result<A, Problem>> {
        self.last().filter(|_| self.is_answered())
    }

    /// What came of the newest question, where it went well.
    pub fn ready(&self) -> Option<&A> {
        self.current()?.as_ref().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_question_is_worked_on_and_one_at_a_time() {
        let mut latest = Latest::<u32, &str>::default();
        assert_eq!(latest.begin(), None);
        latest.ask(1);
        assert_eq!(latest.begin(), Some(1));
        for key in 2..=9 {
            latest.ask(key);
            assert_eq!(latest.begin(), None, "one is under way");
        }
        latest.answer(1, Ok("old"));
        assert_eq!(latest.current(), None);
        assert_eq!(
            latest.last(),
            Some(&Ok("old")),
            "the last answer stays to be seen"
        );
        assert_eq!(latest.begin(), Some(9));
        latest.answer(9, Ok("new"));
        assert_eq!(latest.ready(), Some(&"new"));
        assert_eq!(latest.begin(), None);
    }

    #[test]
    fn what_was_forgotten_is_not_answered() {
        let mut latest = Latest::<u32, &str>::default();
        latest.ask(1);
        latest.begin();
        latest.forget();
        latest.answer(1, Ok("late"));
        assert_eq!(latest.last(), None);
        latest.ask(1);
        assert_eq!(latest.begin(), Some(1));
    }
}
