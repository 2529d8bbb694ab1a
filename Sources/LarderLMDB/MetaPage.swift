// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

/// The meta page of one snapshot. It can make the snapshot current again as long as none of its
/// pages was overwritten.
package struct MetaPage: Sendable, Hashable {
  package static let count = LMDBFormat.metaBytes

  /// The bytes of header and meta, in the layout of the file.
  package let bytes: [UInt8]
  package let transactionID: UInt64
  package let lastPage: UInt64
  package let pageSize: Int

  /// Creates a meta page, or returns `nil` if LMDB cannot have written the bytes.
  package init?(_ bytes: [UInt8]) {
    guard bytes.count == MetaPage.count else { return nil }
    let record = unsafe bytes.withUnsafeBytes { unsafe MetaRecord(FormatBytes($0)) }
    guard
      record.magic == LMDBFormat.magic, record.version == LMDBFormat.version,
      record.pageFlags == LMDBFormat.PageFlag.meta, record.number == record.transactionID & 1,
      record.transactionID <= UInt64(Int64.max),
      LMDBFormat.pageSizes.contains(record.pageSize),
      record.pageSize & (record.pageSize - 1) == 0
    else { return nil }
    self.bytes = bytes
    transactionID = record.transactionID
    lastPage = record.lastPage
    pageSize = record.pageSize
  }

  var record: MetaRecord {
    unsafe bytes.withUnsafeBytes { unsafe MetaRecord(FormatBytes($0)) }
  }

  /// Reads the meta page a transaction wrote, from a file that other processes may write.
  ///
  /// A later transaction may overwrite the page during the read: after the call, the caller checks
  /// whether one can have started to.
  ///
  /// - Returns: The page, or `nil` if it is damaged or of another transaction.
  package static func read(
    of transaction: UInt64, fromDescriptor descriptor: CInt, pageSize: Int
  ) throws(SystemError) -> MetaPage? {
    let bytes = try FileSystem.read(
      descriptor, count: count, at: Int(transaction & 1) * pageSize)
    guard let page = MetaPage(bytes), page.transactionID == transaction else { return nil }
    return page
  }

  /// Returns the newer of the two metas of a file that no process writes.
  package static func newest(in file: OwnedFile) throws(SystemError) -> MetaPage? {
    let first = MetaPage(try file.read(count: count, at: 0))
    guard let size = first?.pageSize else { return nil }
    guard let second = MetaPage(try file.read(count: count, at: size)) else { return nil }
    return first!.transactionID > second.transactionID ? first : second
  }

  /// Returns the same snapshot with the id of another transaction.
  package func renumbered(_ transaction: UInt64) -> MetaPage {
    var copy = bytes
    copy.store(transaction & 1, at: 0)
    copy.store(transaction, at: 144)
    return MetaPage(copy)!
  }

  /// Makes the snapshot current in a file that no process has open: writes the meta page of its id,
  /// and the other meta page with the id before it, as if the last transaction had changed nothing.
  ///
  /// The caller syncs the file. If the process is killed between the two writes, recovery repeats
  /// them.
  package func write(to file: OwnedFile) throws(SystemError) {
    precondition(transactionID > 0)
    for page in [renumbered(transactionID - 1), self] {
      try file.write(page.bytes, at: Int(page.transactionID & 1) * pageSize)
    }
  }
}

extension StructuralVerifier {
  /// Verifies the snapshot of a meta page in a file that no process writes, independently of the
  /// file's own metas.
  ///
  /// - Throws: `LMDBFileError` if the file cannot be opened or read.
  package static func verify(path: String, from meta: MetaPage) throws(LMDBFileError) -> Report {
    let file = try DataFile(path: path)
    var inspection = try VerificationState(descriptor: file.descriptor)
    try inspection.run(from: meta.record)
    return inspection.report
  }
}
