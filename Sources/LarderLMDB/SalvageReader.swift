// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// READING A DAMAGED DATA FILE
//
// LMDB is never called for a damaged file. This reader recovers the rest of the data from the
// bytes, as the structural verifier reads them: pread only, each page checked before anything in it
// is followed, each page at most once, time and memory bounded by the size of the file.
//
//     1  Metas. Of the valid ones, the newest. If both exist and are one transaction apart, it is
//        the last one committed; otherwise commits may be missing, which the report contains.
//     2  The free list, complete, first: a page in it is not a page of the snapshot.
//     3  The main table and the named ones. A page that is not what its parent requires (its
//        number, its kind, its layout, the order of its keys, their position between the parent's
//        keys), or that is in the free list, is skipped; the range of keys lost with it is a gap.
//     4  Gaps: below a damaged branch there are complete leaves without a reference. They are
//        neither reached nor free, so the reader searches there, and uses a leaf if all its keys
//        are in a gap.
//
// Old pages are the danger of step 4: LMDB never clears a page, and a leaf from before last week's
// removal is as well-formed as any. All old pages are in the free list. So the search runs only if
// the free list is valid and no page of it is also in use; otherwise a replaced or removed value
// would reappear. For the same reason a page in use that is also free is skipped: it cannot be
// decided which of the two is wrong.
//
// Not detected here: changed bytes of values (checksums of entries detect those), and a page that
// the disk silently left in an older state, at its position, with keys in order.

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A reader of the valid data of a damaged LMDB data file that no process has open.
package struct SalvageReader: ~Copyable {
  /// The result of a salvage read.
  package struct Report: Sendable {
    /// The id of the transaction whose snapshot was read.
    package var transactionID: UInt64 = 0
    /// The number of pages read, overflow runs included.
    package var pagesRead: UInt64 = 0
    /// The number of pages in use that are unreadable or not distinguishable from other pages.
    package var pagesDamaged: UInt64 = 0
    /// The number of leaves found without a reference to them.
    package var pagesScavenged: UInt64 = 0
    /// The number of pages in neither a table nor the free list. Known only with a valid free list.
    package var pagesUnreachable: UInt64 = 0
    /// Whether the last commit or commits may be missing: a meta page was not usable.
    package var mayMissCommits = false
    /// Whether the free list is readable and consistent.
    package var isFreeListSound = false
    /// The findings, at most ``StructuralVerifier/maximumFindings``.
    package var findings: [StructuralVerifier.Finding] = []
  }

  /// The origin of nodes.
  package enum Source: Hashable, Sendable {
    case main
    case table(String)
    /// The main table as of the previous commit, read if the newest is damaged.
    case olderMain
    /// The leaves of a table whose record is lost.
    case unknown
  }

  /// A key and the location of its value.
  package struct Node: Sendable {
    package let key: [UInt8]
    package let value: Value
    /// Whether the leaf of the node was found without a reference.
    package let isScavenged: Bool
  }

  package enum Value: Sendable {
    case inline([UInt8])
    /// A value in separate pages: the first page, and the length in bytes.
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
  /// A bitmap of the pages in the free list.
  var free: [UInt64] = []
  /// The last page of the snapshot that the file contains.
  var lastPage: UInt64 = 0

  /// Reads the structure of the file at `path`.
  ///
  /// - Throws: `LMDBFileError` if the file cannot be opened.
  package init(path: String) throws(LMDBFileError) {
    let file = try StructuralVerifier.DataFile(path: path)
    let inspection = try StructuralVerifier.VerificationState(descriptor: file.descriptor)
    self.file = file
    self.inspection = inspection
    readMetas()
    guard let (meta, older) = chooseSnapshot() else { return }
    read(meta, older: older)
    // No data and no safe search: the previous snapshot is better than none.
    if let older, !gaps.isEmpty, !report.isFreeListSound, !sources.contains(where: \.isTable) {
      let findings = self.inspection.report.findings
      read(older, older: nil)
      report.mayMissCommits = true
      self.inspection.report.findings = findings
    }
    report.findings = self.inspection.report.findings
    report.pagesDamaged = UInt64(damaged.count)
  }

  /// Whether keys are lost, and values of an unknown kind.
  package var hasGaps: Bool { !gaps.isEmpty }

  /// Whether a snapshot exists: one of the meta pages is usable.
  package var hasSnapshot: Bool { metas.contains { $0 != nil } }

  // MARK: Nodes

  /// Calls `body` with every readable node of a source, in unspecified order.
  package mutating func forEachNode(of source: Source, _ body: (Node) throws -> Void) throws {
    guard let number = sources.firstIndex(of: source) else { return }
    let kind: Tree.Kind = number < 2 ? .main : .named
    let record = TableRecord.empty
    for leaf in leaves where leaf.source == number {
      // The page was checked before; it is read again, so check again.
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

  /// Returns a node of the page in the first slot, which was checked, or `nil` for a record of a
  /// table and for a value in free pages.
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

  /// A reader of the bytes of values, valid as long as this reader.
  package var values: Values {
    Values(descriptor: file.descriptor, pageSize: inspection.pageSize, lastPage: lastPage)
  }

  package struct Values: Sendable {
    let descriptor: CInt
    let pageSize: Int
    let lastPage: UInt64

    /// Returns the bytes of a value, or `nil` if the file does not contain them.
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
