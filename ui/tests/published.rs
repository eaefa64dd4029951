//! The page of published figures: every figure with its setup and tier, filtered by card and model, with what could not be
//! found out, and never beside a figure of this machine.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Shown, looked_at, show};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use tunesmith_probe::testing::machines;
use tunesmith_report::published::all;
use tunesmith_ui::{
    pages::published::{PublishedView, published_ui},
    state::State,
};

/// High enough that all of the page has a name.
const SIZE: [f32; 2] = [1280.0, 16_000.0];

fn page<'a>() -> Harness<'a, Shown<PublishedView>> {
    show(State::for_tests(), published_ui, SIZE, true, false)
}

fn type_words(harness: &mut Harness<'_, Shown<PublishedView>>, words: &str) {
    let filter = || harness.get_by_role_and_label(egui::accesskit::Role::TextInput, "Filter");
    filter().focus();
    harness.run_steps(2);
    harness
        .get_by_role_and_label(egui::accesskit::Role::TextInput, "Filter")
        .type_text(words);
    harness.run_steps(4);
}

#[test]
fn every_source_is_shown_with_tier_citation_and_what_could_not_be_found_out() {
    let harness = page();
    let all = all().unwrap();
    let figures: usize = all.iter().map(|source| source.figure.len()).sum();
    harness.get_by_label(&format!(
        "{figures} figures that others published, from {} sources",
        all.len()
    ));
    for source in &all {
        harness.get_by_label(&source.source.title);
        assert!(
            harness
                .query_all_by_label(&source.source.citation)
                .next()
                .is_some()
        );
        for missing in &source.source.not_recovered {
            assert!(harness.query_all_by_label(missing).next().is_some(), "{missing}");
        }
    }
    assert!(harness.query_all_by_label_contains("First-party: ").count() > 0);
    assert!(harness.query_all_by_label_contains("Independent: ").count() > 0);
}

#[test]
fn words_filter_and_a_search_without_a_result_can_be_taken_back() {
    let mut harness = page();
    type_words(&mut harness, "gemma-4-e4b nf4");
    harness.get_by_label("Gradient Decent, Epoch 1: fine-tuning on AMD consumer GPUs");
    assert!(harness.query_by_label("What could not be found out").is_some());
    assert!(harness.query_all_by_label_contains("GRPO").next().is_none());
    type_words(&mut harness, " nobody");
    harness.get_by_label("No figure is like that");
    harness.get_by_label("Show all figures").click();
    harness.run_steps(4);
    assert!(harness.query_all_by_label("What could not be found out").count() > 1);
}

#[test]
fn only_cards_of_this_machines_family_can_be_shown_where_it_has_one() {
    assert!(
        page()
            .query_by_label("Only cards of this machine's family")
            .is_none()
    );
    let machine = machines::rx_7900_xtx();
    let home = tempfile::tempdir().unwrap();
    let state = looked_at(&machine, home.path());
    let mut harness = show(state, published_ui, SIZE, true, false);
    harness
        .get_by_label("Only cards of this machine's family")
        .click();
    harness.run_steps(4);
    let figures = all().unwrap();
    let others = figures.iter().filter(|source| {
        source
            .figure
            .iter()
            .all(|figure| figure.gfx.as_deref() != Some("gfx1100"))
    });
    for source in others {
        assert!(harness.query_by_label(&source.source.title).is_none());
    }
    harness.get_by_label("Gradient Decent, Epoch 1: fine-tuning on AMD consumer GPUs");
}

#[test]
fn a_figure_that_is_wrong_as_printed_comes_with_the_right_one() {
    let harness = page();
    let all = all().unwrap();
    let corrected = all
        .iter()
        .flat_map(|source| &source.figure)
        .filter(|figure| figure.correction.is_some())
        .count();
    assert!(corrected > 0);
    assert_eq!(harness.query_all_by_label("corrected").count(), corrected);
}

#[test]
fn pictures() {
    let mut results = SnapshotResults::new();
    for (dark, name) in [(true, "published-dark"), (false, "published-light")] {
        let mut harness = show(State::for_tests(), published_ui, [1280.0, 820.0], dark, true);
        harness.run_steps(4);
        harness.snapshot(name);
        results.extend_harness(&mut harness);
    }
}
