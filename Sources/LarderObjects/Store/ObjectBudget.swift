// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

// EVICTION
//
// A type with a budget is a cache: any transaction of any process that adds to the type may evict
// its objects. Eviction deletes the object, its index entries and its entries in the reference
// index, and nothing else: it does not apply delete rules, does not cascade and does not nullify,
// and `deny` guards against deletions by programs, not against eviction. A reference to an evicted
// object is a reference to a missing object. If parents have a budget, give the children one too.
//
// The use table in the shared-memory table records uses: a save, a look-up by id or through a
// reference, and a query result that contains the object, each also when memory answers it. A
// count, an index build and a migration are not uses: an object that these rewrite keeps its time
// of last use. Recording a use costs at most one store to memory and no write to the database. The
// recorded time is that of the last write to the store or of the last second: the later one.
// Keys that share a slot of the table (65,536 slots, or as many as the store's budget requires)
// share their time of last use.

/// The maximum number of bytes or objects of a stored type.
///
/// ```swift
/// struct Thumbnail: Storable {
///   let id: String
///   var pixels: [UInt8]
///   static let budget: ObjectBudget? = ObjectBudget(bytes: .megabytes(64))
/// }
/// ```
///
/// A commit that exceeds the budget evicts the least recently used objects, independent of the
/// process that saved them. The budget holds after every commit, for all processes together.
public struct ObjectBudget: Sendable, Hashable {
  /// The maximum stored size: each object with its id, its index keys and a header; `nil` if
  /// unlimited.
  public var bytes: ByteCount?
  /// The maximum number of objects; `nil` if unlimited.
  public var count: Int?

  /// Creates a budget of bytes, of objects, or of both.
  ///
  /// - Parameters:
  ///   - bytes: The maximum stored size, or `nil` for no limit.
  ///   - count: The maximum number of objects, or `nil` for no limit.
  public init(bytes: ByteCount? = nil, count: Int? = nil) {
    self.bytes = bytes
    self.count = count
  }

  /// A budget without limits.
  public static var unlimited: ObjectBudget { ObjectBudget() }

  fileprivate var storedBytes: UInt64 { UInt64(max(bytes?.bytes ?? 0, 0)) }
  fileprivate var storedCount: UInt64 { UInt64(max(count ?? 0, 0)) }
}

/// The number and size of a type's stored objects, and the type's budget.
public struct ObjectUsage: Sendable, Hashable {
  /// The number of stored objects.
  public let count: Int
  /// The stored size, measured as a budget measures it.
  public let bytes: ByteCount
  /// The current budget, shared by all processes.
  public let budget: ObjectBudget
}

extension ObjectTypeDescriptor {
  /// Stores the declared budget, once per process. The process that declares last overrides the
  /// others.
  func declareBudget(
    _ record: inout ObjectTypeRecord, _ transaction: inout StoreTransaction
  ) throws {
    guard let declared = Object.budget, !hasBudget.load(ordering: .relaxed) else { return }
    let isNew = try setBudget(declared, &record, &transaction)
    // A failing transaction reverts the record, so the flag is set only if the budget was already
    // stored.
    if !isNew { hasBudget.store(true, ordering: .relaxed) }
  }

  /// Stores a budget in the counters and the record of the type.
  ///
  /// - Returns: Whether the stored budget was different.
  /// - Throws: ``ObjectError/Code/invalidSchema`` if a limit is not positive.
  func setBudget(
    _ budget: ObjectBudget, _ record: inout ObjectTypeRecord,
    _ transaction: inout StoreTransaction
  ) throws -> Bool {
    if budget.bytes.map({ $0.bytes <= 0 }) ?? false || budget.count.map({ $0 <= 0 }) ?? false {
      throw ObjectError(
        .invalidSchema, type: name,
        "The limits of a budget must be positive. Pass nil for no limit.")
    }
    let books = try transaction.objectBooks(record.number)
    let (bytes, count) = (budget.storedBytes, budget.storedCount)
    if books.budget == bytes, books.mostObjects == count { return false }
    try transaction.setObjectBudget(record.number, bytes: bytes, objects: count)
    let isBounded = bytes > 0 || count > 0
    if (record.isBounded ?? false) != isBounded {
      record.isBounded = isBounded
      try transaction.putObjectType(record)
    }
    return true
  }

  func tooLarge(_ error: ObjectTooLarge) -> ObjectError {
    let id = String(decoding: error.id, as: UTF8.self)
    return ObjectError(
      .tooLarge, type: name,
      "\"\(id)\" needs \(ByteCount(bytes: Int(error.size))), but the budget of the type is "
        + "\(ByteCount(bytes: Int(error.budget))). Nothing was stored. Raise the budget, or split "
        + "the object.", ids: [id])
  }

  /// Records in the use table that a query returned objects.
  ///
  /// - Returns: The hashes of the objects, so that a cached result can record the same uses.
  @discardableResult
  func noteUse(of objects: [Object], _ type: UInt32, _ view: SnapshotView) -> [UInt64] {
    objects.map { object in
      let hash = view.generation.objectHash(type: type, id: Self.bytes(of: object.id))
      view.generation.table.touchExactly(hash: hash)
      return hash
    }
  }
}

extension PredicateProperty {
  /// Returns a predicate that evaluates a closure on the value. No index serves it: the query
  /// decodes every object.
  ///
  /// - Parameter holds: A closure that returns whether a value matches.
  /// - Returns: The predicate.
  package func satisfies(_ holds: @escaping @Sendable (Value) -> Bool) -> ObjectPredicate<Object> {
    let path = path
    return ObjectPredicate(path.erased, "\(name) satisfies a closure", isExact: false) {
      holds(path.value(of: $0))
    }
  }
}

extension ObjectStore {
  /// Changes the budget of a type for all processes and evicts objects until the type fits.
  ///
  /// Evicts in transactions of at most a thousand objects, so that other processes can write
  /// between them. If a type declares ``Storable/budget``, the first save of each process stores
  /// the declared budget again.
  ///
  /// - Parameters:
  ///   - budget: The new budget. ``ObjectBudget/unlimited`` removes the limits.
  ///   - type: The object type.
  /// - Throws: ``ObjectError/Code/invalidSchema`` if a limit is not positive; the errors of
  ///   `save(_:children:)` if the schema does not match; `StoreError` if a write fails.
  /// - Complexity: O(*n*) in all ids of the store for the first budget of a type, then O(*k* log
  ///   *n*) for *k* evicted objects.
  public func setBudget<Object: Storable>(
    _ budget: ObjectBudget, for type: Object.Type
  ) throws {
    let kind = kind(type)
    var isDone = false
    var isFirst = true
    while !isDone {
      let sets = isFirst
      isDone = try write { transaction in
        var record = try kind.prepare(&transaction.entries)
        if sets { _ = try kind.setBudget(budget, &record, &transaction.entries) }
        return try !transaction.entries.trimObjects(record.number)
      }
      isFirst = false
    }
  }

  /// Returns the number and size of a type's stored objects, and its budget.
  ///
  /// - Parameter type: The object type.
  /// - Returns: The usage in the newest snapshot. If nothing of the type is stored, the declared
  ///   budget with a count of 0.
  /// - Throws: ``ObjectError/Code/newerSchema``, ``ObjectError/Code/schemaMismatch`` or
  ///   ``ObjectError/Code/migrationInProgress`` if this process cannot read the type; `StoreError`
  ///   if the store cannot be read.
  /// - Complexity: O(log *n*).
  public func usage<Object: Storable>(of type: Object.Type) throws -> ObjectUsage {
    let kind = kind(type)
    return try storage.openCore("usage").withSnapshot("usage") { snapshot in
      guard let state = try kind.state(snapshot) else {
        return ObjectUsage(count: 0, bytes: .bytes(0), budget: Object.budget ?? .unlimited)
      }
      let books = try ObjectReading.books(state.record.number, snapshot)
      return ObjectUsage(
        count: Int(clamping: books.count), bytes: .bytes(Int(clamping: books.bytes)),
        budget: ObjectBudget(
          bytes: books.budget > 0 ? .bytes(Int(clamping: books.budget)) : nil,
          count: books.mostObjects > 0 ? Int(clamping: books.mostObjects) : nil))
    }
  }

  /// Returns the time when any process last used an object. This call is not a use.
  ///
  /// The time can be up to a second too early. It is too late if another key shares the object's
  /// slot of the shared-memory table and was used later. If the table was lost, it is the time of
  /// the last save.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - id: The id of the object.
  /// - Returns: The time in milliseconds since 1970, or `nil` if the object does not exist.
  /// - Throws: ``ObjectError/Code/unreadable`` if the stored object is damaged; `StoreError` if the
  ///   store cannot be read.
  /// - Complexity: O(log *n*).
  public func lastUse<Object: Storable>(
    of type: Object.Type, id: Object.ID
  ) throws -> Int64? {
    let kind = kind(type)
    let bytes = ObjectTypeDescriptor<Object>.bytes(of: id)
    do {
      return try storage.openCore("lastUse").withSnapshot("lastUse") { snapshot in
        guard let state = try kind.state(snapshot) else { return nil }
        let number = state.record.number
        guard
          let sequence = try ObjectReading.sequence(
            type: number, id: bytes, in: snapshot),
          let stored = try ObjectReading.object(
            type: number, sequence: sequence, in: snapshot)
        else { return nil }
        return snapshot.generation.lastUse(of: stored, type: number)
      }
    } catch let damage as DamagedObject {
      throw kind.damaged(damage)
    }
  }

  /// Deletes the objects of a type that no process has used since a time, in several transactions.
  ///
  /// - Parameters:
  ///   - type: The type of the objects.
  ///   - time: In milliseconds since 1970.
  /// - Returns: How many there were.
  /// - Throws: ``ObjectError/Code/deletionDenied`` when others refer to one and forbid its deletion.
  @discardableResult
  public func deleteUnused<Object: Storable>(
    _ type: Object.Type, since time: Int64
  ) throws -> Int {
    let kind = kind(type)
    var next: UInt64? = 0
    var deleted = 0
    while let start = next {
      let step: (deleted: Int, next: UInt64?) = try write { transaction in
        let record = try kind.prepare(&transaction.entries)
        var unused: [ObjectIdentity] = []
        var scanned = 0
        var nextSequence: UInt64?
        try transaction.entries.withSnapshot { snapshot in
          try ObjectReading.scan(
            type: record.number, from: start, in: snapshot
          ) { found in
            guard case .success(let stored) = found else { return true }
            if scanned >= 10_000 || unused.count >= 1000 {
              nextSequence = stored.sequence
              return false
            }
            scanned += 1
            if snapshot.generation.lastUse(of: stored, type: record.number) < time {
              unused.append(ObjectIdentity(type: kind.name, id: stored.id))
            }
            return true
          }
        }
        return (try transaction.remove(unused), nextSequence)
      }
      deleted += step.deleted
      next = step.next
    }
    return deleted
  }
}

extension Generation {
  /// Returns the time of the last use of an object, in milliseconds since 1970.
  fileprivate func lastUse(of stored: StoredObject, type: UInt32) -> Int64 {
    let tick = table.lastUse(hash: objectHash(type: type, id: stored.id))
    return max(stored.created, SharedTable.milliseconds(ofTick: tick))
  }
}
