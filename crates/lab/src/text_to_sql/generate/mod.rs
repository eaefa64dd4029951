//! Makes the data set from `domains.toml`, the same bytes every time.
//!
//! Each domain becomes one schema with rows. Questions are drafted at random from templates and kept only if
//! they are good: the gold query runs, returns something, returns the same whatever order the rows lie in, and
//! every part of the question matters to the result. Then whole schemas are set apart for the test.

mod dice;
mod domain;
mod joined;
mod phrase;
mod query;
mod ranked;
mod single;
mod summary;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use self::dice::Dice;
use self::domain::{Domain, make_schema, read_domains};
use self::query::Draft;
use self::single::World;
use super::{Question, Schema};
use crate::sql::{Database, ResultTable, SqlError, Value, is_ordered};

/// The seed of the split and of everything drawn (E1).
pub const SEED: u64 = 42;
/// Number of schemas that only the test uses.
pub const TEST_SCHEMAS: usize = 12;
/// Number of test questions.
pub const TEST_QUESTIONS: usize = 300;
/// Number of training questions.
pub const TRAIN_QUESTIONS: usize = 5_200;

/// Questions to make per schema, over all categories.
const QUESTIONS_PER_SCHEMA: usize = 104;
/// Drafts to try for each question wanted; most drafts of the rarer kinds are dropped.
const DRAFTS_PER_QUESTION: usize = 120;
/// How often one query may be asked for, in different words.
const WORDINGS_PER_QUERY: usize = 2;

/// The kinds of questions, and how often each is asked where a schema allows it, in relation to the others.
pub const CATEGORIES: [(&str, usize); 16] = [
    // Simple: about two in five.
    ("list", 16),
    ("count", 8),
    ("aggregate", 10),
    ("distinct", 5),
    // Middle: about two in five.
    ("two_filters", 6),
    ("between", 4),
    ("in", 3),
    ("like", 4),
    ("null", 4),
    ("order", 5),
    ("top", 8),
    ("group", 5),
    // Harder: one in five.
    ("having", 3),
    ("join", 11),
    ("join_aggregate", 7),
    ("subquery", 5),
];

/// Why the data set could not be made.
#[derive(Debug, Error)]
pub enum GenerateError {
    /// `domains.toml` is not valid.
    #[error("domains.toml could not be read: {0}")]
    Domains(String),
    /// A schema's database could not be built.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// There are not enough good questions for one part.
    #[error("{found} {part} questions could be made, and {wanted} are needed")]
    TooFew {
        /// "training" or "test".
        part: &'static str,
        /// Questions made.
        found: usize,
        /// Questions needed.
        wanted: usize,
    },
    /// A part could not be written as JSON.
    #[error("the data set could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl GenerateError {
    /// A stable word for this kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Domains(_) => "generate_domains",
            Self::Sql(error) => error.code(),
            Self::TooFew { .. } => "generate_too_few",
            Self::Json(_) => "generate_json",
        }
    }

    /// What to do about it.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Domains(_) => {
                "compare the named domain with another one in assets/text-to-sql/domains.toml"
            }
            Self::Sql(_) => "a table or column name in domains.toml may be a word of SQL",
            Self::TooFew { .. } => "add domains or columns to assets/text-to-sql/domains.toml",
            Self::Json(_) => "this is a fault of the generator",
        };
        vec![hint.to_owned()]
    }
}

/// The files of the data set, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// `schemas.json`: every schema with its rows.
    pub schemas: String,
    /// `train.jsonl`: one training question a line.
    pub train: String,
    /// `test.jsonl`: one test question a line.
    pub test: String,
}

impl Files {
    /// Name and content of each file.
    pub fn named(&self) -> [(&'static str, &str); 3] {
        [
            ("schemas.json", &self.schemas),
            ("train.jsonl", &self.train),
            ("test.jsonl", &self.test),
        ]
    }
}

/// Makes the data set from the built-in `domains.toml`.
///
/// # Errors
/// [`GenerateError`] if the domains are not valid or give too few questions.
pub fn generate() -> Result<Files, GenerateError> {
    generate_from(include_str!("../../../../../assets/text-to-sql/domains.toml"))
}

/// Makes the data set from the text of a domains file.
///
/// # Errors
/// [`GenerateError`] if the domains are not valid or give too few questions.
pub fn generate_from(domains: &str) -> Result<Files, GenerateError> {
    let domains = read_domains(domains)?;
    let mut order: Vec<usize> = (0..domains.len()).collect();
    let mut dice = Dice::new(SEED, 0);
    dice.shuffle(&mut order);
    let tested = &order[domains.len().saturating_sub(TEST_SCHEMAS)..];
    let (mut schemas, mut train, mut test) = (Vec::new(), Vec::new(), Vec::new());
    for (index, domain) in domains.iter().enumerate() {
        // A stream of its own, so that a change to one domain leaves the others alone.
        let mut dice = Dice::new(SEED, index as u64 + 1);
        let schema = make_schema(domain, &mut dice)?;
        let questions = make_questions(domain, &schema, &mut dice)?;
        if tested.contains(&index) {
            test.extend(questions);
        } else {
            train.extend(questions);
        }
        schemas.push(schema);
    }
    dice.shuffle(&mut train);
    dice.shuffle(&mut test);
    check_count("training", train.len(), TRAIN_QUESTIONS)?;
    train.truncate(TRAIN_QUESTIONS);
    let asked: BTreeSet<&str> = train.iter().map(|question| question.question.as_str()).collect();
    test.retain(|question| !asked.contains(question.question.as_str()));
    let test = with_mix_of(&train, &test);
    check_count("test", test.len(), TEST_QUESTIONS)?;
    let schemas = schemas
        .iter()
        .map(serde_json::to_string)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Files {
        schemas: format!("[\n{}\n]\n", schemas.join(",\n")),
        train: lines("train", train)?,
        test: lines("test", test)?,
    })
}

fn check_count(part: &'static str, found: usize, wanted: usize) -> Result<(), GenerateError> {
    if found < wanted {
        Err(GenerateError::TooFew { part, found, wanted })
    } else {
        Ok(())
    }
}

/// The test questions: of each category the share that it has in training, in the order of `pool`.
fn with_mix_of(train: &[Question], pool: &[Question]) -> Vec<Question> {
    let mut room: BTreeMap<&str, usize> = BTreeMap::new();
    for question in train {
        *room.entry(&question.category).or_default() += 1;
    }
    // Largest remainders, so that the shares add up to exactly the number wanted.
    let mut remainders = Vec::new();
    let mut left = TEST_QUESTIONS;
    for (category, count) in &mut room {
        let share = *count * TEST_QUESTIONS;
        remainders.push((share % train.len(), *category));
        *count = share / train.len();
        left -= *count;
    }
    remainders.sort_unstable_by(|a, b| b.cmp(a));
    for (_, category) in remainders.into_iter().take(left) {
        *room.entry(category).or_default() += 1;
    }
    let mut chosen = Vec::new();
    for question in pool {
        if let Some(room) = room.get_mut(question.category.as_str())
            && *room > 0
        {
            *room -= 1;
            chosen.push(question.clone());
        }
    }
    chosen
}

fn lines(part: &str, questions: Vec<Question>) -> Result<String, GenerateError> {
    let mut text = String::new();
    for (index, mut question) in questions.into_iter().enumerate() {
        question.id = format!("{part}-{:04}", index + 1);
        text += &serde_json::to_string(&question)?;
        text.push('\n');
    }
    Ok(text)
}

fn make_questions(domain: &Domain, schema: &Schema, dice: &mut Dice) -> Result<Vec<Question>, GenerateError> {
    let bench = Bench::new(schema)?;
    let world = World { domain, schema };
    let mut kept: Vec<Question> = Vec::new();
    let mut missing = 0;
    // The categories that most schemas can serve come last and make up for those that this one cannot.
    for (category, share) in CATEGORIES.into_iter().rev() {
        let simple = matches!(
            category,
            "list" | "count" | "aggregate" | "distinct" | "two_filters" | "top"
        );
        let wanted = share * QUESTIONS_PER_SCHEMA / 100 + if simple { missing / 5 } else { 0 };
        let before = kept.len();
        for _ in 0..wanted * DRAFTS_PER_QUESTION {
            if kept.len() - before == wanted {
                break;
            }
            let Some(draft) = draft(category, world, dice) else {
                continue;
            };
            let draft = Draft {
                question: sentence(&draft.question),
                ..draft
            };
            let same_query = kept.iter().filter(|question| question.sql == draft.sql).count();
            let same_words = kept.iter().any(|question| question.question == draft.question);
            if same_query >= WORDINGS_PER_QUERY || same_words || !bench.accepts(&draft) {
                continue;
            }
            kept.push(Question {
                id: String::new(),
                schema: schema.id.clone(),
                category: category.to_owned(),
                question: draft.question,
                sql: draft.sql,
            });
        }
        missing += wanted - (kept.len() - before);
    }
    Ok(kept)
}

fn draft(category: &str, world: World, dice: &mut Dice) -> Option<Draft> {
    match category {
        "list" => single::list(world, dice),
        "count" => single::count(world, dice),
        "aggregate" => summary::aggregate(world, dice),
        "distinct" => summary::distinct(world, dice),
        "two_filters" => single::two_filters(world, dice),
        "between" => single::between_values(world, dice),
        "in" => single::in_values(world, dice),
        "like" => single::like(world, dice),
        "null" => single::null(world, dice),
        "order" => ranked::order(world, dice),
        "top" => ranked::top(world, dice),
        "group" => summary::group(world, dice),
        "having" => summary::having(world, dice),
        "join" => joined::join(world, dice),
        "join_aggregate" => joined::join_aggregate(world, dice),
        "subquery" if dice.chance(40) => joined::childless(world, dice),
        "subquery" => ranked::subquery(world, dice),
        _ => None,
    }
}

/// The question with a capital at its start.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The rows of one schema in several orders, to try drafts on.
struct Bench {
    /// The schema as it is.
    plain: Database,
    /// The same rows in other orders.
    others: Vec<Database>,
}

impl Bench {
    fn new(schema: &Schema) -> Result<Self, GenerateError> {
        let mut reversed = schema.clone();
        let mut turned = schema.clone();
        for table in &mut reversed.tables {
            table.rows.reverse();
        }
        for table in &mut turned.tables {
            let middle = table.rows.len() / 2;
            table.rows.rotate_left(middle);
            table.rows.swap(0, 1);
        }
        Ok(Self {
            plain: Database::from_schema(schema)?,
            others: vec![Database::from_schema(&reversed)?, Database::from_schema(&turned)?],
        })
    }

    /// Whether a draft makes a good question.
    fn accepts(&self, draft: &Draft) -> bool {
        let ordered = is_ordered(&draft.sql);
        let Ok(gold) = self.plain.query(&draft.sql) else {
            return false;
        };
        let says_something = !gold.rows.is_empty()
            && gold
                .rows
                .iter()
                .flatten()
                .all(|value| !matches!(value, Value::Null))
            && gold.rows != [vec![Value::Integer(0)]];
        says_something
            && shows_no_row_twice(&gold)
            && literals_stand_in(draft)
            && self.others.iter().all(|other| {
                other
                    .query(&draft.sql)
                    .is_ok_and(|result| gold.same(&result, ordered))
            })
            && draft.must_differ.iter().all(|query| {
                self.plain
                    .query(query)
                    .is_ok_and(|result| !gold.same(&result, ordered))
            })
            && draft.must_agree.iter().all(|query| {
                self.plain
                    .query(query)
                    .is_ok_and(|result| gold.same(&result, ordered))
            })
    }
}

/// Whether all rows differ: with repeats, one could ask back whether they are wanted.
fn shows_no_row_twice(result: &ResultTable) -> bool {
    let rows = &result.rows;
    (1..rows.len()).all(|index| !rows[..index].contains(&rows[index]))
}

/// Whether every value in the query stands in the question too, since the model does not see the rows.
fn literals_stand_in(draft: &Draft) -> bool {
    let mut bare = String::new();
    for (index, piece) in draft.sql.split('\'').enumerate() {
        if index % 2 == 0 {
            bare += piece;
            bare.push(' ');
        } else if !draft.question.contains(piece.trim_matches('%')) {
            return false;
        }
    }
    bare.replace("LIMIT 1", "")
        .split(|letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '.')))
        .filter(|word| word.parse::<f64>().is_ok())
        .all(|number| draft.question.contains(number))
}
