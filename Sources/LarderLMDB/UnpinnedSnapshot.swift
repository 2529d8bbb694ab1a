// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

// READING WITHOUT A READER SLOT
//
// A process that only observes a store reads single pages of `data.mdb` with `pread`: it opens no
// environment, acquires no lock and no reader slot, and keeps no page from reuse. Two transactions that
// commit during a read can overwrite its pages: transaction N + 1 frees pages of snapshot N, and N + 2
// is the first that may store to them, or to the meta page of N. So
//
//   1  read both meta pages; the newest one is that of snapshot N;
//   2  read pages of its trees, and check each offset, as for a damaged file;
//   3  read the meta pages again: the results are those of snapshot N if the newest is N or N + 1
//      (`isCurrent`), or if a reader of N or an older snapshot was there all the time. Otherwise pages
//      may be those of later snapshots, and only what has a checksum can be used.

/// A snapshot that is read without LMDB, while other processes write the file.
package struct UnpinnedSnapshot: Sendable {
  private let file: OwnedFile
  private let meta: MetaPage

  package var transactionID: UInt64 { meta.transactionID }
  package var lastPage: UInt64 { meta.lastPage }
  package var pageSize: Int { meta.pageSize }

  /// A table of the snapshot.
  package struct Tree: Sendable {
    let record: TableRecord
    let hasIntegerKeys: Bool
    /// The number of entries.
    package var entries: Int { Int(clamping: record.entries) }
    /// The number of pages.
    package var pages: Int {
      Int(clamping: record.branchPages &+ record.leafPages &+ record.overflowPages)
    }
  }

  /// Reads the newest meta page.
  ///
  /// - Returns: `nil` if no meta page is usable, for example because the file is being created.
  package init?(of file: OwnedFile) throws(SystemError) {
    // No file has more pages, so a larger number is damaged.
    guard let meta = try Self.newest(in: file), meta.lastPage < 1 << 40 else { return nil }
    self.file = file
    self.meta = meta
  }

  private static func newest(in file: OwnedFile) throws(SystemError) -> MetaPage? {
    guard let first = MetaPage(try file.read(count: MetaPage.count, at: 0)) else { return nil }
    guard let second = MetaPage(try file.read(count: MetaPage.count, at: first.pageSize)) else {
      return first
    }
    return first.transactionID > second.transactionID ? first : second
  }

  /// Whether everything that was read since the creation belongs to the snapshot.
  package var isCurrent: Bool {
    guard let newest = (try? Self.newest(in: file)) ?? nil else { return false }
    return newest.transactionID == meta.transactionID
      || newest.transactionID == meta.transactionID + 1
  }

  package var main: Tree { Tree(record: meta.record.main, hasIntegerKeys: false) }
  /// The pages that each transaction has freed, by its id.
  package var free: Tree { Tree(record: meta.record.free, hasIntegerKeys: true) }

  /// Returns a named table.
  package func tree(_ name: String) -> Tree? {
    var result: Tree?
    let wanted = Array(name.utf8)
    _ = forEach(in: main, from: wanted) { key, value in
      guard key == wanted, value.count == LMDBFormat.tableRecordBytes else { return false }
      let record = unsafe value.withUnsafeBytes { unsafe TableRecord(FormatBytes($0), at: 0) }
      let isInteger = record.flags & LMDBFormat.TableFlag.integerKey != 0
      result = Tree(record: record, hasIntegerKeys: isInteger)
      return false
    }
    return result
  }

  /// Returns the number of pages that transactions after `transaction` have freed.
  ///
  /// - Returns: The pages of the first 1,024 pages of the list, and whether these are all.
  package func pagesFreed(after transaction: UInt64) -> (pages: Int, isComplete: Bool) {
    var pages = 0
    var start: [UInt8] = [UInt8](repeating: 0, count: 8)
    start.store(transaction &+ 1, at: 0)
    let isComplete = forEach(in: free, from: start, valueLimit: 8, pageLimit: 1024) { _, value in
      pages &+= Int(clamping: value.integer(at: 0, as: UInt64.self) ?? 0)
      return true
    }
    return (pages, isComplete)
  }

  /// Calls a closure with the entries of a table in order, as long as it returns `true`.
  ///
  /// - Parameters:
  ///   - start: The first key, or the place of it.
  ///   - valueLimit: The most bytes of a value that are read.
  ///   - pageLimit: The most pages that are read.
  /// - Returns: `false` if pages are not readable, or there are more than the limit.
  package func forEach(
    in tree: Tree, from start: [UInt8] = [], valueLimit: Int = 65_536, pageLimit: Int = 4096,
    _ body: (_ key: [UInt8], _ value: [UInt8]) -> Bool
  ) -> Bool {
    guard tree.record.root != LMDBFormat.noPage else { return true }
    var walk = Walk(tree: tree, start: start, valueLimit: valueLimit, pagesLeft: pageLimit)
    return visit(tree.record.root, depth: 0, isFirst: true, &walk, body) != .failed
  }

  private struct Walk {
    let tree: Tree
    let start: [UInt8]
    let valueLimit: Int
    var pagesLeft: Int
  }

  private enum Progress { case more, ended, failed }

  private func visit(
    _ page: UInt64, depth: Int, isFirst: Bool, _ walk: inout Walk,
    _ body: ([UInt8], [UInt8]) -> Bool
  ) -> Progress {
    guard depth < LMDBFormat.maximumDepth, walk.pagesLeft > 0, page <= lastPage else {
      return .failed
    }
    walk.pagesLeft -= 1
    guard let bytes = try? file.read(count: pageSize, at: Int(page) * pageSize),
      bytes.count == pageSize, bytes.integer(at: 0, as: UInt64.self) == page,
      let flags: UInt16 = bytes.integer(at: 10), let lower: UInt16 = bytes.integer(at: 12),
      flags == LMDBFormat.PageFlag.leaf || flags == LMDBFormat.PageFlag.branch,
      Int(lower) >= LMDBFormat.pageHeaderBytes, Int(lower) <= pageSize
    else { return .failed }
    let isLeaf = flags == LMDBFormat.PageFlag.leaf
    let count = (Int(lower) - LMDBFormat.pageHeaderBytes) / 2
    let nodes = (0..<count).compactMap { Node(bytes, $0) }
    guard nodes.count == count else { return .failed }
    var first = 0
    if isFirst {
      // A leaf begins with the first key that is not before the start; a branch one child earlier.
      first =
        nodes.indices.first { index in
          (isLeaf || index > 0) && !precedes(nodes[index].key(bytes), walk.start, walk.tree)
        } ?? count
      if !isLeaf, first == count || nodes[first].key(bytes) != walk.start {
        first = max(first - 1, 0)
      }
    }
    for index in first..<max(first, count) {
      let node = nodes[index]
      if isLeaf {
        guard let value = value(of: node, bytes, limit: walk.valueLimit) else { return .failed }
        if !body(node.key(bytes), value) { return .ended }
      } else {
        let next = visit(
          node.child, depth: depth + 1, isFirst: isFirst && index == first, &walk, body)
        if next != .more { return next }
      }
    }
    return .more
  }

  private func precedes(_ key: [UInt8], _ other: [UInt8], _ tree: Tree) -> Bool {
    if tree.hasIntegerKeys {
      return key.integer(at: 0, as: UInt64.self) ?? 0 < other.integer(at: 0, as: UInt64.self) ?? 0
    }
    return key.lexicographicallyPrecedes(other)
  }

  /// A node of a page that was read; its offsets are within the page.
  private struct Node {
    let start: Int
    let keySize: Int
    let flags: UInt16
    let size: UInt32

    init?(_ bytes: [UInt8], _ index: Int) {
      guard
        let start: UInt16 = bytes.integer(at: LMDBFormat.pageHeaderBytes + 2 * index),
        let size: UInt32 = bytes.integer(at: Int(start)),
        let flags: UInt16 = bytes.integer(at: Int(start) + 4),
        let keySize: UInt16 = bytes.integer(at: Int(start) + 6),
        Int(start) + LMDBFormat.nodeHeaderBytes + Int(keySize) <= bytes.count
      else { return nil }
      (self.start, self.size, self.flags) = (Int(start), size, flags)
      self.keySize = Int(keySize)
    }

    var data: Int { start + LMDBFormat.nodeHeaderBytes + keySize }
    var child: UInt64 { UInt64(size) | UInt64(flags) << 32 }
    func key(_ bytes: [UInt8]) -> [UInt8] {
      Array(bytes[start + LMDBFormat.nodeHeaderBytes..<data])
    }
  }

  private func value(of node: Node, _ bytes: [UInt8], limit: Int) -> [UInt8]? {
    let count = min(Int(node.size), limit)
    guard node.flags & LMDBFormat.NodeFlag.overflow != 0 else {
      return node.data + Int(node.size) <= bytes.count
        ? Array(bytes[node.data..<node.data + count]) : nil
    }
    guard let page: UInt64 = bytes.integer(at: node.data), page <= lastPage else { return nil }
    let start = Int(page) * pageSize + LMDBFormat.pageHeaderBytes
    return try? file.read(count: count, at: start)
  }
}
