// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjectEngine

/// The part that all saves of objects of one type have in common, as long as no record of a type
/// changes in the transaction. An object, because a copy of a record counts the references of its many parts.
final class PreparedType: Sendable {
  let record: ObjectTypeRecord
  /// The identifiers of the declared indexes, in their order.
  let indexes: [UInt32?]
  /// The number of the layout with which objects are written; `nil` if they are encoded as maps.
  let layoutNumber: Int?
  /// The descriptor that prepared the type.
  private let descriptor: ObjectIdentifier
  private let changes: Int

  /// - Parameter changes: The number of changes of type records in the transaction.
  init<Object>(
    _ kind: ObjectTypeDescriptor<Object>, _ record: ObjectTypeRecord, changes: Int
  ) {
    self.record = record
    indexes = kind.indexNumbers(record)
    layoutNumber = kind.layoutNumber(record)
    descriptor = ObjectIdentifier(kind)
    self.changes = changes
  }

  /// Whether the type would be prepared in the same way again. The first object that is encoded as a
  /// map may permit a layout for the next.
  func isCurrent(_ kind: AnyObject, changes: Int) -> Bool {
    descriptor == ObjectIdentifier(kind) && self.changes == changes && layoutNumber != nil
  }
}
