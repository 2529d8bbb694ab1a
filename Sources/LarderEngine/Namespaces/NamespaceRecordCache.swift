// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The store's books after a transaction of this process, which the next one need not read again if
/// it is the next one of all: LMDB numbers what is committed one by one.
struct CachedTotals: Sendable {
  let transaction: UInt64
  let totals: StoreTotals
  /// The only namespace the transaction was about, if it was about one.
  let namespace: (number: UInt32, record: NamespaceRecord)?
}

/// The records of the namespaces a transaction has looked at, and which of them it changed.
///
/// Most transactions are about one: the one used last is kept apart, where no table of them is made
/// for it.
struct NamespaceRecordCache {
  private struct Book {
    var record: NamespaceRecord
    var isChanged: Bool
  }

  private var lastNumber: UInt32?
  private var last = Book(record: NamespaceRecord(name: []), isChanged: false)
  private var others: [UInt32: Book] = [:]
  private(set) var hasChanges = false

  /// A namespace's record, if it was looked at.
  subscript(number: UInt32) -> NamespaceRecord? {
    if number == lastNumber { return last.record }
    return others.isEmpty ? nil : others[number]?.record
  }

  /// The epoch alone, which costs no copy of the rest.
  func epoch(of number: UInt32) -> UInt32? {
    if number == lastNumber { return last.record.epoch }
    return others.isEmpty ? nil : others[number]?.record.epoch
  }

  /// Puts in what was found of a namespace.
  mutating func learn(_ number: UInt32, _ record: NamespaceRecord) {
    putLastAside()
    if !others.isEmpty { others[number] = nil }
    lastNumber = number
    last = Book(record: record, isChanged: false)
  }

  /// Changes a record that was looked at.
  @inline(__always)
  mutating func change(_ number: UInt32, _ body: (inout NamespaceRecord) -> Void) {
    if number != lastNumber { bringForward(number) }
    body(&last.record)
    last.isChanged = true
    hasChanges = true
  }

  /// Those that were changed, in no order.
  func forEachChanged(_ body: (UInt32, NamespaceRecord) throws -> Void) rethrows {
    guard hasChanges else { return }
    if let lastNumber, last.isChanged { try body(lastNumber, last.record) }
    for (number, book) in others where book.isChanged { try body(number, book.record) }
  }

  /// The only one that was looked at, if there was one only.
  var single: (number: UInt32, record: NamespaceRecord)? {
    guard let lastNumber, others.isEmpty else { return nil }
    return (lastNumber, last.record)
  }

  private mutating func bringForward(_ number: UInt32) {
    guard let book = others.removeValue(forKey: number) else {
      preconditionFailure("a namespace is changed that was not looked at")
    }
    putLastAside()
    lastNumber = number
    last = book
  }

  private mutating func putLastAside() {
    guard let lastNumber else { return }
    others[lastNumber] = last
  }
}
