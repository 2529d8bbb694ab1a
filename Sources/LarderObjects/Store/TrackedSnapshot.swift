// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB
internal import Synchronization

// ONE SNAPSHOT FOR A WHOLE FAMILY
//
// A query that includes children, that judges or sorts by them, or whose objects cannot be without
// them, reads more than its own type. Everything it reads comes from one snapshot, and the source
// keeps book of it: of which types (so that observers and remembered results know what to wait for),
// and, object by object, in which state the children were (so that a change of a child alone is a
// change of the parent that shows it).
//
// The source lives as long as the values whose references were decoded with it. Once the query or
// the closure is over it is closed, and references load from the store like all others; so they do
// on other threads. That a reference was looked at then is remembered: such a value shows a state
// that the source has not kept book of.

/// What references load from while one snapshot is being read.
final class TrackedSnapshot: Sendable {
  private struct Reading {
    let view: SnapshotView
    var types: [String: ObjectTypeRecord?] = [:]
    /// The states of the children read since ``begin()``.
    var trail: [Int] = []
  }

  private let reading: Mutex<Reading?>
  private let lookedAt = Atomic<Bool>(false)
  let lent: ScopedSnapshot

  init(_ transaction: borrowing ReadTransaction, _ view: SnapshotView) {
    lent = ScopedSnapshot(transaction)
    reading = Mutex(Reading(view: view))
  }

  /// Ends the reading; by the thread that began it.
  func close() {
    lent.end()
    // Frees the generation: values may live for long.
    reading.withLock { $0 = nil }
  }

  /// Whether references decoded with this were followed where no book is kept.
  var wasLookedAt: Bool { lookedAt.load(ordering: .sequentiallyConsistent) }

  /// A reference is about to be followed.
  func noteLook() {
    if !lent.isHere { lookedAt.store(true, ordering: .sequentiallyConsistent) }
  }

  // MARK: Types

  /// A type as the snapshot has it.
  func record<Object: Storable>(
    of kind: ObjectTypeDescriptor<Object>, _ transaction: borrowing ReadTransaction
  ) throws -> ObjectTypeRecord? {
    guard let view = reading.withLock({ $0?.view }) else { return nil }
    if let known = reading.withLock({ $0?.types[kind.name] }) { return known }
    let record = try ObjectReading.type(named: kind.name, transaction)
    if let record {
      try kind.requireReadable(record)
      try kind.requireDecodable(record, view.generation, transaction)
      kind.buildIfNeeded(record)
    }
    reading.withLock { $0?.types[kind.name] = .some(record) }
    return record
  }

  /// A type that is being read.
  func note(_ record: ObjectTypeRecord) {
    reading.withLock { $0?.types[record.name] = .some(record) }
  }

  /// The type, if only one was read.
  var onlyRecord: ObjectTypeRecord? {
    reading.withLock { reading in
      guard let types = reading?.types, types.count == 1 else { return nil }
      return types.values.first ?? nil
    }
  }

  /// The stamp slots of everything that was read.
  var slots: [StampSlot] {
    reading.withLock { reading in
      guard let reading else { return [] }
      let generation = reading.view.generation
      return [.catalog(in: generation)]
        + reading.types.values.compactMap { record in
          record.map { .type($0.number, in: generation) }
        }
    }
  }

  // MARK: Children

  /// The objects of ids as the snapshot has them; `nil`: it cannot be read here, or not any more.
  func objects<Target: Storable>(
    _ type: Target.Type, _ ids: [String], _ store: ObjectStore
  ) throws -> [Target?]? {
    guard let view = reading.withLock({ $0?.view }) else { return nil }
    return try lent.withTransaction { transaction in
      try children(store.collection(type), ids, view.generation, transaction).map(\.object)
    }
  }

  /// A child, and what is known of its state.
  struct Child<Target: Storable> {
    let object: Target?
    let state: Int
  }

  func children<Target: Storable>(
    _ collection: ObjectCollection<Target>, _ ids: [String], _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> [Child<Target>] {
    let kind = collection.kind
    let record = try record(of: kind, transaction)
    let decoder = ReferenceDecoder(ReferenceLoader(store: collection.store, source: self))
    var children: [Child<Target>] = []
    for id in ids {
      var hasher = Hasher()
      hasher.combine(kind.name)
      hasher.combine(id)
      var object: Target?
      if let record,
        let item = try collection.stored(id, record.number, generation, transaction)
      {
        let outer = begin()
        let decoded = Result { try kind.decode(item.stored, decoder).object }
        hasher.combine(end(outer))
        hasher.combine(item.stored.bytes)
        object = try decoded.get()
      }
      let state = hasher.finalize()
      reading.withLock { $0?.trail.append(state) }
      children.append(Child(object: object, state: state))
    }
    return children
  }

  /// Begins a list of the children read from here on; what it returns goes to ``end(_:)``.
  func begin() -> [Int] {
    reading.withLock { reading in
      defer { reading?.trail = [] }
      return reading?.trail ?? []
    }
  }

  /// What tells the states of the children read since ``begin()`` from others; zero: none.
  func end(_ outer: [Int]) -> Int {
    reading.withLock { reading in
      let trail = reading?.trail ?? []
      reading?.trail = outer
      if trail.isEmpty { return 0 }
      var hasher = Hasher()
      hasher.combine(trail)
      return hasher.finalize()
    }
  }
}
