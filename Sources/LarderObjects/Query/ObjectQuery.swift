// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// A query for one object, in the spelling of Papyrus: `store.object(id: "S", of: Car.self)`.
public struct ObjectQuery<Object: Storable>: Sendable {
  let store: ObjectStore
  /// The id of the object.
  public let id: Object.ID

  /// Returns the object.
  ///
  /// - Returns: The object in the newest snapshot.
  /// - Throws: ``ObjectError/Code/notFound`` if the object does not exist; the errors of
  ///   ``ObjectStore/object(_:id:)``.
  /// - Complexity: O(log *n*).
  public func execute() throws -> Object {
    guard let object = try store.object(Object.self, id: id) else { throw missing }
    return object
  }

  /// Returns the object without blocking a thread of the cooperative pool.
  ///
  /// - Returns: The object in the newest snapshot.
  /// - Throws: The errors of the synchronous overload.
  public func execute() async throws -> Object {
    try await BackgroundExecutor.shared.run { try self.execute() }
  }

  /// Observes the object: its current state, then the newest state after each change by any
  /// process.
  ///
  /// An element is `nil` while the object does not exist. The sequence does not end; cancel its
  /// task, or leave the loop.
  ///
  /// - Returns: The sequence of states. It throws if the store is closed or the object cannot be
  ///   read.
  public func observe() -> ObservedValues<Object?> { store.values(of: Object.self, id: id) }

  /// The states of the object. The sequence throws ``ObjectError/Code/notFound`` while the object
  /// does not exist.
  package var present: ObservedValues<Object> {
    let missing = missing
    return observe().mapping { object in
      guard let object else { throw missing }
      return object
    }
  }

  private var missing: ObjectError {
    ObjectError(
      .notFound, type: Object.storedName, "The object does not exist. Save it first.",
      ids: [ObjectTypeDescriptor<Object>.text(of: id)])
  }
}

extension ObjectStore {
  /// Returns a query for one object, to fetch or observe it.
  ///
  /// - Parameters:
  ///   - id: The id of the object.
  ///   - type: The object type.
  /// - Returns: The query. It reads nothing until it runs.
  public func object<Object: Storable>(
    id: Object.ID, of type: Object.Type
  ) -> ObjectQuery<Object> {
    ObjectQuery(store: self, id: id)
  }
}

extension ObservedValues {
  /// Returns the transformed states. An error of `transform` ends the sequence.
  func mapping<Other: Sendable>(
    _ transform: @escaping @Sendable (Element) throws -> Other
  ) -> ObservedValues<Other> {
    let start = start
    return ObservedValues<Other>(start: {
      let step = start()
      return { try await step().map(transform) }
    })
  }

  /// Returns a stream that reads each state when it is awaited.
  func stream() -> AsyncThrowingStream<Element, any Error> {
    let steps = SharedSteps(start())
    return AsyncThrowingStream { try await steps.next() }
  }
}

/// The serialised steps of a stream's iterator.
private actor SharedSteps<Element: Sendable> {
  private let step: () async throws -> Element?

  init(_ step: sending @escaping () async throws -> Element?) { self.step = step }

  func next() async throws -> Element? { try await step() }
}
