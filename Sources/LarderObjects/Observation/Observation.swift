// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

/// The states of something stored, as they become: the present one first, then the latest after
/// each change by any process. States that nobody came to see are left out, equal ones are not
/// repeated, and none is missed for good.
///
/// Two states are equal when what is stored of their objects is, whatever the type's own `==` compares;
/// and when the children they show are, those that were included, or looked at by a predicate or a
/// sort.
///
/// The sequence ends with an error when the store is closed, and quietly when its task is cancelled.
public struct ObservedValues<Element: Sendable>: AsyncSequence, Sendable {
  typealias Step = () async throws -> Element?
  let start: @Sendable () -> Step

  init(start: @escaping @Sendable () -> Step) { self.start = start }

  init<State: Sendable>(
    _ observation: Observation<State>, _ element: @escaping @Sendable (State) -> Element
  ) {
    start = {
      var steps = observation.steps
      return { try await steps.next().map(element) }
    }
  }

  /// One observer.
  public struct AsyncIterator: AsyncIteratorProtocol {
    let step: Step

    /// The next state; `nil`: the task was cancelled.
    public mutating func next() async throws -> Element? { try await step() }
  }

  /// Begins an observation of its own.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(step: start()) }
}

extension Query {
  /// Observes the result: the present one first, then the latest after each change by any process. The
  /// sequence does not end; cancel its task, or leave the loop. `fetch()` reads the result once.
  ///
  /// ```swift
  /// for try await cars in store.objects(Car.self).where(\.year >= 2020).observe() {
  ///   print(cars.count)
  /// }
  /// ```
  ///
  /// A change of a child that is included, or that the query judges or sorts by, is a change of the
  /// result.
  ///
  /// - Returns: The states of the result.
  public func observe() -> ObservedValues<[Object]> {
    ObservedValues(observation) { $0.map(\.object) }
  }

  /// Looks at the result with everything it is made of.
  var observation: Observation<[QueryExecution<Object>.Found]> {
    let query = self
    let kind = store.kind(Object.self)
    return Observation(store: store) { transaction, view, source in
      guard let record = try source.record(of: kind, transaction) else { return [] }
      let run = QueryExecution(
        kind: kind, query: query, record: record,
        ReferenceDecoder(ReferenceLoader(store: query.store, source: source)))
      return try run.foundWithChildren(view.generation, transaction)
    } isSame: { old, new in
      old.count == new.count && zip(old, new).allSatisfy(kind.isSame)
    }
  }
}

extension ObjectCollection {
  /// An object as it is and as it becomes; `nil` while there is none.
  public func values(id: Object.ID) -> ObservedValues<Object?> {
    let collection = self
    let text = ObjectTypeDescriptor<Object>.text(of: id)
    let observation = Observation(store: store) { transaction, view, source in
      let found = try collection.found(text, view.generation, transaction, source)
      return ObservedObject(found: found, id: text)
    } isSame: { old, new in
      if let old = old.found, let new = new.found { return collection.kind.isSame(old, new) }
      return old.found == nil && new.found == nil
    } narrow: { state, record, generation in
      // Children may be of any type, this one too.
      guard state.found?.related ?? 0 == 0 else { return nil }
      return .key(hash: generation.objectHash(type: record.number, id: Array(state.id.utf8)))
    }
    return ObservedValues(observation) { $0.found?.object }
  }

  /// An object in a snapshot, with the states of the children it cannot be without.
  func found(
    _ text: String, _ generation: Generation, _ transaction: borrowing ReadTransaction,
    _ source: TrackedSnapshot
  ) throws -> QueryExecution<Object>.Found? {
    guard let record = try source.record(of: kind, transaction),
      let item = try stored(text, record.number, generation, transaction)
    else { return nil }
    let outer = source.begin()
    defer { _ = source.end(outer) }
    let object = try kind.decode(
      item.stored, ReferenceDecoder(ReferenceLoader(store: store, source: source))
    ).object
    return .init(
      object: object, sequence: item.stored.sequence, label: item.stored.label,
      related: source.end([]), content: XXH64.hash(item.stored.bytes))
  }
}

/// An object that is observed, or its absence.
private struct ObservedObject<Object: Storable>: Sendable {
  let found: QueryExecution<Object>.Found?
  let id: String
}

extension ObjectStore {
  /// An object as it is and as it becomes; `nil` while there is none.
  public func values<Object: Storable>(
    of type: Object.Type = Object.self, id: Object.ID
  ) -> ObservedValues<Object?> {
    collection(type).values(id: id)
  }
}

extension ObjectTypeDescriptor {
  /// Whether two looks saw the same: the same object in the same state, showing the same children.
  func isSame(_ old: QueryExecution<Object>.Found, _ new: QueryExecution<Object>.Found) -> Bool {
    guard old.related == new.related else { return false }
    // By what is stored, never by the type's own `==`, which may compare less than that.
    if old.sequence == new.sequence, old.label == new.label { return true }
    return old.content == new.content
  }
}
