// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Random work on an LMDB environment: all kinds of tables, keys and values that Larder has or could
// have, so that the result is any file a correct process may write.

/// Random transactions, the same for the same seed.
struct Workload {
  struct Table {
    let name: String?
    var flags: UInt32 = 0
    /// 0: any length.
    var keyBytes = 0
  }

  static let someTables = [
    Table(name: nil), Table(name: "plain"),
    Table(name: "reverse", flags: RawEnvironment.reverseKey),
    Table(name: "numbers", flags: RawEnvironment.integerKey, keyBytes: 8),
    Table(name: "small numbers", flags: RawEnvironment.integerKey, keyBytes: 4),
  ]

  var random: SeededGenerator
  var tables = someTables
  /// The number of different keys, so that later puts replace earlier ones.
  var keySpace = 200
  var largestValue = 30_000
  var operations = 40
  private var deletesMore = false

  init(seed: UInt64) { random = SeededGenerator(seed: seed) }

  /// One transaction's work; the caller commits or aborts.
  mutating func work(_ transaction: RawTransaction) throws {
    // Phases of growth and of decay, so that trees gain and lose levels.
    if random.chance(6) { deletesMore.toggle() }
    let table = tables[random.below(tables.count)]
    var handle = try transaction.table(table.name, table.flags | RawEnvironment.create)
    if table.name != nil, random.chance(40) {
      try transaction.drop(handle, andForget: random.chance(2))
      handle = try transaction.table(table.name, table.flags | RawEnvironment.create)
    }
    for _ in 0..<random.below(operations) + 1 {
      let key = key(for: table)
      if random.chance(deletesMore ? 2 : 4) {
        _ = try transaction.delete(handle, key)
      } else {
        try transaction.put(handle, key, value())
        // Replaced at once: a longer run of overflow pages stays for a shorter value.
        if random.chance(20) { try transaction.put(handle, key, value()) }
      }
    }
  }

  mutating func key(for table: Table) -> [UInt8] {
    let number = random.below(keySpace)
    if table.keyBytes > 0 { return integerKey(number &* 0x9E37_79B1, bytes: table.keyBytes) }
    // The length belongs to the number; a few are as long as keys can be. A name of a table would
    // be an error in the main table, hence the first byte.
    var source = SeededGenerator(seed: UInt64(number))
    let length = source.chance(10) ? 1 + source.below(510) : 1 + source.below(40)
    return [0xFF] + source.bytes(length)
  }

  mutating func value() -> [UInt8] {
    switch random.below(20) {
    case 0: []
    case 1...12: random.bytes(random.below(200))
    case 13...15: random.bytes(1_900 + random.below(250))
    case 16...18: random.bytes(4_000 + random.below(200))
    default: random.bytes(random.below(largestValue))
    }
  }
}
