// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

/// The indexes of namespaces with a maximum, and the change log.
extension StoreVerification {
  /// Records which records of indexes the entries of a hash must have.
  mutating func expectMembers(_ items: [RecordEntry], _ hash: UInt64) {
    for key in Set(items.compactMap { memberKey($0.header, hash) }) { expectedMembers.add(key) }
  }

  private func memberKey(_ header: EntryHeader, _ hash: UInt64) -> [UInt8]? {
    guard let record = names[header.namespace], record.hasMaximum else { return nil }
    return StoreTransaction.memberKey(
      header.namespace, index: record.index, epoch: header.epoch, hash: hash)
  }

  /// Checks the indexes of namespaces with a maximum.
  mutating func checkMembers(_ transaction: borrowing ReadTransaction) throws {
    var cursor = try Cursor(over: generation.members, in: transaction)
    var more = try cursor.moveToFirst()
    while more {
      let number = cursor.currentKey.integer(at: 0, as: UInt32.self)?.byteSwapped ?? 0
      let index = cursor.currentKey.integer(at: 4, as: UInt32.self)?.byteSwapped
      // Records of old indexes have no meaning.
      if let record = names[number], record.hasMaximum, index == record.index {
        storedMembers.add(cursor.currentKey.copied())
      }
      more = try cursor.moveToNext()
    }
    if expectedMembers != storedMembers {
      find(
        .warning, "members",
        "there are \(storedMembers.count) records of indexes of namespaces; the entries have "
          + "\(expectedMembers.count), not the same")
    }
  }

  /// Checks the records of the change log.
  mutating func checkChanges(
    _ transaction: borrowing ReadTransaction, _ totals: StoreTotals, newest: UInt64
  ) throws {
    let stored = try transaction.statistics(of: generation.changes).entries
    let expected = min(totals.changeCount, totals.changeCapacity)
    if UInt64(stored) != expected {
      find(.warning, "changes", "there are \(stored) chunks; \(expected) are counted")
    }
    var last = max(totals.changeStart, 1) - 1
    for number in (totals.changeCount - expected)...totals.changeCount {
      let bytes =
        number == totals.changeCount
        ? try transaction.value(forKey: ChangeRecord.tailKey, in: .main)
        : try transaction.value(
          forKey: number % max(totals.changeCapacity, 1), in: generation.changes)
      guard let bytes else {
        if number < totals.changeCount { find(.warning, "changes", "chunk \(number) is missing") }
        continue
      }
      for record in ChangeRecord.records(in: bytes) {
        guard let record, record.commitVersion > last, record.commitVersion <= newest else {
          find(.warning, "changes", "chunk \(number) has a damaged record")
          break
        }
        last = record.commitVersion
      }
    }
  }
}
