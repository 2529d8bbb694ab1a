// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// BOUNDED TYPES
//
// A type with a budget (bytes, objects or both, in its counters) has one more index, which only
// this file uses: `sample`. Its keys are the hashes of the ids, big-endian, with an entry for each
// object. Neighbours of a random hash are a random sample of the type, however large its share of
// the store. The use table knows objects by the same hash, so eviction chooses objects without reading
// them. The index follows the table `ids`: every change there changes the sample, and records do
// not contain its keys.
//
// Eviction runs once, before the transaction's counters are written. So after the commit the budget
// holds, whatever the transaction saved, in every process. Eviction removes the least recently used
// object of the sample. Of sixteen objects or fewer, that is exactly the least recently used one;
// if the table was lost, it is the oldest. Records contain their index keys, so any process can
// evict them without the Swift type.
//
// A budget below the stored size is enforced in steps: each transaction of the type removes a
// thousand objects more than it adds, until the budget holds. From then on it always holds.

extension StoreTransaction {
  private static var sampleSize: Int { 16 }
  private static var maximumVictims: Int { 16 }
  private static var step: Int { 1000 }

  // MARK: The budget

  /// Sets the budget of a type for every process. Zero means no limit.
  ///
  /// - Complexity: O(*n*) in the ids of the store for the first budget of a type.
  package mutating func setObjectBudget(
    _ type: UInt32, bytes: UInt64, objects: UInt64
  ) throws {
    try changeObjectBooks(type) {
      $0.budget = bytes
      $0.mostObjects = objects
    }
    if bytes > 0 || objects > 0, try objectBooks(type).sample == 0 { try buildSample(type) }
    force()
  }

  /// Creates the sample of a type without objects, so that a later budget needs no scan.
  package mutating func beginObjectSample(_ type: UInt32) throws {
    if try objectBooks(type).sample == 0 { try buildSample(type) }
  }

  /// Removes the objects of the next step toward a budget that does not hold yet, before the
  /// commit.
  ///
  /// - Returns: Whether the budget did not hold.
  package mutating func trimObjects(_ type: UInt32) throws -> Bool {
    guard try objectBooks(type).isOverBudget else { return false }
    try changeObjectBooks(type) { _ in }
    force()
    return true
  }

  /// Throws ``ObjectTooLarge`` for an object that is larger than the budget of its type.
  mutating func requireFitting(
    _ write: ObjectWrite, _ payload: [UInt8], _ type: UInt32
  ) throws {
    let budget = try objectBooks(type).budget
    guard budget > 0 else { return }
    let size = UInt64(ObjectHeader.overhead + write.id.count + payload.count)
    if size > budget { throw ObjectTooLarge(id: write.id, size: size, budget: budget) }
  }

  /// Evicts objects of every changed type that exceeds its budget.
  mutating func evictObjects() throws {
    for state in objects.numbers where state.isChanged && state.books?.books.isOverBudget ?? false {
      try evictObjects(state.number)
    }
  }

  private mutating func evictObjects(_ type: UInt32) throws {
    let before = objects[type].booksBefore ?? ObjectTypeCounters()
    let budget = try objectBooks(type)
    // If the type exceeded its budget before this transaction, it is reduced in steps.
    let wasOver =
      (budget.budget > 0 && before.bytes > budget.budget)
      || (budget.mostObjects > 0 && before.count > budget.mostObjects)
    var removed = 0
    var fruitless = 0
    while true {
      let books = try objectBooks(type)
      guard books.isOverBudget, books.count > 0 else { return }
      if wasOver, removed >= Self.step, books.bytes <= before.bytes, books.count <= before.count {
        return
      }
      let count = books.sample == 0 ? 0 : try evictSome(type, books)
      removed += count
      fruitless = count == 0 ? fruitless + 1 : 0
      // The sample was lost, or the counters are wrong: both can be rebuilt.
      if fruitless == 8 { try recountObjects(type) }
      if fruitless == 1 || fruitless == 8 { try buildSample(type) }
      if fruitless > 16 { return }
    }
  }

  private struct Candidate {
    let hash: UInt64
    let sequence: UInt64
    let tick: UInt64
  }

  private mutating func evictSome(_ type: UInt32, _ books: ObjectTypeCounters) throws -> Int {
    var wanted: UInt64 = 1
    if books.budget > 0, books.bytes > books.budget {
      let average = max(books.bytes / max(books.count, 1), 1)
      wanted = (books.bytes - books.budget) / average
    }
    if books.mostObjects > 0, books.count > books.mostObjects {
      wanted = max(wanted, books.count - books.mostObjects)
    }
    let share = Int(min(max(wanted, 1), UInt64(Self.maximumVictims)))
    let found = try sample(books.sample, count: Self.sampleSize * share)
    let victims = found.sorted { ($0.tick, $0.sequence) < ($1.tick, $1.sequence) }.prefix(share)
    var removed = 0
    for victim in victims {
      guard try objectBooks(type).isOverBudget else { break }
      try removeObject(type: type, sequence: victim.sequence)
      try unlink(victim.hash, type, victim.sequence)
      try logObjectChange(type, victim.sequence)
      touch(hash: victim.hash)
      removed += 1
    }
    touchObjectType(type)
    evicted += UInt64(removed)
    return removed
  }

  /// Returns the neighbours of a random hash.
  private mutating func sample(_ index: UInt32, count: Int) throws -> [Candidate] {
    let bits = generation.meta.hashBits
    let start = bits == 64 ? random.next() : random.next() & (1 << UInt64(bits) - 1)
    var result: [Candidate] = []
    result.reserveCapacity(count)
    let table = generation.table
    try withSnapshot { snapshot in
      let key = ObjectFormat.sampleKey(start)
      for (lower, upper) in [(key, nil), ([], key)] where result.count < count {
        try ObjectReading.scanIndex(index, from: lower, below: upper, in: snapshot) {
          key, sequence in
          let hash = (key.integer(at: 0, as: UInt64.self) ?? 0).byteSwapped
          let tick = Mutant.evictionIgnoresUse.isActive ? 0 : table.lastUse(hash: hash)
          result.append(Candidate(hash: hash, sequence: sequence, tick: tick))
          return result.count < count
        }
      }
    }
    return result
  }

  // MARK: The sample

  mutating func linkSample(_ hash: UInt64, _ type: UInt32, _ sequence: UInt64) throws {
    let sample = try objectBooks(type).sample
    guard sample != 0 else { return }
    try transaction.put([], forKey: Self.entry(sample, hash, sequence), in: generation.indexes)
  }

  mutating func unlinkSample(_ hash: UInt64, _ type: UInt32, _ sequence: UInt64) throws {
    let sample = try objectBooks(type).sample
    guard sample != 0 else { return }
    try transaction.remove(key: Self.entry(sample, hash, sequence), in: generation.indexes)
  }

  private static func entry(_ sample: UInt32, _ hash: UInt64, _ sequence: UInt64) -> [UInt8] {
    ObjectFormat.indexEntry(
      ObjectIndexKey(index: sample, bytes: ObjectFormat.sampleKey(hash)), sequence: sequence)
  }

  /// Rebuilds the sample of a type from the table `ids`.
  private mutating func buildSample(_ type: UInt32) throws {
    let old = try objectBooks(type).sample
    if old != 0 { try dropObjectNumber(old, isIndex: true) }
    let number = try newObjectNumber()
    try changeObjectBooks(type) { $0.sample = number }
    guard try objectBooks(type).count > 0 else { return }
    var next: UInt64? = 0
    while let start = next {
      // In parts, because a write moves the pages that a cursor refers to.
      let (part, goesOn) = try withSnapshot { snapshot in
        try Self.ids(of: type, from: start, limit: 4096, snapshot)
      }
      for (hash, sequence) in part {
        try transaction.put([], forKey: Self.entry(number, hash, sequence), in: generation.indexes)
      }
      next = goesOn
    }
  }

  private static func ids(
    of type: UInt32, from start: UInt64, limit: Int, _ snapshot: borrowing Snapshot
  ) throws -> (found: [(UInt64, UInt64)], next: UInt64?) {
    var found: [(UInt64, UInt64)] = []
    var cursor = try Cursor(over: snapshot.generation.ids, in: snapshot.transaction)
    var more = try cursor.move(atLeast: start)
    while more {
      let place = cursor.currentInteger
      if found.count >= limit { return (found, place) }
      let hash = ObjectFormat.hash(ofIDKey: place, snapshot.generation.meta)
      do {
        let items = cursor.currentValue
        var offset = 0
        while let (owner, sequence) = ObjectFormat.idItem(items, at: &offset) {
          if owner == type { found.append((hash, sequence)) }
        }
      }
      more = try cursor.moveToNext()
    }
    return (found, nil)
  }

  /// Counts a type's objects again, after its counters were found to be wrong.
  private mutating func recountObjects(_ type: UInt32) throws {
    var count: UInt64 = 0
    var bytes: UInt64 = 0
    try withSnapshot { snapshot in
      var cursor = try Cursor(over: snapshot.generation.objects, in: snapshot.transaction)
      var more = try cursor.move(atLeast: ObjectFormat.objectKey(type: type, sequence: 1))
      while more {
        guard ObjectFormat.sequence(ofObjectKey: cursor.currentKey, type: type) != nil else {
          break
        }
        count += 1
        bytes += UInt64(ObjectHeader(in: cursor.currentValue)?.cost ?? 0)
        more = try cursor.moveToNext()
      }
    }
    try changeObjectBooks(type) {
      $0.count = count
      $0.bytes = bytes
    }
  }
}

/// The error for an object that is larger than the budget of its type.
package struct ObjectTooLarge: Error, Sendable {
  package let id: [UInt8]
  package let size: UInt64
  package let budget: UInt64
}

extension ObjectFormat {
  /// Returns the key of an object in its type's sample.
  static func sampleKey(_ hash: UInt64) -> [UInt8] {
    var key: [UInt8] = []
    key.append(littleEndian: hash.byteSwapped)
    return key
  }
}
