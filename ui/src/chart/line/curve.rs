//! A line itself. With at most one value to a column of pixels it goes from value to value; with more it is a band that
//! reaches from the least to the greatest value of each column.
//!
//! Its triangles are kept as long as they are drawn and nothing of what they depend on changes, so that a chart that
//! stands still costs a copy of them a frame.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use egui::{
    Mesh, Painter, Pos2, Shape, Stroke,
    cache::{ComputerMut, FrameCache},
    epaint::{PathShape, TessellationOptions, Tessellator},
    pos2,
};

use super::band::{BandStyle, Bar, add_band};
use crate::chart::axis::Axis;
use crate::chart::series::{Point, Series};

/// A series as a line between two axes.
#[derive(Clone, Copy)]
pub(super) struct Curve<'a> {
    series: &'a Series,
    x: Axis,
    y: Axis,
    stroke: Stroke,
    pixels_per_point: f32,
    tessellation: TessellationOptions,
}

/// Curves that look alike hash alike. It is all that [`Drawing`] depends on.
impl Hash for Curve<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.series.fingerprint().hash(state);
        self.x.hash(state);
        self.y.hash(state);
        self.stroke.hash(state);
        self.pixels_per_point.to_bits().hash(state);
        self.feathering().to_bits().hash(state);
    }
}

/// What a curve is drawn with.
#[derive(Clone, Default)]
struct Drawing {
    mesh: Arc<Mesh>,
    /// Values between two gaps.
    dots: Vec<Pos2>,
}

#[derive(Default)]
struct Draughtsman;

impl ComputerMut<Curve<'_>, Drawing> for Draughtsman {
    fn compute(&mut self, curve: Curve<'_>) -> Drawing {
        curve.drawing()
    }
}

/// The drawings of the last frame.
type Kept = FrameCache<Drawing, Draughtsman>;

/// The whole pixels that a horizontal axis covers, as columns.
#[derive(Clone, Copy, Debug)]
struct Columns {
    /// Left edge of the first one, in pixels.
    first: f32,
    count: usize,
    pixels_per_point: f32,
}

impl Columns {
    fn of(axis: &Axis, pixels_per_point: f32) -> Self {
        let screen = axis.screen();
        let first = (screen.min * pixels_per_point).floor();
        let end = (screen.max * pixels_per_point).ceil();
        Self {
            first,
            count: (end - first).max(1.0) as usize,
            pixels_per_point,
        }
    }

    /// Where the left edge of a column lies, in points; half a column further is its middle.
    fn place(self, column: f32) -> f32 {
        (self.first + column) / self.pixels_per_point
    }
}

impl<'a> Curve<'a> {
    pub(super) fn new(series: &'a Series, (x, y): (Axis, Axis), stroke: Stroke, painter: &Painter) -> Self {
        Self {
            series,
            x,
            y,
            stroke,
            pixels_per_point: painter.pixels_per_point(),
            tessellation: painter.ctx().tessellation_options(|options| *options),
        }
    }

    pub(super) fn paint(self, painter: &Painter) {
        let drawing = painter
            .ctx()
            .memory_mut(|memory| memory.caches.cache::<Kept>().get(self).clone());
        if !drawing.mesh.is_empty() {
            painter.add(Shape::Mesh(drawing.mesh));
        }
        for dot in drawing.dots {
            painter.circle_filled(dot, 1.2 * self.stroke.width, self.stroke.color);
        }
    }

    /// How far edges fade, in points.
    fn feathering(&self) -> f32 {
        if self.tessellation.feathering {
            self.tessellation.feathering_size_in_pixels / self.pixels_per_point
        } else {
            0.0
        }
    }

    fn drawing(&self) -> Drawing {
        let columns = Columns::of(&self.x, self.pixels_per_point);
        if self.series.between(self.x.low, self.x.high).len() <= columns.count {
            self.value_to_value(columns.count)
        } else {
            self.by_columns(columns)
        }
    }

    /// Through the finite values, with gaps where there is none between two of them. One between two gaps is a dot.
    fn value_to_value(&self, columns: usize) -> Drawing {
        let mut runs: Vec<Vec<Pos2>> = vec![Vec::new()];
        let mut before = None;
        for Point { index, x, y } in self.series.thinned(self.x.low, self.x.high, columns) {
            let gap = before.is_some_and(|before| self.series.is_gap(before, index));
            before = Some(index);
            let shown = self.y.can_show(y);
            if gap || !shown {
                runs.push(Vec::new());
            }
            if shown && let Some(run) = runs.last_mut() {
                run.push(pos2(self.x.place(x), self.y.place(y)));
            }
        }
        let (mut mesh, mut dots) = (Mesh::default(), Vec::new());
        let mut tessellator = self.tessellator();
        for run in runs {
            match run.as_slice() {
                [] => {}
                [alone] => dots.push(*alone),
                _ => tessellator.tessellate_path(&PathShape::line(run, self.stroke), &mut mesh),
            }
        }
        Drawing {
            mesh: Arc::new(mesh),
            dots,
        }
    }

    /// A band over the columns that hold a value, with gaps at those whose values are all no numbers. A line crosses the
    /// columns that hold nothing.
    fn by_columns(&self, columns: Columns) -> Drawing {
        let mut mesh = Mesh::default();
        let mut tessellator = self.tessellator();
        let style = BandStyle {
            stroke: self.stroke,
            column: 1.0 / self.pixels_per_point,
            feathering: self.feathering(),
        };
        // Whole pixels may reach a little further than the axis.
        let [low, high] = [0.0, columns.count as f32].map(|column| self.x.value(columns.place(column)));
        let mut run: Vec<Bar> = Vec::new();
        let mut next = 0;
        for (column, span) in self.series.spans(low, high, columns.count) {
            let bar = self.y.can_show(span.most).then(|| Bar {
                x: columns.place(column as f32 + 0.5),
                top: self.y.place(span.most),
                bottom: self.y.place_or_low(span.least),
            });
            if bar.is_none() || column > next {
                let ended = std::mem::take(&mut run);
                if let (Some(from), Some(to)) = (ended.last(), bar) {
                    let crossing = PathShape::line(vec![from.middle(), to.middle()], self.stroke);
                    tessellator.tessellate_path(&crossing, &mut mesh);
                }
                add_band(ended, style, &mut mesh);
            }
            run.extend(bar);
            next = column + 1;
        }
        add_band(run, style, &mut mesh);
        Drawing {
            mesh: Arc::new(mesh),
            dots: Vec::new(),
        }
    }

    /// It makes the same triangles as if the context did it later. Neither text nor circles are given to it, so that it
    /// needs no pictures of them.
    fn tessellator(&self) -> Tessellator {
        Tessellator::new(self.pixels_per_point, self.tessellation, [1, 1], Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::{Color32, Rangef};
    use proptest::prelude::*;

    const COLUMNS: usize = 100;

    /// Values at 0, 1, 2, … on a hundred columns of pixels, 200 high.
    fn curve(series: &Series, log: bool) -> Curve<'_> {
        let (low, high) = series.x_range().unwrap();
        let bottom = if log { 0.1 } else { -100.0 };
        Curve {
            series,
            x: Axis::new(low, high, false, Rangef::new(40.0, 40.0 + COLUMNS as f32)),
            y: Axis::new(bottom, 100.0, log, Rangef::new(200.0, 0.0)),
            stroke: Stroke::new(1.8, Color32::RED),
            pixels_per_point: 1.0,
            tessellation: TessellationOptions::default(),
        }
    }

    fn of(values: impl IntoIterator<Item = f64>) -> Series {
        let mut series = Series::new();
        for (step, value) in values.into_iter().enumerate() {
            series.push(step as f64, value).unwrap();
        }
        series
    }

    /// Where the opaque corners of the triangles lie in a column.
    fn solid_at(drawing: &Drawing, x: f32) -> Vec<f32> {
        let corners = drawing.mesh.vertices.iter();
        let here = corners.filter(|corner| corner.color == Color32::RED && (corner.pos.x - x).abs() < 0.01);
        here.map(|corner| corner.pos.y).collect()
    }

    #[test]
    fn few_values_are_joined_and_what_stands_alone_is_a_dot() {
        let series = of([1.0, f64::NAN, 2.0, f64::NAN, 3.0, 4.0]);
        let drawing = curve(&series, false).drawing();
        assert_eq!(drawing.dots.len(), 2);
        assert!(!drawing.mesh.is_empty());
        let alone = of([5.0]);
        let mut alone = curve(&alone, false);
        alone.x = Axis::new(-1.0, 1.0, false, alone.x.screen());
        assert_eq!(alone.drawing().dots.len(), 1);
    }

    #[test]
    fn a_million_values_take_few_triangles_and_a_spike_among_them_is_as_high_as_it_is() {
        let series = of((0..1_000_000).map(|step| {
            if step == 654_321 {
                90.0
            } else {
                f64::from(step % 7)
            }
        }));
        let curve = curve(&series, false);
        let drawing = curve.drawing();
        assert!(drawing.mesh.vertices.len() <= 4 * (COLUMNS + 2));
        assert!(drawing.mesh.is_valid());
        let highest = solid_at(&drawing, 40.0 + 65.5)
            .into_iter()
            .fold(f32::INFINITY, f32::min);
        assert!(highest <= curve.y.place(90.0), "{highest}");
    }

    #[test]
    fn columns_without_a_number_are_a_gap_and_columns_without_a_value_are_crossed() {
        let gap = of((0..1000).map(|step| {
            if (400..=620).contains(&step) {
                f64::NAN
            } else {
                1.0
            }
        }));
        let drawing = curve(&gap, false).drawing();
        let inside = |corner: &egui::epaint::Vertex| (84.0..100.0).contains(&corner.pos.x);
        assert!(!drawing.mesh.vertices.iter().any(inside));
        assert!(drawing.mesh.triangles().all(|corners| {
            let x = corners.map(|corner| drawing.mesh.vertices[corner as usize].pos.x);
            x.iter().all(|x| *x < 84.0) || x.iter().all(|x| *x > 100.0)
        }));

        let mut hole = of((0..400).map(|_| 1.0));
        for step in 900..1000 {
            hole.push(f64::from(step), 1.0).unwrap();
        }
        let drawing = curve(&hole, false).drawing();
        assert!(drawing.mesh.triangles().any(|corners| {
            let x = corners.map(|corner| drawing.mesh.vertices[corner as usize].pos.x);
            x.iter().any(|x| *x < 84.0) && x.iter().any(|x| *x > 128.0)
        }));
    }

    #[test]
    fn what_a_logarithmic_axis_cannot_show_goes_down_to_its_end() {
        let series = of((0..1000).map(|step| if step == 505 { -1.0 } else { 10.0 }));
        let curve = curve(&series, true);
        let lowest = |x| solid_at(&curve.drawing(), x).into_iter().fold(0.0, f32::max);
        assert!(lowest(40.0 + 50.5) >= 200.0);
        assert!(lowest(40.0 + 30.5) < 150.0);
        let nothing = of((0..1000).map(|_| 0.0));
        let nothing = self::curve(&nothing, true);
        assert!(nothing.drawing().mesh.is_empty());
    }

    #[test]
    fn a_curve_is_drawn_anew_when_a_point_comes_and_only_then() {
        let ctx = egui::Context::default();
        crate::theme::install(&ctx);
        let mut kept: Vec<Arc<Mesh>> = Vec::new();
        let mut series = of((0..500).map(f64::from));
        for frame in 0..3 {
            if frame == 2 {
                series.push(500.0, 7.0).unwrap();
            }
            let output = ctx.run_ui(egui::RawInput::default(), |ui| {
                let Curve { x, y, stroke, .. } = curve(&series, false);
                Curve::new(&series, (x, y), stroke, ui.painter()).paint(ui.painter());
            });
            for clipped in &output.shapes {
                if let Shape::Mesh(mesh) = &clipped.shape {
                    kept.push(Arc::clone(mesh));
                }
            }
            output.drop_without_applying_deltas();
        }
        assert_eq!(kept.len(), 3);
        assert!(Arc::ptr_eq(&kept[0], &kept[1]));
        assert!(!Arc::ptr_eq(&kept[1], &kept[2]));
    }

    proptest! {
        #[test]
        fn the_least_and_the_greatest_value_of_each_column_are_painted(
            values in prop::collection::vec(
                prop_oneof![12 => -100.0_f64..100.0, 1 => Just(f64::NAN)], (2 * COLUMNS)..(6 * COLUMNS),
            ),
        ) {
            let series = of(values);
            let curve = curve(&series, false);
            let drawing = curve.drawing();
            prop_assert!(drawing.mesh.is_valid());
            for (column, span) in series.spans(curve.x.low, curve.x.high, COLUMNS) {
                let solid = solid_at(&drawing, 40.5 + column as f32);
                prop_assert_eq!(solid.is_empty(), span.is_none());
                for value in [span.least, span.most].into_iter().filter(|value| value.is_finite()) {
                    let y = curve.y.place(value);
                    prop_assert!(solid.iter().any(|at| *at <= y + 1e-3), "{value} above");
                    prop_assert!(solid.iter().any(|at| *at >= y - 1e-3), "{value} below");
                }
            }
        }
    }
}
