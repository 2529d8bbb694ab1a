// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The walk over a tree, and the checks of each page. Offsets are into the inspection's window,
// which contains the pages of the path from the root in consecutive slots; so a key of an ancestor
// stays readable as the bound of all pages below.

extension StructuralVerifier {
  /// A table being walked, with its counts.
  struct Tree {
    enum Kind { case main, free, named }

    let kind: Kind
    let record: TableRecord
    var name = ""
    var branchPages: UInt64 = 0
    var leafPages: UInt64 = 0
    var overflowPages: UInt64 = 0
    var entries: UInt64 = 0
    /// The size of integer keys, after the first one. The free table's are 8.
    var integerKeyBytes: Int?

    init(kind: Kind, record: TableRecord) {
      self.kind = kind
      self.record = record
      integerKeyBytes = kind == .free ? 8 : nil
    }

    var title: String {
      switch kind {
      case .main: "the main table"
      case .free: "the free table"
      case .named: "table \(name.debugDescription)"
      }
    }

    var keyFlags: UInt16 {
      record.flags & (LMDBFormat.TableFlag.reverseKey | LMDBFormat.TableFlag.integerKey)
    }
  }

  /// A branch page on the path, and the bounds of all keys below it.
  struct Level {
    let base: Int
    let count: Int
    let lower: Range<Int>?
    let upper: Range<Int>?
    var next = 0
  }
}

extension StructuralVerifier.VerificationState {
  typealias Tree = StructuralVerifier.Tree
  typealias Level = StructuralVerifier.Level
  typealias Flag = LMDBFormat.PageFlag

  /// A page, and the bounds of all keys below it.
  typealias Child = (page: UInt64, lower: Range<Int>?, upper: Range<Int>?)

  /// Returns the next child of a branch page, which has one.
  func nextChild(of level: Level) -> Child {
    let index = level.next
    let lower = index == 0 ? level.lower : key(index, at: level.base)
    let upper = index + 1 < level.count ? key(index + 1, at: level.base) : level.upper
    return (childPage(index, at: level.base), lower, upper)
  }

  /// Walks one table, iteratively, and compares its counters.
  mutating func walk(_ table: Tree) throws(LMDBFileError) {
    var tree = table
    let record = tree.record
    let before = report.findings.count
    guard checkRecord(tree), record.root != LMDBFormat.noPage else { return }

    let firstSlot = tree.kind == .named ? Self.slotsPerTree : 0
    var path: [Level] = []
    var child: Child? = (record.root, nil, nil)
    while !isFull {
      if let (page, lower, upper) = child {
        child = nil
        advance()
        let base = (firstSlot + path.count) * pageSize
        let isLeaf = path.count + 1 == Int(record.depth)
        guard try enter(page, base: base, isLeaf: isLeaf),
          let count = checkLayout(page, base: base, isLeaf: isLeaf, tree: tree)
        else { continue }
        let level = Level(base: base, count: count, lower: lower, upper: upper)
        guard checkKeys(page, level, isLeaf: isLeaf, tree: &tree) else { continue }
        if isLeaf {
          tree.leafPages += 1
          tree.entries += UInt64(count)
          try checkValues(page, base: base, count: count, tree: &tree)
        } else {
          tree.branchPages += 1
          path.append(level)
        }
      } else if let level = path.last {
        guard level.next < level.count else {
          path.removeLast()
          continue
        }
        child = nextChild(of: level)
        path[path.count - 1].next += 1
      } else {
        break
      }
    }
    if report.findings.count == before { compareCounters(tree) }
  }

  // MARK: A page

  /// Claims and reads a page of a tree, and checks its header.
  private mutating func enter(
    _ page: UInt64, base: Int, isLeaf: Bool
  ) throws(LMDBFileError) -> Bool {
    guard claimUsed(page, count: 1) else { return false }
    guard try read(pageSize, from: page * UInt64(pageSize), into: base) == pageSize else {
      note(.fileTooShort, page, "the file was truncated while it was read")
      return false
    }
    let number = bytes.uint64(at: base)
    let flags = bytes.uint16(at: base + 10)
    guard number == page else {
      note(.pageLayout, page, "has page number \(number)")
      return false
    }
    guard flags == (isLeaf ? Flag.leaf : Flag.branch) else {
      note(.pageLayout, page, "has flags \(flags) where a \(isLeaf ? "leaf" : "branch") belongs")
      return false
    }
    return true
  }

  /// Claims pages that a tree uses: within the file, and only once.
  mutating func claimUsed(_ first: UInt64, count: UInt64) -> Bool {
    guard checkRange(first, count: count) else { return false }
    for page in first..<first + count where !claim(page) {
      note(.pageUsedTwice, page, "is in use or free elsewhere")
      return false
    }
    report.pagesReached += count
    return true
  }

  mutating func checkRange(_ first: UInt64, count: UInt64) -> Bool {
    let (end, isOverflow) = first.addingReportingOverflow(count)
    guard first >= 2, !isOverflow, end <= report.lastPage + 1 else {
      note(.pageRange, first, "\(count) pages from here are outside 2...\(report.lastPage)")
      return false
    }
    guard end <= filePages else {
      note(.fileTooShort, first, "\(count) pages from here are in use, of \(filePages) in the file")
      return false
    }
    return true
  }

  /// Checks bounds, and that the nodes tile the page from `upper` to its end; returns the node
  /// count.
  mutating func checkLayout(
    _ page: UInt64, base: Int, isLeaf: Bool, tree: Tree
  ) -> Int? {
    let bytes = self.bytes
    let lower = Int(bytes.uint16(at: base + 12))
    let upper = Int(bytes.uint16(at: base + 14))
    let count = (lower - LMDBFormat.pageHeaderBytes) / 2
    guard lower >= LMDBFormat.pageHeaderBytes, lower % 2 == 0, lower <= upper, upper <= pageSize,
      count >= (isLeaf ? 1 : 2)
    else {
      note(.pageLayout, page, "has bounds \(lower) and \(upper)")
      return nil
    }

    for word in nodeStarts.indices { nodeStarts[word] = 0 }
    var used = 0
    for index in 0..<count {
      let offset = Int(bytes.uint16(at: base + LMDBFormat.pageHeaderBytes + 2 * index))
      guard offset >= upper, offset % 2 == 0, offset <= pageSize - LMDBFormat.nodeHeaderBytes else {
        note(.node, page, "node \(index) is at \(offset)")
        return nil
      }
      guard let size = nodeBytes(at: base + offset, isLeaf: isLeaf, tree: tree),
        size <= pageSize - offset
      else {
        note(.node, page, "node \(index) has a wrong size or flags")
        return nil
      }
      used += size
      nodeStarts[offset / 128] |= 1 << UInt64(offset / 2 % 64)
    }

    // Different starts, the first of them at `upper`, and each end a start or the end of the page:
    // with a correct sum, that is a tiling. Equal starts would make the sum too large.
    var isTiled = used == pageSize - upper && isStart(upper)
    for index in 0..<count where isTiled {
      let offset = Int(bytes.uint16(at: base + LMDBFormat.pageHeaderBytes + 2 * index))
      let size = nodeBytes(at: base + offset, isLeaf: isLeaf, tree: tree) ?? 0
      isTiled = offset + size == pageSize || isStart(offset + size)
    }
    guard isTiled else {
      note(.pageLayout, page, "its nodes do not tile the space they use")
      return nil
    }
    return count
  }

  private func isStart(_ offset: Int) -> Bool {
    offset < pageSize && nodeStarts[offset / 128] & (1 << UInt64(offset / 2 % 64)) != 0
  }

  /// Returns the even size of a node, or `nil` if LMDB would not create such a node in this table.
  @inline(__always)
  private func nodeBytes(at node: Int, isLeaf: Bool, tree: Tree) -> Int? {
    let keyBytes = Int(bytes.uint16(at: node + 6))
    guard keyBytes <= LMDBFormat.maximumKeyBytes else { return nil }
    var size = LMDBFormat.nodeHeaderBytes + keyBytes
    if isLeaf {
      let dataBytes = Int(bytes.uint32(at: node))
      switch bytes.uint16(at: node + 4) {
      case 0:
        size += dataBytes
      case LMDBFormat.NodeFlag.overflow:
        size += 8
      case LMDBFormat.NodeFlag.table
      where tree.kind == .main && dataBytes == LMDBFormat.tableRecordBytes:
        size += dataBytes
      default:
        return nil
      }
    }
    guard size <= LMDBFormat.maximumNodeBytes(pageSize: pageSize) else { return nil }
    return (size + 1) & ~1
  }

  // MARK: Keys

  func node(_ index: Int, at base: Int) -> Int {
    base + Int(bytes.uint16(at: base + LMDBFormat.pageHeaderBytes + 2 * index))
  }

  func key(_ index: Int, at base: Int) -> Range<Int> {
    let start = node(index, at: base) + LMDBFormat.nodeHeaderBytes
    return start..<start + Int(bytes.uint16(at: start - 2))
  }

  func childPage(_ index: Int, at base: Int) -> UInt64 {
    let node = node(index, at: base)
    return UInt64(bytes.uint32(at: node)) | UInt64(bytes.uint16(at: node + 4)) << 32
  }

  /// Checks sizes and order of a page's keys, and that they are within the bounds of the branches
  /// above.
  mutating func checkKeys(
    _ page: UInt64, _ level: Level, isLeaf: Bool, tree: inout Tree
  ) -> Bool {
    let bytes = self.bytes
    let flags = tree.keyFlags
    var previous = level.lower
    // A leaf's first key may be equal to its branch key; a branch's first key is unused.
    var mayBeEqual = true
    for index in (isLeaf ? 0 : 1)..<level.count {
      let key = key(index, at: level.base)
      guard checkKeySize(page, key, tree: &tree) else { return false }
      if let previous {
        let isOrdered =
          mayBeEqual
          ? !bytes.key(key, precedes: previous, flags: flags)
          : bytes.key(previous, precedes: key, flags: flags)
        guard isOrdered else {
          note(.key, page, "key \(index) is out of order")
          return false
        }
      }
      previous = key
      mayBeEqual = false
    }
    if let previous, let upper = level.upper, !bytes.key(previous, precedes: upper, flags: flags) {
      note(.key, page, "its last key belongs to a later page")
      return false
    }
    return true
  }

  private mutating func checkKeySize(_ page: UInt64, _ key: Range<Int>, tree: inout Tree) -> Bool {
    if key.isEmpty {
      note(.key, page, "has an empty key")
      return false
    }
    if tree.keyFlags & LMDBFormat.TableFlag.integerKey != 0 {
      if tree.integerKeyBytes == nil, key.count == 4 || key.count == 8 {
        tree.integerKeyBytes = key.count
      }
      guard key.count == tree.integerKeyBytes else {
        note(.key, page, "has an integer key of \(key.count) bytes")
        return false
      }
    }
    return true
  }
}
