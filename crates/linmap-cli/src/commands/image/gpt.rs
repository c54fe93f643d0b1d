//! A disk with a GPT and one EFI system partition (UEFI specification, chapter 5).

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use super::fat::SECTOR;

/// The first sector of the partition: at 1 MiB, as usual.
const FIRST: u64 = 2048;
/// The entries of the table of partitions, the bytes of one, and the sectors of the table.
const ENTRIES: u32 = 128;
const ENTRY: u32 = 128;
const TABLE: u64 = (ENTRIES * ENTRY) as u64 / SECTOR;
/// The sectors behind the last usable one: a copy of the table, and of the header.
const BEHIND: u64 = TABLE + 1;

/// The type of an EFI system partition, as on the disk.
const ESP: [u8; 16] = 0xc12a_7328_f81f_11d2_ba4b_00a0_c93e_c93b_u128.to_be_bytes();

/// A partition, and what tells it and its disk from others.
pub(crate) struct Partition {
    content: Vec<u8>,
    id: u32,
}

impl Partition {
    pub(crate) fn new(content: Vec<u8>) -> Self {
        let id = crc32fast::hash(&content);
        Self { content, id }
    }

    /// Returns a GUID for the disk (0) or the partition (1), made of the content.
    fn guid(&self, of: u8) -> [u8; 16] {
        let mut guid = *b"....linmap-image";
        guid[..4].copy_from_slice(&self.id.to_le_bytes());
        guid[15] = of;
        // Version 8, made by a rule of its own, and the variant of RFC 9562.
        guid[6] = guid[6] & 0xf | 0x80;
        guid[8] = guid[8] & 0x3f | 0x80;
        on_disk(guid)
    }
}

/// Returns a GUID as it is on disks: its first three fields little-endian.
fn on_disk(guid: [u8; 16]) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = guid;
    let mut bytes = [d, c, b, a, f, e, h, g, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[8..].copy_from_slice(&rest);
    bytes
}

/// Returns the bytes of the partition of a disk: whole megabytes.
pub(crate) const fn partition_bytes(disk: u64) -> u64 {
    disk - (2 << 20)
}

/// Writes a disk of so many bytes with a partition. What is zero stays a hole of the file.
pub(crate) fn write(file: &mut File, partition: &Partition, bytes: u64) -> io::Result<()> {
    const BLOCK: usize = 64 << 10;
    let sectors = bytes / SECTOR;
    let table = table(partition);
    file.set_len(bytes)?;
    let mut put = |sector: u64, content: &[u8]| {
        file.seek(SeekFrom::Start(sector * SECTOR))?;
        file.write_all(content)
    };
    put(0, &protective(sectors))?;
    put(1, &header(partition, &table, sectors, 1))?;
    put(2, &table)?;
    for (index, block) in partition.content.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            put(FIRST + (index * BLOCK) as u64 / SECTOR, block)?;
        }
    }
    put(sectors - BEHIND, &table)?;
    put(sectors - 1, &header(partition, &table, sectors, sectors - 1))
}

/// Returns the protective MBR, for programs that know no GPT: one partition of type 0xee with all sectors.
fn protective(sectors: u64) -> Vec<u8> {
    let mut mbr = vec![0; SECTOR as usize];
    let most = u32::try_from(sectors - 1).unwrap_or(u32::MAX);
    mbr[446..462].copy_from_slice(&[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0]);
    mbr[458..462].copy_from_slice(&most.to_le_bytes());
    mbr[510..].copy_from_slice(&[0x55, 0xaa]);
    mbr
}

/// Returns the table of partitions.
fn table(partition: &Partition) -> Vec<u8> {
    let last = FIRST + partition.content.len() as u64 / SECTOR - 1;
    let mut table = [on_disk(ESP), partition.guid(1)].concat();
    for word in [FIRST, last, 0] {
        table.extend(word.to_le_bytes());
    }
    table.extend("linmap".encode_utf16().flat_map(u16::to_le_bytes));
    table.resize((ENTRIES * ENTRY) as usize, 0);
    table
}

/// Returns the header that lies in sector `own`: the first, or the last, which is its copy.
fn header(partition: &Partition, table: &[u8], sectors: u64, own: u64) -> Vec<u8> {
    const BYTES: u32 = 92;
    let (other, table_at) = if own == 1 { (sectors - 1, 2) } else { (1, sectors - BEHIND) };
    let mut header = b"EFI PART".to_vec();
    let words =
        |header: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|w| header.extend(w.to_le_bytes()));
    words(&mut header, &[0x1_0000, BYTES, 0, 0]);
    for sector in [own, other, 2 + TABLE, sectors - BEHIND - 1] {
        header.extend(sector.to_le_bytes());
    }
    header.extend(partition.guid(0));
    header.extend(table_at.to_le_bytes());
    words(&mut header, &[ENTRIES, ENTRY, crc32fast::hash(table)]);
    let crc = crc32fast::hash(&header);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    header.resize(SECTOR as usize, 0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const DISK: u64 = 4 << 20;

    fn disk() -> (Vec<u8>, Partition) {
        let mut content = vec![0; partition_bytes(DISK) as usize];
        content[..4].copy_from_slice(b"here");
        content[0x3_0000..0x3_0004].copy_from_slice(b"also");
        let partition = Partition::new(content);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write(file.as_file_mut(), &partition, DISK).unwrap();
        (fs::read(file.path()).unwrap(), partition)
    }

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())
    }

    fn half(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(*bytes[at..].first_chunk().unwrap())
    }

    #[test]
    fn both_headers_are_right_and_name_each_other() {
        let (disk, _) = disk();
        let last = DISK / 512 - 1;
        assert_eq!((disk.len() as u64, &disk[510..512]), (DISK, &[0x55, 0xaa][..]));
        for (own, other) in [(1, last), (last, 1)] {
            let mut header = disk[own as usize * 512..][..92].to_vec();
            assert_eq!(&header[..8], b"EFI PART");
            assert_eq!((word(&header, 24), word(&header, 32)), (own, other));
            assert_eq!((word(&header, 40), word(&header, 48)), (34, last - 33));
            let crc = half(&header, 16);
            header[16..20].fill(0);
            assert_eq!(crc32fast::hash(&header), crc);
            let table = &disk[word(&header, 72) as usize * 512..][..128 * 128];
            assert_eq!(crc32fast::hash(table), half(&header, 88));
        }
    }

    #[test]
    fn the_partition_is_where_the_table_says() {
        let (disk, partition) = disk();
        let entry = &disk[1024..1152];
        let esp =
            [0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b];
        assert_eq!(entry[..16], esp);
        let (first, last) = (word(entry, 32) as usize, word(entry, 40) as usize);
        assert_eq!(disk[first * 512..(last + 1) * 512], partition.content);
        assert!(last as u64 <= DISK / 512 - 34, "the copy of the table is behind it");
        assert_ne!(partition.guid(0), partition.guid(1));
    }
}
