//! The command line, in the words of its help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tunesmith_data::Role;
use tunesmith_measure::fit::{LimitError, LimitWish};

/// Fine-tunes language models on your own machine, and measures honestly how well it does
#[derive(Debug, Parser)]
#[command(
    name = "tunesmith",
    version,
    after_help = "Examples:\n  tunesmith detect                              what this machine is\n  tunesmith doctor                              what is wrong with it, and what cures that\n  tunesmith quickstart                          calibrate, train and score the bundled recipe\n  tunesmith train quickstart --set train.steps=20\n  tunesmith generate last --question 7          what the newest adapter answers\n  tunesmith runs list\n  tunesmith experiment run checkpointing        does computing activations again pay?\n\nExit status: 0 done, 1 error, 2 usage, 3 the run is invalid, 130 stopped by hand"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Print the result as JSON; stdout holds nothing else then
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// auto, cpu, or cuda:0 (ROCm cards are called cuda too)
    #[arg(long, global = true, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Threads on a processor
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Wait where another run has the device, instead of being refused
    #[arg(long, global = true)]
    pub(crate) wait: bool,
    /// How much of a card's memory torch may take: auto, a share such as 0.8, a size such as '20 GiB', or off
    #[arg(long, global = true, value_name = "LIMIT", value_parser = memory_limit)]
    pub(crate) memory_limit: Option<LimitWish>,
}

fn memory_limit(text: &str) -> Result<LimitWish, String> {
    text.parse()
        .map_err(|error| format!("{error}; {}", LimitError::hint()))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Calibrate the device, train the bundled recipe, score it, write a report
    Quickstart(Quickstart),
    /// What this machine is: cards, memory, driver, access
    #[command(
        after_help = "Changes nothing, and needs neither Python nor ROCm nor root.\n\nExamples:\n  tunesmith detect\n  tunesmith detect --root capture/ --json"
    )]
    Detect(Detect),
    /// What keeps this machine from training, or slows it down, and the command that cures it
    #[command(
        after_help = "Changes nothing. Exit status: 0 where the recommended recipe can run, 1 where something blocks it.\n\nExamples:\n  tunesmith doctor\n  tunesmith doctor --env ~/venv --verbose\n  tunesmith doctor --root capture/ --json"
    )]
    Doctor(Doctor),
    /// Which PyTorch, which packages, which flags, and why
    #[command(
        after_help = "Changes nothing; `tunesmith setup --apply` carries it out.\n\nExamples:\n  tunesmith plan\n  tunesmith plan --engine hf --as bash > setup.sh\n  tunesmith plan --root capture/ --json"
    )]
    Plan(Plan),
    /// Carry out the plan: install what an engine needs into an environment of the app's own
    #[command(
        after_help = "Without --apply it shows what it would do. Each command is shown before it runs, and what was there before stays until the new environment has passed its checks.\n\nExamples:\n  tunesmith setup\n  tunesmith setup --apply\n  tunesmith setup --engine hf --apply --yes"
    )]
    Setup(SetUp),
    /// Measure what the device can do: values first, then products, attention, copies, and whether it holds its speed
    #[command(
        after_help = "A measurement holds until the driver, torch or a flag changes; what no longer holds is listed with the reason.\n\nExamples:\n  tunesmith calibrate\n  tunesmith calibrate --again --full\n  tunesmith calibrate --json | jq '.sustainment'\n\nExit status 3: a value is wrong, and nothing should be trained in that format"
    )]
    Calibrate(Calibrate),
    /// Train a recipe
    #[command(
        after_help = "Examples:\n  tunesmith train quickstart\n  tunesmith train my-recipe.toml --set train.seed=42 --set lora.rank=8\n  tunesmith train smoke --set data.path=rows.csv --set data.columns.completion=sql\n  tunesmith train smoke --set model.source=owner/name@revision --yes"
    )]
    Train(Train),
    /// Whether a recipe fits, which settings suit this machine, and what is the largest batch that runs
    #[command(
        after_help = "Without --search or --measure nothing is started: the prediction, corrected by what earlier runs here held. A search runs a few steps of made rows for each value; running out of memory is a result, every try is kept, and the same command goes on with a search that was cut short. Exit status: 0 where it fits or something ran, 1 where not.\n\nExamples:\n  tunesmith fit quickstart\n  tunesmith fit sft-8gib --root capture/ --json\n  tunesmith fit quickstart --search batch\n  tunesmith fit quickstart --search batch --candidates 1,2,4,8\n  tunesmith fit quickstart --search length --set train.recompute=layer\n  tunesmith fit quickstart --measure --set model.quantization=nf4"
    )]
    Fit(FitArgs),
    /// Ask a run's model the test questions again
    Eval(Eval),
    /// Let a run's model answer a prompt
    #[command(
        after_help = "Examples:\n  tunesmith generate last --question 7\n  tunesmith generate last --question 7 --base\n  tunesmith generate 20260101 --prompt 'Name three birds' --temperature 0.7"
    )]
    Generate(Generate),
    /// Look at runs, and go on with one
    #[command(subcommand)]
    Runs(Runs),
    /// Write a report: of a run, an experiment, or the device alone
    #[command(
        after_help = "Without --format it is written as one HTML file with the JSON beside it. Reading two reports needs no engine.\n\nExamples:\n  tunesmith report last\n  tunesmith report last --format markdown --output -      for a post in a forum\n  tunesmith report --calibration --format png             a picture to share\n  tunesmith report --experiment bf16-or-4bit\n  tunesmith report last --compare theirs.json             side by side, and what is not comparable\n  tunesmith report last --tariff 0.30 --card-price 999 --card-hours 10000 --currency EUR --keep-prices"
    )]
    Report(Report),
    /// Run experiments: several runs that answer one question, in turn, with repeats and statistics
    #[command(subcommand)]
    Experiment(Experiments),
    /// Whether a recipe can be trained: read it, and with --smoke train ten steps and hear the judge
    #[command(
        after_help = "Exit status: 0 it can be trained, 3 the judge stopped it, 1 another error.\n\nExamples:\n  tunesmith validate my-recipe.toml\n  tunesmith validate --smoke quickstart --json"
    )]
    Validate(Validate),
    /// Look at a data set as a training would read it
    #[command(subcommand)]
    Data(Data),
    /// Fetch models from a hub, and see which are here
    #[command(subcommand)]
    Models(Models),
    /// Which known fault an error text or a log shows, why, and what to do on this machine
    #[command(
        after_help = "Examples:\n  tunesmith explain training.log\n  dmesg | tunesmith explain\n  tunesmith explain --text 'HIP error: invalid device function'"
    )]
    Explain(Explain),
    /// Look at the app's environments and choose between them
    #[command(subcommand)]
    Env(Environments),
    /// Write down what detection reads of this machine, without names, serials and tokens, to send to others
    #[command(
        after_help = "The folder is a machine for --root of detect, doctor, plan and explain.\n\nExamples:\n  tunesmith capture my-machine"
    )]
    Capture(Capture),
    /// The files of what is known of cards, torch builds, flags, packages and faults
    #[command(
        subcommand,
        after_help = "Off until updates.toml in the configuration folder names an address and a public key for them:\n  [knowledge]\n  address = \"https://…/knowledge.json\"\n  public_key = \"RW…\"\n\nExamples:\n  tunesmith knowledge show\n  tunesmith knowledge update"
    )]
    Knowledge(Knowledge),
    /// Print a script with which a shell completes this program's words
    #[command(
        after_help = "Installed packages bring the scripts of bash, zsh and fish.\n\nExamples:\n  tunesmith completions bash > ~/.local/share/bash-completion/completions/tunesmith\n  tunesmith completions fish > ~/.config/fish/completions/tunesmith.fish\n  tunesmith completions zsh > ~/.zfunc/_tunesmith      where fpath has ~/.zfunc"
    )]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder (used when packages are made)
    #[command(hide = true)]
    Man {
        /// The folder; it is made where it is not there
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Lead tasks for a window: JSON lines, commands on standard input, what happens on standard output
    #[command(
        hide = true,
        after_help = "The window of Tunesmith starts this program so, and it is how another program can drive Tunesmith: docs/PROTOCOL.md, \"Between a window and the service\", has the words. One task runs at a time. When standard input ends, the running task is ended at once and so is this program.\n\nExamples:\n  tunesmith serve --stdio\n  (echo '{\"type\":\"start\",\"task\":1,\"work\":\"calibrate\"}'; cat) | tunesmith serve --stdio"
    )]
    Serve {
        /// Speak over standard input and output, the only way there is
        #[arg(long, required = true)]
        stdio: bool,
        /// The card that tasks run on, by PCI address, or cpu; without it the plan decides
        #[arg(long, value_name = "CARD")]
        card: Option<String>,
    },
    /// Run a command that ends when standard input closes (used by this program itself)
    #[command(hide = true)]
    Guard {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
}

/// Which machine, and by which knowledge.
#[derive(Clone, Debug, Args)]
pub(crate) struct Machine {
    /// Read a captured machine instead of this one
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Take knowledge files from here; those that are not there are the built-in ones
    #[arg(long, value_name = "DIR")]
    pub(crate) knowledge: Option<PathBuf>,
}

impl Machine {
    /// This machine, by the built-in knowledge.
    pub(crate) fn live() -> Self {
        Self {
            root: None,
            knowledge: None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Detect {
    #[command(flatten)]
    pub(crate) machine: Machine,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// Check this Python environment too; may be repeated
    #[arg(long = "env", value_name = "DIR")]
    pub(crate) environments: Vec<PathBuf>,
    /// Say more of what is in order
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) machine: Machine,
    #[command(flatten)]
    pub(crate) choice: PlanChoice,
    /// The system to plan for, where a capture does not tell it
    #[arg(long, value_enum)]
    pub(crate) system: Option<PlanSystem>,
    /// The form to print it in
    #[arg(long = "as", value_enum, default_value_t = PlanForm::Text, value_name = "FORM")]
    pub(crate) form: PlanForm,
}

/// What a plan is for.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlanChoice {
    /// Who trains: this project's engine, transformers + PEFT, or Unsloth
    #[arg(long, value_enum, default_value_t = PlanEngine::Native)]
    pub(crate) engine: PlanEngine,
    /// Plan for this card: its number in `tunesmith detect`, PCI address, UUID or name
    #[arg(long, value_name = "CARD")]
    pub(crate) card: Option<String>,
    /// This torch build, by its id in the plan, instead of the first that fits
    #[arg(long, value_name = "ID")]
    pub(crate) build: Option<String>,
    /// This package set of the knowledge files, instead of the engine's first; it gets an environment of its own
    #[arg(long, value_name = "ID")]
    pub(crate) packages: Option<String>,
}

impl PlanChoice {
    /// The first of everything for the native engine.
    pub(crate) fn native() -> Self {
        Self {
            engine: PlanEngine::Native,
            card: None,
            build: None,
            packages: None,
        }
    }
}

/// Engines that can be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PlanEngine {
    /// tunesmith-engine: no Python packages but torch's libraries
    Native,
    /// transformers + PEFT
    Hf,
    /// Unsloth
    Unsloth,
}

/// Systems that can be planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PlanSystem {
    /// Linux on the machine itself
    Linux,
    /// Linux under Windows
    Wsl,
    /// Windows
    Windows,
}

/// Forms of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PlanForm {
    /// For people
    Text,
    /// A script for bash
    Bash,
    /// A script for PowerShell
    Powershell,
    /// Arguments for uv, one command a line
    Uv,
}

#[derive(Debug, Args)]
pub(crate) struct SetUp {
    #[command(flatten)]
    pub(crate) choice: PlanChoice,
    /// Take knowledge files from here; those that are not there are the built-in ones
    #[arg(long, value_name = "DIR")]
    pub(crate) knowledge: Option<PathBuf>,
    /// Do it, and not only show it
    #[arg(long)]
    pub(crate) apply: bool,
    /// Do it without asking
    #[arg(long, short, requires = "apply")]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A log file; standard input where neither it nor --text is given
    #[arg(value_name = "FILE", conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
    /// The text itself
    #[arg(long)]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) machine: Machine,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Environments {
    /// The environments that are here, and which each engine uses
    List,
    /// What differs between two environments, by name or by folder
    Diff {
        /// An environment's name or folder
        a: String,
        /// The other one
        b: String,
    },
    /// Let its engine use this environment
    Use {
        /// The environment's name
        name: String,
    },
    /// Remove an environment that no engine uses
    Remove {
        /// The environment's name
        name: String,
        /// Remove it without asking
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Knowledge {
    /// How old they are, and where newer ones come from
    Show,
    /// Fetch newer ones over the network; only what has a good signature is used
    Update,
}

#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// The folder to write; it must not be there yet
    #[arg(value_name = "FOLDER")]
    pub(crate) destination: PathBuf,
    /// Replace the folder where it is a capture already
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) machine: Machine,
}

#[derive(Debug, Args)]
pub(crate) struct Quickstart {
    /// Seed of the run instead of the recipe's
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Ask all 300 test questions instead of 100
    #[arg(long)]
    pub(crate) full: bool,
    /// Install the card's runtime, or train on the processor where the card cannot be used, without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Change a key of the recipe; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// Measure again though a measurement is stored
    #[arg(long)]
    pub(crate) again: bool,
    /// On a processor too, keep it busy for 30 s to see whether it holds its speed
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Train {
    /// A bundled recipe (quickstart, smoke, or the one that `tunesmith plan` names) or a TOML file
    pub(crate) recipe: String,
    /// Change a key of the recipe; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Do not score the model before and after
    #[arg(long)]
    pub(crate) no_eval: bool,
    /// Fetch the model without asking, where it comes from a hub and is not here
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Who trains: this project's engine, or transformers + PEFT in the environment that `setup --engine hf` made
    #[arg(long, value_enum, default_value_t = TrainingEngine::Native)]
    pub(crate) engine: TrainingEngine,
}

#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    /// A bundled recipe or a TOML file
    pub(crate) recipe: String,
    /// Change a key of the recipe; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Search the largest value that runs, by running it
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["measure", "root"])]
    pub(crate) search: Option<FitSearch>,
    /// Run a few steps of these very settings, and lay what they hold beside the prediction
    #[arg(long, conflicts_with = "root")]
    pub(crate) measure: bool,
    /// Values to try, instead of doubling and then halving
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', requires = "search", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) candidates: Vec<u64>,
    /// Steps of a try; the first warms up
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) steps: Option<u64>,
    /// Search anew, whatever was tried earlier
    #[arg(long, requires = "search")]
    pub(crate) again: bool,
    /// Fetch the model without asking, where it comes from a hub and is not here
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Who trains
    #[arg(long, value_enum, default_value_t = TrainingEngine::Native)]
    pub(crate) engine: TrainingEngine,
    #[command(flatten)]
    pub(crate) machine: Machine,
}

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FitSearch {
    /// Rows of a pass, at the recipe's longest rows
    Batch,
    /// Tokens of a row, at the recipe's rows of a pass
    Length,
}

/// Engines that train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TrainingEngine {
    /// tunesmith-engine: no Python
    Native,
    /// transformers + PEFT, for comparison on the same rows in the same order
    Hf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Experiments {
    /// Run an experiment, or go on with it where it was begun; what is over is not run again
    #[command(
        after_help = "An experiment is a TOML file, docs/EXPERIMENTS.md shows how to write one; `tunesmith experiment list` names the ready ones. Order, pass criteria and predictions are written down before the first run. A run that fails is a record, and the next one follows. Ctrl-C stops; the same command goes on.\n\nExamples:\n  tunesmith experiment run checkpointing\n  tunesmith experiment run bf16-or-4bit --recipe sft-8gib --yes\n  tunesmith experiment run my-experiment.toml --set train.micro_batch=2 --json"
    )]
    Run {
        /// A ready experiment's name, or a TOML file
        experiment: String,
        /// Another recipe for all arms: a bundled one's name, or a file
        #[arg(long, value_name = "RECIPE")]
        recipe: Option<String>,
        /// Change a key of the recipe for all arms; may be repeated
        #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
        settings: Vec<(String, String)>,
        /// Begin anew though the same experiment was run already
        #[arg(long)]
        again: bool,
        /// Fetch the model without asking, where it comes from a hub and is not here
        #[arg(long, short)]
        yes: bool,
    },
    /// The ready experiments, and those that were begun
    List,
    /// Go on with an experiment that was begun, as its folder has it
    #[command(
        after_help = "Examples:\n  tunesmith experiment resume last\n  tunesmith experiment resume checkpointing --retry-failed"
    )]
    Resume {
        /// Its folder's name, a beginning that only it has, a ready one's name, or `last`
        experiment: String,
        /// Run once more what did not end well
        #[arg(long)]
        retry_failed: bool,
    },
    /// Where an experiment stands and what it says so far
    #[command(
        after_help = "Runs of two experiments are compared only where both are the same one, begun twice on one machine; else the command says what differs.\n\nExamples:\n  tunesmith experiment show last\n  tunesmith experiment show checkpointing --json"
    )]
    Show {
        /// Its folder's name, a beginning that only it has, a ready one's name, or `last`
        experiment: String,
        /// Lay this one beside it, where they can be compared
        #[arg(long, value_name = "EXPERIMENT")]
        beside: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// A bundled recipe or a TOML file
    pub(crate) recipe: String,
    /// Train ten steps
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Change a key of the recipe; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Fetch the model without asking, where it comes from a hub and is not here
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Eval {
    /// A run's id, the beginning of it, or `last`
    pub(crate) run: String,
    /// How many of the 300 test questions
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=300))]
    pub(crate) questions: u16,
    /// Ask the base model instead of the tuned one
    #[arg(long)]
    pub(crate) base: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// A run's id, the beginning of it, or `last`
    pub(crate) run: String,
    /// What to say to the model
    #[arg(long, conflicts_with = "question", required_unless_present = "question")]
    pub(crate) prompt: Option<String>,
    /// A test question by its number, 1 to 300
    #[arg(long, value_name = "N")]
    pub(crate) question: Option<usize>,
    /// Ask the base model instead of the tuned one
    #[arg(long)]
    pub(crate) base: bool,
    /// Longest answer, in tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_new_tokens: Option<u16>,
    /// Choose the next token at random, the more so the higher; greedy without it
    #[arg(long, value_parser = positive)]
    pub(crate) temperature: Option<f64>,
    /// Smallest set of tokens whose probability reaches this
    #[arg(long, default_value_t = 1.0, requires = "temperature", value_parser = share)]
    pub(crate) top_p: f64,
    /// Most likely tokens kept; 0 keeps all
    #[arg(long, default_value_t = 0, requires = "temperature")]
    pub(crate) top_k: u32,
    /// Seed of the choice
    #[arg(long, default_value_t = 0, requires = "temperature")]
    pub(crate) seed: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// All runs, newest last
    List,
    /// One run in full
    Show {
        /// A run's id, the beginning of it, or `last`
        run: String,
    },
    /// Go on with a run that was cut short, from its newest checkpoint
    #[command(
        after_help = "Examples:\n  tunesmith runs resume last\n  tunesmith runs resume 20260101 --json"
    )]
    Resume {
        /// A run's id, the beginning of it, or `last`
        run: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Data {
    /// The file's form, its columns, what each is used as, and the first examples
    #[command(
        after_help = "Files: JSON lines, JSON (a list of rows, ShareGPT's too), CSV, Parquet, plain text, Markdown\n\nExamples:\n  tunesmith data show rows.csv\n  tunesmith data show rows.parquet --column completion=sql --json"
    )]
    Show {
        /// The file
        path: PathBuf,
        /// Use a column as messages, prompt, input, completion, system, text or id; may be repeated
        #[arg(long = "column", short, value_name = "ROLE=COLUMN", value_parser = column)]
        columns: Vec<(Role, String)>,
        /// Examples to show
        #[arg(long, default_value_t = 2)]
        examples: usize,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// Fetch a model into the cache that Hugging Face's own tools use
    #[command(
        after_help = "An id is owner/name, owner/name@revision, or owner/name:file.gguf@revision for one GGUF file; without a revision it is the main branch, and the exact commit is told and recorded. Size and licence are said before anything is fetched.\n\nEnvironment: HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT (a mirror), HF_HUB_OFFLINE, HTTPS_PROXY, NO_PROXY"
    )]
    Fetch {
        /// The model's id
        #[arg(value_name = "ID")]
        id: String,
        /// Fetch without asking
        #[arg(long, short)]
        yes: bool,
    },
    /// The models of that cache
    List,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// A run's id, the beginning of it, or `last`; left out it is the last one
    #[arg(conflicts_with_all = ["experiment", "calibration"])]
    pub(crate) run: Option<String>,
    /// Report an experiment by its name or its folder's
    #[arg(long, value_name = "NAME", conflicts_with = "calibration")]
    pub(crate) experiment: Option<String>,
    /// Report the device's calibration, without any training
    #[arg(long)]
    pub(crate) calibration: bool,
    /// Write it in this form alone
    #[arg(long, short, value_enum, value_name = "FORM")]
    pub(crate) format: Option<ReportForm>,
    /// Write it here, `-` for standard output; the ending tells the form where --format does not
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Lay another report beside it: a report.json, or a report.html with the JSON beside it
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    /// Price of a kilowatt-hour
    #[arg(long, value_name = "PRICE", value_parser = positive)]
    pub(crate) tariff: Option<f64>,
    /// Price of the card
    #[arg(long, value_name = "PRICE", value_parser = positive)]
    pub(crate) card_price: Option<f64>,
    /// Hours of work over which the card's price is spread
    #[arg(long, value_name = "HOURS", value_parser = positive)]
    pub(crate) card_hours: Option<f64>,
    /// The currency of these prices
    #[arg(long, value_name = "NAME")]
    pub(crate) currency: Option<String>,
    /// Keep these prices for every report from now on
    #[arg(long)]
    pub(crate) keep_prices: bool,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ReportForm {
    /// One self-contained page
    Html,
    /// For programs, and for --compare
    Json,
    /// For a post in a forum
    Markdown,
    /// A picture of 1200 by 630 for sharing
    Png,
}

fn column(text: &str) -> Result<(Role, String), String> {
    let known = || Role::ALL.map(Role::name).join(", ");
    let (role, name) = text
        .split_once('=')
        .ok_or_else(|| "write ROLE=COLUMN, e.g. completion=sql".to_owned())?;
    let role = Role::ALL
        .into_iter()
        .find(|known| known.name() == role)
        .ok_or_else(|| format!("a column is used as one of {}", known()))?;
    Ok((role, name.to_owned()))
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| "write KEY=VALUE, e.g. train.micro_batch=2".to_owned())?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("give a number above zero".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 1.0 => Ok(number),
        _ => Err("give a number above 0 and up to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_prompt_or_a_question_is_needed_and_not_both() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("tunesmith generate last").is_err());
        assert!(parse("tunesmith generate last --question 1 --prompt x").is_err());
        assert!(parse("tunesmith generate last --question 1").is_ok());
        assert!(parse("tunesmith generate last --question 1 --temperature 0").is_err());
        assert!(parse("tunesmith --json train smoke --set a.b=1 --set c.d=2").is_ok());
    }
}
