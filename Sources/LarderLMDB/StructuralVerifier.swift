// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE STRUCTURAL VERIFIER
//
// liblmdb trusts its file: of damaged ones, one in five kills the process by a signal or hangs it.
// So whenever there is doubt, this verifier reads the file first. It never calls LMDB, and for any
// bytes whatever it ends, in time and memory bounded by the size of the file:
//
//   - It reads with pread, never through a map: a file that shrinks meanwhile, or a bad sector, is
//     a short read or EIO and not a SIGBUS; and a page that was checked can't change afterwards.
//   - Each page is claimed in a bitmap before it is read, and a claimed page is not entered again.
//     So shared pages and cycles are findings, and no page is read twice.
//   - The walk keeps its own stack, of LMDB's greatest depth, 32.
//   - Findings are capped; at the cap it stops.
//
// What is checked, of the snapshot that LMDB would choose:
//
//   metas      both: magic, version, page size, flags, last page within the map; transaction ids
//              on their own side and one apart (a wider gap: two openers raced, commits are lost)
//   pages      number, type for the level, bounds; nodes tile the used space exactly
//   keys       sizes; order within a page and against the branches above
//   trees      one depth; each page once; page and entry counters
//   overflow   run long enough, within file and last page
//   tables     records of named tables; no duplicate-sorting (Larder has none)
//   free list  ids not newer than the snapshot; pages descending, in range, free only once, not live
//   file       holds each page reached; pages missing at the end are all free
//
// A page up to the last one that is neither live nor free is no finding: LMDB may leak one, and
// it harms nobody. Neither is a part of a page at the end of the file: a write cut short by a full
// disk or a limit leaves one, in a page that no snapshot reaches.
//
// Not checked, and not checkable here: bytes of values. That is what checksums of entries are for.

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Darwin)
  import Darwin
#endif

/// Checks the structure of an LMDB data file before LMDB is allowed to trust it.
///
/// ``Environment/verify(at:)`` and ``Environment/verify()`` run it.
public struct StructuralVerifier {
  /// One thing that is wrong with a file.
  public struct Finding: Hashable, Sendable, CustomStringConvertible {
    /// What kind of thing is wrong. Open: more kinds may come.
    public struct Code: RawRepresentable, Hashable, Sendable {
      public let rawValue: String
      public init(rawValue: String) { self.rawValue = rawValue }

      /// The file is empty, too short for its metas, or ends before a page that is in use.
      public static let fileTooShort = Code(rawValue: "file-too-short")
      /// Not a regular file.
      public static let notAFile = Code(rawValue: "not-a-file")
      /// A meta page is not one, or says something impossible.
      public static let meta = Code(rawValue: "meta")
      /// The transaction ids of the two metas don't fit together.
      public static let transactionIDs = Code(rawValue: "transaction-ids")
      /// A page number beyond the last page, or a meta page in a tree.
      public static let pageRange = Code(rawValue: "page-range")
      /// A page used twice, or both used and free.
      public static let pageUsedTwice = Code(rawValue: "page-used-twice")
      /// A page's header or layout is wrong.
      public static let pageLayout = Code(rawValue: "page-layout")
      /// A node is wrong: its place, size or flags.
      public static let node = Code(rawValue: "node")
      /// Keys are out of order, or of an impossible size.
      public static let key = Code(rawValue: "key")
      /// An overflow run doesn't fit its value.
      public static let overflow = Code(rawValue: "overflow")
      /// A table's record is impossible.
      public static let table = Code(rawValue: "table")
      /// A table's counters differ from what its tree holds.
      public static let counters = Code(rawValue: "counters")
      /// The free list is wrong.
      public static let freeList = Code(rawValue: "free-list")
      /// A kind of table Larder never makes (MDB_DUPSORT).
      public static let notOurs = Code(rawValue: "not-ours")
    }

    /// The kind of the finding.
    public let code: Code
    /// The number of the page, if the finding concerns one.
    public let page: UInt64?
    /// A description of the finding.
    public let detail: String

    public var description: String {
      page.map { "\(code.rawValue), page \($0): \(detail)" } ?? "\(code.rawValue): \(detail)"
    }
  }

  /// What a verification found.
  public struct Report: Sendable {
    /// At most ``StructuralVerifier/maximumFindings``, in the order met.
    public var findings: [Finding] = []
    /// Pages in use by trees, overflow runs included, metas not.
    public var pagesReached: UInt64 = 0
    /// Pages in the free list.
    public var pagesFree: UInt64 = 0
    /// The number of the last page that the newest meta page names.
    public var lastPage: UInt64 = 0
    /// The id of the last committed transaction.
    public var transactionID: UInt64 = 0
    /// The named tables, in key order; at most ``StructuralVerifier/maximumTables``.
    public var tables: [(name: String, entries: UInt64)] = []

    /// A Boolean value that indicates whether the file has no finding.
    public var isSound: Bool { findings.isEmpty }
  }

  /// Where a verification stops looking for more.
  public static let maximumFindings = 64
  /// How many tables a report names.
  public static let maximumTables = 4_096

  /// Verifies the file at `path`, which nobody has open in this process and nobody writes.
  ///
  /// - Throws: when the file can't be opened or read. Whatever is wrong with what was read is a
  ///   finding. A symbolic link is not followed.
  /// - Complexity: reads each tree page once; of an overflow run, its header.
  package static func verify(path: String) throws(LMDBFileError) -> Report {
    let file = try DataFile(path: path)
    return try verify(fileDescriptor: file.descriptor)
  }

  /// Verifies the file behind a descriptor that stays the caller's.
  ///
  /// The snapshot verified is the last one committed. Where others may write, use
  /// ``verify(fileDescriptor:snapshot:isUntouched:progress:)``.
  package static func verify(fileDescriptor: CInt) throws(LMDBFileError) -> Report {
    var inspection = try VerificationState(descriptor: fileDescriptor)
    try inspection.run()
    return inspection.report
  }

  /// Verifies the snapshot of one transaction, which a read transaction of the caller pins, while
  /// others write: what the snapshot reaches is not written to before the reader lets it go.
  ///
  /// Only the metas move on. Transaction N's is written over by N + 2; so they are read first, and
  /// `isUntouched` has to tell whether N + 2 has begun since.
  ///
  /// - Parameters:
  ///   - isUntouched: Called once, after both metas were read.
  ///   - progress: Called now and then with the pages checked so far; `false` ends it.
  /// - Returns: `nil` when the metas had moved on (take a newer snapshot and try again).
  package static func verify(
    fileDescriptor: CInt, snapshot: UInt64, isUntouched: () -> Bool,
    progress: ((_ pages: UInt64, _ lastPage: UInt64) -> Bool)? = nil
  ) throws(LMDBFileError) -> Report? {
    var inspection = try VerificationState(descriptor: fileDescriptor)
    inspection.progress = progress
    guard try inspection.run(snapshot: snapshot, isUntouched: isUntouched) else { return nil }
    return inspection.report
  }

  /// The cheap guard of every open: is this still a file that LMDB can open and map?
  ///
  /// Two small reads, safe while other processes read and write the file. `bytes` is the size the
  /// file is known to have reached; load it before calling, for it may grow meanwhile.
  package static func quickCheck(
    path: String, atLeast bytes: UInt64
  ) throws(LMDBFileError) -> [Finding] {
    let file = try DataFile(path: path)
    var inspection = try VerificationState(descriptor: file.descriptor)
    if inspection.fileBytes < bytes {
      inspection.note(
        .fileTooShort, nil, "has \(inspection.fileBytes) bytes, was \(bytes) before")
    }
    _ = try inspection.readMetas()
    return inspection.report.findings
  }
}

/// A data file could not be opened or read. What is in it is not judged.
package struct LMDBFileError: Error, Hashable, Sendable, CustomStringConvertible {
  package struct Code: RawRepresentable, Hashable, Sendable {
    package let rawValue: String
    package init(rawValue: String) { self.rawValue = rawValue }

    /// There is no file at the path.
    package static let notFound = Code(rawValue: "not-found")
    /// The path is a symbolic link.
    package static let symbolicLink = Code(rawValue: "symbolic-link")
    package static let cannotOpen = Code(rawValue: "cannot-open")
    package static let cannotRead = Code(rawValue: "cannot-read")
  }

  package let code: Code
  package let operation: String
  package let errno: CInt

  init(operation: String, errno: CInt) {
    self.operation = operation
    self.errno = errno
    code =
      switch (operation, errno) {
      case ("open", ENOENT): .notFound
      case ("open", ELOOP): .symbolicLink
      case ("open", _): .cannotOpen
      default: .cannotRead
      }
  }

  package var description: String {
    let advice =
      switch code {
      case .notFound: "There is no data file; create the store anew."
      case .symbolicLink: "A data file must not be a link; put the store's directory elsewhere."
      case .cannotOpen: "Check the owner and mode of the data file and its directory."
      default: "The disk may be failing; keep the file and look at the system's log."
      }
    let cause = unsafe String(cString: strerror(errno))
    return "\(operation) of the LMDB data file failed: \(cause). \(advice)"
  }
}
