// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

/// The meta page of one snapshot: with it, the snapshot can be put in force again for as long as none
/// of its pages was written over.
package struct MetaPage: Sendable, Hashable {
  package static let count = LMDBFormat.metaBytes

  /// Header and meta as they stand in the file.
  package let bytes: [UInt8]
  package let transactionID: UInt64
  package let lastPage: UInt64
  package let pageSize: Int

  /// `nil` when the bytes are no meta page LMDB could have written.
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

  /// Reads the meta page a transaction wrote, from a file others may write to.
  ///
  /// It may be torn by a later transaction: the caller knows whether one can have begun to write it
  /// over, and asks after this has returned.
  ///
  /// - Returns: `nil`: it is another transaction's, or damaged.
  package static func read(
    of transaction: UInt64, fromDescriptor descriptor: CInt, pageSize: Int
  ) throws(SystemError) -> MetaPage? {
    let bytes = try FileSystem.read(
      descriptor, count: count, at: Int(transaction & 1) * pageSize)
    guard let page = MetaPage(bytes), page.transactionID == transaction else { return nil }
    return page
  }

  /// The newer of the two metas of a file nobody writes to.
  package static func newest(in file: OwnedFile) throws(SystemError) -> MetaPage? {
    let first = MetaPage(try file.read(count: count, at: 0))
    guard let size = first?.pageSize else { return nil }
    guard let second = MetaPage(try file.read(count: count, at: size)) else { return nil }
    return first!.transactionID > second.transactionID ? first : second
  }

  /// The same snapshot under the number of another transaction.
  package func renumbered(_ transaction: UInt64) -> MetaPage {
    var copy = bytes
    copy.store(transaction & 1, at: 0)
    copy.store(transaction, at: 144)
    return MetaPage(copy)!
  }

  /// Puts the snapshot in force in a file nobody has open: in the meta page of its number, and in
  /// the other one under the number before it, as if its last transaction had changed nothing.
  ///
  /// The caller syncs the file. Killed between the two, it is done again.
  package func write(to file: OwnedFile) throws(SystemError) {
    precondition(transactionID > 0)
    for page in [renumbered(transactionID - 1), self] {
      try file.write(page.bytes, at: Int(page.transactionID & 1) * pageSize)
    }
  }
}

extension StructuralVerifier {
  /// Verifies the snapshot of a meta page in a file nobody writes, whatever the file's own metas say.
  ///
  /// - Throws: when the file can't be opened or read.
  package static func verify(path: String, from meta: MetaPage) throws(LMDBFileError) -> Report {
    let file = try DataFile(path: path)
    var inspection = try VerificationState(descriptor: file.descriptor)
    try inspection.run(from: meta.record)
    return inspection.report
  }
}
