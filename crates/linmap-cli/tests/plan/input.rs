//! Bad input ends in an error that names the place.

use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::{document, plan, printed, text};

fn file(content: &[u8]) -> NamedTempFile {
    let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    std::fs::write(file.path(), content).expect("written");
    file
}

/// Returns the message for an option with a file of this content, without the file's name.
fn refused(option: &str, content: &[u8]) -> String {
    let file = file(content);
    let path = file.path().to_str().expect("a plain path");
    let output = plan(&[option, path]);
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(2), ""), "{option}");
    text(&output.stderr).replace(path, "FILE")
}

#[test]
fn amounts_of_ram() {
    for (ram, hint) in [
        ("0", "a machine without RAM has no linear map"),
        ("12X", "not a size: write a number of bytes"),
        ("12GB", "such as 12G"),
        ("-1", "unexpected argument '-1'"),
        ("1M", "need 8M of RAM"),
        ("4096T", "52-bit addresses end RAM at"),
        ("99999999T", "too large"),
    ] {
        let output = plan(&["--ram", ram]);
        assert_eq!(output.status.code(), Some(2), "{ram}");
        assert!(text(&output.stderr).contains(hint), "{ram}: {}", text(&output.stderr));
    }
    let output = plan(&[]);
    assert!(
        text(&output.stderr).starts_with("error: which machine? Say --ram SIZE"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn errors_are_documents_too() {
    let output = plan(&["--json", "--dtb", "/no/such/file"]);
    assert_eq!(output.status.code(), Some(2));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&document["schema"], &document["ok"]), (&"linmap.plan/1".into(), &false.into()));
    let error = document["error"].as_str().expect("an error");
    assert!(error.starts_with("cannot read `/no/such/file`: No such file"), "{error}");
}

#[test]
fn iomem_that_is_no_arm64_machines() {
    let zeros = b"00000000-00000000 : System RAM\n  00000000-00000000 : Kernel code\n";
    assert!(
        refused("--iomem", zeros).contains("`FILE`: all 2 addresses are zero"),
        "{}",
        refused("--iomem", zeros)
    );
    let x86 =
        b"00000000-00000fff : Reserved\n00001000-0009efff : System RAM\nfee00000-fee00fff : Local APIC\n";
    assert!(refused("--iomem", x86).contains("line 3: only x86 machines have `Local APIC`"));
    assert!(refused("--iomem", b"\xff\xfe").contains("line 1: "));
    assert!(refused("--iomem", b"").contains("it is empty"));
}

#[test]
fn a_real_machines_iomem() {
    let iomem = file(
        b"40000000-bfffffff : System RAM\n  40210000-4192ffff : Kernel code\n  41930000-41f7ffff : reserved\n  \
          41f80000-4266ffff : Kernel data\n  9fe00000-bfdfffff : Crash kernel\n100000000-33fffffff : System RAM\n",
    );
    let path = iomem.path().to_str().expect("a plain path");
    let plan = document(&["--iomem", path, "--page-size", "4k"]);
    let memory = &plan["page_sizes"][0]["memory"];
    assert_eq!(memory["image"], serde_json::json!(["0x40210000", "0x41930000"]));
    assert_eq!(memory["carve_outs"], serde_json::json!([["0x9fe00000", "0xbfe00000"]]));
    // The crash kernel is in pages, its neighbours are not.
    let leaves = plan["page_sizes"][0]["linear"]["leaves"].as_array().expect("leaves");
    let single = leaves.iter().find(|leaf| leaf["size"] == 4096 && leaf["contiguous"] == false);
    assert_eq!(single.and_then(|leaf| leaf["descriptors"].as_u64()), Some((512 << 20) / 4096));
    assert_eq!(plan["machine"]["ram_bytes"].as_u64(), Some((2 << 30) + (9 << 30)));
}

#[test]
fn broken_device_trees() {
    for content in [&b""[..], b"nonsense", &[0xd0, 0x0d, 0xfe, 0xed, 0, 0, 1, 0], &[0; 64]] {
        let said = refused("--dtb", content);
        assert!(said.contains("`FILE`: the device tree cannot be read"), "{said}");
        assert!(said.contains("a flattened device tree (.dtb) is right"), "{said}");
    }
    let empty = DeviceTree::new().to_dtb();
    assert!(refused("--dtb", &empty).contains("has no memory"), "{}", refused("--dtb", &empty));
}

/// A node with these properties.
fn node(name: &str, properties: &[(&str, &[u8])]) -> DeviceTreeNode {
    let mut node = DeviceTreeNode::new(name).expect("a node");
    for (name, value) in properties {
        node.add_property(DeviceTreeProperty::new(*name, *value).expect("a property"));
    }
    node
}

const TWO_CELLS: [(&str, &[u8]); 2] = [("#address-cells", &[0, 0, 0, 2]), ("#size-cells", &[0, 0, 0, 2])];

/// A machine with 8 GiB of RAM in two ranges, and these nodes.
fn machine(nodes: Vec<DeviceTreeNode>) -> Vec<u8> {
    let mut tree = DeviceTree::new();
    tree.root = node("", &TWO_CELLS);
    let reg = [0x8000_0000u64, 1 << 30, 0x8_8000_0000, 7 << 30].map(u64::to_be_bytes).concat();
    tree.root.add_child(node("memory@80000000", &[("device_type", b"memory\0"), ("reg", &reg)]));
    nodes.into_iter().for_each(|node| tree.root.add_child(node));
    tree.to_dtb()
}

#[test]
fn a_device_tree() {
    let tree = file(&machine(Vec::new()));
    let path = tree.path().to_str().expect("a plain path");
    let plan = document(&["--dtb", path, "--page-size", "16k"]);
    assert_eq!(plan["page_sizes"][0]["linear"]["bytes"].as_u64(), Some(8 << 30));
    assert_eq!(plan["page_sizes"][0]["memory"]["image"], serde_json::json!(["0x0", "0x0"]));
    let text = printed(&["--dtb", path, "--page-size", "16k"]);
    assert!(text.contains("8G of RAM, 48-bit addresses"), "{text}");
}

/// Notes are told apart by their subject: the name of a node can have any word in it.
#[test]
fn notes_on_memory_are_kept_whatever_a_node_is_called() {
    let mut reserved = node("reserved-memory", &TWO_CELLS);
    for name in ["cpucp@90000000", "gic-console@91000000"] {
        reserved.add_child(node(name, &[]));
    }
    let mut cpus = node("cpus", &[("#address-cells", &[0, 0, 0, 1]), ("#size-cells", &[0; 4])]);
    cpus.add_child(node("memory@0", &[("device_type", b"cpu\0")]));
    let tree = file(&machine(vec![reserved, cpus]));
    let path = tree.path().to_str().expect("a plain path");
    let output = plan(&["--dtb", path, "--page-size", "4k", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    let expected = ["cpucp@90000000 has no reg", "gic-console@91000000 has no reg"];
    assert_eq!(document["notes"], serde_json::json!(expected));
    let shown = text(&output.stderr);
    assert!(expected.iter().all(|note| shown.contains(note)) && !shown.contains("memory@0"), "{shown}");
}

#[test]
fn a_kernel_that_is_not_in_ram() {
    let output = plan(&["--ram", "1G", "--kernel", "0x1000-0x2000"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--kernel 0x1000-0x2000: not inside one range"),
        "{}",
        text(&output.stderr)
    );
    let output = plan(&["--ram", "1G", "--kernel", "here"]);
    assert!(text(&output.stderr).contains("START-END is right"), "{}", text(&output.stderr));
}
