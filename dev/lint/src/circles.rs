//! Files that use each other, directly or through others.

use std::path::{Path, PathBuf};

use petgraph::algo::{astar, tarjan_scc};
use petgraph::graphmap::DiGraphMap;

use crate::Arrow;

type Graph<'a> = DiGraphMap<&'a Path, &'a Arrow>;

/// The largest sets of files in which each uses each other, directly or through others of the set. The largest
/// set comes first, and its files are in alphabetical order.
#[must_use]
pub fn circles(arrows: &[Arrow]) -> Vec<Vec<PathBuf>> {
    let knots = tarjan_scc(&graph(arrows)).into_iter().filter(|knot| knot.len() > 1);
    let mut knots: Vec<Vec<PathBuf>> =
        knots.map(|knot| knot.into_iter().map(Path::to_path_buf).collect()).collect();
    knots.iter_mut().for_each(|knot| knot.sort());
    knots.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    knots
}

/// The shortest circle within a set of `circles`: each arrow ends where the next one begins.
#[must_use]
pub fn shortest<'a>(arrows: &'a [Arrow], knot: &[PathBuf]) -> Vec<&'a Arrow> {
    let graph = graph(arrows);
    let back = |arrow: &'a Arrow| {
        let (length, path) =
            astar(&graph, arrow.to.as_path(), |file| file == arrow.from, |_| 1i32, |_| 0i32)?;
        Some((length, arrow, path))
    };
    let inside = arrows.iter().filter(|arrow| knot.contains(&arrow.from) && knot.contains(&arrow.to));
    let Some((_, first, path)) = inside.filter_map(back).min_by_key(|(length, ..)| *length) else {
        return Vec::new();
    };
    let rest = path.windows(2).filter_map(|pair| graph.edge_weight(pair[0], pair[1]).copied());
    std::iter::once(first).chain(rest).collect()
}

fn graph(arrows: &[Arrow]) -> Graph<'_> {
    arrows.iter().map(|arrow| (arrow.from.as_path(), arrow.to.as_path(), arrow)).collect()
}
