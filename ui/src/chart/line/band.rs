//! The band that a line is where there are more values than columns of pixels: as high in each column as its values
//! reach, and as thick around them as the line.
//!
//! A line from value to value would go up and down in every column, with a corner of many triangles at each value. The
//! band looks the same with four vertices a column.

use egui::{Color32, Mesh, Pos2, Stroke, epaint::Vertex, pos2};

/// Where an edge is steep it fades over more than the feathering, so that it is soft across as well; at most so many
/// times as far, or a spike would fade all along.
const MOST_FADING: f32 = 3.0;

/// How far the values of a column reach on the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bar {
    /// The middle of the column.
    pub(super) x: f32,
    /// Where the greatest value lies.
    pub(super) top: f32,
    /// Where the least value lies.
    pub(super) bottom: f32,
}

impl Bar {
    pub(super) fn middle(&self) -> Pos2 {
        pos2(self.x, f32::midpoint(self.top, self.bottom))
    }

    /// Lets this column and the next one touch: each goes half of the way, as a line between them would.
    fn meet(&mut self, next: &mut Self) {
        if self.bottom < next.top {
            let middle = f32::midpoint(self.bottom, next.top);
            (self.bottom, next.top) = (middle, middle);
        } else if next.bottom < self.top {
            let middle = f32::midpoint(next.bottom, self.top);
            (next.bottom, self.top) = (middle, middle);
        }
    }
}

/// How bands are painted.
#[derive(Clone, Copy, Debug)]
pub(super) struct BandStyle {
    /// Of the line that the band stands for.
    pub(super) stroke: Stroke,
    /// Width of a column, in points.
    pub(super) column: f32,
    /// How far edges fade, in points.
    pub(super) feathering: f32,
}

/// Adds a band over neighbouring columns, from left to right.
pub(super) fn add_band(mut bars: Vec<Bar>, style: BandStyle, mesh: &mut Mesh) {
    for place in 1..bars.len() {
        let (before, from_here) = bars.split_at_mut(place);
        if let (Some(before), Some(bar)) = (before.last_mut(), from_here.first_mut()) {
            before.meet(bar);
        }
    }
    let (Some(first), Some(last)) = (bars.first().copied(), bars.last().copied()) else {
        return;
    };
    let half_width = 0.5 * style.stroke.width;
    // A column shows what lies half a column to either side of its middle. What a line is wider than that reaches into
    // the neighbouring columns.
    let reach = (half_width / style.column - 0.5).clamp(0.0, 1.0);
    mesh.reserve_vertices(4 * (bars.len() + 2));
    mesh.reserve_triangles(6 * (bars.len() + 1));
    // Both ends are as blunt as those of a line.
    add_column(first.x - half_width, first, [0.0, 0.0], style, mesh);
    connect_with_next(mesh);
    for (place, bar) in bars.iter().enumerate() {
        let before = bars[place.saturating_sub(1)];
        let after = bars.get(place + 1).unwrap_or(bar);
        let above = bar.top - before.top.min(after.top);
        let below = before.bottom.max(after.bottom) - bar.bottom;
        let reaches = [above, below].map(|beyond| reach * beyond.max(0.0));
        add_column(bar.x, *bar, reaches, style, mesh);
        connect_with_next(mesh);
    }
    add_column(last.x + half_width, last, [0.0, 0.0], style, mesh);
}

/// Four vertices from top to bottom at an x: around the band nothing, within it its colour. `reaches` says how far the
/// neighbouring columns' line comes above this column's greatest value and below its least one.
fn add_column(x: f32, bar: Bar, reaches: [f32; 2], style: BandStyle, mesh: &mut Mesh) {
    let half_width = 0.5 * style.stroke.width;
    // Upright, half of a line that leans is the longer the steeper it is, and so is its soft edge.
    let [above, below] = reaches.map(|reach| {
        let half = (half_width * half_width + reach * reach).sqrt();
        let fading = 0.5 * style.feathering * (half / half_width).min(MOST_FADING);
        (half, fading.min(half))
    });
    let clear = Color32::TRANSPARENT;
    for (y, colour) in [
        (bar.top - above.0 - above.1, clear),
        (bar.top - above.0 + above.1, style.stroke.color),
        (bar.bottom + below.0 - below.1, style.stroke.color),
        (bar.bottom + below.0 + below.1, clear),
    ] {
        mesh.vertices.push(Vertex::untextured(pos2(x, y), colour));
    }
}

/// Triangles between the column that was added last and the one that will be.
fn connect_with_next(mesh: &mut Mesh) {
    let next = mesh.vertices.len() as u32;
    for row in next - 4..next - 1 {
        mesh.add_triangle(row, row + 1, row + 4);
        mesh.add_triangle(row + 1, row + 4, row + 5);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STYLE: BandStyle = BandStyle {
        stroke: Stroke {
            width: 1.8,
            color: Color32::RED,
        },
        column: 1.0,
        feathering: 1.0,
    };

    fn bar(x: f32, top: f32, bottom: f32) -> Bar {
        Bar { x, top, bottom }
    }

    /// Of each column from left to right its x and what is painted in full, with the two ends.
    fn solid(bars: &[Bar]) -> Vec<(f32, f32, f32)> {
        let mut mesh = Mesh::default();
        add_band(bars.to_vec(), STYLE, &mut mesh);
        assert!(mesh.is_valid());
        let columns = mesh.vertices.chunks_exact(4);
        columns
            .map(|of| (of[1].pos.x, of[1].pos.y, of[2].pos.y))
            .collect()
    }

    #[test]
    fn a_level_band_is_as_thick_as_the_line() {
        let level = [bar(0.5, 10.0, 10.0), bar(1.5, 10.0, 10.0), bar(2.5, 10.0, 10.0)];
        let mut mesh = Mesh::default();
        add_band(level.to_vec(), STYLE, &mut mesh);
        assert_eq!((mesh.vertices.len(), mesh.indices.len()), (20, 72));
        for column in mesh.vertices.chunks_exact(4) {
            let colours: Vec<Color32> = column.iter().map(|vertex| vertex.color).collect();
            let (clear, red) = (Color32::TRANSPARENT, Color32::RED);
            assert_eq!(colours, [clear, red, red, clear]);
            // Where half of an edge's colour is left it counts as the edge.
            let upper = f32::midpoint(column[0].pos.y, column[1].pos.y);
            let lower = f32::midpoint(column[2].pos.y, column[3].pos.y);
            assert!((lower - upper - STYLE.stroke.width).abs() < 1e-4);
        }
    }

    #[test]
    fn no_columns_are_no_band_and_a_lone_one_is_a_stroke() {
        assert!(solid(&[]).is_empty());
        let lone = solid(&[bar(7.5, 3.0, 9.0)]);
        assert_eq!(lone.len(), 3);
        assert!(lone[0].0 < 7.0 && lone[2].0 > 8.0);
    }

    #[test]
    fn a_spike_keeps_its_height_and_no_neighbour_is_higher() {
        let floor = |x| bar(x, 99.0, 100.0);
        let found = solid(&[floor(0.5), floor(1.5), bar(2.5, 0.0, 100.0), floor(3.5)]);
        let tops: Vec<f32> = found.iter().map(|(_, top, _)| *top).collect();
        assert!(tops[3] <= 0.0);
        assert!(tops.iter().all(|top| *top >= tops[3]), "{tops:?}");
        assert!(tops[1] > 98.0, "far from it nothing is seen of it");
    }

    proptest! {
        #[test]
        fn all_that_a_column_holds_is_painted_and_no_hole_is_left_beside_it(
            columns in prop::collection::vec((0.0_f32..500.0, 0.0_f32..200.0), 1..60),
        ) {
            let bars: Vec<Bar> = columns
                .iter()
                .enumerate()
                .map(|(place, (top, height))| bar(place as f32 + 0.5, *top, top + height))
                .collect();
            let solid = solid(&bars);
            prop_assert_eq!(solid.len(), bars.len() + 2);
            for (bar, (x, top, bottom)) in bars.iter().zip(&solid[1..]) {
                prop_assert_eq!(bar.x.to_bits(), x.to_bits());
                prop_assert!(*top <= bar.top + 1e-3 && *bottom >= bar.bottom - 1e-3);
            }
            for pair in solid.windows(2) {
                let ((_, top, bottom), (_, next_top, next_bottom)) = (pair[0], pair[1]);
                prop_assert!(bottom >= next_top - 1e-3 && next_bottom >= top - 1e-3, "{pair:?}");
            }
        }
    }
}
