// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// The removal of entries that no process can see any more, and the totals after damage.
extension StoreTransaction {
  /// Removes entries that were removed together with others, from the hash `start` on.
  ///
  /// - Returns: The hash at which to continue, or `nil` at the end.
  mutating func sweep(from start: UInt64, limit: Int) throws -> UInt64? {
    // Those that may be removed: tags are looked up after the cursor.
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
          isDead =
            isDead || item.header.isTagged
            || namespaces.epoch(of: item.header.namespace) != item.header.epoch
        }
        if isDead || items.isEmpty { dead.append(cursor.currentInteger) }
        more = try cursor.moveToNext()
      }
    }
    for number in seen { try epoch(number) }
    for hash in dead {
      var removed: Set<Int> = []
      for item in try readableItems(hash: hash) {
        if try isRemoved(item.header, at: item.offset, hash: hash) { removed.insert(item.offset) }
      }
      if !removed.isEmpty {
        try removeItems(hash: hash, .invalidated) { removed.contains($0.offset) }
      }
    }
    return next
  }

  private func namespaceNumbers() throws -> [UInt32] {
    var numbers: [UInt32] = []
    var cursor = try Cursor(over: .main, in: transaction)
    var more = try cursor.move(atLeast: Array("i:".utf8))
    while more, let number = NamespaceRecord.number(ofKey: cursor.currentKey) {
      numbers.append(number)
      more = try cursor.moveToNext()
    }
    return numbers
  }

  /// Recounts all totals, after damage that the stored counters do not include.
  mutating func recount() throws {
    var counted = StoreTotals()
    var live: [UInt32: (bytes: UInt64, entries: UInt64)] = [:]
    var epochs: [UInt32: UInt32] = [:]
    // Also of namespaces that have lost their last entry.
    let numbers = try namespaceNumbers()
    for number in numbers { epochs[number] = try epoch(number) }
    do {
      var cursor = try Cursor(over: generation.entries, in: transaction)
      var more = try cursor.moveToFirst()
      while more {
        for item in (try? Record.items(in: cursor.currentValue)) ?? [] {
          let header = item.header
          counted.add(header)
          if epochs[header.namespace] == header.epoch {
            live[header.namespace, default: (0, 0)].bytes += UInt64(header.cost)
            live[header.namespace, default: (0, 0)].entries += 1
          }
        }
        more = try cursor.moveToNext()
      }
    }
    totals.bytes = counted.bytes
    totals.entries = counted.entries
    totals.pinned = counted.pinned
    totals.absent = counted.absent
    for number in numbers {
      let sum = live[number] ?? (0, 0)
      try changeNamespace(number) {
        $0.bytes = sum.bytes
        $0.entries = sum.entries
      }
    }
  }
}
