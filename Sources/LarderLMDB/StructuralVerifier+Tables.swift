// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The checks of a table as a unit, and of the pages its leaves refer to.

extension StructuralVerifier.VerificationState {
  /// Checks a table's record before the walk follows it.
  mutating func checkRecord(_ tree: Tree) -> Bool {
    let record = tree.record
    if tree.kind != .free {
      if record.flags & LMDBFormat.TableFlag.duplicates != 0 {
        note(.notOurs, nil, "\(tree.title) sorts duplicates, flags \(record.flags)")
        return false
      }
      guard record.flags == tree.keyFlags else {
        note(.table, nil, "\(tree.title) has flags \(record.flags)")
        return false
      }
    }
    if record.root == LMDBFormat.noPage {
      let pages = record.branchPages | record.leafPages | record.overflowPages
      guard record.depth == 0, pages | record.entries == 0 else {
        note(.table, nil, "\(tree.title) has no root, but pages or entries")
        return false
      }
      return true
    }
    guard (1...LMDBFormat.maximumDepth).contains(Int(record.depth)) else {
      note(.table, nil, "\(tree.title) has depth \(record.depth)")
      return false
    }
    return true
  }

  /// Compares the counters of a table's record with the counts of its tree.
  mutating func compareCounters(_ tree: Tree) {
    let record = tree.record
    for (what, said, held) in [
      ("branch pages", record.branchPages, tree.branchPages),
      ("leaf pages", record.leafPages, tree.leafPages),
      ("overflow pages", record.overflowPages, tree.overflowPages),
      ("entries", record.entries, tree.entries),
    ] where said != held {
      note(.counters, nil, "\(tree.title) says \(said) \(what) and has \(held)")
    }
  }

  // MARK: Values

  /// Checks the targets of a leaf's nodes: overflow runs, named tables, lists of free pages.
  mutating func checkValues(
    _ page: UInt64, base: Int, count: Int, tree: inout Tree
  ) throws(LMDBFileError) {
    for index in 0..<count where !isFull {
      let node = node(index, at: base)
      let key = key(index, at: base)
      let size = Int(bytes.uint32(at: node))
      switch bytes.uint16(at: node + 4) {
      case LMDBFormat.NodeFlag.overflow:
        let first = bytes.uint64(at: key.upperBound)
        let run = try checkOverflow(first, valueBytes: size)
        tree.overflowPages += run
        guard tree.kind == .free, run > 0 else { continue }
        let start = first * UInt64(pageSize) + UInt64(LMDBFormat.pageHeaderBytes)
        try checkFreePages(page, key: key, bytes: size, from: start)
      case LMDBFormat.NodeFlag.table:
        var table = Tree(kind: .named, record: TableRecord(bytes, at: key.upperBound))
        table.name = bytes.text(in: key)
        if report.tables.count < StructuralVerifier.maximumTables {
          report.tables.append((table.name, table.record.entries))
        }
        try walk(table)
      default:
        if tree.kind == .free {
          try checkFreePages(page, key: key, bytes: size, at: key.upperBound)
        }
      }
    }
  }

  /// Claims an overflow run and checks its header; returns its length in pages, or 0 with a
  /// finding.
  private mutating func checkOverflow(
    _ first: UInt64, valueBytes: Int
  ) throws(LMDBFileError) -> UInt64 {
    guard checkRange(first, count: 1) else { return 0 }
    let header = LMDBFormat.pageHeaderBytes
    guard try read(header, from: first * UInt64(pageSize), into: scratch) == header else {
      note(.fileTooShort, first, "the file was truncated while it was read")
      return 0
    }
    let number = bytes.uint64(at: scratch)
    let flags = bytes.uint16(at: scratch + 10)
    let count = UInt64(bytes.uint32(at: scratch + 12))
    guard number == first, flags == LMDBFormat.PageFlag.overflow else {
      note(.overflow, first, "not an overflow page: number \(number), flags \(flags)")
      return 0
    }
    guard count >= LMDBFormat.overflowPages(bytes: valueBytes, pageSize: pageSize) else {
      note(.overflow, first, "\(count) pages for a value of \(valueBytes) bytes")
      return 0
    }
    return claimUsed(first, count: count) ? count : 0
  }

  // MARK: The free list

  /// Checks a list of free pages in an overflow run, piece by piece.
  mutating func checkFreePages(
    _ page: UInt64, key: Range<Int>, bytes size: Int, from start: UInt64
  ) throws(LMDBFileError) {
    guard var list = FreeList(bytes: size, page: page), checkFreeKey(page, key) else {
      note(.freeList, page, "a list of \(size) bytes, or a transaction id after the snapshot")
      return
    }
    var position = 0
    while position < size, !list.isComplete {
      let piece = min(Self.scratchBytes, size - position)
      guard try read(piece, from: start + UInt64(position), into: scratch) == piece else {
        note(.fileTooShort, page, "the file was truncated while it was read")
        return
      }
      guard checkFreePages(&list, words: piece / 8, at: scratch) else { return }
      position += piece
    }
  }

  /// Checks a list of free pages in its node.
  mutating func checkFreePages(
    _ page: UInt64, key: Range<Int>, bytes size: Int, at offset: Int
  ) throws(LMDBFileError) {
    guard var list = FreeList(bytes: size, page: page), checkFreeKey(page, key) else {
      note(.freeList, page, "a list of \(size) bytes, or a transaction id after the snapshot")
      return
    }
    _ = checkFreePages(&list, words: size / 8, at: offset)
  }

  /// Checks that the transaction that freed the pages is not newer than the snapshot.
  private func checkFreeKey(_ page: UInt64, _ key: Range<Int>) -> Bool {
    let transaction = key.count == 8 ? bytes.uint64(at: key.lowerBound) : 0
    return transaction >= 1 && transaction <= report.transactionID
  }

  private mutating func checkFreePages(_ list: inout FreeList, words: Int, at offset: Int) -> Bool {
    for index in 0..<words where !list.isComplete {
      let word = bytes.uint64(at: offset + 8 * index)
      guard let remaining = list.remaining else {
        guard word <= list.room else {
          note(.freeList, list.page, "a list of \(word) pages in space for \(list.room)")
          return false
        }
        list.remaining = word
        continue
      }
      guard word >= 2, word <= report.lastPage, word < list.previous else {
        note(.freeList, list.page, "page \(word) after \(list.previous), of \(report.lastPage)")
        return false
      }
      guard claim(word) else {
        note(.pageUsedTwice, word, "is free, and in use or free elsewhere")
        return false
      }
      report.pagesFree += 1
      if word >= filePages { freePagesBeyondEnd += 1 }
      list.previous = word
      list.remaining = remaining - 1
    }
    return true
  }
}

/// The progress in a list of free pages: first its count, then pages in descending order.
private struct FreeList {
  let page: UInt64
  let room: UInt64
  var remaining: UInt64?
  var previous = UInt64.max

  /// Returns `nil` if no list has this size.
  init?(bytes: Int, page: UInt64) {
    guard bytes >= 8, bytes % 8 == 0 else { return nil }
    self.page = page
    room = UInt64(bytes / 8 - 1)
  }

  var isComplete: Bool { remaining == 0 }
}
