// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Step 4: leaves that are no longer referenced.

extension SalvageReader {
  /// Reads the leaves that are neither reached nor free and whose keys were lost.
  mutating func scavenge() {
    let candidates = findLeaves()
    guard !candidates.isEmpty else { return }
    // Leaves of the main table first: they may contain the records of the other tables.
    let isMainLost = gaps.contains { $0.source == 0 }
    if isMainLost {
      for page in candidates { scavenge(page, only: 0, withTables: true) }
    }
    // All pages of a table whose record is still lost are here.
    if isMainLost {
      for flags in [LMDBFormat.TableFlag.integerKey, 0] {
        let tree = Tree(kind: .named, record: .lost(flags: flags))
        gaps.append(Gap(tree: tree, source: 2, lower: nil, upper: nil))
      }
    }
    gaps = gaps.filter(\.hasIntegerKeys) + gaps.filter { !$0.hasIntegerKeys }
    for page in candidates { scavenge(page, only: nil) }
  }

  /// Returns the pages with the layout of leaves among those that are neither reached nor free.
  private mutating func findLeaves() -> [UInt64] {
    var result: [UInt64] = []
    var page: UInt64 = 2
    while page <= lastPage {
      defer { page += 1 }
      guard !inspection.isClaimed(page) else { continue }
      let header = LMDBFormat.pageHeaderBytes
      let position = page * UInt64(inspection.pageSize)
      guard
        (try? inspection.read(header, from: position, into: 0)) == header,
        inspection.bytes.uint64(at: 0) == page
      else { continue }
      switch inspection.bytes.uint16(at: 10) {
      case LMDBFormat.PageFlag.leaf: result.append(page)
      case LMDBFormat.PageFlag.overflow:
        // The inside of a value is not searched for pages.
        let count = UInt64(inspection.bytes.uint32(at: 12))
        if count > 1, count - 1 <= lastPage - page { page += count - 1 }
      default: break
      }
    }
    return result
  }

  /// Reads a page that fits a gap. A page that fits gaps of several tables is assigned to none of
  /// them.
  private mutating func scavenge(_ page: UInt64, only source: Int?, withTables: Bool = false) {
    guard !inspection.isClaimed(page) else { return }
    // A page that does not fit is not damage: drop the findings of the attempt.
    let findings = inspection.report.findings
    defer { inspection.report.findings = findings }
    var found: (gap: Gap, level: StructuralVerifier.Level)?
    var isAmbiguous = false
    for gap in gaps where source == nil || gap.source == source {
      // A few integers are often in byte order as well.
      if let found, found.gap.hasIntegerKeys != gap.hasIntegerKeys { break }
      guard found?.gap.source != gap.source, let level = fit(page, gap) else { continue }
      if found == nil { found = (gap, level) } else if gap.source != 2 { isAmbiguous = true }
    }
    guard let (gap, level) = found else { return }
    let hasTables = (0..<level.count).contains { index in
      let node = inspection.node(index, at: 0)
      return inspection.bytes.uint16(at: node + 4) == LMDBFormat.NodeFlag.table
    }
    guard hasTables || !withTables, inspection.claim(page) else { return }
    take(
      page, level, tree: gap.tree, source: isAmbiguous ? 2 : gap.source, isScavenged: true)
  }

  /// Reads a page into the first slot as if it were a leaf of a gap's table.
  private mutating func fit(_ page: UInt64, _ gap: Gap) -> StructuralVerifier.Level? {
    var tree = gap.tree
    if gap.hasIntegerKeys { tree.integerKeyBytes = 8 }
    guard
      readPage(page, into: 0),
      let count = inspection.checkLayout(page, base: 0, isLeaf: true, tree: tree)
    else { return nil }
    let lower = gap.lower.map { inspection.place($0, at: inspection.scratch) }
    let upper = gap.upper.map {
      inspection.place($0, at: inspection.scratch + LMDBFormat.maximumKeyBytes + 1)
    }
    let level = StructuralVerifier.Level(base: 0, count: count, lower: lower, upper: upper)
    return inspection.checkKeys(page, level, isLeaf: true, tree: &tree) ? level : nil
  }
}
