//! `eval` and `generate`: what a run's model does.

use serde_json::json;
use tunesmith_lab::{
    pipeline::{self, Ask, PromptSource, Settings},
    run::Run,
};
use tunesmith_protocol::{Finish, Sampling};

use crate::{
    Done, args,
    errors::CliError,
    format::{points, table},
    terminal::Terminal,
};

pub(crate) fn eval(
    args: &args::Eval,
    settings: &Settings,
    terminal: &mut Terminal,
) -> Result<Done, CliError> {
    let run = Run::find(&settings.folders.runs(), &args.run)?;
    let count = usize::from(args.questions);
    let (side, _) = pipeline::evaluate_again(&run, count, args.base, settings, terminal)?;
    terminal.finish();
    let rows: Vec<Vec<String>> = side
        .scores
        .by_category
        .iter()
        .map(|score| {
            vec![
                score.category.clone(),
                score.total.to_string(),
                score.matches.to_string(),
                score.exact.to_string(),
                score.executes.to_string(),
            ]
        })
        .collect();
    let text = format!(
        "The {} model of {} answers {} points of execution match on {} questions\n\n{}\n\nanswers  {}",
        if args.base { "base" } else { "tuned" },
        run.id,
        points(&side),
        side.scores.total,
        table(&["category", "asked", "match", "exact", "executes"], &rows),
        run.folder.join(&side.answers).display(),
    );
    let json = json!({
        "id": run.id,
        "base": args.base,
        "questions": side.scores.total,
        "score": side.points,
        "half_width": side.half_width_points,
        "scores": side.scores,
        "eval_secs": side.wall_secs,
        "answers": run.folder.join(&side.answers),
    });
    Ok(Done::ok(text, json))
}

pub(crate) fn generate(
    args: &args::Generate,
    settings: &Settings,
    terminal: &mut Terminal,
) -> Result<Done, CliError> {
    let run = Run::find(&settings.folders.runs(), &args.run)?;
    let source = match (&args.prompt, args.question) {
        (Some(text), _) => PromptSource::Text(text.clone()),
        (None, number) => PromptSource::Question(number.unwrap_or_default()),
    };
    let sampling = args.temperature.map(|temperature| Sampling {
        temperature,
        top_p: args.top_p,
        top_k: i64::from(args.top_k),
        seed: args.seed,
    });
    let ask = Ask {
        source,
        base: args.base,
        sampling,
        max_new_tokens: args.max_new_tokens.map(usize::from),
        stream: false,
    };
    let generated = pipeline::generate(&run, &ask, settings, terminal)?;
    terminal.finish();
    let answer = &generated.answer;
    let mut text = String::new();
    if let Some(question) = &generated.question {
        text = format!(
            "question  {}\ngold      {}\nanswer    ",
            question.question, question.sql
        );
    }
    text.push_str(&answer.text);
    if answer.finish == Finish::Length {
        terminal.note("the answer was cut at its longest length; --max-new-tokens raises it");
    }
    let json = json!({
        "id": run.id,
        "base": args.base,
        "answer": answer.text,
        "tokens": answer.tokens,
        "finish": answer.finish,
        "question": generated.question,
    });
    Ok(Done::ok(text, json))
}
