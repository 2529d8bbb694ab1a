// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

// ONE SNAPSHOT FOR AN OBJECT AND ITS CHILDREN
//
// A query that includes children, that filters or sorts by them, or whose objects require them,
// reads more than its own type. All of it comes from one snapshot, and this source records what was
// read: which types (so that observers and the query result cache wait for the right stamps), and,
// per object, the state of its children (so that a change of a child alone is a change of the
// parent that shows it).
//
// The source lives as long as the values whose references were decoded with it. It is closed when
// the query or the closure ends; references then load from the store like all others, as they
// always do on other threads. The source records that such a reference was followed: that value
// shows a state that the source has not recorded.

/// The source of references during the read of one snapshot.
final class TrackedSnapshot: Sendable {
  private struct Reading {
    var types: [String: ObjectTypeRecord?] = [:]
    /// The states of the children read since ``begin()``.
    var trail: [Int] = []
  }

  private let reading: Mutex<Reading?>
  private let followed = Atomic<Bool>(false)
  private let snapshot: StorableSnapshot

  init(_ snapshot: borrowing Snapshot) {
    self.snapshot = StorableSnapshot(snapshot)
    reading = Mutex(Reading())
  }

  /// Ends the read. Call it on the thread that created the source.
  func close() {
    snapshot.end()
    reading.withLock { $0 = nil }
  }

  /// Runs `body` in the snapshot.
  ///
  /// - Returns: The result of `body`, or `nil` if the snapshot has ended or belongs to another
  ///   thread.
  func withSnapshot<R>(_ body: (borrowing Snapshot) throws -> R) rethrows -> R? {
    try snapshot.withSnapshot(body)
  }

  /// Whether a reference that was decoded with this source was followed without being recorded.
  var wasFollowed: Bool { followed.load(ordering: .sequentiallyConsistent) }

  /// Records that a reference is about to be followed.
  func noteFollow() {
    if !snapshot.isHere { followed.store(true, ordering: .sequentiallyConsistent) }
  }

  // MARK: Types

  /// Returns the record of a type in the snapshot, or `nil` if the type is not stored.
  func record<Object: Storable>(
    of kind: ObjectTypeDescriptor<Object>, _ snapshot: borrowing Snapshot
  ) throws -> ObjectTypeRecord? {
    guard reading.withLock({ $0 != nil }) else { return nil }
    if let known = reading.withLock({ $0?.types[kind.name] }) { return known }
    let record = try kind.readable(ObjectReading.type(named: kind.name, snapshot))
    if let record {
      try kind.requireDecodable(record, snapshot)
      kind.buildIfNeeded(record)
    }
    reading.withLock { $0?.types[kind.name] = .some(record) }
    return record
  }

  /// Records a type that is being read.
  func note(_ record: ObjectTypeRecord) {
    reading.withLock { $0?.types[record.name] = .some(record) }
  }

  /// The record of the type, if exactly one type was read.
  var onlyRecord: ObjectTypeRecord? {
    reading.withLock { reading in
      guard let types = reading?.types, types.count == 1 else { return nil }
      return types.values.first ?? nil
    }
  }

  /// The stamp slots of everything that was read.
  var slots: [StampSlot] {
    reading.withLock { reading in
      guard let reading, let generation = snapshot.view?.generation else { return [] }
      return [.catalog(in: generation)]
        + reading.types.values.compactMap { record in
          record.map { .type($0.number, in: generation) }
        }
    }
  }

  // MARK: Children

  /// Returns the objects of ids in the snapshot, or `nil` if the snapshot has ended or belongs to
  /// another thread.
  func objects<Target: Storable>(
    _ type: Target.Type, _ ids: [String], _ store: ObjectStore
  ) throws -> [Target?]? {
    try withSnapshot { snapshot in
      try children(store.collection(type), ids, snapshot).map(\.object)
    }
  }

  /// A child and the hash of its state.
  struct Child<Target: Storable> {
    let object: Target?
    let state: Int
  }

  func children<Target: Storable>(
    _ collection: ObjectCollection<Target>, _ ids: [String], _ snapshot: borrowing Snapshot
  ) throws -> [Child<Target>] {
    let kind = collection.kind
    let record = try record(of: kind, snapshot)
    let decoder = ReferenceDecoder(ReferenceLoader(store: collection.store, source: self))
    var children: [Child<Target>] = []
    for id in ids {
      var hasher = Hasher()
      hasher.combine(kind.name)
      hasher.combine(id)
      var object: Target?
      if let record,
        let item = try collection.stored(id, record.number, snapshot)
      {
        let outer = begin()
        let decoded = Result { try kind.decode(item.stored, decoder).object }
        hasher.combine(end(outer))
        hasher.combine(item.stored.bytes)
        object = try decoded.get()
        if let object { kind.noteRead(object, item.stored) }
      }
      let state = hasher.finalize()
      reading.withLock { $0?.trail.append(state) }
      children.append(Child(object: object, state: state))
    }
    return children
  }

  /// Begins a new list of children.
  ///
  /// - Returns: The enclosing list; pass it to ``end(_:)``.
  func begin() -> [Int] {
    reading.withLock { reading in
      defer { reading?.trail = [] }
      return reading?.trail ?? []
    }
  }

  /// Returns a hash of the states of the children read since ``begin()``, or zero if there are
  /// none.
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
