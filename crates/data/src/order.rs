//! The order of rows in an epoch, defined so simply that an engine in another language can repeat it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// The order in which an epoch visits `rows` rows: a permutation of `0..rows`, the same for the same seed and epoch
/// on every machine and in every version.
///
/// Row i gets the i-th 64-bit word (little-endian) of the ChaCha8 key stream whose 256-bit key is the seed, the epoch
/// (both 64-bit little-endian) and sixteen zero bytes, nonce and counter zero; rows are sorted by (word, i).
/// `docs/PROTOCOL.md` has a test vector. A shuffle out of a library would change with its version.
pub fn epoch_order(rows: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&epoch.to_le_bytes());
    let mut stream = ChaCha8Rng::from_seed(key);
    let mut order: Vec<(u64, usize)> = (0..rows).map(|row| (stream.next_u64(), row)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_order_is_fixed_for_good() {
        // Engines in other languages are tested against the same values: see docs/PROTOCOL.md.
        assert_eq!(epoch_order(8, 3407, 0), [5, 6, 3, 1, 7, 2, 0, 4]);
        assert_eq!(epoch_order(8, 3407, 1), [7, 2, 4, 1, 3, 6, 5, 0]);
        // More than one block of the cipher.
        assert_eq!(epoch_order(12, 1234, 2), [2, 7, 4, 3, 5, 9, 10, 1, 6, 8, 0, 11]);
        assert_eq!(epoch_order(8, 42, 0), [5, 7, 1, 0, 3, 6, 2, 4]);
    }

    #[test]
    fn epochs_and_seeds_differ() {
        assert_ne!(epoch_order(100, 1, 0), epoch_order(100, 1, 1));
        assert_ne!(epoch_order(100, 1, 0), epoch_order(100, 2, 0));
        // Seed and epoch do not stand in for each other.
        assert_ne!(epoch_order(100, 1, 2), epoch_order(100, 2, 1));
    }

    proptest! {
        #[test]
        fn every_row_comes_once(rows in 0_usize..500, seed: u64, epoch: u64) {
            let mut order = epoch_order(rows, seed, epoch);
            order.sort_unstable();
            prop_assert_eq!(order, (0..rows).collect::<Vec<_>>());
        }
    }
}
