//! Markdown for a forum and the picture to share.

use tunesmith_report::{CARD_HEIGHT, CARD_WIDTH, Format, Report, write_as};

use crate::support::{compared, experiment, experiment_of, input, ladder, measured, trained};

#[test]
fn markdown_has_the_words_of_the_page_and_no_mark_up_of_others() {
    let report = Report::new(trained(|run| run.recipe.title = "a|b *c* <script>".into()));
    let text = report.to_markdown().unwrap();
    for part in [
        "# SmolLM2-135M learned text-to-SQL here",
        "| Steady speed | **150 tokens/s** |",
        "| LoRA-exact |",
        "## Scorecard",
        "```\ntunesmith train sql --device cpu\n```",
        "no proof against a forger",
    ] {
        assert!(text.contains(part), "missing: {part}\n{text}");
    }
    assert!(text.contains("a\\|b \\*c\\* &lt;script&gt;") && !text.contains("<script>"));
    let spelt_out = text.lines().any(|line| line.trim() == "none");
    assert!(!spelt_out, "a value that is not there is not spelt out");
    let text = Report::new(compared(experiment())).to_markdown().unwrap();
    assert!(
        text.contains("| nf4 | Tokens a second |") && text.contains("| 0.041 |"),
        "{text}"
    );
    let text = Report::new(compared(ladder())).to_markdown().unwrap();
    assert!(
        text.contains("### Where the time goes") && text.contains("| its products \\| alone |"),
        "{text}"
    );
    assert!(
        text.contains("| the whole gap |") && text.contains("Not measured: "),
        "{text}"
    );
    assert!(
        Report::new(measured())
            .to_markdown()
            .unwrap()
            .contains("## Calibration")
    );
}

/// Width and height of a PNG file, as its header says.
fn size_of(png: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    (number(16), number(20))
}

#[test]
fn every_kind_of_report_has_a_picture_to_share() {
    let sweep = experiment_of(&[
        ("base", &[100.0, 101.0, 102.0], 2.0, &[]),
        (
            "batch 8",
            &[180.0, 181.0, 182.0],
            3.0,
            &[("train.micro_batch", "4", "8")],
        ),
        (
            "batch 2",
            &[60.0, 61.0, 62.0],
            1.5,
            &[("train.micro_batch", "4", "2")],
        ),
    ]);
    let kinds = [
        input(),
        measured(),
        compared(experiment()),
        compared(sweep),
        compared(ladder()),
    ];
    for record in kinds {
        let png = Format::Png.render(&Report::new(record)).unwrap();
        assert_eq!(size_of(&png), (CARD_WIDTH, CARD_HEIGHT));
        assert!((10_000..400_000).contains(&png.len()), "{} bytes", png.len());
    }
}

#[test]
fn hostile_words_neither_break_the_picture_nor_get_into_it_as_marks() {
    let mut hostile = input();
    hostile.device.name = "</text><script>&\"'".repeat(20);
    hostile.date = "<svg>".into();
    let png = Format::Png.render(&Report::new(hostile)).unwrap();
    assert_eq!(size_of(&png), (CARD_WIDTH, CARD_HEIGHT));
}

#[test]
fn each_form_is_written_whole_under_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let report = Report::new(input());
    for form in Format::ALL {
        let path = folder.path().join(format!("mine.{}", form.ending()));
        write_as(&path, form, &report).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), form.render(&report).unwrap());
        assert_eq!(Format::of_ending(form.ending()), Some(form));
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        4,
        "nothing is left beside"
    );
}
