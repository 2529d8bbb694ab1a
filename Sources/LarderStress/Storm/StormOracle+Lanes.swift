// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Synchronization

// THE BOARD'S LAST PART
//
//           256 … 351  bounded objects: issued, acknowledged
//           352 … 415  paged objects: issued, acknowledged as inserted, newest deletion issued
//           416 … 439  defaults, 440 … 447  counters among them: issued, acknowledged
//           448 … 455  defaults that are set once: what the first to ask was given
//           456 … 551  storages, four of 24 lines each, of which the last eight are counters
//
// A counter's issued and acknowledged are how often it was to be, and has been, increased.

/// A row of words of one kind.
struct OracleRegion: Sendable {
  let first: Int
  let keys: Range<Int>

  private init(_ first: Int, _ count: Int) {
    self.first = first
    keys = 0..<count
  }

  static let bounded = OracleRegion(256, 96)
  static let paged = OracleRegion(352, 64)
  static let defaults = OracleRegion(416, 24)
  static let defaultCounters = OracleRegion(440, 8)
  static let defaultsOnce = OracleRegion(448, 8)

  /// The keys of a storage.
  static func storage(_ number: Int) -> OracleRegion { OracleRegion(456 + 24 * number, 16) }
  static func counters(ofStorage number: Int) -> OracleRegion { OracleRegion(472 + 24 * number, 8) }

  /// Those that one of several processes alone writes.
  func own(_ index: Int, of count: Int) -> [Int] { keys.filter { $0 % count == index } }
}

extension StormOracle {
  private func word(
    _ lane: OracleRegion, _ key: Int, _ field: Item
  ) -> UnsafeMutablePointer<Atomic<UInt64>> {
    precondition(lane.keys.contains(key), "no such key on the board")
    return unsafe word(lane.first + key, field.rawValue)
  }

  func value(_ lane: OracleRegion, _ key: Int, _ field: Item) -> UInt64 {
    unsafe word(lane, key, field).pointee.load(ordering: .sequentiallyConsistent)
  }

  func issue(_ lane: OracleRegion, _ key: Int) -> UInt64 { add(lane, key, .issued) }

  @discardableResult
  func add(_ lane: OracleRegion, _ key: Int, _ field: Item) -> UInt64 {
    unsafe word(lane, key, field).pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
      .newValue
  }

  func raise(_ lane: OracleRegion, _ key: Int, _ field: Item, to value: UInt64) {
    unsafe word(lane, key, field).pointee.max(value, ordering: .sequentiallyConsistent)
  }

  /// Puts a value down if nobody has.
  ///
  /// - Returns: What is there now.
  func settle(_ lane: OracleRegion, _ key: Int, on value: UInt64) -> UInt64 {
    let (exchanged, original) = unsafe word(lane, key, .issued).pointee.compareExchange(
      expected: 0, desired: value, ordering: .sequentiallyConsistent)
    return exchanged ? value : original
  }
}

extension Worker {
  /// Which of those of its role this process is, and how many there are.
  var place: (index: Int, count: Int) {
    let same = plan.roles.indices.filter { plan.roles[$0] == role }
    return (same.firstIndex(of: slot)!, same.count)
  }

  /// Looks at what a read of a key that nobody removes gave.
  ///
  /// - Parameter acknowledged: The board's word before the read.
  func judge(
    _ sequence: UInt64?, _ key: Int, of lane: OracleRegion, _ name: String, acknowledged: UInt64
  ) {
    guard let sequence else {
      if acknowledged > 0 {
        violation("\(name) \(key) is missing, \(acknowledged) was acknowledged")
      }
      return
    }
    if sequence < acknowledged {
      violation("\(name) \(key) read as \(sequence), \(acknowledged) was acknowledged")
    }
    if sequence > board.value(lane, key, .issued) { violation("\(name) \(key) was never issued") }
  }

  /// Looks at a counter that was read or just increased.
  ///
  /// - Parameter atLeast: What it had to be.
  func judgeCounter(
    _ count: UInt64, _ key: Int, of lane: OracleRegion, _ name: String, atLeast: UInt64
  ) {
    if count < atLeast { violation("\(name) \(key) is \(count), \(atLeast) were counted") }
    let issued = board.value(lane, key, .issued)
    if count > issued { violation("\(name) \(key) is \(count), \(issued) were issued") }
  }
}
