// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

/// The states of stored data: the current one first, then the newest after each change by any
/// process.
///
/// The sequence coalesces: a slow observer skips intermediate states. It does not repeat equal
/// states, and it always delivers the final state.
///
/// Two states are equal if the stored bytes of their objects are equal, whatever the type's own
/// `==` compares, and if the children they show are equal: those that were included, or followed by
/// a predicate or a sort.
///
/// The sequence throws if the store is closed, and ends if its task is cancelled.
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

  /// The iterator of one observer.
  public struct AsyncIterator: AsyncIteratorProtocol {
    let step: Step

    /// Waits for the next state.
    ///
    /// - Returns: The state, or `nil` if the task was cancelled.
    /// - Throws: `StoreError` if the store is closed; the errors of the observed read.
    public mutating func next() async throws -> Element? { try await step() }
  }

  /// Creates an independent observer.
  ///
  /// - Returns: The iterator.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(step: start()) }
}

extension Query {
  /// Observes the result: the current one first, then the newest after each change by any process.
  /// The sequence does not end; cancel its task, or leave the loop. `fetch()` reads the result
  /// once.
  ///
  /// ```swift
  /// for try await cars in store.objects(Car.self).where(\.year >= 2020).observe() {
  ///   print(cars.count)
  /// }
  /// ```
  ///
  /// A change of a child that the query includes, filters by or sorts by is a change of the result.
  ///
  /// - Returns: The sequence of results.
  public func observe() -> ObservedValues<[Object]> {
    ObservedValues(observation) { $0.map { $0.object() } }
  }

  /// The observation of the result and of everything it depends on.
  var observation: Observation<[FoundObject]> {
    let query = self
    let kind = store.kind(Object.self)
    return Observation(store: store) { snapshot, source in
      guard let record = try source.record(of: kind, snapshot) else { return [] }
      let run = try QueryExecution(
        kind: kind, query: query, record: record,
        ReferenceDecoder(ReferenceLoader(store: query.store, source: source)), in: snapshot)
      return try run.foundWithChildren(snapshot)
    } isSame: { old, new in
      old.count == new.count && zip(old, new).allSatisfy(kind.isSame)
    }
  }
}

extension ObjectCollection {
  /// Observes an object: its current state, then the newest state after each change by any process.
  ///
  /// - Parameter id: The id of the object.
  /// - Returns: The sequence of states; an element is `nil` while the object does not exist.
  public func values(id: Object.ID) -> ObservedValues<Object?> {
    let collection = self
    let text = ObjectTypeDescriptor<Object>.text(of: id)
    let observation = Observation(store: store) { snapshot, source in
      let found = try collection.found(text, snapshot, source)
      return ObservedObject(found: found, id: text)
    } isSame: { old, new in
      if let old = old.found, let new = new.found { return collection.kind.isSame(old, new) }
      return old.found == nil && new.found == nil
    } narrow: { state, record, generation in
      // Children can be of any type, including this one.
      guard state.found?.related ?? 0 == 0 else { return nil }
      return StampSlot(hash: generation.objectHash(type: record.number, id: Array(state.id.utf8)))
    }
    return ObservedValues(observation) { $0.found?.object() }
  }

  /// Returns an object in a snapshot with the states of its required children.
  func found(
    _ text: String, _ snapshot: borrowing Snapshot,
    _ source: TrackedSnapshot
  ) throws -> FoundObject? {
    guard let record = try source.record(of: kind, snapshot),
      let item = try stored(text, record.number, snapshot)
    else { return nil }
    let outer = source.begin()
    defer { _ = source.end(outer) }
    let decoded = try kind.decode(
      item.stored, ReferenceDecoder(ReferenceLoader(store: store, source: source)))
    kind.noteRead(decoded.object, item.stored)
    return .init(
      decoded: decoded, sequence: item.stored.sequence, commitVersion: item.stored.commitVersion,
      related: source.end([]), content: XXH64.hash(item.stored.bytes))
  }
}

/// An observed object, or its absence.
private struct ObservedObject: Sendable {
  let found: FoundObject?
  let id: String
}

extension ObjectStore {
  /// Observes an object: its current state, then the newest state after each change by any process.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - id: The id of the object.
  /// - Returns: The sequence of states; an element is `nil` while the object does not exist.
  public func values<Object: Storable>(
    of type: Object.Type = Object.self, id: Object.ID
  ) -> ObservedValues<Object?> {
    collection(type).values(id: id)
  }
}

extension ObjectTypeDescriptor {
  /// Returns whether two reads found the same object in the same state with the same children.
  func isSame(_ old: FoundObject, _ new: FoundObject) -> Bool {
    guard old.related == new.related else { return false }
    // Compares the stored bytes, because the type's own `==` may compare less.
    if old.sequence == new.sequence, old.commitVersion == new.commitVersion { return true }
    return old.content == new.content
  }
}
