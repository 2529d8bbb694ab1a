// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine
internal import LarderLMDB
internal import Synchronization

// WHAT EVICTION DOES AND DOES NOT
//
// A type with a budget is a cache: its objects may go with any transaction that adds to it, of any
// process. With an object go its index entries and what it refers to by index; nothing else: no rule
// of a relationship is asked, nothing cascades, nothing is nullified, and `deny` guards against
// deletions by programs, not against eviction. A reference to an object that was evicted is a reference
// to one that is gone: visible as missing. Bound the children too if parents are bounded.
//
// Use is what the shared table knows of it: a save, a look-up by id or through a reference, and coming
// out of a query, each also from memory. Counting is none, nor is building an index or migrating: what
// these write anew was used when it was before. It costs at most one store to memory
// and no write to the database. Times are those of the last write to the store or of the last second,
// whichever is later; and of two keys that share one of the table's slots (65,536, or as many as the
// store's budget asks for) both were used when one was.

/// The most that is kept of a stored type: the least recently used objects go first, whoever saved
/// them.
///
/// ```swift
/// struct Thumbnail: Storable {
///   let id: String
///   var pixels: [UInt8]
///   static let budget: ObjectBudget? = ObjectBudget(bytes: .megabytes(64))
/// }
/// ```
///
/// It holds after every commit, for all processes together.
public struct ObjectBudget: Sendable, Hashable {
  /// Counted as stored: the object, its id, its index keys and a header.
  public var bytes: ByteCount?
  /// The most objects.
  public var count: Int?

  /// A budget of bytes, of objects, or of both; `nil`: no limit of that kind.
  public init(bytes: ByteCount? = nil, count: Int? = nil) {
    self.bytes = bytes
    self.count = count
  }

  /// No limit.
  public static var unlimited: ObjectBudget { ObjectBudget() }

  fileprivate var storedBytes: UInt64 { UInt64(max(bytes?.bytes ?? 0, 0)) }
  fileprivate var storedCount: UInt64 { UInt64(max(count ?? 0, 0)) }
}

/// What is stored of a type.
public struct ObjectUsage: Sendable, Hashable {
  /// How many objects there are.
  public let count: Int
  /// As a budget counts.
  public let bytes: ByteCount
  /// The budget in force.
  public let budget: ObjectBudget
}

extension ObjectTypeDescriptor {
  /// Puts the declared budget in force, once a process: the one that came last decides.
  func declareBudget(
    _ record: inout ObjectTypeRecord, _ transaction: inout StoreTransaction
  ) throws {
    guard let declared = Object.budget, !hasBudget.load(ordering: .relaxed) else { return }
    let isNew = try setBudget(declared, &record, &transaction)
    // A transaction that fails takes it back; so only what was found is remembered.
    if !isNew { hasBudget.store(true, ordering: .relaxed) }
  }

  /// - Returns: Whether it was another one.
  func setBudget(
    _ budget: ObjectBudget, _ record: inout ObjectTypeRecord,
    _ transaction: inout StoreTransaction
  ) throws -> Bool {
    if budget.bytes.map({ $0.bytes <= 0 }) ?? false || budget.count.map({ $0 <= 0 }) ?? false {
      throw ObjectError(
        .invalidSchema, type: name, "A budget is at least one. Leave it out to have none.")
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
      "\"\(id)\" has \(ByteCount(bytes: Int(error.size))), the whole budget of the type is "
        + "\(ByteCount(bytes: Int(error.budget))). Nothing was stored. Raise the budget, or split the "
        + "object.", ids: [id])
  }

  /// Tells the shared table that a query has given objects out.
  ///
  /// - Returns: Where it is noted, for when they are given out again.
  @discardableResult
  func noteUse(of objects: [Object], _ type: UInt32, _ view: SnapshotView) -> [UInt64] {
    objects.map { object in
      let hash = view.generation.objectHash(type: type, id: Self.bytes(of: object.id))
      view.generation.table.touch(hash: hash)
      return hash
    }
  }
}

extension PredicateProperty {
  /// Whether a closure says so of the value: every object is decoded.
  package func satisfies(_ holds: @escaping @Sendable (Value) -> Bool) -> Predicate<Object> {
    let path = path
    return Predicate(path.erased, "\(name) satisfies a closure", isExact: false) {
      holds(path.value(of: $0))
    }
  }
}

extension ObjectStore {
  /// Changes the budget of a type for all processes, and evicts down to it in steps of a thousand
  /// objects, so that others write on meanwhile.
  ///
  /// A type that declares a budget itself sets that again with the first save of a process.
  ///
  /// - Throws: ``ObjectError/Code/invalidSchema`` for a budget of nothing.
  /// - Complexity: The first budget of a type walks all ids of the store once.
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

  /// How much is stored of a type, and how much may be.
  ///
  /// - Complexity: O(log *n*).
  public func usage<Object: Storable>(of type: Object.Type) throws -> ObjectUsage {
    let kind = kind(type)
    return try storage.openCore("usage").withObjectSnapshot("usage") { transaction, view in
      guard let state = try kind.state(transaction, view) else {
        return ObjectUsage(count: 0, bytes: .bytes(0), budget: Object.budget ?? .unlimited)
      }
      let books = try ObjectReading.books(state.record.number, transaction)
      return ObjectUsage(
        count: Int(clamping: books.count), bytes: .bytes(Int(clamping: books.bytes)),
        budget: ObjectBudget(
          bytes: books.budget > 0 ? .bytes(Int(clamping: books.budget)) : nil,
          count: books.mostObjects > 0 ? Int(clamping: books.mostObjects) : nil))
    }
  }

  /// When an object was last used by any process, in milliseconds since 1970; `nil`: there is none.
  ///
  /// Asking is no use. The time may be up to a second too early, and later than the truth when
  /// another key shares the object's place in the shared table; after the table was lost it is the time
  /// of the last save.
  public func lastUse<Object: Storable>(
    of type: Object.Type, id: Object.ID
  ) throws -> Int64? {
    let kind = kind(type)
    let bytes = ObjectTypeDescriptor<Object>.bytes(of: id)
    do {
      return try storage.openCore("lastUse").withObjectSnapshot("lastUse") { transaction, view in
        guard let state = try kind.state(transaction, view) else { return nil }
        let number = state.record.number
        guard
          let sequence = try ObjectReading.sequence(
            type: number, id: bytes, in: view.generation, transaction),
          let stored = try ObjectReading.object(
            type: number, sequence: sequence, in: view.generation, transaction)
        else { return nil }
        return view.generation.lastUse(of: stored, type: number)
      }
    } catch let damage as DamagedObject {
      throw kind.damaged(damage)
    }
  }

  /// Deletes the objects of a type that nobody has used since a time, in transactions of a thousand.
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
        let generation = transaction.entries.generation
        var unused: [ObjectIdentity] = []
        var seen = 0
        var goesOn: UInt64?
        try transaction.entries.withReading { reading in
          try ObjectReading.scan(
            type: record.number, from: start, in: generation, reading
          ) { found in
            guard case .success(let stored) = found else { return true }
            if seen >= 10_000 || unused.count >= 1000 {
              goesOn = stored.sequence
              return false
            }
            seen += 1
            if generation.lastUse(of: stored, type: record.number) < time {
              unused.append(ObjectIdentity(type: kind.name, id: stored.id))
            }
            return true
          }
        }
        return (try transaction.remove(unused), goesOn)
      }
      deleted += step.deleted
      next = step.next
    }
    return deleted
  }
}

extension Generation {
  /// When an object was last used, in milliseconds since 1970.
  fileprivate func lastUse(of stored: StoredObject, type: UInt32) -> Int64 {
    let tick = table.lastUse(hash: objectHash(type: type, id: stored.id))
    return max(stored.created, Int64(tick >> 20))
  }
}
