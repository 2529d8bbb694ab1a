// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Steps 1 to 3: the snapshot, its free pages, and the data that its trees still reach.

extension SalvageReader {
  // MARK: Metas

  /// Reads the metas that exist and have possible values.
  mutating func readMetas() {
    guard inspection.isRegularFile else {
      inspection.note(.notAFile, nil, "is not a regular file")
      return
    }
    if let meta = readMeta(0, at: 0) { metas[0] = meta }
    // The position of the second meta page depends on the page size, which the first one contains.
    let sizes = metas[0].map { [$0.pageSize] } ?? [4_096, 8_192, 16_384, 32_768]
    for size in sizes {
      inspection.pageSize = size
      guard let meta = readMeta(1, at: UInt64(size)) else { continue }
      metas[1] = meta
      break
    }
    if let meta = metas[0] ?? metas[1] { inspection.pageSize = meta.pageSize }
    for number in 0..<2 where metas[number] == nil {
      inspection.note(.meta, UInt64(number), "is not usable")
    }
  }

  private mutating func readMeta(_ number: UInt64, at position: UInt64) -> MetaRecord? {
    let count = LMDBFormat.metaBytes
    guard (try? inspection.read(count, from: position, into: 0)) == count else { return nil }
    let meta = MetaRecord(inspection.bytes)
    let id = meta.transactionID
    guard
      inspection.whatIsWrong(with: meta, number: number) == nil,
      id <= UInt64(Int64.max), id == 0 || id & 1 == number
    else { return nil }
    return meta
  }

  /// Returns the meta to start from, and the other one if its snapshot may still be complete.
  mutating func chooseSnapshot() -> (MetaRecord, older: MetaRecord?)? {
    guard let first = metas[0], let second = metas[1] else {
      report.mayMissCommits = true
      return (metas[0] ?? metas[1]).map { ($0, nil) }
    }
    let (newer, older) =
      first.transactionID < second.transactionID ? (second, first) : (first, second)
    switch StructuralVerifier.order(of: newer, after: older, in: file.descriptor) {
    case .right: break
    case .doubtful: report.mayMissCommits = true
    case .wrong:
      // One id is wrong: the free lists show which snapshot came after which.
      let ids = "\(newer.transactionID) after \(older.transactionID)"
      inspection.note(
        .transactionIDs, nil, "metas of transactions \(ids), which contradicts the free lists")
      report.mayMissCommits = true
      return (older, newer)
    }
    if newer.transactionID == 0 || newer.transactionID - older.transactionID == 1 {
      return (newer, older)
    }
    // One of the ids is wrong. A valid tree decides which.
    let ids = "\(first.transactionID) and \(second.transactionID)"
    inspection.note(.transactionIDs, nil, "metas of transactions \(ids)")
    report.mayMissCommits = true
    return isSound(newer) || !isSound(older) ? (newer, nil) : (older, nil)
  }

  private func isSound(_ meta: MetaRecord) -> Bool {
    guard var other = try? StructuralVerifier.VerificationState(descriptor: file.descriptor) else {
      return false
    }
    other.pageSize = meta.pageSize
    other.report.lastPage = meta.lastPage
    other.report.transactionID = meta.transactionID
    return (try? other.check(meta)) != nil && other.report.isSound
  }

  // MARK: A snapshot

  /// Reads everything that a meta reaches.
  mutating func read(_ meta: MetaRecord, older: MetaRecord?) {
    leaves = []
    gaps = []
    sources = [.main, .olderMain, .unknown]
    report.transactionID = meta.transactionID
    report.pagesRead = 0
    inspection.filePages = inspection.fileBytes / UInt64(meta.pageSize)
    guard inspection.filePages > 2 else { return }
    // The last page never decreases; one that did, or is far from the end of the file, is damaged.
    let isBelievable =
      meta.lastPage >= older?.lastPage ?? 0
      && meta.lastPage < inspection.filePages + inspection.fileBytes / 8
    let stated = isBelievable ? meta.lastPage : inspection.filePages - 1
    inspection.report.lastPage = stated
    inspection.report.transactionID = meta.transactionID
    guard inspection.prepare(lastPage: max(stated, inspection.filePages)) else { return }
    lastPage = min(stated, inspection.filePages - 1)
    inspection.report.lastPage = stated
    readFreeList(meta, isBelievable: isBelievable)

    walk(Tree(kind: .main, record: meta.main), source: 0)
    if gaps.contains(where: { $0.source == 0 }), let older { walkOlderMain(older) }
    if !gaps.isEmpty, report.isFreeListSound { scavenge() }
    guard report.isFreeListSound else { return }
    for page in 2...max(lastPage, 2) where !inspection.isClaimed(page) && !damaged.contains(page) {
      report.pagesUnreachable += 1
    }
    let missing = stated >= inspection.filePages ? stated + 1 - inspection.filePages : 0
    report.pagesUnreachable += missing - min(missing, inspection.freePagesBeyondEnd)
  }

  /// Step 2. Afterwards the free pages are claimed, unless the list is damaged.
  private mutating func readFreeList(_ meta: MetaRecord, isBelievable: Bool) {
    let before = inspection.report.findings.count
    report.isFreeListSound =
      (try? inspection.walk(Tree(kind: .free, record: meta.free))) != nil
      && inspection.report.findings.count == before && !inspection.isFull && isBelievable
    report.pagesRead += inspection.report.pagesReached
    if !report.isFreeListSound {
      inspection.note(.freeList, nil, "is damaged, so lost leaves are not searched")
      for word in inspection.claimed.indices { inspection.claimed[word] = 0 }
    }
    free = inspection.claimed
  }

  func isFree(_ page: UInt64) -> Bool {
    let word = Int(clamping: page / 64)
    return word < free.count && free[word] & (UInt64(1) << (page % 64)) != 0
  }

  /// Returns whether a value's first page is free, so that the value is an old one.
  func isFree(_ first: UInt64, bytes: Int) -> Bool { isFree(first) }

  // MARK: Trees

  /// Step 3: walks one tree; an unreadable part becomes a gap.
  mutating func walk(_ table: Tree, source: Int) {
    var tree = table
    guard inspection.checkRecord(tree) else {
      lose(Tree(kind: tree.kind, record: .lost(flags: tree.keyFlags)), source, nil, nil, page: nil)
      return
    }
    guard tree.record.root != LMDBFormat.noPage else { return }
    if tree.keyFlags & LMDBFormat.TableFlag.integerKey != 0 { tree.integerKeyBytes = 8 }

    let firstSlot = tree.kind == .named ? StructuralVerifier.VerificationState.slotsPerTree : 0
    var path: [StructuralVerifier.Level] = []
    var child: StructuralVerifier.VerificationState.Child? = (tree.record.root, nil, nil)
    while true {
      if let (page, lower, upper) = child {
        child = nil
        let base = (firstSlot + path.count) * inspection.pageSize
        let isDeepest = path.count + 1 == StructuralVerifier.VerificationState.slotsPerTree
        guard
          let (level, isLeaf) = enter(page, base: base, lower: lower, upper: upper, tree: &tree),
          isLeaf || !isDeepest
        else {
          lose(tree, source, lower, upper, page: page)
          continue
        }
        if isLeaf {
          take(page, level, tree: tree, source: source, isScavenged: false)
        } else {
          path.append(level)
        }
      } else if let level = path.last {
        guard level.next < level.count else {
          path.removeLast()
          continue
        }
        child = inspection.nextChild(of: level)
        path[path.count - 1].next += 1
      } else {
        return
      }
    }
  }

  /// Reads and checks a page on the way down, then claims it.
  private mutating func enter(
    _ page: UInt64, base: Int, lower: Range<Int>?, upper: Range<Int>?, tree: inout Tree
  ) -> (StructuralVerifier.Level, isLeaf: Bool)? {
    guard inspection.checkRange(page, count: 1) else { return nil }
    guard !inspection.isClaimed(page) else {
      // In use and free: it cannot be decided which is wrong, so old pages must not be read.
      if isFree(page) { report.isFreeListSound = false }
      inspection.note(.pageUsedTwice, page, "is in use or free elsewhere")
      return nil
    }
    guard readPage(page, into: base) else { return nil }
    let flags = inspection.bytes.uint16(at: base + 10)
    guard flags == LMDBFormat.PageFlag.leaf || flags == LMDBFormat.PageFlag.branch else {
      inspection.note(.pageLayout, page, "has flags \(flags)")
      return nil
    }
    let isLeaf = flags == LMDBFormat.PageFlag.leaf
    guard let count = inspection.checkLayout(page, base: base, isLeaf: isLeaf, tree: tree) else {
      return nil
    }
    let level = StructuralVerifier.Level(base: base, count: count, lower: lower, upper: upper)
    guard inspection.checkKeys(page, level, isLeaf: isLeaf, tree: &tree) else { return nil }
    return inspection.claim(page) ? (level, isLeaf) : nil
  }

  /// Reads a page.
  ///
  /// - Returns: `false` if the page does not exist or is not the expected one.
  mutating func readPage(_ page: UInt64, into base: Int) -> Bool {
    let size = inspection.pageSize
    guard
      (try? inspection.read(size, from: page * UInt64(size), into: base)) == size,
      inspection.bytes.uint64(at: base) == page
    else {
      inspection.note(.pageLayout, page, "cannot be read, or has another page number")
      return false
    }
    return true
  }

  /// Records a lost page and the keys it contained.
  private mutating func lose(
    _ tree: Tree, _ source: Int, _ lower: Range<Int>?, _ upper: Range<Int>?, page: UInt64?
  ) {
    if let page { damaged.insert(page) }
    let bytes = inspection.bytes
    gaps.append(
      Gap(tree: tree, source: source, lower: lower.map(bytes.copy), upper: upper.map(bytes.copy)))
  }

  /// Reads a leaf that was checked and claimed: marks its values' pages as used and walks its
  /// tables.
  mutating func take(
    _ page: UInt64, _ level: StructuralVerifier.Level, tree: Tree, source: Int, isScavenged: Bool
  ) {
    leaves.append(Leaf(page: page, source: source, isScavenged: isScavenged))
    report.pagesRead += 1
    if isScavenged { report.pagesScavenged += 1 }
    for index in 0..<level.count {
      let bytes = inspection.bytes
      let node = inspection.node(index, at: level.base)
      let key = inspection.key(index, at: level.base)
      switch bytes.uint16(at: node + 4) {
      case LMDBFormat.NodeFlag.overflow:
        claimRun(bytes.uint64(at: key.upperBound), bytes: Int(bytes.uint32(at: node)))
      case LMDBFormat.NodeFlag.table where source != 1:
        let name = bytes.text(in: key)
        guard !sources.contains(.table(name)) else { continue }
        sources.append(.table(name))
        var table = Tree(kind: .named, record: TableRecord(bytes, at: key.upperBound))
        table.name = name
        walk(table, source: sources.count - 1)
      default: break
      }
    }
  }

  private mutating func claimRun(_ first: UInt64, bytes: Int) {
    let count = LMDBFormat.overflowPages(bytes: bytes, pageSize: inspection.pageSize)
    if isFree(first) { report.isFreeListSound = false }
    guard first >= 2, first <= lastPage, count - 1 <= lastPage - first else {
      damaged.insert(first)
      return
    }
    report.pagesRead += count
    for page in first..<first + count { _ = inspection.claim(page) }
  }

  /// Reads the main table of the previous commit: names and ids, in case the newest are lost.
  private mutating func walkOlderMain(_ older: MetaRecord) {
    let (claimed, damaged, gaps) = (inspection.claimed, self.damaged, self.gaps)
    let (isSound, freeBefore) = (report.isFreeListSound, free)
    // The newest commit freed its pages; they are reused by the next commit but one at the
    // earliest.
    for word in inspection.claimed.indices { inspection.claimed[word] = 0 }
    free = []
    walk(Tree(kind: .main, record: older.main), source: 1)
    (inspection.claimed, self.damaged, self.gaps) = (claimed, damaged, gaps)
    (report.isFreeListSound, free) = (isSound, freeBefore)
  }
}
