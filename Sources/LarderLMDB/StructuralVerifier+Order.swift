// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Which of two metas is the newer one is said by nothing but their numbers, and one flipped bit makes
// the older one win: LMDB goes back by a commit, and everything it then reads is sound. But every
// commit frees the pages it replaces, under its own number: the last key of the free list is that of
// the last commit that replaced anything, and never becomes smaller from one commit to the next.
// Both lists are whole in a file that nobody writes: what a commit frees is written over by the next
// but one at the earliest.
//
// One thing looks like a lie and is none: when the write of a meta fails, LMDB writes the number that
// was there back, but not the trees. The older meta then has a free list of the future. So would one
// whose number, of the last commit, became smaller by two: that cannot be told from it.

extension StructuralVerifier {
  enum Order { case right, doubtful, wrong }

  /// Whether the meta with the greater number is of the later commit.
  static func order(
    of newer: MetaRecord, after older: MetaRecord, in descriptor: CInt
  ) -> Order {
    guard let freed = lastFreeing(newer, in: descriptor),
      let freedBefore = lastFreeing(older, in: descriptor), freedBefore > freed
    else { return .right }
    return freedBefore > older.transactionID ? .doubtful : .wrong
  }

  /// The last transaction that freed pages, as a meta's snapshot has it; 0: none did; `nil`: that
  /// cannot be read.
  ///
  /// - Complexity: one page of each level of the free list.
  private static func lastFreeing(_ meta: MetaRecord, in descriptor: CInt) -> UInt64? {
    guard meta.free.root != LMDBFormat.noPage else { return 0 }
    // One of its own, as what it notes is about pages that may be of no importance.
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
