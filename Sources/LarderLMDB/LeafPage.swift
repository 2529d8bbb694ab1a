// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

// THE ENTRIES OF A LEAF PAGE
//
// A scan reads every entry of a page, and a call of LMDB for each takes longer than the entry's bytes
// do. The key that LMDB returns is in its leaf page (`LMDBFormat.swift`), whose address follows from it:
// pages are aligned to their size in a map that is aligned to the operating system's page. So the
// cursor reads the following entries of the page itself, and asks LMDB for the first of the next page.
//
// This holds for pages of the map only. A write transaction keeps the pages that it changed in
// allocated memory, so its cursors, and readings of it, ask LMDB for each entry. So do all cursors if
// liblmdb is not of the 0.9 series, whose format this is, or if the pages of a file are larger than
// the operating system's; and single entries do whose value is in overflow pages, or is a table.
//
// Every offset is compared with the page, as the file may be damaged: an entry that does not fit is
// left to LMDB.

/// The entries of one leaf page after a position.
@safe
struct LeafPage {
  private let base: UnsafeRawPointer
  private let size: Int
  private let count: Int
  private var index: Int
  /// The number of entries that ``next(_:_:)`` has returned.
  private(set) var steps = 0
  /// Whether it has returned the last entry of the page.
  var isAtEnd: Bool { index == count }

  /// Creates the entries after the one of a key, or returns `nil` if LMDB must read them.
  ///
  /// - Parameters:
  ///   - key: The key in its page, as LMDB returned it for a table without duplicates.
  ///   - size: The page size of the file.
  @unsafe
  init?(after key: UnsafeRawPointer, size: Int) {
    let address = UInt(bitPattern: key)
    let node = Int(address & UInt(size - 1)) - LMDBFormat.nodeHeaderBytes
    let base = unsafe key - LMDBFormat.nodeHeaderBytes - node
    let lower = Int(unsafe Self.word(base, 12))
    guard unsafe Self.word(base, 10) == LMDBFormat.PageFlag.leaf, lower <= node,
      lower >= LMDBFormat.pageHeaderBytes
    else { return nil }
    let count = (lower - LMDBFormat.pageHeaderBytes) / 2
    // The first entry of a page is the usual one.
    let index = (0..<count).first {
      Int(unsafe Self.word(base, LMDBFormat.pageHeaderBytes + 2 * $0)) == node
    }
    guard let index else { return nil }
    unsafe self.base = base
    self.size = size
    self.count = count
    self.index = index + 1
  }

  /// Moves to the next entry.
  ///
  /// - Returns: Whether there is one that LMDB need not read; the arguments change only then.
  @unsafe @inline(__always)
  mutating func next(_ key: inout MDB_val, _ value: inout MDB_val) -> Bool {
    guard index < count else { return false }
    let node = Int(unsafe Self.word(base, LMDBFormat.pageHeaderBytes + 2 * index))
    let keyStart = node + LMDBFormat.nodeHeaderBytes
    guard keyStart <= size, unsafe Self.word(base, node + 4) == 0 else { return false }
    let valueSize = Int(unsafe Self.word(base, node)) | Int(unsafe Self.word(base, node + 2)) << 16
    let keySize = Int(unsafe Self.word(base, node + 6))
    guard keyStart + keySize + valueSize <= size, keySize > 0 else { return false }
    index += 1
    steps += 1
    unsafe prefetchNext()
    unsafe key = MDB_val(
      mv_size: keySize, mv_data: UnsafeMutableRawPointer(mutating: base + keyStart))
    unsafe value = MDB_val(
      mv_size: valueSize, mv_data: UnsafeMutableRawPointer(mutating: base + keyStart + keySize))
    return true
  }

  /// The key of the page's first entry, or `nil` if the page is damaged.
  var firstKey: MDB_val? {
    @unsafe get {
      let node = Int(unsafe Self.word(base, LMDBFormat.pageHeaderBytes))
      guard node + LMDBFormat.nodeHeaderBytes <= size else { return nil }
      let keySize = Int(unsafe Self.word(base, node + 6))
      let start = node + LMDBFormat.nodeHeaderBytes
      guard keySize > 0, start + keySize <= size else { return nil }
      return unsafe MDB_val(
        mv_size: keySize, mv_data: UnsafeMutableRawPointer(mutating: base + start))
    }
  }

  /// Prefetches the entry after the next one. Entries that were stored in order lie before each other.
  @unsafe @inline(__always)
  private func prefetchNext() {
    guard index + 1 < count else { return }
    let next = Int(unsafe Self.word(base, LMDBFormat.pageHeaderBytes + 2 * (index + 1)))
    unsafe larder_prefetch(base + next, 128)
  }

  @unsafe @inline(__always)
  private static func word(_ base: UnsafeRawPointer, _ offset: Int) -> UInt16 {
    unsafe base.loadUnaligned(fromByteOffset: offset, as: UInt16.self)
  }
}
