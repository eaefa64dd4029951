//! The command line, in the words of its help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tunesmith_data::Role;

/// Fine-tunes language models on your own machine, and measures honestly how well it does
#[derive(Debug, Parser)]
#[command(
    name = "tunesmith",
    version,
    after_help = "Examples:\n  tunesmith quickstart                          calibrate, train and score the bundled recipe\n  tunesmith train quickstart --set train.steps=20\n  tunesmith generate last --question 7          what the newest adapter answers\n  tunesmith runs list\n\nExit status: 0 done, 1 error, 2 usage, 3 the run is invalid, 130 stopped by hand"
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
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Calibrate the device, train the bundled recipe, score it, write a report
    Quickstart(Quickstart),
    /// Measure what the device can do: matrix products and copies, values checked
    Calibrate(Calibrate),
    /// Train a recipe
    #[command(
        after_help = "Examples:\n  tunesmith train quickstart\n  tunesmith train my-recipe.toml --set train.seed=42 --set lora.rank=8\n  tunesmith train smoke --set data.path=rows.csv --set data.columns.completion=sql\n  tunesmith train smoke --set model.source=owner/name@revision --yes"
    )]
    Train(Train),
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
    /// Write a run's report again, as one HTML file and JSON
    Report(Report),
    /// Look at a data set as a training would read it
    #[command(subcommand)]
    Data(Data),
    /// Fetch models from a hub, and see which are here
    #[command(subcommand)]
    Models(Models),
}

#[derive(Debug, Args)]
pub(crate) struct Quickstart {
    /// Seed of the run instead of the recipe's
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Ask all 300 test questions instead of 100
    #[arg(long)]
    pub(crate) full: bool,
    /// Change a key of the recipe; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// Measure again though a measurement is stored
    #[arg(long)]
    pub(crate) again: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Train {
    /// A bundled recipe (quickstart, smoke) or a TOML file
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
    /// Who trains: this project's engine, or transformers + PEFT in the Python that TUNESMITH_HF_PYTHON names
    #[arg(long, value_enum, default_value_t = TrainingEngine::Native)]
    pub(crate) engine: TrainingEngine,
}

/// Engines that train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TrainingEngine {
    /// tunesmith-engine: no Python
    Native,
    /// transformers + PEFT, for comparison on the same rows in the same order
    Hf,
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
    /// A run's id, the beginning of it, or `last`
    pub(crate) run: String,
    /// Write the HTML file here instead of into the run's folder
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
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
