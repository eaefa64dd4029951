//! What a user relies on in the text-to-SQL evaluation: hostile SQL does no harm, results are compared by
//! meaning, answers are read by one fixed rule, and the data set is what its README says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use tunesmith_lab::sql::{Database, MAX_SQL_BYTES, ResultTable, SqlError, TIME_LIMIT, Value, is_ordered};
use tunesmith_lab::text_to_sql::generate::{CATEGORIES, TEST_QUESTIONS, TEST_SCHEMAS, generate};
use tunesmith_lab::text_to_sql::{
    Column, ColumnType, EXTRACTION_RULE, Question, Schema, ScoredAnswer, TEST_SHA256, TRAIN_SHA256, Table,
    TextToSql, extract_sql, normalise_sql, score, tally,
};

fn shop() -> Schema {
    let column = |name: &str, kind| Column {
        name: name.to_owned(),
        kind,
    };
    let row = |name: &str, price: f64, stock: Option<i64>| {
        vec![
            Value::Text(name.to_owned()),
            Value::Real(price),
            stock.map_or(Value::Null, Value::Integer),
        ]
    };
    Schema {
        id: "shop".to_owned(),
        domain: "shop".to_owned(),
        tables: vec![Table {
            name: "item".to_owned(),
            columns: vec![
                column("name", ColumnType::Text),
                column("price", ColumnType::Real),
                column("stock", ColumnType::Int),
            ],
            rows: vec![
                row("pen", 1.5, Some(3)),
                row("cup", 4.0, Some(7)),
                row("bag", 20.0, None),
                row("hat", 9.5, Some(7)),
            ],
        }],
    }
}

fn database() -> Database {
    Database::from_schema(&shop()).expect("the schema is valid")
}

fn failure(sql: &str) -> SqlError {
    match database().query(sql) {
        Ok(result) => panic!("{sql} gave {result:?}"),
        Err(error) => error,
    }
}

#[test]
fn reading_is_allowed() {
    for sql in [
        "SELECT name, price FROM item WHERE stock IS NULL",
        "select count(*), AVG(price), max(upper(name)) from item;",
        "SELECT name FROM item WHERE name = \"pen\"",
        "WITH cheap AS (SELECT * FROM item WHERE price < 5) SELECT name FROM cheap -- the cheap ones",
        "SELECT name, RANK() OVER (ORDER BY price) FROM item",
        "SELECT substr(name, 1, 1) || '!', round(price, 1), CASE WHEN stock > 3 THEN 1 ELSE 0 END FROM item",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n",
        "SELECT name FROM item INTERSECT SELECT name FROM item WHERE name LIKE 'p%' ORDER BY 1",
    ] {
        assert!(!database().query(sql).unwrap().rows.is_empty(), "{sql}");
    }
}

#[test]
fn everything_but_reading_is_refused() {
    let database = database();
    for sql in [
        "ATTACH DATABASE '/tmp/tunesmith-attached.db' AS other",
        "DETACH DATABASE main",
        "PRAGMA table_info(item)",
        "PRAGMA query_only = OFF",
        "SELECT * FROM pragma_table_info('item')",
        "SELECT * FROM pragma_database_list",
        "INSERT INTO item VALUES ('fan', 3.0, 1)",
        "INSERT INTO item VALUES ('fan', 3.0, 1) RETURNING name",
        "UPDATE item SET price = 0",
        "DELETE FROM item",
        "DROP TABLE item",
        "CREATE TABLE other (id INT)",
        "CREATE TEMP TABLE other AS SELECT * FROM item",
        "CREATE VIRTUAL TABLE words USING fts5(word)",
        "CREATE TRIGGER t AFTER INSERT ON item BEGIN SELECT 1; END",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT a",
        "VACUUM INTO '/tmp/tunesmith-copied.db'",
        "ANALYZE",
        "SELECT load_extension('/tmp/evil.so')",
        "SELECT randomblob(10)",
        "SELECT zeroblob(1000000000)",
        "SELECT length(zeroblob(1000000000))",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "SELECT format('%1000000000d', 1)",
        "SELECT random()",
        "SELECT readfile('/etc/passwd')",
        "SELECT sqlite_version()",
        "SELECT CURRENT_TIMESTAMP",
    ] {
        let error = match database.query(sql) {
            Ok(result) => panic!("{sql} gave {result:?}"),
            Err(error) => error,
        };
        // `readfile` and the like are unknown to this SQLite, which is as good.
        assert!(
            matches!(error, SqlError::Refused { .. } | SqlError::Failed { .. }),
            "{sql}: {error}"
        );
        assert!(!error.hints().is_empty());
    }
    assert!(!std::path::Path::new("/tmp/tunesmith-attached.db").exists());
    assert!(!std::path::Path::new("/tmp/tunesmith-copied.db").exists());
    assert_eq!(
        database.query("SELECT COUNT(*) FROM item").unwrap().rows,
        [[Value::Integer(4)]]
    );
}

#[test]
fn only_one_statement_is_taken() {
    assert_eq!(failure("SELECT 1; SELECT 2").code(), "sql_not_one_statement");
    assert_eq!(
        failure("SELECT name FROM item; DROP TABLE item").code(),
        "sql_refused"
    );
    assert_eq!(failure("").code(), "sql_not_one_statement");
    assert_eq!(failure("-- nothing").code(), "sql_not_one_statement");
    assert_eq!(failure("REINDEX").code(), "sql_not_one_statement");
    assert!(database().query("SELECT 1; -- the end").is_ok());
}

#[test]
fn endless_and_huge_queries_are_stopped() {
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n";
    let product = format!("SELECT COUNT(*) FROM {}", vec!["item"; 30].join(", "));
    let copies: Vec<String> = (0..12).map(|index| format!("item i{index}")).collect();
    let sorted = format!(
        "SELECT i0.name FROM {} ORDER BY i1.price, i2.name, i3.price",
        copies.join(", ")
    );
    for sql in [endless, &product, &sorted] {
        let start = Instant::now();
        let error = failure(sql);
        assert!(
            matches!(error, SqlError::TimedOut | SqlError::TooLarge { .. }),
            "{sql}: {error}"
        );
        assert!(
            start.elapsed() < TIME_LIMIT * 3,
            "{sql} ran for {:?}",
            start.elapsed()
        );
    }
    let rows = "SELECT a.name FROM item a, item b, item c, item d, item e, item f, item g";
    assert_eq!(failure(rows).code(), "sql_too_large");
    let grown =
        "WITH RECURSIVE t(s) AS (SELECT 'xxxxxxxxxx' UNION ALL SELECT s || s FROM t) SELECT MAX(s) FROM t";
    assert_eq!(failure(grown).code(), "sql_too_large");
    let replaced = format!(
        "SELECT {}'x'{}",
        "replace(".repeat(20),
        ", 'x', 'xxxxxxxxxx')".repeat(20)
    );
    assert_eq!(failure(&replaced).code(), "sql_too_large");
    let long = format!("SELECT '{}'", "x".repeat(MAX_SQL_BYTES));
    assert_eq!(failure(&long).code(), "sql_too_long");
    let deep = format!("SELECT {}1{}", "(".repeat(3_000), ")".repeat(3_000));
    assert_eq!(failure(&deep).code(), "sql_failed");
}

#[test]
fn a_stopped_query_leaves_the_database_usable() {
    let database = database();
    let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0";
    assert_eq!(database.query(endless).unwrap_err().code(), "sql_timed_out");
    assert_eq!(database.query("SELECT name FROM item").unwrap().rows.len(), 4);
}

#[test]
fn results_are_compared_by_meaning() {
    let table = |rows: Vec<Vec<Value>>| ResultTable {
        columns: vec![String::new(); rows.first().map_or(1, Vec::len)],
        rows,
    };
    let one = |values: &[Value]| table(values.iter().map(|value| vec![value.clone()]).collect());
    let text = |text: &str| Value::Text(text.to_owned());
    let (int, real) = (Value::Integer, Value::Real);
    let abc = one(&[text("a"), text("b"), text("c")]);
    let cba = one(&[text("c"), text("b"), text("a")]);
    assert!(
        abc.same(&cba, false),
        "without ORDER BY the order of rows is free"
    );
    assert!(!abc.same(&cba, true), "with ORDER BY it is not");
    assert!(one(&[int(2)]).same(&one(&[real(2.0)]), true));
    assert!(one(&[real(0.3)]).same(&one(&[real(0.1 + 0.2)]), true));
    assert!(!one(&[real(0.3)]).same(&one(&[real(0.300_1)]), true));
    assert!(!one(&[int(2)]).same(&one(&[text("2")]), true));
    assert!(one(&[Value::Null]).same(&one(&[Value::Null]), true));
    assert!(!one(&[Value::Null]).same(&one(&[int(0)]), true));
    assert!(!one(&[text("Oslo")]).same(&one(&[text("oslo")]), true));
    assert!(
        !one(&[int(1), int(1), int(2)]).same(&one(&[int(1), int(2), int(2)]), false),
        "duplicates count"
    );
    assert!(!one(&[int(1)]).same(&one(&[int(1), int(1)]), false));
    let pair = table(vec![vec![text("a"), int(1)]]);
    assert!(
        !pair.same(&table(vec![vec![int(1), text("a")]]), false),
        "the order of columns counts"
    );
    assert!(!pair.same(&one(&[text("a")]), false));
}

#[test]
fn only_an_outer_order_by_makes_a_result_ordered() {
    assert!(is_ordered("SELECT a FROM t ORDER BY b"));
    assert!(is_ordered(
        "select a from t where b = (select max(b) from t)\norder\nby a limit 3"
    ));
    assert!(!is_ordered("SELECT a FROM (SELECT a FROM t ORDER BY b LIMIT 3)"));
    assert!(!is_ordered("SELECT a, RANK() OVER (ORDER BY b) FROM t"));
    assert!(!is_ordered("SELECT a FROM t WHERE b = 'order by c'"));
    assert!(!is_ordered("SELECT a FROM t"));
}

#[test]
fn sql_is_taken_out_of_answers_by_the_fixed_rule() {
    let plain = "SELECT name FROM item WHERE price > 5";
    let cases = [
        // Bare, with a semicolon, with white space around it.
        (plain.to_owned(), Some(plain)),
        (format!("{plain};"), Some(plain)),
        (format!("\n  {plain} ; \n"), Some(plain)),
        // Code fences of several kinds, with prose before and after.
        (format!("```sql\n{plain};\n```"), Some(plain)),
        (
            format!("Here is the query:\n\n```sql\n{plain}\n```\n\nThis selects the dear ones."),
            Some(plain),
        ),
        (format!("```SQL\n{plain}\n```"), Some(plain)),
        (format!("```sqlite\n{plain}\n```"), Some(plain)),
        (format!("```\n{plain};\n```"), Some(plain)),
        (format!("```{plain}```"), Some(plain)),
        (format!("```sql\n{plain}"), Some(plain)),
        (
            format!("```python\nprint(1)\n```\n```sql\n{plain}\n```"),
            Some(plain),
        ),
        (
            format!("```text\nSELECT wrong\n```\nor\n```sql\n{plain}\n```"),
            Some(plain),
        ),
        // Several statements: the first one counts.
        (format!("{plain}; SELECT 2;"), Some(plain)),
        (format!("```sql\n{plain};\nSELECT 2;\n```"), Some(plain)),
        // Prose around a bare query.
        (
            format!("The SQL query is:\n\n{plain};\n\nIt returns the names."),
            Some(plain),
        ),
        (format!("You can use this query: {plain};"), Some(plain)),
        (
            format!("{plain}\n\nThis query selects the names of all items."),
            Some(plain),
        ),
        (
            format!("To make the selection, write `{plain}` in SQLite."),
            Some(plain),
        ),
        (
            format!("To find the items with a price above 5, you can select them:\n{plain}"),
            Some(plain),
        ),
        // Words that only look like the beginning of a query.
        (
            "The selection of items with a price above 5 is selected.".to_owned(),
            None,
        ),
        ("I do not know.".to_owned(), None),
        (String::new(), None),
        // A query over several lines, in small letters, with a semicolon and a blank inside quotes.
        (
            "select name\nfrom item\nwhere name = 'a;b';".to_owned(),
            Some("select name\nfrom item\nwhere name = 'a;b'"),
        ),
        (
            "WITH dear AS (SELECT * FROM item) SELECT name FROM dear;".to_owned(),
            Some("WITH dear AS (SELECT * FROM item) SELECT name FROM dear"),
        ),
        // A quote that is never closed does not swallow the rest.
        (
            "SELECT 'a FROM item\n\nIt's done.".to_owned(),
            Some("SELECT 'a FROM item"),
        ),
        ("Größe: SELECT 1".to_owned(), Some("SELECT 1")),
    ];
    for (answer, expected) in cases {
        assert_eq!(extract_sql(&answer).as_deref(), expected, "{answer:?}");
    }
    assert!(EXTRACTION_RULE.contains("first semicolon"));
}

#[test]
fn exact_match_ignores_spelling_but_not_values() {
    let gold = "SELECT name FROM item WHERE name = 'Pen' AND price > 5";
    for same in [
        "select NAME from item where name='Pen' and price>5;",
        "SELECT name\n  FROM item\n  WHERE name = \"Pen\" AND price > 5 ;",
    ] {
        assert_eq!(normalise_sql(same), normalise_sql(gold), "{same}");
    }
    for other in [
        "SELECT name FROM item WHERE name = 'pen' AND price > 5",
        "SELECT name FROM item WHERE name = 'Pen' AND price > 6",
        "SELECT name FROM item WHERE price > 5 AND name = 'Pen'",
    ] {
        assert_ne!(normalise_sql(other), normalise_sql(gold), "{other}");
    }
    assert_eq!(
        normalise_sql("SELECT COUNT( * ) FROM t"),
        normalise_sql("select count(*) from t")
    );
    assert_ne!(
        normalise_sql("SELECT a b FROM t"),
        normalise_sql("SELECT ab FROM t")
    );
    assert_ne!(normalise_sql("SELECT 'a  b'"), normalise_sql("SELECT 'a b'"));
}

#[test]
fn answers_are_scored_and_counted() {
    let database = database();
    let gold = "SELECT name FROM item WHERE price > 5";
    let right = score(
        &database,
        gold,
        "```sql\nselect name from item where price > 5\n```",
    );
    assert!(right.exact && right.executes && right.matches);
    let same_rows = score(
        &database,
        gold,
        "SELECT name FROM item WHERE price >= 9 ORDER BY name",
    );
    assert!(!same_rows.exact && same_rows.executes && same_rows.matches);
    let other_rows = score(&database, gold, "SELECT name FROM item");
    assert!(!other_rows.exact && other_rows.executes && !other_rows.matches);
    assert!(other_rows.error.is_none());
    let broken = score(&database, gold, "SELECT title FROM item");
    assert!(!broken.executes && !broken.matches);
    assert!(
        broken.error.as_ref().is_some_and(|error| error.contains("title")),
        "{broken:?}"
    );
    let silent = score(&database, gold, "I cannot answer that.");
    assert_eq!(silent.sql, None);
    assert!(silent.error.is_some());
    let ordered = "SELECT name FROM item ORDER BY price DESC";
    assert!(!score(&database, ordered, "SELECT name FROM item ORDER BY price ASC").matches);

    let question = |category: &str| Question {
        id: String::new(),
        schema: "shop".to_owned(),
        category: category.to_owned(),
        question: String::new(),
        sql: gold.to_owned(),
    };
    let answers: Vec<(Question, ScoredAnswer)> = vec![
        (question("top"), right),
        (question("list"), same_rows),
        (question("list"), other_rows),
        (question("list"), broken),
        (question("count"), silent),
    ];
    let scores = tally(&answers);
    assert_eq!(
        (scores.total, scores.exact, scores.executes, scores.matches),
        (5, 1, 3, 2)
    );
    let names: Vec<&str> = scores
        .by_category
        .iter()
        .map(|entry| entry.category.as_str())
        .collect();
    assert_eq!(names, ["count", "list", "top"]);
    let list = &scores.by_category[1];
    assert_eq!(
        (list.total, list.exact, list.executes, list.matches),
        (3, 0, 2, 1)
    );
    let json = serde_json::to_value(&scores).unwrap();
    assert_eq!(json["by_category"][2]["matches"], 1);
}

#[test]
fn the_prompt_shows_the_schema_and_the_question_and_no_answer() {
    let set = TextToSql::load().unwrap();
    let question = &set.test[0];
    let messages = set.messages(question);
    let roles: Vec<&str> = messages.iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["system", "user"]);
    assert!(messages[1].content.starts_with("CREATE TABLE "));
    assert!(messages[1].content.ends_with(&question.question));
    assert!(
        !messages
            .iter()
            .any(|message| message.content.contains(&question.sql))
    );
}

#[test]
fn the_data_set_has_the_promised_size_and_mix() {
    let set = TextToSql::load().unwrap();
    assert!(set.train.len() >= 5_000, "{}", set.train.len());
    assert_eq!(set.test.len(), TEST_QUESTIONS);
    assert!(set.schemas.len() >= 60);
    for schema in &set.schemas {
        assert!((1..=3).contains(&schema.tables.len()), "{}", schema.id);
        for table in &schema.tables {
            assert!(
                (5..=20).contains(&table.rows.len()),
                "{}.{}",
                schema.id,
                table.name
            );
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
        }
    }
    let shares = |questions: &[Question]| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for question in questions {
            *counts.entry(question.category.clone()).or_default() += 1;
        }
        counts
            .into_iter()
            .map(|(name, count)| (name, count as f64 / questions.len() as f64))
            .collect()
    };
    let (train, test): (BTreeMap<_, _>, BTreeMap<_, _>) = (shares(&set.train), shares(&set.test));
    let known: BTreeSet<&str> = CATEGORIES.iter().map(|category| category.0).collect();
    assert_eq!(train.keys().map(String::as_str).collect::<BTreeSet<_>>(), known);
    for (name, share) in &train {
        let tested = test.get(name).copied().unwrap_or_default();
        assert!(
            (tested - share).abs() < 0.01,
            "{name}: {share:.3} in training, {tested:.3} in the test"
        );
    }
    let ids: BTreeSet<&str> = set
        .train
        .iter()
        .chain(&set.test)
        .map(|question| question.id.as_str())
        .collect();
    assert_eq!(ids.len(), set.train.len() + set.test.len());
}

#[test]
fn nothing_of_the_test_occurs_in_training() {
    let set = TextToSql::load().unwrap();
    let schemas = |questions: &[Question]| {
        questions
            .iter()
            .map(|q| q.schema.clone())
            .collect::<BTreeSet<String>>()
    };
    let tested = schemas(&set.test);
    assert_eq!(tested.len(), TEST_SCHEMAS);
    assert!(tested.is_disjoint(&schemas(&set.train)));
    let asked: BTreeSet<&str> = set
        .train
        .iter()
        .map(|question| question.question.as_str())
        .collect();
    for question in &set.test {
        assert!(
            !asked.contains(question.question.as_str()),
            "{}",
            question.question
        );
    }
}

#[test]
fn every_gold_query_gives_a_determined_result_that_its_question_allows() {
    let set = TextToSql::load().unwrap();
    let mut databases = BTreeMap::new();
    for schema in &set.schemas {
        let mut reversed = schema.clone();
        for table in &mut reversed.tables {
            table.rows.reverse();
        }
        let pair = (
            Database::from_schema(schema).unwrap(),
            Database::from_schema(&reversed).unwrap(),
        );
        databases.insert(schema.id.clone(), pair);
    }
    for question in set.train.iter().chain(&set.test) {
        let (plain, reversed) = &databases[&question.schema];
        let name = format!("{}: {}", question.id, question.sql);
        let result = plain
            .query(&question.sql)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let other = reversed.query(&question.sql).unwrap();
        assert!(!result.rows.is_empty(), "{name}");
        assert!(result.same(&other, is_ordered(&question.sql)), "{name}");
        let ScoredAnswer { exact, matches, .. } = score(plain, &question.sql, &question.sql);
        assert!(exact && matches, "{name}");
        assert!(
            question.sql.starts_with("SELECT ") && !question.sql.contains([';', '\n', '"', '{']),
            "{name}"
        );
        assert!(question.question.ends_with(['?', '.']), "{name}");
        assert!(
            !question.question.contains(['{', '}', '_']),
            "{name}: {}",
            question.question
        );
        for text in question.sql.split('\'').skip(1).step_by(2) {
            assert!(
                question.question.contains(text.trim_matches('%')),
                "{name}: {}",
                question.question
            );
        }
    }
}

#[test]
fn the_files_are_what_the_generator_makes_and_what_is_pinned() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/text-to-sql"));
    for (name, content) in generate().unwrap().named() {
        let found = std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(found == content, "{name} differs from what the generator makes");
    }
    let set = TextToSql::load().unwrap();
    assert_eq!(
        set.train_hash(),
        TRAIN_SHA256,
        "the training questions have changed"
    );
    assert_eq!(set.test_hash(), TEST_SHA256, "the test questions have changed");
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(readme.contains(TRAIN_SHA256) && readme.contains(TEST_SHA256));
    let bytes: u64 = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes < 2 << 20, "{bytes} bytes");
}
