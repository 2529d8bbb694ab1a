// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// THE LIMITS OF A NAMESPACE
//
// The record of a namespace has a guaranteed minimum and a maximum in bytes, and a maximum in entries.
//
// An eviction for a write of another namespace spares an entry if its namespace would have less than
// its minimum without it. If nothing else is left to evict, only namespaces that have no more than their
// minimum are spared: so minimums keep no more than their sum.
//
// A namespace with a maximum evicts from itself. So that it finds its entries, it has an index in the
// table `members`:
//
//   namespace u32, index number u32, epoch u32, hash u64, all big-endian -> empty
//
// While the namespace has an index, there is a record for each hash under which it has entries: the
// transaction that stores or removes an entry changes both. A record without an entry, which only
// damage can leave, is removed when an eviction finds it.
//
// `setLimits` gives the namespace a new index number, from which on writes keep the index, then adds the
// entries that are there, in steps, and then stores the maximum, if the number is still the same. Records
// of other numbers have no meaning; `setLimits` removes them in steps.
//
// An eviction removes expired entries of the store first. Then it visits records of the index from a
// random position, and of them entries that no process can see are the victims before all others. Of
// eight that were not used, or of all that it visits, the least recently used are the victims; the
// uses of a visited entry decrease by one (CLOCK, from a random position).

extension StoreTransaction {
  private static var candidates: Int { 8 }
  private static var visits: Int { 64 }
  private static var maximumVictims: Int { 16 }
  private static var step: Int { 1000 }
  private static var expired: Int { 256 }
  /// The rounds without a victim after which all entries of the namespace are visited.
  private static var rounds: Int { 3 }

  /// Returns the record of a namespace in this transaction.
  mutating func namespaceRecord(_ number: UInt32) throws -> NamespaceRecord {
    try epoch(number)
    return namespaces[number]!
  }

  // MARK: The index

  /// Returns the key of a record of an index.
  package static func memberKey(
    _ number: UInt32, index: UInt32, epoch: UInt32 = 0, hash: UInt64 = 0
  ) -> [UInt8] {
    var key: [UInt8] = []
    key.reserveCapacity(20)
    key.append(littleEndian: number.byteSwapped)
    key.append(littleEndian: index.byteSwapped)
    key.append(littleEndian: epoch.byteSwapped)
    key.append(littleEndian: hash.byteSwapped)
    return key
  }

  /// Adds an entry to the index of its namespace, if it has one.
  mutating func addMember(_ header: EntryHeader, hash: UInt64) throws {
    guard let index = namespaces.read(header.namespace, { $0.index }), index != 0 else { return }
    let key = Self.memberKey(header.namespace, index: index, epoch: header.epoch, hash: hash)
    try transaction.put([], forKey: key, in: generation.members)
  }

  /// Removes an entry from the index of its namespace, unless another one of it has the hash.
  mutating func removeMember(
    _ header: EntryHeader, hash: UInt64, staying: [RecordEntry]
  ) throws {
    try epoch(header.namespace)
    guard let index = namespaces.read(header.namespace, { $0.index }), index != 0,
      !staying.contains(where: {
        $0.header.namespace == header.namespace && $0.header.epoch == header.epoch
      })
    else { return }
    let key = Self.memberKey(header.namespace, index: index, epoch: header.epoch, hash: hash)
    try transaction.remove(key: key, in: generation.members)
  }

  /// Adds the entries of a part of the store to the index of a namespace.
  ///
  /// - Returns: The hash at which to continue, or `nil` at the end.
  mutating func addMembers(
    of number: UInt32, from start: UInt64, pinned: inout StoreTotals.Sum
  ) throws -> UInt64? {
    var next: UInt64?
    var found: [(header: EntryHeader, offset: Int, hash: UInt64)] = []
    do {
      var cursor = try Cursor(over: generation.entries, in: transaction)
      var more = try cursor.move(atLeast: start)
      var count = 0
      while more {
        let hash = cursor.currentInteger
        if count >= Self.step {
          next = hash
          break
        }
        count += 1
        for item in (try? Record.items(in: cursor.currentValue)) ?? []
        where item.header.namespace == number {
          found.append((item.header, item.offset, hash))
        }
        more = try cursor.moveToNext()
      }
    }
    try epoch(number)
    if !found.isEmpty { force() }
    for item in found {
      try addMember(item.header, hash: item.hash)
      if item.header.isPinned, try isVisible(item.header, at: item.offset, hash: item.hash) {
        pinned.add(item.header)
      }
    }
    return next
  }

  /// Removes records of old indexes of a namespace.
  ///
  /// - Returns: Whether there may be more.
  mutating func removeOldMembers(of number: UInt32) throws -> Bool {
    let current = try namespaceRecord(number).index
    for _ in 0..<Self.step {
      var old: [UInt8]?
      do {
        var cursor = try Cursor(over: generation.members, in: transaction)
        if try cursor.move(atLeast: Self.memberKey(number, index: 0)),
          cursor.currentKey.integer(at: 0, as: UInt32.self)?.byteSwapped == number,
          cursor.currentKey.integer(at: 4, as: UInt32.self)?.byteSwapped != current
        {
          old = cursor.currentKey.copied()
        }
      }
      guard let old else { return false }
      force()
      try transaction.remove(key: old, in: generation.members)
    }
    return true
  }

  // MARK: Eviction

  /// Evicts entries of a namespace until another one of `cost` bytes fits into its maximum.
  ///
  /// - Parameter before: The record of the namespace before the entry of the same key was removed: a
  ///   namespace that exceeds a maximum may shrink.
  mutating func makeRoom(
    for cost: Int, inNamespace number: UInt32, replacing before: NamespaceRecord
  ) throws {
    guard namespaces.read(number, { $0.hasMaximum }) == true else { return }
    // A process that lowered the maximum was killed before the namespace fitted it.
    let wasOver = before.isOver(adding: 0, entries: 0)
    func hasGrown(_ now: NamespaceRecord) -> Bool {
      now.bytes + UInt64(cost) > before.bytes || now.entries + 1 > before.entries
    }
    if before.isOver(adding: cost, entries: 1), generation.table.earliestExpiry <= now {
      try removeExpired(limit: Self.expired)
    }
    while try namespaceRecord(number).isOver(adding: cost, entries: 1) {
      let removed = try evictMembers(of: number, adding: cost, entries: 1)
      if wasOver { trimmed += removed }
      let mayStay = try wasOver && !hasGrown(namespaceRecord(number))
      // The rest is left to later writes: a transaction has room for a limited number of pages.
      if mayStay, removed == 0 || trimmed >= Self.step { break }
      // A damaged entry was removed and the namespace counted again.
      let isOver = try namespaceRecord(number).isOver(adding: cost, entries: 1)
      if removed > 0 || !isOver { continue }
      throw StoreError(
        .valueTooLarge, during: "set", path: generation.path,
        "The entry has \(ByteCount(bytes: cost)), which does not fit into the maximum of its "
          + "namespace together with pinned entries. Raise the maximum, or remove pinned entries.")
    }
  }

  /// Evicts entries of a namespace towards a lower maximum.
  ///
  /// - Returns: Whether the namespace fits, or has only pinned entries.
  mutating func trim(namespace number: UInt32) throws -> Bool {
    var removed = 0
    while try namespaceRecord(number).isOver(adding: 0, entries: 0) {
      if removed >= Self.step { return false }
      let count = try evictMembers(of: number, adding: 0, entries: 0)
      if count == 0 { return true }
      removed += count
    }
    return true
  }

  /// Evicts a few entries of a namespace.
  ///
  /// - Returns: The number of removed entries; zero if all entries are pinned.
  private mutating func evictMembers(
    of number: UInt32, adding cost: Int, entries: UInt64
  ) throws -> Int {
    let record = try namespaceRecord(number)
    var wanted: UInt64 = 1
    if record.maximum > 0, record.bytes + UInt64(cost) > record.maximum {
      let average = max(record.bytes / max(record.entries, 1), 1)
      wanted = (record.bytes + UInt64(cost) - record.maximum) / average + 1
    }
    for round in 0..<Self.rounds {
      let isLast = round == Self.rounds - 1
      let victims = try members(
        of: record, number, visits: isLast ? .max : Self.visits << (3 * round),
        sparingOwn: sparesOwn && !isLast)
      var removed = 0
      let dead = victims.prefix(while: \.isDead)
      let share = min(Int(min(wanted, UInt64(Self.maximumVictims))), victims.count / 4 + 1)
      for victim in dead.isEmpty ? victims.prefix(share) : dead {
        removed += try evict(victim.header, at: victim.offset, hash: victim.hash)
      }
      // All entries were visited. The next insert of this transaction would search in vain again.
      if isLast { sparesOwn = false }
      if removed > 0 { return removed }
    }
    return 0
  }

  private struct Member {
    let header: EntryHeader
    let offset: Int
    let hash: UInt64
    let isDead: Bool
    let uses: UInt32
    let tick: UInt64
  }

  /// Returns entries of a namespace that may be evicted, the first victim first, each of another hash.
  private mutating func members(
    of record: NamespaceRecord, _ number: UInt32, visits: Int, sparingOwn: Bool
  ) throws -> [Member] {
    var found: [Member] = []
    var unused = 0
    for hash in try memberHashes(of: record, number, limit: visits) {
      let items = try readableItems(hash: hash).filter {
        $0.header.namespace == number && $0.header.epoch == record.epoch
      }
      if items.isEmpty {
        // Left by damage.
        let key = Self.memberKey(number, index: record.index, epoch: record.epoch, hash: hash)
        try transaction.remove(key: key, in: generation.members)
      }
      let uses = generation.table.uses.uses(hashPrefix(hash))
      for item in items {
        let isDead = try !isVisible(item.header, at: item.offset, hash: hash)
        if !isDead, item.header.isPinned { continue }
        if sparingOwn, item.header.commitVersion == commitVersion { continue }
        let created = SharedTable.tick(milliseconds: item.header.created)
        found.append(
          Member(
            header: item.header, offset: item.offset, hash: hash, isDead: isDead,
            uses: UInt32(uses), tick: max(generation.table.lastUse(hash: hash), created)))
        if uses == 0 || isDead { unused += 1 }
        break
      }
      if uses > 0 {
        generation.table.uses.setUses(hashPrefix(hash), uses - 1)
        generation.table.renewUses()
      }
      if unused >= Self.candidates { break }
    }
    func rank(_ member: Member) -> (Int, UInt32, UInt64) {
      (member.isDead ? 0 : 1, member.uses == 0 ? 0 : 1, member.tick)
    }
    return found.sorted { rank($0) < rank($1) }
  }

  /// Returns hashes of the index of a namespace, from a random position on.
  private mutating func memberHashes(
    of record: NamespaceRecord, _ number: UInt32, limit: Int
  ) throws -> [UInt64] {
    let start: UInt64 =
      generation.meta.hashBits == 64
      ? random.next() : random.next() & (1 << UInt64(generation.meta.hashBits) - 1)
    let first = Self.memberKey(number, index: record.index, epoch: record.epoch)
    let prefix = Array(first[..<12])
    var hashes: [UInt64] = []
    var cursor = try Cursor(over: generation.members, in: transaction)
    for isSecondPass in [false, true] {
      var more = try cursor.move(
        atLeast: isSecondPass
          ? first
          : Self.memberKey(number, index: record.index, epoch: record.epoch, hash: start))
      while more, hashes.count < limit, cursor.currentKey.byteCount == 20,
        cursor.currentKey.slice(0..<12)!.equals(prefix),
        let swapped: UInt64 = cursor.currentKey.integer(at: 12)
      {
        let hash = swapped.byteSwapped
        if isSecondPass, hash >= start { break }
        hashes.append(hash)
        more = try cursor.moveToNext()
      }
    }
    return hashes
  }

  // MARK: Minimums

  /// Returns whether an eviction for the budget of the store spares an entry: its namespace would have
  /// less than its guaranteed minimum without it. The namespace that is written to may replace its own
  /// entries, and entries that no process can see are not spared. As a last resort, a minimum of bytes
  /// does not keep a store above its entry budget.
  mutating func isGuaranteed(_ header: EntryHeader, at offset: Int, hash: UInt64) throws -> Bool {
    try epoch(header.namespace)
    return try mayBeGuaranteed(header) && isVisible(header, at: offset, hash: hash)
  }

  /// Returns whether an entry is guaranteed if it is visible. The record of its namespace is cached.
  func mayBeGuaranteed(_ header: EntryHeader) -> Bool {
    guard header.namespace != writing, !(takesFromMinimums && isOverEntries(adding: 1)) else {
      return false
    }
    return namespaces.read(header.namespace) {
      $0.isGuaranteed(header, isLastResort: takesFromMinimums)
    } ?? false
  }
}
