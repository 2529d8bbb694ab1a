// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE FORMAT OF AN LMDB DATA FILE (data version 1, 64-bit, native byte order)
//
// The file is an array of pages of one size (the operating system's when the file was made; 4 to
// 32 kB). Pages 0 and 1 are metas. Transaction N writes meta N & 1, so the two metas of a file in
// use have N and N - 1; a fresh file has 0 and 0. All other pages up to the last page belong to a
// tree or are in the free list. Pages are never changed in place: a transaction writes new ones,
// and the meta last.
//
//   every page                        meta (page 0, 1), from byte 16     table record (48 bytes)
//      0  own number        u64         16  magic 0xBEEFC0DE  u32           0  padding       u32
//      8  padding           u16         20  version 1         u32           4  flags         u16
//     10  flags             u16         24  address           u64           6  depth         u16
//     12  lower  u16 \ or: overflow     32  map size          u64           8  branch pages  u64
//     14  upper  u16 / pages u32        40  free table        record       16  leaf pages    u64
//     16  node offsets      u16[]       88  main table        record       24  overflow      u64
//    ...  free space                   136  last page         u64          32  entries       u64
//    upper  nodes, to the end          144  transaction       u64          40  root page     u64
//
// The padding of the free table's record holds the page size, its flags the environment's.
// An empty table has root 2^64 - 1 and depth 0.
//
//   node (at an even offset)
//      0  leaf: data size, u32; branch: the low 32 bits of the child's page number
//      4  leaf: flags, u16;     branch: bits 32 to 47 of it
//      6  key size, u16
//      8  key, then (leaf only) the data
//
// `lower` is 16 + 2 x nodes. Nodes are packed against the end of the page without gaps, each
// rounded up to an even size, in any order; the offsets are in key order. The first key of a branch
// page is unused. Every key of child i is >= branch key i and < branch key i + 1.
//
// A leaf node's data is its value (flags 0); or the number of the first of a run of overflow pages
// (flag 1), where one 16-byte header, with the count of pages, precedes the complete value; or, in
// the main table, the record of a named table (flag 2). A run may be longer than its value needs: a
// value replaced by a shorter one within one transaction keeps its pages.
//
// The free table's keys are transaction ids; a value is a list of the pages that the transaction
// freed: count u64, then page numbers, descending. A list may be shorter than its space. The free
// list may contain pages that were never written, beyond the end of the file.

internal import CLarderLMDB

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#else
#error("LarderLMDB needs a C library.")
#endif

/// The constants of LMDB's file format that several files need.
enum LMDBFormat {
  /// Whether the linked liblmdb writes this format, in which case its memory may be read by it too.
  static let isKnown: Bool = {
    #if _endian(little)
    var (major, minor): (CInt, CInt) = (0, 0)
    unsafe mdb_version(&major, &minor, nil)
    return major == 0 && minor == 9
    #else
    return false
    #endif
  }()

  static let magic: UInt32 = 0xBEEF_C0DE
  static let version: UInt32 = 1
  static let pageSizes = 4_096...32_768
  static let metaBytes = 152
  static let pageHeaderBytes = 16
  static let nodeHeaderBytes = 8
  static let tableRecordBytes = 48
  static let maximumKeyBytes = 511
  /// The depth limit of LMDB's cursors.
  static let maximumDepth = 32
  /// The largest map that fits into the address space of a process.
  static let maximumMapBytes: UInt64 = 1 << 46
  /// The root of an empty table.
  static let noPage = UInt64.max

  enum PageFlag {
    static let branch: UInt16 = 0x01
    static let leaf: UInt16 = 0x02
    static let overflow: UInt16 = 0x04
    static let meta: UInt16 = 0x08
  }

  enum NodeFlag {
    static let overflow: UInt16 = 0x01
    static let table: UInt16 = 0x02
  }

  enum TableFlag {
    static let reverseKey: UInt16 = 0x02
    static let integerKey: UInt16 = 0x08
    /// MDB_DUPSORT and the flags that apply only with it.
    static let duplicates: UInt16 = 0x04 | 0x10 | 0x20 | 0x40
    /// MDB_NOSUBDIR, which LMDB stores in the free table's flags.
    static let noSubdirectory: UInt16 = 0x4000
  }

  /// Returns the size of the largest node in a page; the value of a larger one is in overflow
  /// pages.
  static func maximumNodeBytes(pageSize: Int) -> Int {
    ((pageSize - pageHeaderBytes) / 2) & ~1 - 2
  }

  /// Returns the number of overflow pages that a value of `bytes` needs.
  static func overflowPages(bytes: Int, pageSize: Int) -> UInt64 {
    UInt64((pageHeaderBytes - 1 + bytes) / pageSize + 1)
  }
}

/// Bytes copied from the file, read by offset in native byte order.
///
/// Callers check an offset against the page before they read, and report a bad one as a finding.
/// The preconditions here are a second check, so that a mistake there cannot read other memory.
@safe
struct FormatBytes {
  private let base: UnsafeRawPointer
  let count: Int

  init(_ bytes: UnsafeRawBufferPointer) {
    unsafe base = bytes.baseAddress!
    count = bytes.count
  }

  @inline(__always)
  func uint16(at offset: Int) -> UInt16 {
    precondition(offset >= 0 && offset <= count - 2)
    return unsafe base.loadUnaligned(fromByteOffset: offset, as: UInt16.self)
  }

  @inline(__always)
  func uint32(at offset: Int) -> UInt32 {
    precondition(offset >= 0 && offset <= count - 4)
    return unsafe base.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
  }

  @inline(__always)
  func uint64(at offset: Int) -> UInt64 {
    precondition(offset >= 0 && offset <= count - 8)
    return unsafe base.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
  }

  func text(in range: Range<Int>) -> String {
    precondition(range.lowerBound >= 0 && range.upperBound <= count)
    return unsafe String(
      decoding: UnsafeRawBufferPointer(rebasing: all[range]), as: UTF8.self)
  }

  func copy(_ range: Range<Int>) -> [UInt8] {
    precondition(range.lowerBound >= 0 && range.upperBound <= count)
    return unsafe Array(all[range])
  }

  /// Returns whether the first key comes before the second in LMDB's order of keys under `flags`.
  ///
  /// Integer keys must have the same size, 4 or 8.
  @inline(__always)
  func key(_ first: Range<Int>, precedes second: Range<Int>, flags: UInt16) -> Bool {
    precondition(first.lowerBound >= 0 && first.upperBound <= count)
    precondition(second.lowerBound >= 0 && second.upperBound <= count)
    if flags & LMDBFormat.TableFlag.reverseKey != 0 {
      return reversed(first, precedes: second)
    }
    if flags & LMDBFormat.TableFlag.integerKey != 0 {
      return first.count == 8
        ? uint64(at: first.lowerBound) < uint64(at: second.lowerBound)
        : uint32(at: first.lowerBound) < uint32(at: second.lowerBound)
    }
    let common = min(first.count, second.count)
    let order = unsafe memcmp(base + first.lowerBound, base + second.lowerBound, common)
    return order == 0 ? first.count < second.count : order < 0
  }

  private var all: UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(start: base, count: count)
  }

  /// Compares keys of a table with MDB_REVERSEKEY: the last byte is the most significant.
  private func reversed(_ first: Range<Int>, precedes second: Range<Int>) -> Bool {
    for step in stride(from: 1, through: min(first.count, second.count), by: 1) {
      let left = unsafe all[first.upperBound - step]
      let right = unsafe all[second.upperBound - step]
      if left != right { return left < right }
    }
    return first.count < second.count
  }
}

/// LMDB's record of one table (its `MDB_db`).
struct TableRecord: Equatable {
  var padding: UInt32
  var flags: UInt16
  var depth: UInt16
  var branchPages: UInt64
  var leafPages: UInt64
  var overflowPages: UInt64
  var entries: UInt64
  var root: UInt64

  /// The record of a table without a page.
  static let empty = TableRecord(flags: 0, root: LMDBFormat.noPage)

  private init(flags: UInt16, root: UInt64) {
    (padding, self.flags, depth) = (0, flags, 0)
    (branchPages, leafPages, overflowPages, entries) = (0, 0, 0, 0)
    self.root = root
  }

  /// Returns a record of a table of which only the order of its keys is known.
  static func lost(flags: UInt16) -> TableRecord {
    TableRecord(flags: flags, root: LMDBFormat.noPage)
  }

  init(_ bytes: FormatBytes, at offset: Int) {
    padding = bytes.uint32(at: offset)
    flags = bytes.uint16(at: offset + 4)
    depth = bytes.uint16(at: offset + 6)
    branchPages = bytes.uint64(at: offset + 8)
    leafPages = bytes.uint64(at: offset + 16)
    overflowPages = bytes.uint64(at: offset + 24)
    entries = bytes.uint64(at: offset + 32)
    root = bytes.uint64(at: offset + 40)
  }
}

/// A meta page: the roots of a snapshot.
struct MetaRecord {
  var number: UInt64
  var pageFlags: UInt16
  var magic: UInt32
  var version: UInt32
  var mapBytes: UInt64
  var free: TableRecord
  var main: TableRecord
  var lastPage: UInt64
  var transactionID: UInt64

  init(_ bytes: FormatBytes) {
    number = bytes.uint64(at: 0)
    pageFlags = bytes.uint16(at: 10)
    magic = bytes.uint32(at: 16)
    version = bytes.uint32(at: 20)
    mapBytes = bytes.uint64(at: 32)
    free = TableRecord(bytes, at: 40)
    main = TableRecord(bytes, at: 88)
    lastPage = bytes.uint64(at: 136)
    transactionID = bytes.uint64(at: 144)
  }

  var pageSize: Int { Int(free.padding) }
}
