//! Rows on disk: one safetensors file that every engine reads, and a description beside it.
//!
//! A rows file comes from disk and may be damaged or made by something else, so [`Rows::read`] checks all of it
//! before an engine allocates or trains anything. `docs/PROTOCOL.md` describes the file for engines in other languages.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::files::{hash_bytes, write_whole};
use crate::{DataError, RowsProblem, RowsReport};

/// Name of the file with the tokens.
pub const ROWS_FILE: &str = "train.safetensors";
/// Name of the description beside it.
pub const ROWS_MANIFEST: &str = "rows.json";

const FORMAT: &str = "tunesmith-rows";
const VERSION: u32 = 1;

/// One training row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Token ids, `[tokens]`.
    pub input_ids: Vec<u32>,
    /// `supervised[i]`: the prediction of token i from the tokens before it is trained; the first never is. `[tokens]`.
    pub supervised: Vec<bool>,
}

impl Row {
    /// Tokens whose prediction is trained.
    pub fn supervised_tokens(&self) -> usize {
        self.supervised.iter().filter(|supervised| **supervised).count()
    }
}

/// All rows of a training, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The rows.
    pub rows: Vec<Row>,
}

/// Where rows came from and what they hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowsInfo {
    /// Name of the data set, without its folder.
    pub source: String,
    /// SHA-256 of the data set's file or content.
    pub source_sha256: String,
    /// SHA-256 of what the chat template does, see [`crate::Encoder::template_sha256`].
    pub template_sha256: String,
    /// SHA-256 of the tokenizer, see [`crate::Encoder::tokenizer_sha256`].
    pub tokenizer_sha256: String,
    /// Longest row allowed, in tokens.
    pub max_length: usize,
    /// What was counted.
    pub report: RowsReport,
}

/// The content of `rows.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowsManifest {
    /// `tunesmith-rows`.
    pub format: String,
    /// Version of the format, 1.
    pub version: u32,
    /// [`Rows::sha256`] of the rows beside it.
    pub rows_sha256: String,
    /// Where they came from.
    #[serde(flatten)]
    pub info: RowsInfo,
}

impl RowsManifest {
    /// Reads `rows.json`.
    ///
    /// # Errors
    /// [`DataError::Read`], or [`DataError::RowsManifest`] when it is no such file or of another version.
    pub fn read(file: &Path) -> Result<Self, DataError> {
        let bytes = fs::read(file).map_err(|source| DataError::Read {
            path: file.to_owned(),
            source,
        })?;
        let fault = |reason| DataError::RowsManifest {
            path: file.to_owned(),
            reason,
        };
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|error| fault(error.to_string()))?;
        if manifest.format != FORMAT || manifest.version != VERSION {
            let Self { format, version, .. } = manifest;
            return Err(fault(format!(
                "format {format:?} version {version}; expected {FORMAT:?} version {VERSION}"
            )));
        }
        Ok(manifest)
    }
}

impl Rows {
    /// Tokens of all rows.
    pub fn tokens(&self) -> usize {
        self.rows.iter().map(|row| row.input_ids.len()).sum()
    }

    /// Supervised tokens of all rows.
    pub fn supervised_tokens(&self) -> usize {
        self.rows.iter().map(Row::supervised_tokens).sum()
    }

    /// SHA-256 of what is trained: the bytes of offsets, input_ids and supervised as they stand in the file.
    pub fn sha256(&self) -> String {
        let [ids, supervised, offsets] = self.tensors();
        hash_bytes(&[offsets, ids, supervised].concat())
    }

    /// Writes [`ROWS_FILE`] and then [`ROWS_MANIFEST`] into `dir` (made where missing), each whole or not at all.
    /// Returns the path of the former, which a training job names.
    ///
    /// # Errors
    /// [`DataError::RowsFile`] when the rows would not pass [`Rows::read`]; [`DataError::Write`] when the disk refuses.
    pub fn write(&self, dir: &Path, info: &RowsInfo) -> Result<PathBuf, DataError> {
        let file = dir.join(ROWS_FILE);
        let fault = |problem| DataError::RowsFile {
            path: file.clone(),
            problem,
        };
        if let Some(row) = self
            .rows
            .iter()
            .find(|row| row.input_ids.len() != row.supervised.len())
        {
            let (input_ids, supervised) = (row.input_ids.len(), row.supervised.len());
            return Err(fault(RowsProblem::Lengths {
                input_ids,
                supervised,
            }));
        }
        let [ids, supervised, offsets] = self.tensors();
        parse(&ids, &supervised, &offsets).map_err(fault)?;
        let container =
            |error: safetensors::SafeTensorError| fault(RowsProblem::Container(error.to_string()));
        let tokens = self.tokens();
        let tensors = [
            (
                "input_ids",
                TensorView::new(Dtype::I32, vec![tokens], &ids).map_err(container)?,
            ),
            (
                "offsets",
                TensorView::new(Dtype::I64, vec![self.rows.len() + 1], &offsets).map_err(container)?,
            ),
            (
                "supervised",
                TensorView::new(Dtype::U8, vec![tokens], &supervised).map_err(container)?,
            ),
        ];
        // One entry only: the header must be the same for the same rows, and a map has no order.
        let metadata = HashMap::from([("format".to_owned(), format!("{FORMAT}-{VERSION}"))]);
        let bytes = safetensors::serialize(tensors, Some(metadata)).map_err(container)?;
        let manifest = RowsManifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            rows_sha256: self.sha256(),
            info: info.clone(),
        };
        let manifest_file = dir.join(ROWS_MANIFEST);
        let manifest = serde_json::to_vec_pretty(&manifest).map_err(|error| DataError::RowsManifest {
            path: manifest_file.clone(),
            reason: error.to_string(),
        })?;
        fs::create_dir_all(dir).map_err(|source| DataError::Write {
            path: dir.to_owned(),
            source,
        })?;
        write_whole(&file, &bytes)?;
        write_whole(&manifest_file, &manifest)?;
        Ok(file)
    }

    /// Reads a rows file and checks all of it: types and lengths, offsets, ids, marks, and that there is something
    /// to learn. Tensors besides the three are ignored.
    ///
    /// # Errors
    /// [`DataError::Read`], or [`DataError::RowsFile`] with the first thing that is wrong.
    pub fn read(file: &Path) -> Result<Self, DataError> {
        let bytes = fs::read(file).map_err(|source| DataError::Read {
            path: file.to_owned(),
            source,
        })?;
        Self::from_bytes(&bytes).map_err(|problem| DataError::RowsFile {
            path: file.to_owned(),
            problem,
        })
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, RowsProblem> {
        let container =
            SafeTensors::deserialize(bytes).map_err(|error| RowsProblem::Container(error.to_string()))?;
        let ids = tensor(&container, "input_ids", Dtype::I32, "I32 [tokens]")?;
        let supervised = tensor(&container, "supervised", Dtype::U8, "U8 [tokens]")?;
        let offsets = tensor(&container, "offsets", Dtype::I64, "I64 [rows + 1]")?;
        parse(ids, supervised, offsets)
    }

    /// Checks that a model with this vocabulary can train on the rows.
    ///
    /// # Errors
    /// [`DataError::OutsideVocabulary`] for the first row with a larger id.
    pub fn check_vocabulary(&self, vocabulary: usize) -> Result<(), DataError> {
        for (index, row) in self.rows.iter().enumerate() {
            if let Some(&token) = row.input_ids.iter().find(|id| **id as usize >= vocabulary) {
                return Err(DataError::OutsideVocabulary {
                    place: format!("row {index}"),
                    token,
                    vocabulary,
                });
            }
        }
        Ok(())
    }

    /// The bytes of input_ids, supervised and offsets, little-endian.
    fn tensors(&self) -> [Vec<u8>; 3] {
        let tokens = self.tokens();
        let mut ids = Vec::with_capacity(tokens * 4);
        let mut supervised = Vec::with_capacity(tokens);
        let mut offsets = Vec::with_capacity((self.rows.len() + 1) * 8);
        let mut offset: i64 = 0;
        offsets.extend(offset.to_le_bytes());
        for row in &self.rows {
            ids.extend(row.input_ids.iter().flat_map(|id| id.to_le_bytes()));
            supervised.extend(row.supervised.iter().map(|mark| u8::from(*mark)));
            offset += row.input_ids.len() as i64;
            offsets.extend(offset.to_le_bytes());
        }
        [ids, supervised, offsets]
    }
}

/// The bytes of a tensor with one dimension and the given type.
fn tensor<'a>(
    container: &SafeTensors<'a>,
    name: &'static str,
    dtype: Dtype,
    expected: &'static str,
) -> Result<&'a [u8], RowsProblem> {
    let view = container
        .tensor(name)
        .map_err(|_| RowsProblem::MissingTensor(name))?;
    if view.dtype() != dtype || view.shape().len() != 1 {
        let found = format!("{:?} {:?}", view.dtype(), view.shape());
        return Err(RowsProblem::TensorForm {
            name,
            found,
            expected,
        });
    }
    Ok(view.data())
}

/// Cuts the tensors into rows and checks every value.
fn parse(ids: &[u8], supervised: &[u8], offsets: &[u8]) -> Result<Rows, RowsProblem> {
    let ids: Vec<i32> = ids
        .as_chunks()
        .0
        .iter()
        .map(|bytes| i32::from_le_bytes(*bytes))
        .collect();
    let offsets: Vec<i64> = offsets
        .as_chunks()
        .0
        .iter()
        .map(|bytes| i64::from_le_bytes(*bytes))
        .collect();
    if ids.len() != supervised.len() {
        return Err(RowsProblem::Lengths {
            input_ids: ids.len(),
            supervised: supervised.len(),
        });
    }
    if offsets.len() < 2 {
        return Err(RowsProblem::NoRows);
    }
    let fault = |index: usize, reason| RowsProblem::Offset {
        index,
        value: offsets[index],
        reason,
    };
    if offsets[0] != 0 {
        return Err(fault(0, "the first must be 0"));
    }
    if let Some(index) = (1..offsets.len()).find(|&index| offsets[index] <= offsets[index - 1]) {
        return Err(fault(index, "each must be greater than the one before"));
    }
    // Rising from 0, so none is negative; the last one bounds them all.
    if offsets[offsets.len() - 1] != ids.len() as i64 {
        return Err(fault(
            offsets.len() - 1,
            "the last must equal the number of tokens",
        ));
    }
    let mut rows = Vec::with_capacity(offsets.len() - 1);
    for (row, bounds) in offsets.windows(2).enumerate() {
        let span = bounds[0] as usize..bounds[1] as usize;
        let id =
            |value: &i32| u32::try_from(*value).map_err(|_| RowsProblem::NegativeId { row, value: *value });
        let mark = |value: &u8| match value {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(RowsProblem::Mark { row, value: *value }),
        };
        let input_ids = ids[span.clone()].iter().map(id).collect::<Result<Vec<_>, _>>()?;
        let supervised = supervised[span].iter().map(mark).collect::<Result<Vec<_>, _>>()?;
        if supervised[0] {
            return Err(RowsProblem::FirstSupervised { row });
        }
        rows.push(Row {
            input_ids,
            supervised,
        });
    }
    let rows = Rows { rows };
    if rows.supervised_tokens() == 0 {
        return Err(RowsProblem::NothingSupervised);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;
    use proptest::prelude::*;

    fn row(ids: &[u32], supervised_from: usize) -> Row {
        Row {
            input_ids: ids.to_vec(),
            supervised: (0..ids.len()).map(|i| i >= supervised_from).collect(),
        }
    }

    fn two_rows() -> Rows {
        Rows {
            rows: vec![row(&[1, 2, 3], 2), row(&[4, 5], 1)],
        }
    }

    fn info() -> RowsInfo {
        RowsInfo {
            source: "train.jsonl".to_owned(),
            source_sha256: hash_bytes(b"source"),
            template_sha256: hash_bytes(b"template"),
            tokenizer_sha256: hash_bytes(b"tokenizer"),
            max_length: 512,
            report: report(),
        }
    }

    /// A container with the given tensors.
    fn container(ids: &[i32], supervised: &[u8], offsets: &[i64]) -> Vec<u8> {
        let ids: Vec<u8> = ids.iter().flat_map(|v| v.to_le_bytes()).collect();
        let offset_bytes: Vec<u8> = offsets.iter().flat_map(|v| v.to_le_bytes()).collect();
        let tensors = [
            (
                "input_ids",
                TensorView::new(Dtype::I32, vec![ids.len() / 4], &ids).unwrap(),
            ),
            (
                "supervised",
                TensorView::new(Dtype::U8, vec![supervised.len()], supervised).unwrap(),
            ),
            (
                "offsets",
                TensorView::new(Dtype::I64, vec![offsets.len()], &offset_bytes).unwrap(),
            ),
        ];
        safetensors::serialize(tensors, None).unwrap()
    }

    #[test]
    fn rows_come_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("run").join("rows");
        let file = two_rows().write(&dir, &info()).unwrap();
        assert_eq!(file, dir.join("train.safetensors"));
        assert_eq!(Rows::read(&file).unwrap(), two_rows());
        let manifest = RowsManifest::read(&dir.join("rows.json")).unwrap();
        assert_eq!(manifest.info, info());
        assert_eq!(manifest.rows_sha256, two_rows().sha256());
        assert_eq!(
            fs::read_dir(&dir).unwrap().count(),
            2,
            "nothing else is left in the folder"
        );
    }

    #[test]
    fn the_same_rows_make_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let a = two_rows().write(&folder.path().join("a"), &info()).unwrap();
        let b = two_rows().write(&folder.path().join("b"), &info()).unwrap();
        assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap());
        let mut other = two_rows();
        other.rows[0].supervised[1] = true;
        assert_ne!(other.sha256(), two_rows().sha256());
        // The same tokens cut elsewhere are other rows.
        let cut = Rows {
            rows: vec![row(&[1, 2], 9), row(&[3, 4, 5], 9)],
        };
        let joined = Rows {
            rows: vec![row(&[1, 2, 3, 4, 5], 9)],
        };
        assert_ne!(cut.sha256(), joined.sha256());
    }

    #[test]
    fn every_fault_of_a_rows_file_is_named() {
        use RowsProblem as P;
        assert!(Rows::from_bytes(&container(&[1, 2], &[0, 1], &[0, 2])).is_ok());
        let cases: [(Vec<u8>, P); 9] = [
            (
                container(&[1, 2], &[0], &[0, 2]),
                P::Lengths {
                    input_ids: 2,
                    supervised: 1,
                },
            ),
            (container(&[], &[], &[0]), P::NoRows),
            (
                container(&[1, 2], &[0, 1], &[1, 2]),
                P::Offset {
                    index: 0,
                    value: 1,
                    reason: "the first must be 0",
                },
            ),
            (
                container(&[1, 2], &[0, 1], &[0, 1, 1, 2]),
                P::Offset {
                    index: 2,
                    value: 1,
                    reason: "each must be greater than the one before",
                },
            ),
            (
                container(&[1, 2], &[0, 1], &[0, i64::MAX]),
                P::Offset {
                    index: 1,
                    value: i64::MAX,
                    reason: "the last must equal the number of tokens",
                },
            ),
            (
                container(&[1, -2], &[0, 1], &[0, 2]),
                P::NegativeId { row: 0, value: -2 },
            ),
            (container(&[1, 2], &[0, 7], &[0, 2]), P::Mark { row: 0, value: 7 }),
            (
                container(&[1, 2, 3], &[0, 1, 1], &[0, 2, 3]),
                P::FirstSupervised { row: 1 },
            ),
            (container(&[1, 2], &[0, 0], &[0, 2]), P::NothingSupervised),
        ];
        for (bytes, problem) in cases {
            assert_eq!(Rows::from_bytes(&bytes).unwrap_err(), problem);
        }
    }

    #[test]
    fn wrong_tensors_are_named() {
        let zeros = [0; 16];
        let view = TensorView::new(Dtype::I64, vec![2], &zeros).unwrap();
        let bytes = safetensors::serialize([("offsets", view.clone())], None).unwrap();
        assert_eq!(
            Rows::from_bytes(&bytes).unwrap_err(),
            RowsProblem::MissingTensor("input_ids")
        );
        let bytes = safetensors::serialize([("input_ids", view)], None).unwrap();
        let error = Rows::from_bytes(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the tensor input_ids is I64 [2], expected I32 [tokens]"
        );
    }

    #[test]
    fn rows_that_could_not_be_read_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let error = Rows {
            rows: vec![row(&[1, 2], 0)],
        }
        .write(folder.path(), &info())
        .unwrap_err();
        assert_eq!(error.code(), "rows_file");
        assert!(error.to_string().contains("first token"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn ids_beyond_the_vocabulary_are_named() {
        assert!(two_rows().check_vocabulary(6).is_ok());
        let error = two_rows().check_vocabulary(5).unwrap_err();
        assert_eq!(
            error.to_string(),
            "row 1: token 5 is outside the model's vocabulary of 5"
        );
    }

    #[test]
    fn another_version_of_the_description_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        two_rows().write(folder.path(), &info()).unwrap();
        let file = folder.path().join(ROWS_MANIFEST);
        let newer = fs::read_to_string(&file)
            .unwrap()
            .replace("\"version\": 1", "\"version\": 2");
        fs::write(&file, newer).unwrap();
        assert!(
            RowsManifest::read(&file)
                .unwrap_err()
                .to_string()
                .contains("version 2")
        );
        fs::write(&file, "{}").unwrap();
        assert_eq!(RowsManifest::read(&file).unwrap_err().code(), "rows_manifest");
    }

    fn any_rows() -> impl Strategy<Value = Rows> {
        let id = 0..i32::MAX as u32;
        let row = prop::collection::vec((id, any::<bool>()), 2..40).prop_map(|mut tokens| {
            tokens[0].1 = false;
            tokens[1].1 = true;
            let (input_ids, supervised) = tokens.into_iter().unzip();
            Row {
                input_ids,
                supervised,
            }
        });
        prop::collection::vec(row, 1..20).prop_map(|rows| Rows { rows })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_rows_come_back(rows in any_rows()) {
            let folder = tempfile::tempdir().unwrap();
            let file = rows.write(folder.path(), &info()).unwrap();
            prop_assert_eq!(Rows::read(&file).unwrap(), rows);
        }

        #[test]
        fn a_damaged_file_is_an_error_or_other_rows(cut in 0_usize..200, flip in 0_usize..200, bit in 0_u32..8) {
            let mut bytes = container(&[1, 2, 3, 4, 5], &[0, 1, 1, 0, 1], &[0, 3, 5]);
            let place = flip % bytes.len();
            bytes[place] ^= 1 << bit;
            bytes.truncate(bytes.len().saturating_sub(cut));
            // No panic and no huge allocation, whatever the header claims.
            let _ = Rows::from_bytes(&bytes);
        }

        #[test]
        fn any_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Rows::from_bytes(&bytes).is_err());
        }
    }
}
