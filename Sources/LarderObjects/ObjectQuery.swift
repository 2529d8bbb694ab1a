// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

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

  /// The object as it is and as it becomes; `nil` while there is none.
  public var values: StoredValues<Object?> { store.values(of: Object.self, id: id) }

  /// The object as it is and as it becomes, whoever changes it. Ends with
  /// ``ObjectError/Code/notFound`` when there is none, or none any more.
  ///
  /// Nothing is buffered: who comes late is given the newest state, once.
  public func stream() -> AsyncThrowingStream<Object, any Error> { present.stream() }

  /// The object, or the error that there is none.
  package var present: StoredValues<Object> {
    let missing = missing
    return values.mapping { object in
      guard let object else { throw missing }
      return object
    }
  }

  private var missing: ObjectError {
    ObjectError(
      .notFound, type: Object.storedName, "There is no such object. Save it first.",
      ids: [Kind<Object>.text(of: id)])
  }
}

extension ObjectStore {
  /// The object of an id, to be fetched or observed.
  public func object<Object: Storable>(
    id: Object.ID, of type: Object.Type
  ) -> ObjectQuery<Object> {
    ObjectQuery(store: self, id: id)
  }

  /// All objects of a type, to ask for some of them.
  public func objects<Object: Storable>(type: Object.Type) -> Query<Object> { objects(type) }
}

extension Query {
  /// The result as it is and as it becomes, in the form `Papyrus` has it; see ``values``.
  ///
  /// Nothing is buffered: who comes late is given the newest state, once.
  public func stream() -> AsyncThrowingStream<[Object], any Error> { values.stream() }
}

extension StoredValues {
  /// The states in another form; an error of `transform` ends the sequence.
  func mapping<Other: Sendable>(
    _ transform: @escaping @Sendable (Element) throws -> Other
  ) -> StoredValues<Other> {
    let start = start
    return StoredValues<Other>(start: {
      let step = start()
      return { try await step().map(transform) }
    })
  }

  /// The states as a stream that asks for each when somebody wants it.
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
