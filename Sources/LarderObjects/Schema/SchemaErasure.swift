// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

// ERASING ON A CHANGE OF THE SCHEMA
//
// With `StoreOptions.erasesOnSchemaChange`, a save, a `prepare(_:)` or a read that would throw
// `schemaMismatch` drops the stored type with its objects in a transaction, and goes on with an
// undeclared type. A read looks again inside the transaction, because another process may have
// erased the type meanwhile.
//
// Two programs with contradictory declarations must not erase each other's objects in turns. The
// identifiers of types only grow, and an erased type gets a new one with its next declaration. So a
// process erases a type only
//
//   * if it has not saved an object of the type since it opened the store, or the identifier under
//     which it did was rolled back: the stored one is lower, and
//   * if it has not erased the type yet, or that was rolled back: the stored one is not higher.

/// The identifiers of one type that this process has erased, and saved objects under.
struct ErasureState: Sendable {
  /// The identifier of the type that this process has erased, or zero.
  var erased: UInt32 = 0
  /// The identifier under which this process has saved an object, or zero.
  var written: UInt32 = 0

  /// Returns whether the process may erase the type of an identifier.
  func permits(_ number: UInt32) -> Bool {
    written == 0 ? erased == 0 || number <= erased : number < written
  }
}

/// The erasures of one transaction, which are reported after its commit and only then.
final class TransactionErasures: Sendable {
  // The transaction may run on the thread of the store.
  private let events = Mutex<[StoreEvent]>([])

  /// Creates the erasures of a transaction; `nil` if the store erases nothing.
  init?(of store: ObjectStore) {
    guard store.erasesOnSchemaChange else { return nil }
  }

  func add(_ event: StoreEvent) { events.withLock { $0.append(event) } }

  func reset() { events.withLock { $0 = [] } }

  func report(to store: ObjectStore) {
    for event in events.withLock({ $0 }) { store.storage.core.notify(event) }
  }
}

extension ObjectTypeDescriptor {
  /// Notes that this process has saved an object.
  func noteWritten(_ number: UInt32) { erasure.withLock { $0.written = number } }

  /// Erases the stored type if the store's options and the state of the type permit it.
  ///
  /// - Returns: Whether the type was erased.
  func erase(
    because cause: ObjectError, in transaction: inout ObjectTransaction
  ) throws -> Bool {
    let store = transaction.store
    guard store.erasesOnSchemaChange, cause.code == .schemaMismatch, cause.type == name,
      let record = try transaction.entries.objectType(named: name), record.version > 0,
      record.version <= version, record.movedTo == nil, record.migration == nil,
      erasure.withLock({ $0.permits(record.number) })
    else { return false }
    let count = Int(clamping: try transaction.entries.objectBooks(record.number).count)
    transaction.noteWrite()
    try transaction.entries.dropObjects(of: record)
    try transaction.entries.removeObjectType(named: name)
    transaction.overlay.clear(name)
    erasure.withLock { $0.erased = record.number }
    schema.withLock { $0 = ObservedSchema() }
    let event = StoreEvent.objectsErased(type: name, objects: count, reason: cause.message)
    transaction.erasures?.add(event)
    return true
  }

  /// Erases the stored type if this process cannot read it.
  ///
  /// - Returns: Whether the type is readable now.
  fileprivate func eraseIfUnreadable(_ transaction: inout ObjectTransaction) throws -> Bool {
    guard let record = try transaction.entries.objectType(named: name) else { return true }
    do {
      try requireReadable(record)
      try transaction.entries.withSnapshot { try requireDecodable(record, $0) }
      return true
    } catch let error as ObjectError {
      return try erase(because: error, in: &transaction)
    }
  }
}

extension ObjectTransaction {
  /// Runs a part of an operation, and once more if its error erased the type.
  mutating func erasing<Object: Storable, R>(
    _ kind: ObjectTypeDescriptor<Object>, _ body: (inout ObjectTransaction) throws -> R
  ) throws -> R {
    do {
      return try body(&self)
    } catch let error as ObjectError {
      guard try kind.erase(because: error, in: &self) else { throw error }
      return try body(&self)
    }
  }
}

extension ObjectStore {
  /// Runs a read, and once more if its error erased the type.
  func erasing<Object: Storable, R>(
    _ kind: ObjectTypeDescriptor<Object>, _ read: () throws -> R
  ) throws -> R {
    do {
      return try read()
    } catch let error as ObjectError {
      guard erasesOnSchemaChange, error.code == .schemaMismatch, error.type == kind.name else {
        throw error
      }
      // A read inside of a transaction cannot write: its own error has the cause.
      guard (try? write({ try kind.eraseIfUnreadable(&$0) })) == true else { throw error }
      return try read()
    }
  }
}
