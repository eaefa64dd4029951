//! The tray's pictures: the app's own, with a mark in the corner. Each mark has a shape of its own, since colours alone are
//! not told apart by everybody, and desktops may take them away.

use crate::tray::Mark;

/// The app's picture, 32 by 32 points.
pub(super) const APP: &[u8] = include_bytes!("../../../assets/icons/png/32.png");

/// Points along a point's side at which a shape is looked at, so that its edges are smooth.
const SAMPLES: usize = 4;

/// The picture with a mark. `pixels` are red, green, blue and opacity of each point, line by line, `side` points a line.
pub(super) fn marked(pixels: &[u8], side: usize, mark: Mark) -> Vec<u8> {
    let mut out = pixels.to_vec();
    let Some((colour, shape)) = drawn(mark) else {
        return out;
    };
    for (index, point) in out.chunks_exact_mut(4).enumerate() {
        let (left, top) = ((index % side) as f32, (index / side) as f32);
        // The mark fills the lower right quarter: there its middle is 0, 0 and its edge 1 away.
        let at = |sample: usize, from: f32| {
            (from + (sample as f32 + 0.5) / SAMPLES as f32) / (side as f32 / 4.0) - 3.0
        };
        let mut ground = 0.0;
        let mut figure = 0.0;
        for sample in 0..SAMPLES * SAMPLES {
            let (x, y) = (at(sample % SAMPLES, left), at(sample / SAMPLES, top));
            if x * x + y * y <= 1.0 {
                ground += 1.0;
                figure += f32::from(u8::from(shape(x, y)));
            }
        }
        let share = 1.0 / (SAMPLES * SAMPLES) as f32;
        blend(point, colour, ground * share);
        blend(point, [255, 255, 255], figure * share);
    }
    out
}

/// A shape in a circle of radius 1 whose middle is 0, 0; down and right are positive.
type Shape = fn(f32, f32) -> bool;

/// Ground and shape of a mark: the colours of the app's verdicts.
fn drawn(mark: Mark) -> Option<([u8; 3], Shape)> {
    match mark {
        Mark::Idle => None,
        // A triangle that points forward.
        Mark::Running => Some(([232, 89, 12], |x, y| x >= -0.4 && x <= 0.7 - 1.6 * y.abs())),
        // Two bars.
        Mark::Paused => Some(([107, 101, 96], |x, y| {
            (0.15..=0.45).contains(&x.abs()) && y.abs() <= 0.55
        })),
        // A tick: two strokes.
        Mark::Finished => Some(([31, 122, 77], |x, y| {
            (near(x, y, (-0.5, 0.05), (-0.15, 0.4))) || near(x, y, (-0.15, 0.4), (0.5, -0.35))
        })),
        // A line with a dot below.
        Mark::Failed => Some(([178, 34, 34], |x, y| {
            x.abs() <= 0.15 && ((-0.65..=0.2).contains(&y) || (0.38..=0.68).contains(&y))
        })),
    }
}

/// Whether a point lies on the stroke from one place to another.
fn near(x: f32, y: f32, from: (f32, f32), to: (f32, f32)) -> bool {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let along = (((x - from.0) * dx + (y - from.1) * dy) / (dx * dx + dy * dy)).clamp(0.0, 1.0);
    let (off_x, off_y) = (x - from.0 - along * dx, y - from.1 - along * dy);
    off_x * off_x + off_y * off_y <= 0.15 * 0.15
}

/// Lays a colour over a point, `share` of it, 0 to 1.
fn blend(point: &mut [u8], colour: [u8; 3], share: f32) {
    let under = f32::from(point[3]) / 255.0;
    let opacity = share + under * (1.0 - share);
    if opacity <= 0.0 {
        return;
    }
    for (value, over) in point.iter_mut().zip(colour) {
        let mixed = (f32::from(over) * share + f32::from(*value) * under * (1.0 - share)) / opacity;
        *value = mixed.round() as u8;
    }
    point[3] = (opacity * 255.0).round() as u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE: usize = 32;

    #[test]
    fn each_mark_is_another_picture_and_leaves_the_rest_alone() {
        let plain: Vec<u8> = [10, 20, 30, 255].repeat(SIDE * SIDE);
        let marks = [
            Mark::Idle,
            Mark::Running,
            Mark::Paused,
            Mark::Finished,
            Mark::Failed,
        ];
        let pictures = marks.map(|mark| marked(&plain, SIDE, mark));
        assert_eq!(pictures[0], plain);
        for (index, picture) in pictures.iter().enumerate() {
            assert_eq!(picture.len(), plain.len());
            assert!(!pictures[..index].contains(picture), "{:?}", marks[index]);
            // The upper half, and the left of the lower one.
            let at = |x: usize, y: usize| &picture[4 * (y * SIDE + x)..][..4];
            assert!(
                (0..SIDE).all(|x| at(x, SIDE / 2 - 1) == [10, 20, 30, 255])
                    && at(0, SIDE - 1) == [10, 20, 30, 255]
            );
        }
    }

    #[test]
    fn the_shapes_differ_without_their_colours() {
        let clear = vec![0; 4 * SIDE * SIDE];
        let shape = |mark| -> Vec<bool> {
            marked(&clear, SIDE, mark)
                .chunks_exact(4)
                .map(|point| point[..3].iter().all(|value| *value > 200))
                .collect()
        };
        let shapes = [Mark::Running, Mark::Paused, Mark::Finished, Mark::Failed].map(shape);
        for (index, one) in shapes.iter().enumerate() {
            assert!(one.iter().filter(|white| **white).count() > 5);
            assert!(!shapes[..index].contains(one));
        }
    }

    #[test]
    fn a_mark_shows_where_the_picture_is_clear() {
        let clear = vec![0; 4 * SIDE * SIDE];
        let picture = marked(&clear, SIDE, Mark::Running);
        let middle = &picture[4 * (24 * SIDE + 24)..][..4];
        assert_eq!(middle, [255, 255, 255, 255]);
        assert_eq!(picture[3], 0, "the corner of the mark's square stays clear");
    }
}
