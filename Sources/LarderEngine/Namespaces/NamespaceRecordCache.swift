// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The totals after a transaction of this process. This process's next transaction reuses them if
/// no other transaction was committed in between: LMDB numbers commits consecutively.
struct CachedTotals: Sendable {
  let transaction: UInt64
  let totals: StoreTotals
  /// The namespace of the transaction, if it used exactly one.
  let namespace: (number: UInt32, record: NamespaceRecord)?
  /// The newest chunk of the change log, if the transaction has used it.
  let changeTail: [UInt8]?
}

/// The namespace records that a transaction has read, and which of them it changed.
///
/// Most transactions use one namespace. The most recent one is stored separately, so that this case
/// needs no dictionary.
struct NamespaceRecordCache {
  private struct CachedRecord {
    var record: NamespaceRecord
    var isChanged: Bool
  }

  private var lastNumber: UInt32?
  private var last = CachedRecord(record: NamespaceRecord(name: []), isChanged: false)
  private var others: [UInt32: CachedRecord] = [:]
  private(set) var hasChanges = false

  /// The record of a namespace, or `nil` if it has not been read.
  subscript(number: UInt32) -> NamespaceRecord? {
    if number == lastNumber { return last.record }
    return others.isEmpty ? nil : others[number]?.record
  }

  /// Returns a property of a record that has been read, without copying the record.
  @inline(__always)
  func read<R>(_ number: UInt32, _ property: (borrowing NamespaceRecord) -> R) -> R? {
    if number == lastNumber { return property(last.record) }
    return others.isEmpty ? nil : others[number].map { property($0.record) }
  }

  /// Returns the epoch without copying the rest of the record.
  func epoch(of number: UInt32) -> UInt32? {
    if number == lastNumber { return last.record.epoch }
    return others.isEmpty ? nil : others[number]?.record.epoch
  }

  /// Adds a record that was read.
  mutating func learn(_ number: UInt32, _ record: NamespaceRecord) {
    storeLast()
    if !others.isEmpty { others[number] = nil }
    lastNumber = number
    last = CachedRecord(record: record, isChanged: false)
  }

  /// Changes a record that has been read.
  @inline(__always)
  mutating func change(_ number: UInt32, _ body: (inout NamespaceRecord) -> Void) {
    if number != lastNumber { makeLast(number) }
    body(&last.record)
    last.isChanged = true
    hasChanges = true
  }

  /// Calls `body` with the changed records, in no particular order.
  func forEachChanged(_ body: (UInt32, NamespaceRecord) throws -> Void) rethrows {
    guard hasChanges else { return }
    if let lastNumber, last.isChanged { try body(lastNumber, last.record) }
    for (number, cached) in others where cached.isChanged {
      try body(number, cached.record)
    }
  }

  /// The only record that has been read, or `nil` if there are none or several.
  var single: (number: UInt32, record: NamespaceRecord)? {
    guard let lastNumber, others.isEmpty else { return nil }
    return (lastNumber, last.record)
  }

  private mutating func makeLast(_ number: UInt32) {
    guard let cached = others.removeValue(forKey: number) else {
      preconditionFailure("the changed namespace has no cached record")
    }
    storeLast()
    lastNumber = number
    last = cached
  }

  private mutating func storeLast() {
    guard let lastNumber else { return }
    others[lastNumber] = last
  }
}
