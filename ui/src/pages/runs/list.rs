//! What the page knows of all runs: the lines, which of them are shown and in what order, and which were chosen. Filter
//! and order are applied when they change, between frames; drawing only looks at the rows in sight.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::tz::TimeZone;
use tunesmith_lab::run::{Column, Figure, LineFilter, LineState, Order, RunLine, RunState, arrange};
use tunesmith_protocol::RunStatus;
use tunesmith_report::format::{plural, points};

/// The list.
pub struct RunList {
    lines: Vec<Arc<RunLine>>,
    filter: LineFilter,
    order: Order,
    shown: Vec<usize>,
    chosen: BTreeSet<String>,
    states: Vec<(LineState, usize)>,
    title: String,
    zone: TimeZone,
}

impl Default for RunList {
    fn default() -> Self {
        Self {
            lines: Vec::new(),
            filter: LineFilter::default(),
            order: Order::default(),
            shown: Vec::new(),
            chosen: BTreeSet::new(),
            states: Vec::new(),
            title: String::new(),
            zone: TimeZone::UTC,
        }
    }
}

impl RunList {
    /// The runs were read; times are told in `zone`.
    pub fn take(&mut self, lines: Vec<Arc<RunLine>>, zone: TimeZone) {
        self.lines = lines;
        self.zone = zone;
        let ids: BTreeSet<&str> = self.lines.iter().map(|line| line.id.as_str()).collect();
        self.chosen.retain(|id| ids.contains(id.as_str()));
        self.title = title(&self.lines);
        let mut states: BTreeMap<&str, (LineState, usize)> = BTreeMap::new();
        for line in &self.lines {
            states.entry(line.state.name()).or_insert((line.state, 0)).1 += 1;
        }
        self.states = states.into_values().collect();
        let states = &self.states;
        self.filter
            .states
            .retain(|state| states.iter().any(|(known, _)| known == state));
        self.arrange();
    }

    /// Shows only the lines with these words.
    pub fn filter_text(&mut self, text: String) {
        self.filter.text = text;
        self.arrange();
    }

    /// Shows the lines of a state, or no longer; all where none is chosen.
    pub fn filter_state(&mut self, state: LineState) {
        let states = &mut self.filter.states;
        match states.iter().position(|other| *other == state) {
            Some(place) => {
                states.remove(place);
            }
            None => states.push(state),
        }
        self.arrange();
    }

    /// Shows the repeats of one experiment alone; all where none is named.
    pub fn filter_repeats(&mut self, config_hash: Option<String>) {
        self.filter.config_hash = config_hash;
        self.arrange();
    }

    /// Shows all lines.
    pub fn filter_nothing(&mut self) {
        self.filter = LineFilter::default();
        self.arrange();
    }

    /// Orders by a column; a second time the other way. Words rise first, numbers fall: the most is what is looked for.
    pub fn order_by(&mut self, column: Column) {
        let descending = if self.order.column == column {
            !self.order.descending
        } else {
            !matches!(column, Column::Recipe | Column::Model | Column::State)
        };
        self.order = Order { column, descending };
        self.arrange();
    }

    fn arrange(&mut self) {
        self.shown = arrange(&self.lines, &self.filter, self.order);
    }

    /// Chooses a run for comparing or deleting, or leaves it.
    pub fn choose(&mut self, id: &str, chosen: bool) {
        if chosen {
            self.chosen.insert(id.to_owned());
        } else {
            self.chosen.remove(id);
        }
    }

    /// Chooses all that are shown; none where all of them were.
    pub fn choose_shown(&mut self) {
        let shown: Vec<String> = self.shown().map(|line| line.id.clone()).collect();
        if shown.iter().all(|id| self.chosen.contains(id)) {
            for id in &shown {
                self.chosen.remove(id);
            }
        } else {
            self.chosen.extend(shown);
        }
    }

    /// Chooses none.
    pub fn choose_none(&mut self) {
        self.chosen.clear();
    }

    /// All runs, oldest first.
    pub fn lines(&self) -> &[Arc<RunLine>] {
        &self.lines
    }

    /// Those that are shown, in order.
    pub fn shown(&self) -> impl ExactSizeIterator<Item = &Arc<RunLine>> {
        self.shown.iter().map(|place| &self.lines[*place])
    }

    /// One that is shown, by its row.
    pub fn row(&self, row: usize) -> Option<&Arc<RunLine>> {
        self.lines.get(*self.shown.get(row)?)
    }

    /// The row of a run, where it is shown.
    pub fn row_of(&self, id: &str) -> Option<usize> {
        self.shown().position(|line| line.id == id)
    }

    /// A run.
    pub fn line(&self, id: &str) -> Option<&Arc<RunLine>> {
        self.lines.iter().find(|line| line.id == id)
    }

    /// Whether a run is chosen.
    pub fn is_chosen(&self, id: &str) -> bool {
        self.chosen.contains(id)
    }

    /// The chosen runs, oldest first.
    pub fn chosen(&self) -> Vec<Arc<RunLine>> {
        let chosen = self.lines.iter().filter(|line| self.chosen.contains(&line.id));
        chosen.cloned().collect()
    }

    /// How many runs are chosen.
    pub fn chosen_count(&self) -> usize {
        self.chosen.len()
    }

    /// Ids of the chosen runs.
    pub fn chosen_ids(&self) -> Vec<String> {
        self.chosen.iter().cloned().collect()
    }

    /// The states that there are, and how many runs have each.
    pub fn states(&self) -> &[(LineState, usize)] {
        &self.states
    }

    /// What a line must have to be shown.
    pub fn filter(&self) -> &LineFilter {
        &self.filter
    }

    /// How the lines are ordered.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The page in a sentence.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Where this machine's clocks stand.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The run that ended last; where none has, the last of all.
    pub fn last_ended(&self) -> Option<&Arc<RunLine>> {
        let ended = |line: &&Arc<RunLine>| matches!(line.state, LineState::Run(RunState::Ended(_)));
        self.lines.iter().rev().find(ended).or(self.lines.last())
    }
}

/// `12 runs; the best gained 56.0 points`.
fn title(lines: &[Arc<RunLine>]) -> String {
    let runs = plural(lines.len() as u64, "run");
    let well = LineState::Run(RunState::Ended(RunStatus::Ok));
    let best = lines
        .iter()
        .filter(|line| line.state == well)
        .filter_map(|line| Some((Figure::GainPoints.of(line)?, line.after_half_width_points?)))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match best {
        Some((gain, noise)) if gain > noise => format!("{runs}; the best gained {} points", points(gain)),
        Some(_) => format!("{runs}; none gained more than chance"),
        None => runs,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tunesmith_lab::{run::lines, testing::TestRun};

    use super::*;

    fn list(of: &[TestRun]) -> RunList {
        let home = tempfile::tempdir().unwrap();
        for run in of {
            run.write(home.path());
        }
        let mut list = RunList::default();
        list.take(lines(home.path(), &[]).unwrap(), TimeZone::UTC);
        list
    }

    fn day(day: u32) -> TestRun {
        TestRun::new(&format!("2026-01-{day:02}T00:00:00Z"))
    }

    fn days(list: &RunList) -> Vec<String> {
        list.shown().map(|line| line.id[6..8].to_owned()).collect()
    }

    #[test]
    fn the_title_tells_the_best_gain_and_never_sells_noise() {
        assert_eq!(list(&[]).title(), "0 runs");
        assert_eq!(list(&[day(1).without_scores()]).title(), "1 run");
        assert_eq!(
            list(&[day(1).matches(3, 59), day(2).matches(3, 20)]).title(),
            "2 runs; the best gained 56.0 points"
        );
        assert_eq!(
            list(&[day(1).matches(50, 53)]).title(),
            "1 run; none gained more than chance"
        );
    }

    #[test]
    fn a_second_click_turns_the_order_round() {
        let mut list = list(&[
            day(1).tokens_per_sec(200.0),
            day(2).tokens_per_sec(300.0),
            day(3).tokens_per_sec(100.0),
        ]);
        assert_eq!(days(&list), ["03", "02", "01"]);
        list.order_by(Column::TokensPerSec);
        assert_eq!(days(&list), ["02", "01", "03"]);
        list.order_by(Column::TokensPerSec);
        assert_eq!(days(&list), ["03", "01", "02"]);
        list.order_by(Column::Recipe);
        assert!(!list.order().descending);
    }

    #[test]
    fn states_are_counted_and_filtered_and_forgotten_when_no_run_has_them() {
        let oom = LineState::Run(RunState::Ended(RunStatus::Oom));
        let mut list = list(&[day(1), day(2).status(RunStatus::Oom).steps(3), day(3)]);
        let states: Vec<_> = list
            .states()
            .iter()
            .map(|(state, count)| (state.name(), *count))
            .collect();
        assert_eq!(states, [("ok", 2), ("oom", 1)]);
        list.filter_state(oom);
        assert_eq!(days(&list), ["02"]);
        let left: Vec<_> = list
            .lines()
            .iter()
            .filter(|line| line.state != oom)
            .cloned()
            .collect();
        list.take(left, TimeZone::UTC);
        assert_eq!(days(&list), ["03", "01"]);
    }

    #[test]
    fn choosing_all_twice_chooses_none_and_what_is_gone_is_no_longer_chosen() {
        let mut list = list(&[day(1), day(2), day(3)]);
        list.filter_text("20260102".to_owned());
        list.choose_shown();
        assert_eq!(list.chosen().len(), 1);
        list.filter_nothing();
        list.choose_shown();
        assert_eq!(list.chosen().len(), 3);
        let left = list.lines()[1..].to_vec();
        list.take(left, TimeZone::UTC);
        assert_eq!(list.chosen().len(), 2);
        list.choose_shown();
        assert!(list.chosen_ids().is_empty());
    }

    #[test]
    fn ten_thousand_runs_are_filtered_and_ordered_within_a_frame_or_three() {
        let mut list = list(&[
            day(1),
            day(2).tokens_per_sec(100.0),
            day(3).status(RunStatus::Oom),
        ]);
        let some = list.lines().to_vec();
        let many: Vec<Arc<RunLine>> = (0..10_000).map(|place| Arc::clone(&some[place % 3])).collect();
        list.take(many, TimeZone::UTC);
        let start = Instant::now();
        list.filter_text("quickstart ok".to_owned());
        list.order_by(Column::TokensPerSec);
        let secs = start.elapsed().as_secs_f64();
        assert_eq!(list.shown().len(), 6_667);
        // 50 ms are asked for; a busy machine gets ten times as much before this test calls it slow.
        assert!(secs < 0.5, "{secs} s");
    }
}
