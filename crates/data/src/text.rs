//! Running text: where paragraphs begin, so that a row never begins in the middle of one without need.

/// Running text that is trained in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The file's name, or the row's id.
    pub id: String,
    /// The text as it is.
    pub text: String,
    /// Whether headings and fenced code are told apart from paragraphs.
    pub markdown: bool,
}

/// Bytes at which a part of a text begins, in ascending order, the text's own beginning left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Borders {
    /// Paragraphs and headings. A heading stays with what follows it, fenced code stays together.
    pub(crate) paragraphs: Vec<usize>,
    /// Lines that are not blank.
    pub(crate) lines: Vec<usize>,
}

impl Borders {
    pub(crate) fn of(text: &str, markdown: bool) -> Self {
        let mut borders = Self::default();
        let mut fence: Option<&str> = None;
        let (mut after_blank, mut after_heading) = (false, false);
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let content = line.trim();
            let opens = ["```", "~~~"].into_iter().find(|mark| content.starts_with(mark));
            if !content.is_empty() {
                let heading = markdown && fence.is_none() && is_heading(line);
                if start > 0 {
                    borders.lines.push(start);
                    if fence.is_none() && !after_heading && (after_blank || heading) {
                        borders.paragraphs.push(start);
                    }
                }
                after_heading = heading;
            }
            after_blank = content.is_empty();
            if markdown {
                fence = match (fence, opens) {
                    (None, mark) => mark,
                    (Some(open), Some(mark)) if open == mark => None,
                    (open, _) => open,
                };
            }
            start += line.len();
        }
        borders
    }
}

/// One to six `#` and a space.
fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches('#');
    (1..=6).contains(&(line.len() - rest.len())) && rest.starts_with([' ', '\t', '\r', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paragraphs(text: &str, markdown: bool) -> Vec<&str> {
        let mut starts = Borders::of(text, markdown).paragraphs;
        starts.insert(0, 0);
        starts.push(text.len());
        starts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
    }

    #[test]
    fn blank_lines_part_paragraphs() {
        assert_eq!(
            paragraphs("One\nstill one\n\n \nTwo\r\n\r\nThree", false),
            ["One\nstill one\n\n \n", "Two\r\n\r\n", "Three"]
        );
        assert_eq!(paragraphs("", false), [""]);
        assert_eq!(paragraphs("\n\nOne\n\n", false), ["\n\n", "One\n\n"]);
    }

    #[test]
    fn headings_stay_with_what_follows_and_code_stays_together() {
        let text = "Intro\n# Title\n\n## Sub\n\nText\n```\n# no heading\n\ncode\n```\nEnd\n#tag\n";
        assert_eq!(
            paragraphs(text, true),
            [
                "Intro\n",
                "# Title\n\n## Sub\n\nText\n```\n# no heading\n\ncode\n```\nEnd\n#tag\n"
            ]
        );
        assert_eq!(
            paragraphs("a\n# b", false),
            ["a\n# b"],
            "a text file has no headings"
        );
    }

    #[test]
    fn lines_are_borders_of_last_resort() {
        assert_eq!(Borders::of("a\nb\n\nc", false).lines, [2, 5]);
    }
}
