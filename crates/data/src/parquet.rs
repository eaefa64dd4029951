//! Parquet files, as data hubs have them, read row by row.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row as ParquetRow};
use serde_json::{Map, Value, json};

use crate::dataset::{Fault, Place, Row};

/// Tells `each` of every row in order. Numbers, truth values, lists and structures become JSON; times and decimals
/// become text; bytes are text where they are UTF-8.
pub(crate) fn read(file: File, each: &mut dyn FnMut(Row) -> Result<(), Fault>) -> Result<(), Fault> {
    // Files come from anywhere, and the library panics on some that are damaged.
    catch_unwind(AssertUnwindSafe(|| rows(file, each)))
        .unwrap_or_else(|_| Err(Fault::File("it is damaged".to_owned())))
}

fn rows(file: File, each: &mut dyn FnMut(Row) -> Result<(), Fault>) -> Result<(), Fault> {
    let damaged = |error: parquet::errors::ParquetError| Fault::File(error.to_string());
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    for (index, row) in reader.get_row_iter(None).map_err(damaged)?.enumerate() {
        each(Row {
            place: Place::Row(index + 1),
            columns: object(&row.map_err(damaged)?),
        })?;
    }
    Ok(())
}

fn object(row: &ParquetRow) -> Map<String, Value> {
    row.get_column_iter()
        .map(|(name, field)| (name.clone(), value(field)))
        .collect()
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => json!(value),
        Field::Byte(value) => json!(value),
        Field::Short(value) => json!(value),
        Field::Int(value) => json!(value),
        Field::Long(value) => json!(value),
        Field::UByte(value) => json!(value),
        Field::UShort(value) => json!(value),
        Field::UInt(value) => json!(value),
        Field::ULong(value) => json!(value),
        Field::Float(value) => json!(value),
        Field::Double(value) => json!(value),
        Field::Str(text) => json!(text),
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => json!(text),
            Err(_) => json!(field.to_string()),
        },
        Field::Group(row) => Value::Object(object(row)),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        Field::MapInternal(map) => map
            .entries()
            .iter()
            .map(|(key, item)| {
                let key = value(key);
                (
                    key.as_str().map_or_else(|| key.to_string(), str::to_owned),
                    value(item),
                )
            })
            .collect(),
        // Times and decimals, in the library's own words.
        other => json!(other.to_string()),
    }
}
