// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE STRUCTURAL VERIFIER
//
// liblmdb trusts its file: one in five damaged files ends the process with a signal or hangs it. So
// this verifier reads a suspect file first. It never calls LMDB, and for any bytes it terminates,
// in time and memory bounded by the size of the file:
//
//   - It reads with pread, never through a map: if the file is truncated during the read, or a
//     sector is bad, the result is a short read or EIO and not a SIGBUS; and a checked page cannot
//     change afterwards.
//   - Each page is claimed in a bitmap before it is read, and a claimed page is not entered again.
//     So shared pages and cycles are findings, and no page is read twice.
//   - The walk has an explicit stack, of LMDB's greatest depth, 32.
//   - The number of findings is limited; at the limit the verifier stops.
//
// Checks, for the snapshot that LMDB would choose:
//
//   metas      both: magic, version, page size, flags, last page within the map; transaction ids
//              in the right meta and one apart (a wider gap: two openers raced, commits are lost)
//   pages      number, type for the level, bounds; nodes tile the used space exactly
//   keys       sizes; order within a page and against the branches above
//   trees      one depth; each page once; page and entry counters
//   overflow   run long enough, within file and last page
//   tables     records of named tables; no duplicate-sorting (Larder has none)
//   free list  ids not newer than the snapshot; pages descending, in range, free only once, not
//   live file       contains each page reached; pages missing at the end are all free
//
// A page up to the last one that is neither live nor free is not a finding: LMDB may leak one,
// which is harmless. Neither is a partial page at the end of the file: a write cut short by a full
// disk or a limit leaves one, in a page that no snapshot reaches.
//
// Not checked, because it is impossible here: bytes of values. Checksums of entries cover those.

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A checker of the structure of an LMDB data file, used before LMDB maps a file that may be
/// damaged.
///
/// ``Environment/verify(at:)`` and ``Environment/verify()`` run it.
public struct StructuralVerifier {
  /// One inconsistency of a file.
  public struct Finding: Hashable, Sendable, CustomStringConvertible {
    /// The kind of inconsistency. Later versions may add codes.
    public struct Code: RawRepresentable, Hashable, Sendable {
      /// The code as text, such as `page-layout`.
      public let rawValue: String
      /// Creates a code from its text.
      public init(rawValue: String) { self.rawValue = rawValue }

      /// The file is empty, too short for its metas, or ends before a page that is in use.
      public static let fileTooShort = Code(rawValue: "file-too-short")
      /// The path is not a regular file.
      public static let notAFile = Code(rawValue: "not-a-file")
      /// A meta page is missing or contains an impossible value.
      public static let meta = Code(rawValue: "meta")
      /// The transaction ids of the two metas are inconsistent.
      public static let transactionIDs = Code(rawValue: "transaction-ids")
      /// A page number is beyond the last page, or a tree contains a meta page.
      public static let pageRange = Code(rawValue: "page-range")
      /// A page is used twice, or is both used and free.
      public static let pageUsedTwice = Code(rawValue: "page-used-twice")
      /// A page's header or layout is wrong.
      public static let pageLayout = Code(rawValue: "page-layout")
      /// A node has a wrong position, size or flags.
      public static let node = Code(rawValue: "node")
      /// Keys are out of order, or of an impossible size.
      public static let key = Code(rawValue: "key")
      /// An overflow run does not fit its value.
      public static let overflow = Code(rawValue: "overflow")
      /// A table's record contains an impossible value.
      public static let table = Code(rawValue: "table")
      /// A table's counters differ from the contents of its tree.
      public static let counters = Code(rawValue: "counters")
      /// The free list is inconsistent.
      public static let freeList = Code(rawValue: "free-list")
      /// A table has a kind that Larder never creates (MDB_DUPSORT).
      public static let notOurs = Code(rawValue: "not-ours")
    }

    /// The kind of the finding.
    public let code: Code
    /// The number of the page, if the finding concerns one.
    public let page: UInt64?
    /// A description of the finding.
    public let detail: String

    /// The code, the page number and the detail.
    public var description: String {
      page.map { "\(code.rawValue), page \($0): \(detail)" } ?? "\(code.rawValue): \(detail)"
    }
  }

  /// The result of a verification.
  public struct Report: Sendable {
    /// The findings, at most ``StructuralVerifier/maximumFindings``, in the order of detection.
    public var findings: [Finding] = []
    /// The number of pages in use by trees, with overflow runs and without metas.
    public var pagesReached: UInt64 = 0
    /// The number of pages in the free list.
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

  /// The number of findings at which a verification stops.
  public static let maximumFindings = 64
  /// The maximum number of tables in a report.
  public static let maximumTables = 4_096

  /// Verifies the file at `path`, which is not open in this process and which no process writes.
  ///
  /// - Throws: `LMDBFileError` if the file cannot be opened or read. Damage in the bytes read is a
  ///   finding. A symbolic link is not followed.
  /// - Complexity: Reads each tree page once, and the header of each overflow run.
  package static func verify(path: String) throws(LMDBFileError) -> Report {
    let file = try DataFile(path: path)
    return try verify(fileDescriptor: file.descriptor)
  }

  /// Verifies the file of a descriptor, which the caller still owns.
  ///
  /// The function verifies the last committed snapshot. If other processes may write, use
  /// ``verify(fileDescriptor:snapshot:isUntouched:progress:)``.
  package static func verify(fileDescriptor: CInt) throws(LMDBFileError) -> Report {
    var inspection = try VerificationState(descriptor: fileDescriptor)
    try inspection.run()
    return inspection.report
  }

  /// Verifies the snapshot of one transaction, which a read transaction of the caller pins, while
  /// other processes write: the pages of the snapshot are not overwritten before the reader ends.
  ///
  /// Only the metas change. N + 2 overwrites the meta of transaction N; so the metas are read
  /// first, and `isUntouched` returns whether N + 2 has not begun since.
  ///
  /// - Parameters:
  ///   - isUntouched: A closure that is called once, after both metas were read.
  ///   - progress: A closure that is called every 256 pages with the number of pages checked so
  ///     far; it returns `false` to end the verification.
  /// - Returns: The report, or `nil` if the metas have changed: retry with a newer snapshot.
  package static func verify(
    fileDescriptor: CInt, snapshot: UInt64, isUntouched: () -> Bool,
    progress: ((_ pages: UInt64, _ lastPage: UInt64) -> Bool)? = nil
  ) throws(LMDBFileError) -> Report? {
    var inspection = try VerificationState(descriptor: fileDescriptor)
    inspection.progress = progress
    guard try inspection.run(snapshot: snapshot, isUntouched: isUntouched) else { return nil }
    return inspection.report
  }

  /// Checks on every open that the file is still one that LMDB can open and map.
  ///
  /// The check makes two small reads, safe while other processes read and write the file. `bytes`
  /// is the largest known size of the file; load it before the call, because the file may grow
  /// concurrently.
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

/// The error of a data file that could not be opened or read; its contents were not checked.
package struct LMDBFileError: Error, Hashable, Sendable, CustomStringConvertible {
  package struct Code: RawRepresentable, Hashable, Sendable {
    package let rawValue: String
    package init(rawValue: String) { self.rawValue = rawValue }

    /// The path does not exist.
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
      case .notFound: "There is no data file. Create the store again."
      case .symbolicLink: "A data file must not be a link. Use another directory for the store."
      case .cannotOpen: "Check the owner and mode of the data file and its directory."
      default: "The disk may be failing. Keep the file and read the system's log."
      }
    let cause = unsafe String(cString: strerror(errno))
    return "\(operation) of the LMDB data file failed: \(cause). \(advice)"
  }
}
