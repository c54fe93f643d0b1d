//! The pieces of a picture as rows and as a document: memory of one class that follows each other.

use serde_json::{Value, json};

use super::paint::{By, Painted};
use crate::commands::csv;
use crate::commands::reading::{document as head, hex};
use crate::map::view::View;

/// Returns comma-separated values: a row for each piece.
pub(super) fn csv(painted: &Painted) -> String {
    let head = csv::row(["va", "bytes", "class", "by"]);
    painted.pieces.iter().fold(head, |mut text, piece| {
        let name = &painted.names[piece.class];
        text += &csv::row([&hex(piece.va), &piece.bytes.to_string(), &name.text, &name.evidence]);
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
        let evidence = Some(&name.evidence).filter(|evidence| !evidence.is_empty());
        json!({ "va": hex(piece.va), "bytes": piece.bytes, "class": name.text, "by": evidence })
    };
    document["pieces"] = painted.pieces.iter().map(piece).collect::<Vec<_>>().into();
    document
}
