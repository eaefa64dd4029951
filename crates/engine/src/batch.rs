//! Rows laid one after the other without padding, grouped by length for attention.

use tch::{Device, Kind, Tensor};
use tunesmith_data::Row;

/// Neighbouring rows of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowGroup {
    start: i64,
    rows: i64,
    length: i64,
}

impl RowGroup {
    pub(crate) fn tokens(&self) -> i64 {
        self.rows * self.length
    }

    /// x `[tokens, heads, width]` → `[rows, heads, length, width]` of this group.
    pub(crate) fn rows_of(&self, x: &Tensor) -> Tensor {
        let size = x.size();
        x.narrow(0, self.start, self.tokens())
            .view([self.rows, self.length, size[1], size[2]])
            .transpose(1, 2)
    }

    /// First token and length of each row.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        (0..self.rows).map(|row| (self.start + row * self.length, self.length))
    }
}

/// A micro-batch, ready to run.
pub(crate) struct Packed {
    /// i64 `[tokens]`.
    pub(crate) input_ids: Tensor,
    /// `[tokens, 1, head_dim / 2]`, in the compute format.
    pub(crate) cos: Tensor,
    /// As `cos`.
    pub(crate) sin: Tensor,
    pub(crate) groups: Vec<RowGroup>,
    /// Where a prediction is trained: i64 `[supervised]`, the position before each target.
    pub(crate) predicting: Tensor,
    /// The tokens to predict: i64 `[supervised]`.
    pub(crate) targets: Tensor,
    /// Tokens computed, padding included.
    pub(crate) tokens: u64,
    /// Tokens of the rows.
    pub(crate) real_tokens: u64,
    pub(crate) supervised: u64,
    /// Σ length² as computed, padding included.
    pub(crate) squared_lengths: u64,
    /// For each row in the order given, its place in this batch.
    pub(crate) place_of_row: Vec<usize>,
}

impl Packed {
    /// Packs rows, longest first so that equal lengths stand together.
    /// `inverse_frequencies` f32 `[head_dim / 2]` on the device that the batch is for.
    pub(crate) fn new(rows: &[&Row], inverse_frequencies: &Tensor, kind: Kind) -> Self {
        let device = inverse_frequencies.device();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&row| std::cmp::Reverse(rows[row].input_ids.len()));
        let mut place_of_row = vec![0; rows.len()];
        let mut ids = Vec::new();
        let mut positions = Vec::new();
        let (mut predicting, mut targets) = (Vec::new(), Vec::new());
        let mut groups: Vec<RowGroup> = Vec::new();
        let mut squared_lengths = 0;
        for (place, &index) in order.iter().enumerate() {
            place_of_row[index] = place;
            let row = rows[index];
            let start = ids.len() as i64;
            let length = row.input_ids.len() as i64;
            match groups.last_mut() {
                Some(group) if group.length == length => group.rows += 1,
                _ => groups.push(RowGroup {
                    start,
                    rows: 1,
                    length,
                }),
            }
            for (position, (&id, &supervised)) in row.input_ids.iter().zip(&row.supervised).enumerate() {
                if supervised && position > 0 {
                    predicting.push(start + position as i64 - 1);
                    targets.push(i64::from(id));
                }
                ids.push(i64::from(id));
                positions.push(position as f32);
            }
            squared_lengths += (length * length) as u64;
        }
        let tensor = |values: &[i64]| Tensor::from_slice(values).to_device(device);
        let (cos, sin) = rotary(
            &Tensor::from_slice(&positions).to_device(device),
            inverse_frequencies,
            kind,
        );
        Self {
            cos,
            sin,
            groups,
            predicting: tensor(&predicting),
            targets: tensor(&targets),
            tokens: ids.len() as u64,
            real_tokens: ids.len() as u64,
            supervised: targets.len() as u64,
            input_ids: tensor(&ids),
            squared_lengths,
            place_of_row,
        }
    }

    /// As [`Packed::new`], with every row padded behind its end to the longest, as trainers do that know no packing. The
    /// padding is computed like any token, and nothing looks at it: attention is causal, and no padding is supervised.
    pub(crate) fn padded(rows: &[&Row], inverse_frequencies: &Tensor, kind: Kind) -> Self {
        let longest = rows.iter().map(|row| row.input_ids.len()).max().unwrap_or(0);
        let padded: Vec<Row> = rows
            .iter()
            .map(|row| {
                let mut row = (*row).clone();
                // Any token of the vocabulary does: what is padding is known by its place alone.
                row.input_ids.resize(longest, 0);
                row.supervised.resize(longest, false);
                row
            })
            .collect();
        Self {
            real_tokens: rows.iter().map(|row| row.input_ids.len() as u64).sum(),
            ..Self::new(&padded.iter().collect::<Vec<_>>(), inverse_frequencies, kind)
        }
    }

    /// First token and length of each row, in the order in which the rows were given.
    pub(crate) fn spans(&self) -> Vec<(i64, i64)> {
        let spans: Vec<_> = self.groups.iter().flat_map(RowGroup::spans).collect();
        self.place_of_row.iter().map(|&place| spans[place]).collect()
    }
}

/// positions f32 `[tokens]` → cos and sin `[tokens, 1, head_dim / 2]`. Angles are f32 whatever the compute format is.
pub(crate) fn rotary(positions: &Tensor, inverse_frequencies: &Tensor, kind: Kind) -> (Tensor, Tensor) {
    let angles = positions.outer(inverse_frequencies).unsqueeze(1);
    (angles.cos().to_kind(kind), angles.sin().to_kind(kind))
}

/// The inverse frequencies on a device.
pub(crate) fn frequencies(values: &[f32], device: Device) -> Tensor {
    Tensor::from_slice(values).to_device(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(length: u32, supervised_from: u32) -> Row {
        Row {
            input_ids: (0..length).collect(),
            supervised: (0..length).map(|at| at >= supervised_from).collect(),
        }
    }

    #[test]
    fn rows_of_one_length_stand_together_and_keep_their_place() {
        let rows = [row(3, 2), row(5, 4), row(3, 1)];
        let batch = Packed::new(
            &rows.iter().collect::<Vec<_>>(),
            &frequencies(&[1.0, 0.5], Device::Cpu),
            Kind::Float,
        );
        assert_eq!(
            batch.groups,
            [
                RowGroup {
                    start: 0,
                    rows: 1,
                    length: 5
                },
                RowGroup {
                    start: 5,
                    rows: 2,
                    length: 3
                }
            ]
        );
        assert_eq!(batch.spans(), [(5, 3), (0, 5), (8, 3)]);
        assert_eq!(
            (batch.tokens, batch.supervised, batch.squared_lengths),
            (11, 4, 25 + 9 + 9)
        );
        assert_eq!(batch.real_tokens, batch.tokens);
        // The target of a supervised token is predicted from the token before it.
        assert_eq!(Vec::<i64>::try_from(&batch.predicting).unwrap(), [3, 6, 8, 9]);
        assert_eq!(Vec::<i64>::try_from(&batch.targets).unwrap(), [4, 2, 1, 2]);
    }

    #[test]
    fn padded_rows_are_as_long_as_the_longest_and_their_padding_is_not_trained() {
        let rows = [row(3, 2), row(5, 4)];
        let batch = Packed::padded(
            &rows.iter().collect::<Vec<_>>(),
            &frequencies(&[1.0, 0.5], Device::Cpu),
            Kind::Float,
        );
        assert_eq!(batch.spans(), [(0, 5), (5, 5)]);
        assert_eq!((batch.tokens, batch.real_tokens, batch.supervised), (10, 8, 2));
        assert_eq!(batch.squared_lengths, 50);
        assert_eq!(Vec::<i64>::try_from(&batch.targets).unwrap(), [2, 4]);
    }
}
