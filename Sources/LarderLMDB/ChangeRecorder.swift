// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

// THE CHANGES OF A TRANSACTION, AS BYTES
//
// The keys and values that a transaction stored and removed, in order and without page numbers: applied to
// the snapshot before the transaction, they give the contents after it. Little-endian:
//
//   0 operation u8 (1 put, 2 remove, 3 empty)   1 table u8   2 key length u16   4 value length u32
//   8 key   then the value
//
// The table is its position in the list that writer and reader share.

/// Records the changes of write transactions.
// Used by one thread at a time: the one with the process writer lock of its environment.
package final class ChangeRecorder: @unchecked Sendable {
  fileprivate enum Operation: UInt8 { case put = 1, remove, empty }

  private static let headerSize = 8
  /// The changes; not complete if ``isComplete`` is `false`.
  package private(set) var bytes: [UInt8] = []
  /// Whether all changes are recorded: their size is below the limit.
  package private(set) var isComplete = true
  private let limit: Int
  // The positions of tables in the list, by their number in LMDB.
  private var positions: [UInt8] = []

  /// - Parameters:
  ///   - tables: The tables that transactions change, in an order that does not depend on the process.
  ///   - limit: The most bytes that are recorded.
  package init(tables: [TableHandle], limit: Int) {
    self.limit = limit
    for (index, table) in tables.enumerated() {
      while positions.count <= Int(table.handle) { positions.append(.max) }
      positions[Int(table.handle)] = UInt8(index)
    }
  }

  /// Forgets the changes of an earlier transaction.
  package func reset() {
    bytes.removeAll(keepingCapacity: true)
    isComplete = true
  }

  private func begin(
    _ operation: Operation, _ table: TableHandle, key: RawSpan, valueSize: Int
  ) -> Bool {
    let size = Self.headerSize + key.byteCount + valueSize
    let position =
      Int(table.handle) < positions.count ? positions[Int(table.handle)] : UInt8.max
    guard isComplete, position != .max, bytes.count + size <= limit else {
      isComplete = false
      return false
    }
    bytes.append(operation.rawValue)
    bytes.append(position)
    bytes.append(littleEndian: UInt16(key.byteCount))
    bytes.append(littleEndian: UInt32(valueSize))
    append(key)
    return true
  }

  private func append(_ span: RawSpan) {
    unsafe span.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
  }

  func put(
    _ first: RawSpan, _ second: RawSpan, _ third: RawSpan, key: RawSpan, in table: TableHandle
  ) {
    let size = first.byteCount + second.byteCount + third.byteCount
    guard begin(.put, table, key: key, valueSize: size) else { return }
    append(first)
    append(second)
    append(third)
  }

  func put(
    _ first: RawSpan, _ second: RawSpan, _ third: RawSpan, key: UInt64, in table: TableHandle
  ) {
    withBytes(of: key) { put(first, second, third, key: $0, in: table) }
  }

  func put(_ value: RawSpan, key: UInt64, in table: TableHandle) {
    withBytes(of: key) { put(value, key: $0, in: table) }
  }

  func remove(key: UInt64, in table: TableHandle) {
    withBytes(of: key) { remove(key: $0, in: table) }
  }

  /// The bytes of an integer key as LMDB has them; the files never leave the machine.
  private func withBytes(of key: UInt64, _ body: (RawSpan) -> Void) {
    withByteScratch(8) { scratch in
      scratch.store(key, at: 0)
      body(scratch.span)
    }
  }

  func put(_ value: RawSpan, key: RawSpan, in table: TableHandle) {
    if begin(.put, table, key: key, valueSize: value.byteCount) { append(value) }
  }

  func remove(key: RawSpan, in table: TableHandle) {
    _ = begin(.remove, table, key: key, valueSize: 0)
  }

  func empty(_ table: TableHandle) {
    _ = begin(.empty, table, key: RawSpan(), valueSize: 0)
  }

  fileprivate struct Change {
    let operation: Operation
    let table: Int
    let key: Range<Int>
    let value: Range<Int>

    /// Reads the change at an offset, or returns `nil` if the bytes are none.
    init?(_ bytes: [UInt8], at offset: Int) {
      guard
        let operation: UInt8 = bytes.integer(at: offset),
        let table: UInt8 = bytes.integer(at: offset + 1),
        let keySize: UInt16 = bytes.integer(at: offset + 2),
        let valueSize: UInt32 = bytes.integer(at: offset + 4),
        let operation = Operation(rawValue: operation)
      else { return nil }
      self.operation = operation
      self.table = Int(table)
      let start = offset + ChangeRecorder.headerSize
      key = start..<start + Int(keySize)
      value = key.upperBound..<key.upperBound + Int(valueSize)
      if value.upperBound > bytes.count { return nil }
    }
  }
}

extension WriteTransaction {
  /// Makes recorded changes again.
  ///
  /// - Parameter tables: The list that the recorder had.
  /// - Throws: ``LMDBError/Code/corrupted`` if the bytes are no changes.
  package mutating func apply(_ changes: [UInt8], to tables: [TableHandle]) throws(LMDBError) {
    var offset = 0
    while offset < changes.count {
      guard let change = ChangeRecorder.Change(changes, at: offset), change.table < tables.count
      else {
        throw LMDBError(.corrupted, during: "a record of changes")
      }
      let table = tables[change.table]
      let key = Array(changes[change.key])
      switch change.operation {
      case .put: try put(Array(changes[change.value]), forKey: key, in: table)
      case .remove: try remove(key: key, in: table)
      case .empty: try empty(table)
      }
      offset = change.value.upperBound
    }
  }
}
