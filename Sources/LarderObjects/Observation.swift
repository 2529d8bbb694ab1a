// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB

/// The states of something stored, as they become: the present one first, then the latest after
/// each change by any process. States that nobody came to see are left out, equal ones are not
/// repeated, and none is missed for good.
///
/// The sequence ends with an error when the store is closed, and quietly when its task is cancelled.
public struct StoredValues<Element: Sendable>: AsyncSequence, Sendable {
  /// What was seen, and how to know whether it is still the same.
  struct Look: Sendable {
    let element: Element
    let fingerprint: [UInt64]
    let slots: [ObjectSlot]
    let snapshot: ObservedSnapshot
  }

  let core: @Sendable () throws -> StoreCore
  let look: @Sendable () throws -> Look

  public struct AsyncIterator: AsyncIteratorProtocol {
    let values: StoredValues
    private var last: Look?

    init(_ values: StoredValues) { self.values = values }

    public mutating func next() async throws -> Element? {
      while true {
        if Task.isCancelled { return nil }
        if let last { try await values.core().change(of: last.slots, after: last.snapshot) }
        if Task.isCancelled { return nil }
        let now = try values.look()
        let isSame = last.map { $0.fingerprint == now.fingerprint } ?? false
        last = now
        if !isSame { return now.element }
      }
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}

extension Query {
  /// The result as it is and as it becomes, whoever changes it.
  ///
  /// ```swift
  /// for try await cars in store.objects(Car.self).where(\.year >= 2020).values {
  ///   print(cars.count)
  /// }
  /// ```
  public var values: StoredValues<[Object]> {
    let query = self
    return StoredValues(core: { try query.store.storage.openCore("values") }) {
      let core = try query.store.storage.openCore("values")
      let kind = query.store.kind(Object.self)
      let mark = try core.observationMark()
      return try core.withObjects("values") { transaction, view in
        let snapshot = core.observed(view.generation, label: view.label, mark: mark)
        guard let state = try kind.state(transaction, view) else {
          return .init(
            element: [], fingerprint: [], slots: [.catalog(in: view.generation)],
            snapshot: snapshot)
        }
        let run = QueryRun(kind: kind, query: query, record: state.record)
        let found = try run.found(view.generation, transaction)
        for inclusion in query.inclusions {
          try inclusion.load(found.map(\.object), view.generation, transaction)
        }
        return .init(
          element: found.map(\.object),
          fingerprint: found.flatMap { [$0.sequence, $0.label] },
          slots: [
            .type(state.record.number, in: view.generation), .catalog(in: view.generation),
          ], snapshot: snapshot)
      }
    }
  }
}

extension ObjectCollection {
  /// An object as it is and as it becomes; `nil` while there is none.
  public func values(id: Object.ID) -> StoredValues<Object?> {
    let collection = self
    let text = "\(id)"
    return StoredValues(core: { try collection.store.storage.openCore("values") }) {
      let core = try collection.store.storage.openCore("values")
      let kind = collection.kind
      let mark = try core.observationMark()
      return try core.withObjects("values") { transaction, view in
        let snapshot = core.observed(view.generation, label: view.label, mark: mark)
        var slots: [ObjectSlot] = [.catalog(in: view.generation)]
        guard let state = try kind.state(transaction, view) else {
          return .init(element: nil, fingerprint: [], slots: slots, snapshot: snapshot)
        }
        let type = state.record.number
        let id = Array(text.utf8)
        slots.append(.key(hash: view.generation.objectHash(type: type, id: id)))
        guard
          let sequence = try ObjectReading.sequence(
            type: type, id: id, in: view.generation, transaction),
          let stored = try ObjectReading.object(
            type: type, sequence: sequence, in: view.generation, transaction)
        else { return .init(element: nil, fingerprint: [], slots: slots, snapshot: snapshot) }
        return .init(
          element: try kind.decode(stored), fingerprint: [sequence, stored.label], slots: slots,
          snapshot: snapshot)
      }
    }
  }
}

extension ObjectStore {
  /// An object as it is and as it becomes; `nil` while there is none.
  public func values<Object: Storable>(
    of type: Object.Type = Object.self, id: Object.ID
  ) -> StoredValues<Object?> {
    collection(type).values(id: id)
  }
}
