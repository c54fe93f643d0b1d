//! The pieces of a picture as rows and as a document: memory of one class that follows each other.

use serde_json::{Value, json};

use super::paint::{By, Painted};
use crate::commands::csv;
use crate::commands::owners;
use crate::commands::reading::{document as head, hex};
use crate::map::view::View;

/// Returns comma-separated values: a row for each piece.
pub(super) fn csv(painted: &Painted) -> String {
    let head = csv::row(["va", "bytes", "class", "by"]);
    painted.pieces.iter().fold(head, |mut text, piece| {
        let name = &painted.names[piece.class];
        let by = name.owner.as_ref().map_or("", |owner| owner.by.id());
        text += &csv::row([&hex(piece.va), &piece.bytes.to_string(), &name.text, by]);
        text
    })
}

/// Returns the document of `docs/schema/linmap.map-1.json`.
pub(super) fn document(view: &View<'_>, by: By, painted: &Painted) -> Value {
    let mut document = head("map", true, view);
    document["by"] = json!(by.name());
    document["bytes"] = json!(painted.bytes);
    document["invalid_bytes"] = json!(painted.invalid);
    let piece = |piece: &super::paint::Piece| {
        let name = &painted.names[piece.class];
        let mut document = json!({ "owner": null, "name": null, "by": null });
        if let Some(owner) = &name.owner {
            document = owners::document(owner);
        }
        document["va"] = json!(hex(piece.va));
        document["bytes"] = json!(piece.bytes);
        document["class"] = json!(name.text);
        document
    };
    document["pieces"] = painted.pieces.iter().map(piece).collect::<Vec<_>>().into();
    document
}
