// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// Eviction from a random sample (`StoreTransaction+Eviction.swift`).
extension StoreTransaction {
  struct Candidate {
    let hash: UInt64
    let offset: Int
    let header: EntryHeader
    let tick: UInt64
    let isDead: Bool

    var dead: Candidate {
      Candidate(hash: hash, offset: offset, header: header, tick: tick, isDead: true)
    }
  }

  /// The rule by which a sample selects entries.
  struct SampleRule {
    /// The most entries.
    var count = Int.max
    /// The most records that are visited for them.
    let visits: Int
    /// Whether entries of this transaction are left out.
    var sparesOwn = false
    /// Whether only negative entries are in it.
    var isOfAbsent = false
  }

  mutating func evictFromSample(wanted: Int, _ rule: SampleRule) throws -> Int {
    let candidates = try sample(rule)
    var victims = candidates.filter(\.isDead)
    if victims.isEmpty {
      victims = Array(candidates.sorted { $0.tick < $1.tick }.prefix(wanted))
    }
    var removed = 0
    var removedHashes: Set<UInt64> = []
    for victim in victims where removedHashes.insert(victim.hash).inserted {
      if try isGuaranteed(victim.header, at: victim.offset, hash: victim.hash) { continue }
      removed += try evict(victim.header, at: victim.offset, hash: victim.hash)
    }
    return removed
  }

  /// Returns neighbours of a random position.
  mutating func sample(_ rule: SampleRule) throws -> [Candidate] {
    var result: [Candidate] = []
    result.reserveCapacity(min(rule.count, 512))
    var unknown: Set<UInt32> = []
    // Spared entries that may have been removed by tag: tags are looked up after the cursor.
    var suspects: [Candidate] = []
    var damaged: [UInt64] = []
    let start: UInt64 =
      generation.meta.hashBits == 64
      ? random.next() : random.next() & (1 << UInt64(generation.meta.hashBits) - 1)
    do {
      var cursor = try Cursor(over: generation.entries, in: transaction)
      var more = try cursor.move(atLeast: start)
      var wrapped = false
      var seen = 0
      while seen < rule.visits, result.count < rule.count {
        if !more {
          if wrapped { break }
          wrapped = true
          more = try cursor.moveToFirst()
          if !more { break }
        }
        seen += 1
        let hash = cursor.currentInteger
        if wrapped, hash >= start { break }
        guard let items = try? Record.items(in: cursor.currentValue) else {
          damaged.append(hash)
          more = try cursor.moveToNext()
          continue
        }
        let lastUse = generation.table.lastUse(hash: hash)
        for item in items {
          let header = item.header
          if rule.isOfAbsent && !header.isAbsent { continue }
          if rule.sparesOwn, header.commitVersion == commitVersion { continue }
          var isDead = generation.table.isExpired(header, hash: hash, at: now)
          if let epoch = namespaces.epoch(of: header.namespace) {
            if epoch != header.epoch { isDead = true }
          } else {
            unknown.insert(header.namespace)
          }
          let candidate = Candidate(
            hash: hash, offset: item.offset, header: header,
            tick: max(lastUse, SharedTable.tick(milliseconds: header.created)), isDead: isDead)
          if !isDead, header.isPinned || mayBeGuaranteed(header) {
            if header.isTagged { suspects.append(candidate) }
            continue
          }
          result.append(candidate)
        }
        more = try cursor.moveToNext()
      }
    }
    // The next sample finds these epochs in the cache.
    for number in unknown { try epoch(number) }
    result += try removedByTag(suspects)
    for hash in damaged { _ = try readableItems(hash: hash) }
    return result
  }

  private func removedByTag(_ suspects: [Candidate]) throws -> [Candidate] {
    try suspects.compactMap {
      try isRemoved($0.header, at: $0.offset, hash: $0.hash) ? $0.dead : nil
    }
  }
}
