// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// OBJECTS THAT CANNOT BE DECODED
//
// A program may meet objects that it cannot decode: a newer one has stored a case of an enumeration that it
// does not know, or its own declaration requires a field that some objects lack. There is one rule for
// all results: such an object exists, so it counts; a result that needs it decoded is an error that names
// it. A query that asks to pass over such objects does so in all its results, its count included.
//
// The same applies to related objects that a query includes, or that its conditions and sorts follow
// references to.
//
// An object whose bytes are damaged is not an object any more: queries pass over it, and `onError` gets it.
// Only a count that reads no objects, from the counters of the type or from an index, counts it until it is
// replaced, deleted or repaired.

/// The objects of a query that could be decoded, and the errors of the others.
public struct ReadableObjects<Object: Storable>: Sendable {
  /// The objects, in the query's order.
  public let objects: [Object]
  /// One error for each object that cannot be decoded, in the order of their first saves: its
  /// ``ObjectError/ids`` begin with the id of the object. Then one for each related object that the query
  /// includes, filters by or sorts by and that cannot be decoded.
  public let unreadable: [ObjectError]
}

/// Receives the errors of objects that cannot be decoded.
final class UnreadableObjects: Sendable {
  private struct State {
    /// The errors of objects of the query's type, by sequence number.
    var objects: [UInt64: ObjectError] = [:]
    /// The errors of related objects, by type and ids.
    var related: [String: ObjectError] = [:]
  }

  private let state = Mutex(State())

  /// Adds the error of an object. An execution that is repeated adds it again.
  func add(_ error: ObjectError, _ sequence: UInt64) {
    state.withLock { $0.objects[sequence] = error }
  }

  /// Adds the error of an object of another type.
  func add(related error: ObjectError) {
    let key = error.type + "\n" + error.ids.joined(separator: "\n")
    state.withLock { $0.related[key] = error }
  }

  var all: [ObjectError] {
    state.withLock { state in
      state.objects.sorted { $0.key < $1.key }.map(\.value)
        + state.related.sorted { $0.key < $1.key }.map(\.value)
    }
  }
}

extension Query {
  /// Returns the query without the objects that this program cannot decode, in every result: `count()`
  /// decodes the objects. The store's `onError` gets the errors.
  ///
  /// A related object that cannot be decoded counts as missing: a condition about it does not hold, and an
  /// inclusion leaves it to the first access.
  ///
  /// ```swift
  /// let known = store.objects(Car.self).skippingUnreadable()
  /// print(try known.count(), try known.fetch().count)
  /// ```
  ///
  /// - Returns: The query.
  public func skippingUnreadable() -> Query { skippingUnreadable(nil) }

  /// Returns the matching objects that can be decoded, and the errors of the others.
  ///
  /// ```swift
  /// let result = try store.objects(Car.self).fetchReadable()
  /// if !result.unreadable.isEmpty { print("\(result.unreadable.count) cannot be read") }
  /// ```
  ///
  /// An object that cannot be decoded has an error also if the query would have to decode it to decide
  /// whether it matches. The errors of damaged objects are among them.
  ///
  /// - Returns: The objects and the errors, of one snapshot.
  /// - Throws: The errors of `fetch()`, without ``ObjectError/Code/unreadable``.
  public func fetchReadable() throws -> ReadableObjects<Object> {
    let receiver = UnreadableObjects()
    let objects = try skippingUnreadable(receiver).fetch()
    return ReadableObjects(objects: objects, unreadable: receiver.all)
  }

  /// Returns the matching objects that can be decoded, and the errors of the others, without blocking a
  /// thread of the cooperative pool.
  ///
  /// - Returns: The objects and the errors, of one snapshot.
  /// - Throws: The errors of the synchronous overload.
  public func fetchReadable() async throws -> ReadableObjects<Object> {
    try await BackgroundExecutor.shared.run { try self.fetchReadable() }
  }
}
