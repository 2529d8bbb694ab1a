// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// EVICTION
//
// It runs inside the writing transaction, before the insert, so the budget is never exceeded after
// a commit, whoever writes. What has expired goes first, found by the table `expiries`. Then the
// least recently used of a random sample: entries stand in the order of a keyed hash, so neighbours
// of a random position are a random sample, and one cursor walk reads it. No list, no heap, nothing
// to repair after a crash. The more has to go, the larger the window and the share taken from it.

extension StoreTransaction {
  private static var sampleSize: Int { 16 }
  private static var maximumVictims: Int { 16 }

  /// Evicts until an entry of `cost` fits into the budget.
  mutating func makeRoom(for cost: Int) throws {
    let limit = budget + (Mutant.budgetOffByOne.isActive ? 1 : 0)
    guard budget > 0, totals.bytes + UInt64(cost) > limit else { return }
    try removeExpired(limit: 256) { $0 + UInt64(cost) > limit }
    var fruitless = 0
    while totals.bytes + UInt64(cost) > limit, totals.entries > 0 {
      let over = totals.bytes + UInt64(cost) - limit
      let average = max(totals.bytes / max(totals.entries, 1), 1)
      let wanted = Int(min(over / average + 1, UInt64(Self.maximumVictims)))
      let removed = try evict(wanted: wanted, sparingOwn: fruitless < 8)
      fruitless = removed == 0 ? fruitless + 1 : 0
      // Nothing left that a cursor can find: the books are wrong, count again.
      if fruitless > 32 {
        try recount()
        break
      }
    }
    try fault(throwing: .afterEviction)
  }

  /// Evicts down to a lower budget, at most `limit` entries; `false`: there is more to do.
  mutating func trim(limit: Int) throws -> Bool {
    var removed = 0
    var fruitless = 0
    while budget > 0, totals.bytes > budget, totals.entries > 0, fruitless < 32 {
      if removed >= limit { return false }
      let count = try evict(wanted: Self.maximumVictims, sparingOwn: false)
      removed += count
      fruitless = count == 0 ? fruitless + 1 : 0
    }
    return true
  }

  /// Evicts the `share` least recently used of a sample, for want of space on the disk.
  mutating func evict(share: Int) throws {
    var removed = 0
    var tries = 0
    while removed < share, totals.entries > 0, tries < share {
      removed += try evict(wanted: Self.maximumVictims, sparingOwn: false)
      tries += 1
    }
  }

  /// Evicts neighbours whatever their recency: few pages are touched, and whole ones become free.
  mutating func evictNeighbours(_ count: Int) throws {
    for victim in try sample(count: count, sparingOwn: false).reversed() {
      _ = try removeItems(hash: victim.hash) { $0.offset == victim.offset }
      if victim.isDead { expired += 1 } else { evicted += 1 }
    }
  }

  private struct Candidate {
    let hash: UInt64
    let offset: Int
    let tick: UInt64
    let isDead: Bool
  }

  private mutating func evict(wanted: Int, sparingOwn: Bool) throws -> Int {
    let candidates = try sample(count: Self.sampleSize * wanted, sparingOwn: sparingOwn)
    var victims = candidates.filter(\.isDead)
    if victims.isEmpty {
      victims = Array(candidates.sorted { $0.tick < $1.tick }.prefix(wanted))
    }
    var removed = 0
    var gone: Set<UInt64> = []
    for victim in victims where gone.insert(victim.hash).inserted {
      removed += try removeItems(hash: victim.hash) { $0.offset == victim.offset }
      if victim.isDead { expired += 1 } else { evicted += 1 }
    }
    return removed
  }

  /// Neighbours of a random position.
  private mutating func sample(count: Int, sparingOwn: Bool) throws -> [Candidate] {
    var result: [Candidate] = []
    result.reserveCapacity(count)
    var unknown: Set<UInt32> = []
    var damaged: [UInt64] = []
    let start: UInt64 =
      generation.meta.hashBits == 64
      ? random.next() : random.next() & (1 << UInt64(generation.meta.hashBits) - 1)
    do {
      var cursor = try Cursor(over: generation.entries, in: transaction)
      var more = try cursor.move(atLeast: start)
      var wrapped = false
      var seen = 0
      while seen < count {
        if !more {
          if wrapped { break }
          wrapped = true
          more = try cursor.moveToFirst()
          if !more { break }
        }
        seen += 1
        let hash = cursor.currentInteger
        if wrapped, hash >= start { break }
        let items: [RecordEntry]
        do {
          items = try Record.items(in: cursor.currentValue)
        } catch {
          damaged.append(hash)
          more = try cursor.moveToNext()
          continue
        }
        let lastUse = generation.table.lastUse(hash: hash)
        for item in items {
          let header = item.header
          if sparingOwn, header.label == label { continue }
          var isDead = header.isExpired(at: now)
          if let epoch = namespaces.epoch(of: header.namespace) {
            if epoch != header.epoch { isDead = true }
          } else {
            unknown.insert(header.namespace)
          }
          result.append(
            Candidate(
              hash: hash, offset: item.offset,
              tick: max(lastUse, UInt64(bitPattern: max(header.created, 0)) << 20), isDead: isDead))
        }
        more = try cursor.moveToNext()
      }
    }
    // Known from the next sample on.
    for number in unknown { try epoch(number) }
    for hash in damaged { _ = try readableItems(hash: hash) }
    return result
  }

  /// Removes entries whose time has come, oldest first.
  ///
  /// - Returns: Whether nothing expired is left.
  @discardableResult
  mutating func removeExpired(
    limit: Int, while wanted: (UInt64) -> Bool = { _ in true }
  ) throws -> Bool {
    for _ in 0..<limit {
      guard wanted(totals.bytes) else { return false }
      var first: (expires: Int64, hash: UInt64)?
      do {
        var cursor = try Cursor(over: generation.expiries, in: transaction)
        if try cursor.moveToFirst() { first = ExpiryKey.parse(cursor.currentKey) }
      }
      guard let first, first.expires <= now else { return true }
      let removed = try removeItems(hash: first.hash) { $0.header.expires == first.expires }
      expired += UInt64(removed)
      if removed == 0 {
        try transaction.remove(
          key: ExpiryKey.key(expires: first.expires, hash: first.hash), in: generation.expiries)
      }
    }
    return false
  }

  /// Removes entries of removed epochs, from `start` on.
  ///
  /// - Returns: Where to go on, or `nil` at the end.
  mutating func sweep(from start: UInt64, limit: Int) throws -> UInt64? {
    var dead: [UInt64] = []
    var next: UInt64?
    var seen: Set<UInt32> = []
    do {
      var cursor = try Cursor(over: generation.entries, in: transaction)
      var more = try cursor.move(atLeast: start)
      var count = 0
      while more {
        if count >= limit * 8 || dead.count >= limit {
          next = cursor.currentInteger
          break
        }
        count += 1
        let items = (try? Record.items(in: cursor.currentValue)) ?? []
        for item in items { seen.insert(item.header.namespace) }
        var isDead = false
        for item in items {
          isDead = isDead || namespaces.epoch(of: item.header.namespace) != item.header.epoch
        }
        if isDead || items.isEmpty { dead.append(cursor.currentInteger) }
        more = try cursor.moveToNext()
      }
    }
    for number in seen { try epoch(number) }
    let known = namespaces
    for hash in dead {
      try removeItems(hash: hash) { item in
        known.epoch(of: item.header.namespace) != item.header.epoch
      }
    }
    return next
  }

  /// Counts everything again, after something was found that the books cannot know.
  mutating func recount() throws {
    var bytes: UInt64 = 0
    var entries: UInt64 = 0
    var live: [UInt32: (bytes: UInt64, entries: UInt64)] = [:]
    var epochs: [UInt32: UInt32] = [:]
    var numbers: Set<UInt32> = []
    for pass in 0..<2 {
      do {
        var cursor = try Cursor(over: generation.entries, in: transaction)
        var more = try cursor.moveToFirst()
        while more {
          for item in (try? Record.items(in: cursor.currentValue)) ?? [] {
            let header = item.header
            if pass == 0 {
              numbers.insert(header.namespace)
            } else {
              bytes += UInt64(header.cost)
              entries += 1
              if epochs[header.namespace] == header.epoch {
                live[header.namespace, default: (0, 0)].bytes += UInt64(header.cost)
                live[header.namespace, default: (0, 0)].entries += 1
              }
            }
          }
          more = try cursor.moveToNext()
        }
      }
      if pass == 0 { for number in numbers { epochs[number] = try epoch(number) } }
    }
    totals.bytes = bytes
    totals.entries = entries
    for number in numbers {
      let sum = live[number] ?? (0, 0)
      try changeNamespace(number) {
        $0.bytes = sum.bytes
        $0.entries = sum.entries
      }
    }
  }
}
