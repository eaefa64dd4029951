use super::*;

fn quickstart() -> Recipe {
    Recipe::load("quickstart").unwrap()
}

fn set(setting: &str) -> Result<Recipe, RecipeError> {
    quickstart().with_overrides(&[setting.to_owned()])
}

#[test]
fn bundled_recipes_are_valid_and_carry_their_name() {
    for (name, _) in BUNDLED {
        assert_eq!(Recipe::load(name).unwrap().name, name);
    }
}

#[test]
fn a_resolved_recipe_reads_back_as_itself() {
    let recipe = quickstart().resolved("cpu", DType::F32, Path::new("/models/a.gguf"));
    let again = Recipe::parse(&recipe.to_toml().unwrap(), "recipe.toml").unwrap();
    assert_eq!(again, recipe);
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_a_suggestion() {
    let text = BUNDLED[0].1.replace("\nsteps =", "\nstpes =");
    let error = Recipe::parse(&text, "mine.toml").unwrap_err();
    assert_eq!(error.code(), "unknown_recipe_key");
    let line = text.lines().position(|line| line.starts_with("stpes")).unwrap() + 1;
    assert_eq!(
        error.to_string(),
        format!("recipe mine.toml, line {line}: unknown key `stpes`")
    );
    assert_eq!(error.hints()[0], "did you mean `steps`?");
}

#[test]
fn an_unknown_choice_is_refused_with_a_suggestion() {
    let error = Recipe::parse(&BUNDLED[0].1.replace("\"cosine\"", "\"cosin\""), "mine.toml").unwrap_err();
    assert!(error.to_string().ends_with("unknown value `cosin`"), "{error}");
    assert_eq!(error.hints()[0], "did you mean `cosine`?");
}

#[test]
fn an_unknown_recipe_is_refused_with_a_suggestion() {
    let error = Recipe::load("quikstart").unwrap_err();
    assert_eq!(
        (error.code(), error.hints()[0].as_str()),
        ("unknown_recipe", "did you mean `quickstart`?")
    );
}

#[test]
fn impossible_values_are_refused_by_their_key() {
    let cases = [
        ("lora.rank=0", "`lora.rank` = 0"),
        ("lora.alpha=-1", "`lora.alpha` = -1"),
        ("lora.target_modules=[]", "`lora.target_modules` = []"),
        ("lora.target_modules=q_proj,q_proj", "named twice"),
        ("train.steps=0", "`train.steps` = 0"),
        ("train.micro_batch=0", "`train.micro_batch` = 0"),
        ("train.accumulation=0", "`train.accumulation` = 0"),
        ("train.time_box_minutes=0", "`train.time_box_minutes` = 0"),
        (
            "train.checkpoint_every=10000001",
            "`train.checkpoint_every` = 10000001",
        ),
        ("train.device=gpu", "`train.device` = \"gpu\""),
        ("optimizer.learning_rate=-0.1", "`optimizer.learning_rate` = -0.1"),
        ("optimizer.learning_rate=nan", "`optimizer.learning_rate` = NaN"),
        ("optimizer.beta2=1.0", "`optimizer.beta2` = 1"),
        (
            "optimizer.warmup_steps=100000",
            "`optimizer.warmup_steps` = 100000",
        ),
        ("data.max_length=1", "`data.max_length` = 1"),
        ("evaluate.questions=301", "`evaluate.questions` = 301"),
        ("evaluate.batch_size=0", "`evaluate.batch_size` = 0"),
        ("name=a/b", "`name` = \"a/b\""),
        ("model.source=smollm", "no such source"),
    ];
    for (setting, expected) in cases {
        let error = set(setting).unwrap_err();
        assert_eq!(error.code(), "recipe_value", "{setting}: {error}");
        assert!(error.to_string().contains(expected), "{setting}: {error}");
        assert!(!error.hints().is_empty(), "{setting} has no next step");
    }
    let error = set("lora.target_modules=q_prj").unwrap_err();
    assert_eq!(error.hints()[0], "did you mean `q_proj`?");
}

#[test]
fn settings_keep_the_type_of_their_key() {
    assert_eq!(set("train.steps=20").unwrap().train.steps, 20);
    assert!((set("lora.alpha=8").unwrap().lora.alpha - 8.0).abs() < 1e-12);
    assert_eq!(set("train.dtype=bf16").unwrap().train.dtype, DTypeChoice::Bf16);
    assert_eq!(
        set("lora.target_modules=q_proj, v_proj")
            .unwrap()
            .lora
            .target_modules,
        ["q_proj", "v_proj"]
    );
    assert_eq!(set("title=10").unwrap().title, "10");
    let error = set("train.steps=many").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`train.steps` takes a whole number, but `many` is text"
    );
    let error = set("train.steps=-3").unwrap_err();
    assert_eq!(error.code(), "recipe_syntax");
    assert_eq!(set("steps").unwrap_err().code(), "setting_syntax");
    let error = set("train.step=3").unwrap_err();
    assert_eq!(
        (error.code(), error.hints()[0].as_str()),
        ("unknown_recipe_key", "did you mean `train.steps`?")
    );
    assert_eq!(set("train=3").unwrap_err().code(), "unknown_recipe_key");
}

#[test]
fn knobs_that_are_absent_at_their_default_can_be_set_and_come_back() {
    for (setting, line) in [
        ("model.quantization=nf4", "quantization = \"nf4\""),
        ("train.packing=false", "packing = false"),
        ("train.attention=eager", "attention = \"eager\""),
    ] {
        let recipe = set(setting).unwrap();
        let text = recipe.to_toml().unwrap();
        assert!(text.lines().any(|written| written == line), "{text}");
        assert_eq!(Recipe::parse(&text, "recipe.toml").unwrap(), recipe);
    }
    // Old recipes keep their text, and with it their hash.
    let text = quickstart().to_toml().unwrap();
    for key in ["quantization", "packing", "attention"] {
        assert!(!text.contains(key), "{text}");
    }
    let error = set("model.quantization=nf5").unwrap_err();
    assert_eq!(error.hints()[0], "did you mean `nf4`?");
    let error = set("train.packing=perhaps").unwrap_err();
    assert_eq!(error.code(), "recipe_type");
    let error = set("train.atention=eager").unwrap_err();
    assert_eq!(error.hints()[0], "did you mean `train.attention`?");
}

#[test]
fn a_path_set_on_the_command_line_replaces_the_source() {
    let recipe = set("data.path=rows.jsonl").unwrap();
    assert_eq!(recipe.data.source, None);
    assert_eq!(recipe.data.path.as_deref(), Some(Path::new("rows.jsonl")));
}

#[test]
fn paths_in_a_recipe_file_are_read_from_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let text = "name = \"mine\"\n[model]\npath = \"a.gguf\"\n[data]\npath = \"/data/b.jsonl\"\n[train]\nsteps = 9\nmicro_batch = 1\n";
    std::fs::write(&file, text).unwrap();
    let recipe = Recipe::load(file.to_str().unwrap()).unwrap();
    assert_eq!(recipe.model.path.unwrap(), folder.path().join("a.gguf"));
    assert_eq!(recipe.data.path.unwrap(), Path::new("/data/b.jsonl"));
}

#[test]
fn the_hash_covers_what_changes_the_result_and_nothing_else() {
    let parts = HashParts {
        model: "m",
        rows: "r",
        questions: Some("q"),
        adapter: None,
        engine: "tunesmith-engine 0.1.0",
        torch: "2.11.0",
        device_kind: "cpu",
        threads: None,
    };
    let hash = quickstart().config_hash(&parts);
    for same in [
        "name=other",
        "title=other",
        "train.time_box_minutes=30",
        "train.checkpoint_every=5",
        "model.path=/elsewhere/model.gguf",
        "lora.start_from=/elsewhere/adapter",
        "model.quantization=none",
        "train.packing=true",
        "train.attention=sdpa",
    ] {
        assert_eq!(
            set(same).unwrap().config_hash(&parts),
            hash,
            "{same} does not change the result"
        );
    }
    for different in [
        "train.seed=1",
        "train.steps=21",
        "optimizer.learning_rate=0.0005",
        "evaluate.questions=7",
        "model.quantization=nf4",
        "train.packing=false",
        "train.attention=eager",
    ] {
        assert_ne!(
            set(different).unwrap().config_hash(&parts),
            hash,
            "{different} changes the result"
        );
    }
    assert_ne!(
        quickstart().config_hash(&HashParts {
            torch: "2.12.0",
            ..parts.clone()
        }),
        hash
    );
    assert_ne!(
        quickstart().config_hash(&HashParts {
            adapter: Some("a"),
            ..parts.clone()
        }),
        hash
    );
    assert_ne!(
        quickstart().config_hash(&HashParts {
            threads: Some(1),
            ..parts
        }),
        hash
    );
}
