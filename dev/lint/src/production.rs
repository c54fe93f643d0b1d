//! Leaves out code that only tests compile: `#[cfg(test)]`, `#[cfg(doctest)]`, `#[test]`.

use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token};

/// True if one of `attributes` keeps its item out of a build for production.
pub(crate) fn tests_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args().is_ok_and(|condition| needs_tests(&condition))
        }
        _ => false,
    })
}

/// True if a condition of `cfg` holds in tests alone.
fn needs_tests(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test") || path.is_ident("doctest"),
        Meta::List(list) => {
            let parts =
                list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default();
            match list.path.get_ident().map(ToString::to_string).as_deref() {
                Some("all") => parts.iter().any(needs_tests),
                Some("any") => !parts.is_empty() && parts.iter().all(needs_tests),
                _ => false,
            }
        }
        Meta::NameValue(_) => false,
    }
}

/// The attributes of an item of any kind.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    use syn::*;
    match item {
        Item::Const(ItemConst { attrs, .. })
        | Item::Enum(ItemEnum { attrs, .. })
        | Item::ExternCrate(ItemExternCrate { attrs, .. })
        | Item::Fn(ItemFn { attrs, .. })
        | Item::ForeignMod(ItemForeignMod { attrs, .. })
        | Item::Impl(ItemImpl { attrs, .. })
        | Item::Macro(ItemMacro { attrs, .. })
        | Item::Mod(ItemMod { attrs, .. })
        | Item::Static(ItemStatic { attrs, .. })
        | Item::Struct(ItemStruct { attrs, .. })
        | Item::Trait(ItemTrait { attrs, .. })
        | Item::TraitAlias(ItemTraitAlias { attrs, .. })
        | Item::Type(ItemType { attrs, .. })
        | Item::Union(ItemUnion { attrs, .. })
        | Item::Use(ItemUse { attrs, .. }) => attrs,
        _ => &[],
    }
}
