// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Only the transaction ids show which of two metas is newer, and one flipped bit makes the older
// one win: LMDB then returns to the previous commit, and everything it reads is valid. But every
// commit frees the pages it replaces, under its own id: the last key of the free list is the id of
// the last commit that replaced a page, and never decreases from one commit to the next. Both lists
// are complete in a file that no process writes: the next commit but one is the earliest that
// overwrites a page freed by a commit.
//
// One valid state resembles damage: if the write of a meta fails, LMDB writes the previous id back,
// but not the trees. The older meta then has a free list with a later id. The same results if the
// id of the last commit decreases by two: the two cases cannot be distinguished.

extension StructuralVerifier {
  enum Order { case right, doubtful, wrong }

  /// Returns whether the meta with the greater id is of the later commit.
  static func order(
    of newer: MetaRecord, after older: MetaRecord, in descriptor: CInt
  ) -> Order {
    guard let freed = lastFreeing(newer, in: descriptor),
      let freedBefore = lastFreeing(older, in: descriptor), freedBefore > freed
    else { return .right }
    return freedBefore > older.transactionID ? .doubtful : .wrong
  }

  /// Returns the last transaction that freed pages in a meta's snapshot: 0 if none did, `nil` if
  /// that is unreadable.
  ///
  /// - Complexity: One page read per level of the free list.
  private static func lastFreeing(_ meta: MetaRecord, in descriptor: CInt) -> UInt64? {
    guard meta.free.root != LMDBFormat.noPage else { return 0 }
    // A separate state, because its findings are about pages that may be irrelevant.
    guard var inspection = try? VerificationState(descriptor: descriptor) else { return nil }
    inspection.pageSize = meta.pageSize
    inspection.report.lastPage = meta.lastPage
    guard inspection.prepare(lastPage: meta.lastPage) else { return nil }
    let tree = Tree(kind: .free, record: meta.free)
    var page = meta.free.root
    for _ in 0..<LMDBFormat.maximumDepth {
      guard
        page >= 2, page <= meta.lastPage,
        (try? inspection.read(meta.pageSize, from: page * UInt64(meta.pageSize), into: 0))
          == meta.pageSize,
        inspection.bytes.uint64(at: 0) == page
      else { return nil }
      let flags = inspection.bytes.uint16(at: 10)
      let isLeaf = flags == LMDBFormat.PageFlag.leaf
      guard
        isLeaf || flags == LMDBFormat.PageFlag.branch,
        let count = inspection.checkLayout(page, base: 0, isLeaf: isLeaf, tree: tree), count > 0
      else { return nil }
      if isLeaf {
        let key = inspection.key(count - 1, at: 0)
        return key.count == 8 ? inspection.bytes.uint64(at: key.lowerBound) : nil
      }
      page = inspection.childPage(count - 1, at: 0)
    }
    return nil
  }
}
