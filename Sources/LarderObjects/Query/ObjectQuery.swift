// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The question for one object, in the form `Papyrus` has it: `store.object(id: "S", of: Car.self)`.
public struct ObjectQuery<Object: Storable>: Sendable {
  let store: ObjectStore
  /// The id asked for.
  public let id: Object.ID

  /// The object.
  ///
  /// - Throws: ``ObjectError/Code/notFound`` when there is none.
  public func execute() throws -> Object {
    guard let object = try store.object(Object.self, id: id) else { throw missing }
    return object
  }

  /// The object, read without blocking a thread of Swift's pool.
  ///
  /// - Throws: ``ObjectError/Code/notFound`` when there is none.
  public func execute() async throws -> Object {
    try await BackgroundExecutor.shared.run { try self.execute() }
  }

  /// Observes the object: its present state first, then the latest after each change by any process;
  /// `nil` while there is none. The sequence does not end; cancel its task, or leave the loop.
  ///
  /// - Returns: The states.
  public func observe() -> ObservedValues<Object?> { store.values(of: Object.self, id: id) }

  /// The object, or the error that there is none.
  package var present: ObservedValues<Object> {
    let missing = missing
    return observe().mapping { object in
      guard let object else { throw missing }
      return object
    }
  }

  private var missing: ObjectError {
    ObjectError(
      .notFound, type: Object.storedName, "There is no such object. Save it first.",
      ids: [ObjectTypeDescriptor<Object>.text(of: id)])
  }
}

extension ObjectStore {
  /// The object of an id, to be fetched or observed.
  public func object<Object: Storable>(
    id: Object.ID, of type: Object.Type
  ) -> ObjectQuery<Object> {
    ObjectQuery(store: self, id: id)
  }
}

extension ObservedValues {
  /// The states in another form; an error of `transform` ends the sequence.
  func mapping<Other: Sendable>(
    _ transform: @escaping @Sendable (Element) throws -> Other
  ) -> ObservedValues<Other> {
    let start = start
    return ObservedValues<Other>(start: {
      let step = start()
      return { try await step().map(transform) }
    })
  }

  /// The states as a stream that reads each when it is awaited.
  func stream() -> AsyncThrowingStream<Element, any Error> {
    let steps = SharedSteps(start())
    return AsyncThrowingStream { try await steps.next() }
  }
}

/// Steps that a stream takes, one after the other.
private actor SharedSteps<Element: Sendable> {
  private let step: () async throws -> Element?

  init(_ step: sending @escaping () async throws -> Element?) { self.step = step }

  func next() async throws -> Element? { try await step() }
}
