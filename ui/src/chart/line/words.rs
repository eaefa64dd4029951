//! A line chart in one sentence.

use tunesmith_report::format::number;

use super::{Line, LineChart};
use crate::chart::frame::in_a_sentence;
use crate::chart::series::{Extremes, MarkKind, Series};

impl LineChart<'_> {
    /// The chart in one sentence, without a full stop.
    pub fn summary(&self) -> String {
        let Some((from, to)) = self.data_range() else {
            return self.empty.to_owned();
        };
        let mut parts = vec![match self.lines.as_slice() {
            [line] => self.sentence_of_one(line),
            lines => {
                let ends = lines.iter().map(|line| match last_value(line.series) {
                    Some(value) => format!("{} ends at {}", line.name, number(value)),
                    None => format!("{} has no finite value", line.name),
                });
                let ends: Vec<String> = ends.collect();
                let title = self.title;
                format!("{title} {}: {}", self.along.stretch(from, to), ends.join(", "))
            }
        }];
        let total = |kind| {
            self.lines
                .iter()
                .map(|line| line.series.count(kind))
                .sum::<usize>()
        };
        for (kind, word) in [
            (MarkKind::NotFinite, "not finite (×)"),
            (MarkKind::Invalid, "invalid (◇)"),
        ] {
            let marked = total(kind);
            if marked > 0 {
                let verb = if marked == 1 { "is" } else { "are" };
                parts.push(format!("{} {verb} {word}", self.along.points(marked)));
            }
        }
        parts.join("; ")
    }

    fn sentence_of_one(&self, line: &Line) -> String {
        let series = line.series;
        let ends = (series.first_finite(), series.last_finite());
        let ((from, first), (to, last)) = match ends {
            (Some(first), Some(last)) => match (series.get(first), series.get(last)) {
                (Some(first), Some(last)) => (first, last),
                _ => return self.empty.to_owned(),
            },
            _ => return format!("No value of {} is finite", in_a_sentence(self.title)),
        };
        let unit = if self.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", self.unit)
        };
        let (first, last, title) = (number(first), number(last), self.title);
        if series.first_finite() == series.last_finite() {
            return format!("{title} is {last}{unit} at {}", self.along.place(to));
        }
        let stretch = self.along.stretch(from, to);
        if first == last {
            let (least, most) = series
                .extremes(0..series.len())
                .map_or((String::new(), String::new()), |Extremes { least, most }| {
                    (number(least.y), number(most.y))
                });
            return if least == most {
                format!("{title} stays at {last}{unit} {stretch}")
            } else {
                format!(
                    "{title} begins and ends at {last}{unit} {stretch}, from {least} to {most} on the way"
                )
            };
        }
        let falls = last_value(series) < series.first_finite().and_then(|index| Some(series.get(index)?.1));
        let verb = if falls { "falls" } else { "rises" };
        format!("{title} {verb} from {first} to {last}{unit} {stretch}")
    }
}

fn last_value(series: &Series) -> Option<f64> {
    Some(series.get(series.last_finite()?)?.1)
}

#[cfg(test)]
mod tests {
    use super::super::series_of;
    use super::*;
    use crate::chart::axis::Along;

    #[test]
    fn a_sentence_says_where_it_went_and_what_is_wrong() {
        let mut loss = series_of(&[2.31, f64::NAN, 1.0, f64::INFINITY, 0.42]);
        loss.push_invalid(6.0, 0.4).unwrap();
        let chart = LineChart::new("Loss", "nats").line("", &loss);
        assert_eq!(
            chart.summary(),
            "Loss falls from 2.31 to 0.400 nats between steps 1 and 6; 2 steps are not finite (×); 1 step is invalid (◇)"
        );
    }

    #[test]
    fn sentences_of_few_and_of_no_values() {
        let none = Series::new();
        assert_eq!(
            LineChart::new("Loss", "")
                .line("", &none)
                .empty("No step yet")
                .summary(),
            "No step yet"
        );
        let nothing = series_of(&[f64::NAN]);
        assert_eq!(
            LineChart::new("Loss", "").line("", &nothing).summary(),
            "No value of loss is finite; 1 step is not finite (×)"
        );
        let one = series_of(&[2.0]);
        assert_eq!(
            LineChart::new("Memory", "GiB").line("", &one).summary(),
            "Memory is 2.00 GiB at step 1"
        );
        let flat = series_of(&[2.0, 2.0]);
        assert_eq!(
            LineChart::new("Memory", "GiB")
                .along(Along::Seconds)
                .line("", &flat)
                .summary(),
            "Memory stays at 2.00 GiB between 1.00 s and 2.00 s"
        );
        let back = series_of(&[2.0, 5.0, 2.0]);
        assert_eq!(
            LineChart::new("Memory", "GiB").line("", &back).summary(),
            "Memory begins and ends at 2.00 GiB between steps 1 and 3, from 2.00 to 5.00 on the way"
        );
    }

    #[test]
    fn a_sentence_of_several_names_each() {
        let (a, b) = (series_of(&[2.0, 1.0]), series_of(&[f64::NAN, f64::NAN]));
        assert_eq!(
            LineChart::new("Loss", "")
                .line("bf16", &a)
                .line("nf4", &b)
                .summary(),
            "Loss between steps 1 and 2: bf16 ends at 1.00, nf4 has no finite value; 2 steps are not finite (×)"
        );
    }
}
