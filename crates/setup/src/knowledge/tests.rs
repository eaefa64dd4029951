//! The built-in files are whole, and a mistake in a replaced one is found where it stands.

use std::fs;
use std::path::Path;

use tunesmith_protocol::DType;

use super::*;

fn built_in() -> Knowledge {
    Knowledge::load(None).unwrap()
}

/// The error of a folder that holds one file, changed.
fn error_of(file: (&str, &str), from: &str, to: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    assert!(file.1.contains(from), "{from:?} is not in {}", file.0);
    fs::write(folder.path().join(file.0), file.1.replacen(from, to, 1)).unwrap();
    Knowledge::load(Some(folder.path())).unwrap_err().to_string()
}

fn line_of(text: &str, part: &str) -> usize {
    text[..text.find(part).unwrap()].matches('\n').count() + 1
}

#[test]
fn every_row_is_complete_and_every_reference_resolves() {
    // A row without a day, a source or any other key does not load; references inside the files are resolved there too.
    let knowledge = built_in();
    let used = |id: &str| {
        knowledge
            .targets
            .targets
            .iter()
            .any(|target| target.routes.iter().any(|route| route.build == id))
    };
    for build in &knowledge.targets.builds {
        assert!(used(&build.id), "no target uses the build {}", build.id);
    }
    for card in knowledge.cards.cards() {
        let known = match (&card.gfx, &card.compute_capability) {
            (Some(gfx), _) => knowledge.targets.target(gfx).is_some(),
            (_, Some(capability)) => knowledge.targets.compute_capability(capability).is_some(),
            _ => false,
        };
        assert!(known, "{} has no row in targets.toml", card.name);
    }
}

#[test]
fn every_recipe_is_a_file_that_says_the_same() {
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    for row in &built_in().recipes {
        let text = fs::read_to_string(recipes.join(format!("{}.toml", row.id))).unwrap();
        let recipe: toml::Table = text.parse().unwrap();
        let at = |section: &str, key: &str| recipe[section][key].clone();
        let number =
            |section: &str, key: &str| u64::try_from(at(section, key).as_integer().unwrap()).unwrap();
        assert_eq!(
            at("model", "source").as_str(),
            Some(row.model_source.as_str()),
            "{}",
            row.id
        );
        assert_eq!(number("lora", "rank"), row.rank, "{}", row.id);
        assert_eq!(number("train", "micro_batch"), row.micro_batch, "{}", row.id);
        assert_eq!(number("train", "accumulation"), row.accumulation, "{}", row.id);
        assert_eq!(number("data", "max_length"), row.max_length, "{}", row.id);
        let dtype = at("train", "dtype");
        assert!(
            row.kind == RecipeKind::Cpu || dtype.as_str() == Some(row.dtype.name()),
            "{}",
            row.id
        );
        let recompute = serde_json::to_value(row.recompute).unwrap();
        assert_eq!(
            at("train", "recompute").as_str(),
            recompute.as_str(),
            "{}",
            row.id
        );
        let pinned = row
            .model_source
            .split_once('@')
            .is_some_and(|(_, revision)| revision.len() == 40);
        assert!(
            pinned || row.kind == RecipeKind::Cpu,
            "{} names no exact revision",
            row.id
        );
    }
}

#[test]
fn there_is_a_recipe_for_every_class() {
    let knowledge = built_in();
    let has = |kind, gib| {
        knowledge
            .recipes
            .iter()
            .any(|row| row.kind == kind && row.class_gib == gib)
    };
    assert!(has(RecipeKind::Cpu, None));
    for gib in [4, 8, 12, 16, 24] {
        assert!(has(RecipeKind::Discrete, Some(gib)), "{gib} GiB");
    }
    for gib in [32, 64, 96] {
        assert!(has(RecipeKind::Unified, Some(gib)), "unified {gib} GiB");
    }
    assert!(knowledge.recipes.iter().any(|row| row.dtype == DType::F16));
}

#[test]
fn every_target_of_the_wheel_tables_has_a_row() {
    let knowledge = built_in();
    for gfx in [
        "gfx900", "gfx906", "gfx1010", "gfx1011", "gfx1012", "gfx1030", "gfx1031", "gfx1032", "gfx1033",
        "gfx1034", "gfx1035", "gfx1036", "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151",
        "gfx1152", "gfx1153", "gfx1200", "gfx1201", "gfx90c", "gfx803",
    ] {
        assert!(knowledge.targets.target(gfx).is_some(), "{gfx}");
    }
    for (capability, build) in [
        ("6.1", "pytorch-cu126"),
        ("8.6", "pytorch-cu130"),
        ("12.0", "pytorch-cu130"),
    ] {
        let target = knowledge.targets.compute_capability(capability).unwrap();
        assert_eq!(target.routes[0].build, build, "{capability}");
    }
    assert!(knowledge.targets.compute_capability("3.5").is_none());
}

#[test]
fn attention_depends_on_the_version_of_torch() {
    let knowledge = built_in();
    let of = |gfx: &str, torch: &str| knowledge.targets.target(gfx).unwrap().aotriton(torch);
    assert_eq!(of("gfx1100", "2.8.0"), Some(Aotriton::Official));
    assert_eq!(of("gfx1100", "2.9.1+rocm6.4"), Some(Aotriton::Experimental));
    assert_eq!(of("gfx1100", "2.11.0+rocm7.2"), Some(Aotriton::Official));
    assert_eq!(of("gfx1151", "2.11.0"), Some(Aotriton::Experimental));
    assert_eq!(of("gfx1151", "2.13.0"), Some(Aotriton::Official));
    assert_eq!(of("gfx1030", "2.11.0"), None);
}

#[test]
fn a_missing_key_is_named_with_its_row() {
    let error = error_of(FLAGS, "as_of = \"2026-11-30\"\n", "");
    assert!(error.contains("flags.toml, line"), "{error}");
    assert!(error.contains("key `as_of`"), "{error}");
    let row = line_of(FLAGS.1, "[[flag]]");
    assert!(error.contains(&format!("line {row},")), "{error}");
}

#[test]
fn a_mistyped_key_and_a_wrong_value_are_named_with_their_line() {
    let error = error_of(TARGETS, "four_bit_reason =", "four_bit_raeson =");
    let line = line_of(TARGETS.1, "four_bit_reason =");
    assert!(
        error.contains(&format!("line {line}, key `four_bit_raeson`")),
        "{error}"
    );

    let error = error_of(PACKAGES, "as_of = \"2026-11-30\"", "as_of = \"soon\"");
    let line = line_of(PACKAGES.1, "as_of =");
    assert!(
        error.contains(&format!("line {line}, key `as_of`")) && error.contains("soon"),
        "{error}"
    );

    let error = error_of(PACKAGES, "source = \"DESIGN 4", "source = \"\" #");
    assert!(
        error.contains("key `source`") && error.contains("empty"),
        "{error}"
    );

    let error = error_of(TARGETS, "cards = \"RX 470", "cards = \"\\u001b[31mRX 470");
    assert!(
        error.contains("key `cards`") && !error.contains('\u{1b}'),
        "{error}"
    );
}

#[test]
fn a_reference_to_nothing_is_named() {
    let error = error_of(
        TARGETS,
        "build = \"pytorch-rocm6.3\", standing",
        "build = \"rocm6.3\", standing",
    );
    assert!(
        error.contains("key `routes`") && error.contains("`rocm6.3`"),
        "{error}"
    );
    let error = error_of(FLAGS, "targets = [\"gfx1103\"]", "targets = [\"gfx1104\"]");
    assert!(
        error.contains("key `targets`") && error.contains("`gfx1104`"),
        "{error}"
    );
    let error = error_of(RECIPES, "layers = 24", "layers = 25");
    assert!(error.contains("key `parameters`"), "{error}");
}

#[test]
fn an_override_cannot_be_set_by_a_knowledge_file() {
    let unset = "action = \"unset\"\ncondition = \"whenever the torch build";
    let set = "action = \"set\"\nvalue = \"10.3.0\"\ncondition = \"whenever the torch build";
    let error = error_of(FLAGS, unset, set);
    assert!(
        error.contains("key `action`") && error.contains(OVERRIDE),
        "{error}"
    );
}

#[test]
fn a_file_that_the_folder_lacks_is_the_built_in_one() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Knowledge::load(Some(folder.path())).unwrap(), built_in());
    let error = Knowledge::load(Some(&folder.path().join("nowhere"))).unwrap_err();
    assert_eq!(error.code(), "knowledge_folder");
    assert!(!error.hints().is_empty());
    fs::write(folder.path().join("targets.toml"), b"\xff\xfe").unwrap();
    assert_eq!(Knowledge::load(Some(folder.path())).unwrap_err().code(), "io");
}
