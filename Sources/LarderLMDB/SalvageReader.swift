// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// READING A DAMAGED DATA FILE
//
// LMDB is never asked about a file that is damaged. This reader takes what is left of it from the
// bytes, as the structural verifier reads them: pread only, each page checked before anything of it
// is followed, each page at most once, time and memory bounded by the size of the file.
//
//     1  Metas. Of those that are credible, the newest. With both there and one transaction apart
//        it is the last one committed; otherwise commits may be missing, which the report says.
//     2  The free list, whole, first: a page that it names is no page of the snapshot.
//     3  The main table and the named ones. A page that is not what its parent says (its number, its
//        kind, its layout, the order of its keys, their place between the parent's keys), or that is
//        in the free list, is skipped; the range of keys lost with it is a gap.
//     4  Gaps: below a damaged branch there are whole leaves that nothing leads to any more. They are
//        neither reached nor free, so they are looked for there, and taken when all their keys lie in
//        a gap.
//
// Old pages are the danger of step 4: LMDB never clears a page, and a leaf from before last week's
// removal looks as good as any. They all stand in the free list. So nothing is searched for unless
// the free list is sound, and no page of it is also in use; a value that was replaced or removed
// would come back otherwise. For the same reason a page in use that is also free is given up: which
// of the two is wrong cannot be told.
//
// What cannot be seen here: bytes of values (checksums of entries are for that), and a page that the
// disk silently left as it was some commits ago, in its place, with keys in order.

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Darwin)
  import Darwin
#endif

/// Takes what is readable from a damaged LMDB data file that nobody has open.
package struct SalvageReader: ~Copyable {
  /// What was met.
  package struct Report: Sendable {
    /// The transaction whose snapshot was read.
    package var transactionID: UInt64 = 0
    /// Pages read, overflow runs included.
    package var pagesRead: UInt64 = 0
    /// Pages that are in use and cannot be read, or cannot be told from foreign ones.
    package var pagesDamaged: UInt64 = 0
    /// Leaves found without anything leading to them.
    package var pagesScavenged: UInt64 = 0
    /// Pages that neither a table nor the free list has. Known only with a sound free list.
    package var pagesUnreachable: UInt64 = 0
    /// Whether the last commit or commits may be missing: a meta page was not usable.
    package var mayMissCommits = false
    /// Whether the free list could be read and contradicts nothing.
    package var isFreeListSound = false
    /// What was found wrong, at most ``StructuralVerifier/maximumFindings``.
    package var findings: [StructuralVerifier.Finding] = []
  }

  /// Where nodes come from.
  package enum Source: Hashable, Sendable {
    case main
    case table(String)
    /// The main table as it was one commit before, read when the newest is damaged.
    case olderMain
    /// Leaves that belong to a table whose record is lost.
    case unknown
  }

  /// A key and where its value is.
  package struct Node: Sendable {
    package let key: [UInt8]
    package let value: Value
    /// Whether nothing led to the leaf it stands in.
    package let isScavenged: Bool
  }

  package enum Value: Sendable {
    case inline([UInt8])
    /// In pages of its own: the first one, and the length in bytes.
    case overflow(first: UInt64, count: Int)
  }

  struct Leaf {
    let page: UInt64
    let source: Int
    let isScavenged: Bool
  }

  /// A range of keys whose pages are lost.
  struct Gap {
    let tree: Tree
    let source: Int
    let lower: [UInt8]?
    let upper: [UInt8]?

    var hasIntegerKeys: Bool { tree.keyFlags & LMDBFormat.TableFlag.integerKey != 0 }
  }

  typealias Tree = StructuralVerifier.Tree

  package internal(set) var report = Report()
  let file: StructuralVerifier.DataFile
  var inspection: StructuralVerifier.VerificationState
  var metas: [MetaRecord?] = [nil, nil]
  var sources: [Source] = [.main, .olderMain, .unknown]
  var leaves: [Leaf] = []
  var gaps: [Gap] = []
  var damaged: Set<UInt64> = []
  /// One bit for each page in the free list.
  var free: [UInt64] = []
  /// The last page of the snapshot, as far as the file holds it.
  var lastPage: UInt64 = 0

  /// Reads the structure of the file at `path`.
  ///
  /// - Throws: when the file cannot be opened.
  package init(path: String) throws(LMDBFileError) {
    let file = try StructuralVerifier.DataFile(path: path)
    let inspection = try StructuralVerifier.VerificationState(descriptor: file.descriptor)
    self.file = file
    self.inspection = inspection
    readMetas()
    guard let (meta, older) = chooseSnapshot() else { return }
    read(meta, older: older)
    // Nothing to go by, and nothing may be searched for: the snapshot before is better than none.
    if let older, !gaps.isEmpty, !report.isFreeListSound, !sources.contains(where: \.isTable) {
      let findings = self.inspection.report.findings
      read(older, older: nil)
      report.mayMissCommits = true
      self.inspection.report.findings = findings
    }
    report.findings = self.inspection.report.findings
    report.pagesDamaged = UInt64(damaged.count)
  }

  /// Whether keys are lost, and values of a kind that cannot be told.
  package var hasGaps: Bool { !gaps.isEmpty }

  /// Whether there is a snapshot at all: one of the meta pages is usable.
  package var hasSnapshot: Bool { metas.contains { $0 != nil } }

  // MARK: Nodes

  /// Lends every readable node of a source, in no order to rely on.
  package mutating func forEachNode(of source: Source, _ body: (Node) throws -> Void) throws {
    guard let number = sources.firstIndex(of: source) else { return }
    let kind: Tree.Kind = number < 2 ? .main : .named
    let record = TableRecord.empty
    for leaf in leaves where leaf.source == number {
      // Checked once already; but it is read anew.
      guard readPage(leaf.page, into: 0),
        let count = inspection.checkLayout(
          leaf.page, base: 0, isLeaf: true, tree: Tree(kind: kind, record: record))
      else { continue }
      for index in 0..<count {
        guard let node = node(index, isScavenged: leaf.isScavenged) else { continue }
        try body(node)
      }
    }
  }

  /// A node of the page in the first slot, which was checked; `nil` for the records of tables and
  /// for values in pages that are free.
  private func node(_ index: Int, isScavenged: Bool) -> Node? {
    let bytes = inspection.bytes
    let start = inspection.node(index, at: 0)
    let key = inspection.key(index, at: 0)
    let size = Int(bytes.uint32(at: start))
    switch bytes.uint16(at: start + 4) {
    case 0:
      let value = bytes.copy(key.upperBound..<key.upperBound + size)
      return Node(key: bytes.copy(key), value: .inline(value), isScavenged: isScavenged)
    case LMDBFormat.NodeFlag.overflow:
      let first = bytes.uint64(at: key.upperBound)
      guard !isFree(first, bytes: size) else { return nil }
      return Node(
        key: bytes.copy(key), value: .overflow(first: first, count: size), isScavenged: isScavenged)
    default:
      return nil
    }
  }

  /// What reads the bytes of values, for as long as the reader lives.
  package var values: Values {
    Values(descriptor: file.descriptor, pageSize: inspection.pageSize, lastPage: lastPage)
  }

  package struct Values: Sendable {
    let descriptor: CInt
    let pageSize: Int
    let lastPage: UInt64

    /// The bytes of a value; `nil` when the file does not have them.
    package func bytes(of value: Value) -> [UInt8]? {
      guard case .overflow(let first, let count) = value else {
        if case .inline(let bytes) = value { return bytes }
        return nil
      }
      let pages = LMDBFormat.overflowPages(bytes: count, pageSize: pageSize)
      guard first >= 2, first <= lastPage, pages - 1 <= lastPage - first else { return nil }
      let start = first * UInt64(pageSize) + UInt64(LMDBFormat.pageHeaderBytes)
      let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
        while initialized < count {
          let got = unsafe pread(
            descriptor, buffer.baseAddress! + initialized, count - initialized,
            off_t(start) + off_t(initialized))
          if got > 0 { initialized += got } else if got == 0 || errno != EINTR { return }
        }
      }
      return bytes.count == count ? bytes : nil
    }
  }
}

extension SalvageReader.Source {
  var isTable: Bool { if case .table = self { true } else { false } }
}
