// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The entries that were evicted recently, by their hash prefixes. Format: `EvictionQueues.swift`.
struct GhostTable {
  /// The queue that an evicted entry left.
  enum Ghost { case ofSmall, ofMain }

  private let table: SharedTable
  /// The number of ghosts that were ever added.
  private(set) var count: UInt64
  /// The counts of recent ghosts that left the small queue, and the main queue. Both are halved when
  /// they are more than twice the entries.
  private(set) var small: UInt64
  private(set) var main: UInt64

  init(_ table: SharedTable, count: UInt64, small: UInt64, main: UInt64) {
    self.table = table
    self.count = count
    // A damaged word may contain more.
    self.small = min(small, Self.mostGhosts)
    self.main = min(main, Self.mostGhosts)
  }

  private static let mostGhosts: UInt64 = 1 << 28
  private static let mainBit: UInt32 = 1 << 16
  private static let bucketSize = 4

  /// The ghosts that are added before the stored time advances by one.
  private var unit: UInt64 { max(1, UInt64(table.shape.queueSlots) >> 12) }
  private var time: UInt16 { UInt16(truncatingIfNeeded: count / unit) }

  private func bucket(of prefix: UInt32) -> Range<Int> {
    let buckets = table.shape.queueSlots / Self.bucketSize
    let start = Int(prefix) & (buckets - 1)
    return start * Self.bucketSize..<(start + 1) * Self.bucketSize
  }

  private static func tag(_ prefix: UInt32) -> UInt32 { prefix & 0xFFFE_0000 }

  /// Remembers an entry, in place of the oldest ghost of the bucket.
  ///
  /// - Parameter entries: The number of entries in the store.
  mutating func add(_ prefix: UInt32, isOfMain: Bool, entries: UInt64) {
    count &+= 1
    if isOfMain { main += 1 } else { small += 1 }
    if small + main > 2 * max(entries, 1) { (small, main) = (small / 2, main / 2) }
    let now = time
    var oldest = (index: 0, age: -1)
    for index in bucket(of: prefix) {
      let word = table.ghost(index)
      let age = word == 0 ? Int.max : Int(now &- UInt16(truncatingIfNeeded: word))
      if age > oldest.age { oldest = (index, age) }
    }
    var word = Self.tag(prefix) | UInt32(now)
    if isOfMain { word |= Self.mainBit }
    // A word of zero is an empty place, so a ghost of that word is not remembered.
    table.setGhost(oldest.index, word)
  }

  /// Removes the ghost of an entry that is written again.
  ///
  /// - Parameter limit: The number of ghosts after which one is forgotten.
  /// - Returns: The queue it left, or `nil` if there is none.
  mutating func take(_ prefix: UInt32, limit: UInt64) -> Ghost? {
    for index in bucket(of: prefix) {
      let word = table.ghost(index)
      guard word != 0, word & 0xFFFE_0000 == Self.tag(prefix) else { continue }
      table.setGhost(index, 0)
      let age = UInt64(time &- UInt16(truncatingIfNeeded: word)) * unit
      if age > limit { continue }
      return word & Self.mainBit == 0 ? .ofSmall : .ofMain
    }
    return nil
  }
}
