//! Texts of firmware and loaders, in bounded memory.

use arrayvec::ArrayString;

use crate::note::Note;

/// Copies as much of a text as there is room for, in whole words, with `?` for what is not UTF-8.
pub(crate) fn copy<const N: usize>(
    text: &[u8],
    property: &'static str,
    note: &mut dyn FnMut(Note<'_>),
) -> ArrayString<N> {
    let mut kept = text;
    while kept.len() > N {
        kept = kept.iter().rposition(u8::is_ascii_whitespace).map_or(&[], |space| &kept[..space]);
    }
    if kept.len() < text.len() {
        note(Note::TextCut { property, bytes: text.len(), used: kept.len() });
    }
    let mut copy = ArrayString::new();
    let mut readable = true;
    for chunk in kept.utf8_chunks() {
        // There is room: a chunk is at least as long as its copy.
        let _ = copy.try_push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            readable = false;
            let _ = copy.try_push('?');
        }
    }
    if !readable {
        note(Note::TextNotUtf8 { property });
    }
    copy
}
