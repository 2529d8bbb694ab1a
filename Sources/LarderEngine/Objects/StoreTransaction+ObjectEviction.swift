// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// BOUNDED TYPES
//
// A type with a budget (bytes, objects or both, in its books) has one more index, kept here and known
// to nobody else: `sample`, keyed by the hash of the id, big-endian, with an entry for each object.
// Neighbours of a random hash are a random sample of the type, however large its share of the store,
// and the hash is also where the shared table says when the object was last used: so choosing who goes
// reads no object. It follows the table `ids`: what is linked there is entered here, and so records
// know nothing of it.
//
// Eviction runs once, before the transaction's books are written: whatever was saved in it, after
// the commit the budget holds, whoever wrote. Who goes is the least recently used of the sample; of
// sixteen objects or fewer it is exactly the least recent, and where the table was lost, the oldest.
// Records carry their index keys, so any process evicts with them, whatever it knows of the type.
//
// A budget that is set below what is stored comes into force in steps: each transaction of the type
// takes a thousand objects beyond what it adds itself, until it holds; from then on it always does.

extension StoreTransaction {
  private static var sampleSize: Int { 16 }
  private static var maximumVictims: Int { 16 }
  private static var step: Int { 1000 }

  // MARK: The budget

  /// Sets what there may be of a type, for everybody; zero: no limit.
  ///
  /// - Complexity: The first budget of a type walks all ids of the store.
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

  /// Lets the sample of a type that has no objects yet grow with them, so that a budget can come into
  /// force later without a walk.
  package mutating func beginObjectSample(_ type: UInt32) throws {
    if try objectBooks(type).sample == 0 { try buildSample(type) }
  }

  /// Takes the next step down to a budget that is not in force yet, before the commit.
  ///
  /// - Returns: Whether there is anything to do.
  package mutating func trimObjects(_ type: UInt32) throws -> Bool {
    guard try objectBooks(type).isOverBudget else { return false }
    try changeObjectBooks(type) { _ in }
    force()
    return true
  }

  /// Why an object can never be stored: it is larger than all of its type may be.
  mutating func requireFitting(
    _ write: ObjectWrite, _ payload: [UInt8], _ type: UInt32
  ) throws {
    let budget = try objectBooks(type).budget
    guard budget > 0 else { return }
    let size = UInt64(EntryHeader.size + write.id.count + payload.count)
    if size > budget { throw ObjectTooLarge(id: write.id, size: size, budget: budget) }
  }

  /// Brings every type that was changed into its budget.
  mutating func evictObjects() throws {
    for (type, entry) in objectBooks where entry.isChanged && entry.books.isOverBudget {
      try evictObjects(type)
    }
  }

  private mutating func evictObjects(_ type: UInt32) throws {
    let before = objectsBefore[type] ?? ObjectTypeCounters()
    let budget = try objectBooks(type)
    // Over before this transaction came: in steps.
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
      // The sample was lost, or the books are wrong: both can be made again.
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

  /// Neighbours of a random position.
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

  /// Makes the sample of a type anew, from the table `ids`.
  private mutating func buildSample(_ type: UInt32) throws {
    let old = try objectBooks(type).sample
    if old != 0 { try dropObjectNumber(old, isIndex: true) }
    let number = try newObjectNumber()
    try changeObjectBooks(type) { $0.sample = number }
    guard try objectBooks(type).count > 0 else { return }
    var next: UInt64? = 0
    while let start = next {
      // A part at a time: what is put moves the pages that a cursor stands on.
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
        while let owner: UInt32 = items.integer(at: offset),
          let sequence: UInt64 = items.integer(at: offset + 4)
        {
          if owner == type { found.append((hash, sequence)) }
          offset += ObjectFormat.idItemSize
        }
      }
      more = try cursor.moveToNext()
    }
    return (found, nil)
  }

  /// Counts a type's objects again, after its books were found to be wrong.
  private mutating func recountObjects(_ type: UInt32) throws {
    var count: UInt64 = 0
    var bytes: UInt64 = 0
    try withSnapshot { snapshot in
      var cursor = try Cursor(over: snapshot.generation.objects, in: snapshot.transaction)
      var more = try cursor.move(atLeast: ObjectFormat.objectKey(type: type, sequence: 0))
      while more {
        guard ObjectFormat.sequence(ofObjectKey: cursor.currentKey, type: type) != nil else {
          break
        }
        count += 1
        bytes += UInt64((try? EntryHeader(in: cursor.currentValue, at: 0))?.cost ?? 0)
        more = try cursor.moveToNext()
      }
    }
    try changeObjectBooks(type) {
      $0.count = count
      $0.bytes = bytes
    }
  }
}

/// An object that is larger than everything of its type together may be.
package struct ObjectTooLarge: Error, Sendable {
  package let id: [UInt8]
  package let size: UInt64
  package let budget: UInt64
}

extension ObjectFormat {
  /// The key of an object in its type's sample.
  static func sampleKey(_ hash: UInt64) -> [UInt8] {
    var key: [UInt8] = []
    key.append(littleEndian: hash.byteSwapped)
    return key
  }
}
