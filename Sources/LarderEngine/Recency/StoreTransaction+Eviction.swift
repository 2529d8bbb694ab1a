// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// EVICTION
//
// Eviction runs inside the write transaction, before the insert, so no commit of any process
// exceeds the budget. It first removes expired entries, which the table `expiries` finds. Then it
// evicts the least recently used entries of a random sample. Entries are ordered by a keyed hash,
// so the neighbours of a random position are a random sample, and one cursor reads them in
// sequence. There is no list and no heap, so a crash leaves nothing to repair. The more bytes must
// be freed, the larger the sample and the share that is evicted from it.

extension StoreTransaction {
  private static var sampleSize: Int { 16 }
  private static var maximumVictims: Int { 16 }

  /// Evicts until an entry of `cost` bytes fits into the budget.
  mutating func makeRoom(for cost: Int) throws {
    let limit = budget + (Mutant.budgetOffByOne.isActive ? 1 : 0)
    guard budget > 0, totals.bytes + UInt64(cost) > limit else { return }
    try removeExpired(limit: 256) { $0 + UInt64(cost) > limit }
    var emptyRounds = 0
    while totals.bytes + UInt64(cost) > limit, totals.entries > 0 {
      let over = totals.bytes + UInt64(cost) - limit
      let average = max(totals.bytes / max(totals.entries, 1), 1)
      let wanted = Int(min(over / average + 1, UInt64(Self.maximumVictims)))
      let removed = try evict(wanted: wanted, sparingOwn: emptyRounds < 8)
      emptyRounds = removed == 0 ? emptyRounds + 1 : 0
      // A cursor finds no more entries: the totals are wrong, so count again.
      if emptyRounds > 32 {
        try recount()
        break
      }
    }
    try fault(throwing: .afterEviction)
  }

  /// Evicts at most `limit` entries towards a lower budget. Returns `false` if more eviction is
  /// needed.
  mutating func trim(limit: Int) throws -> Bool {
    var removed = 0
    var emptyRounds = 0
    while budget > 0, totals.bytes > budget, totals.entries > 0, emptyRounds < 32 {
      if removed >= limit { return false }
      let count = try evict(wanted: Self.maximumVictims, sparingOwn: false)
      removed += count
      emptyRounds = count == 0 ? emptyRounds + 1 : 0
    }
    return true
  }

  /// Evicts up to `share` least recently used entries of samples, to free space on the disk.
  mutating func evict(share: Int) throws {
    var removed = 0
    var tries = 0
    while removed < share, totals.entries > 0, tries < share {
      removed += try evict(wanted: Self.maximumVictims, sparingOwn: false)
      tries += 1
    }
  }

  /// Evicts neighbours regardless of their recency: that touches few pages and frees whole ones.
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
    var removedHashes: Set<UInt64> = []
    for victim in victims where removedHashes.insert(victim.hash).inserted {
      removed += try removeItems(hash: victim.hash) { $0.offset == victim.offset }
      if victim.isDead { expired += 1 } else { evicted += 1 }
    }
    return removed
  }

  /// Returns neighbours of a random position.
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
          if sparingOwn, header.commitVersion == commitVersion { continue }
          var isDead = header.isExpired(at: now)
          if let epoch = namespaces.epoch(of: header.namespace) {
            if epoch != header.epoch { isDead = true }
          } else {
            unknown.insert(header.namespace)
          }
          result.append(
            Candidate(
              hash: hash, offset: item.offset,
              tick: max(lastUse, SharedTable.tick(milliseconds: header.created)), isDead: isDead))
        }
        more = try cursor.moveToNext()
      }
    }
    // The next sample finds these epochs in the cache.
    for number in unknown { try epoch(number) }
    for hash in damaged { _ = try readableItems(hash: hash) }
    return result
  }

  /// Removes expired entries, oldest first.
  ///
  /// - Returns: Whether no expired entry is left.
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

  /// Removes entries of earlier epochs, from the hash `start` on.
  ///
  /// - Returns: The hash at which to continue, or `nil` at the end.
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

  /// Recounts all totals, after damage that the stored counters do not include.
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
