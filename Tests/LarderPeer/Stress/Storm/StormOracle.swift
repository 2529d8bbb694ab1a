// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderSystem

// THE ORACLE OF A STORM
//
// A small mapped file that outlives every killed process. It contains what was issued, what was
// acknowledged, which processes are alive, and what was found. All words are 64 bits, native; a
// line of eight words is a cache line and belongs to one key.
//
//     line    0        totals: operations, reads, violations, stop, clock
//     lines   1 …  63  worker heartbeats, one line per slot
//            64 … 103  cache keys: kept, removed, expiring
//           128 … 143  single-flight keys: issued is the source's version, acknowledged the newest
//                      invalidated version, holder the computing process
//           144 … 151  counters
//           160 … 211  objects: kept, transient, bulk
//           224 … 231  keys of a unique index: holder is the object that holds it
//           232 … 247  cars: epoch << 32 | sequence
//           248        the epoch of the two programs, minus one: no value belongs to epoch zero
//           256 … 351  bounded objects
//           352 … 415  paged objects: acknowledged as inserted
//           416 … 439  defaults, 440 … 447  counters among them
//           448 … 455  defaults that are set once: issued is the value the first caller got
//           456 … 551  storages, four of 24 lines each, of which the last eight are counters
//           552 … 559  tags: issued is the source's version, acknowledged the newest removed version
//           560 … 575  pinned keys
//
// `issued` is raised before the write it announces, `acknowledged` after its call has returned. A
// reader that loads the words before its read, and `issued` again after it, has the bounds of every
// permitted value. A counter's words are the number of increments.
//
// A holder stores its identifier after its claim is committed and clears it before it releases the
// key, so the next process that gets the key finds zero.

/// The keys of one kind, and the outcomes that a read of one of them may have.
struct OracleRegion: Sendable {
  /// The outcomes that are permitted in addition to the newest values.
  struct Permitted: OptionSet, Sendable {
    let rawValue: Int
    /// Any key may be missing at any time.
    static let absent = Permitted(rawValue: 1)
    /// Keys are missing after their deadline.
    static let expired = Permitted(rawValue: 2)
    /// Keys are missing in rounds that evict.
    static let evicted = Permitted(rawValue: 4)
  }

  /// The name of a key in findings.
  let name: StaticString
  fileprivate let line: Int
  let keys: Range<Int>
  let permitted: Permitted
  /// A Boolean value that indicates whether a value that was read acknowledges its write: later
  /// reads, in any process, must not return an older value.
  let isConfirmedByReads: Bool

  private init(
    _ name: StaticString, _ line: Int, _ keys: Range<Int>, _ permitted: Permitted = [],
    isConfirmedByReads: Bool = false
  ) {
    self.name = name
    self.line = line
    self.keys = keys
    self.permitted = permitted
    self.isConfirmedByReads = isConfirmedByReads
  }

  /// Returns the keys that one of several processes alone writes.
  func own(_ place: (index: Int, count: Int)) -> [Int] {
    keys.filter { $0 % place.count == place.index }
  }

  static let workers = OracleRegion("worker", 1, 0..<63)

  /// Keys of the cache that are never removed, that are removed, and that expire.
  static let kept = OracleRegion("key", 64, 0..<24, .evicted, isConfirmedByReads: true)
  static let removed = OracleRegion("key", 64, 24..<32, .evicted)
  static let expiring = OracleRegion("key", 64, 32..<40, [.evicted, .expired])
  static let flights = OracleRegion("flight", 128, 0..<16)
  static let tallies = OracleRegion("counter", 144, 0..<8)

  /// Objects that are never deleted, that are deleted and saved again, and that are deleted with
  /// all objects of their type.
  static let keptItems = OracleRegion("object", 160, 0..<32, isConfirmedByReads: true)
  static let transientItems = OracleRegion("object", 160, 32..<44)
  static let bulkItems = OracleRegion("object", 160, 44..<52)
  static let tags = OracleRegion("tag", 552, 0..<8)
  static let pinned = OracleRegion("pinned key", 560, 0..<16, isConfirmedByReads: true)
  static let claims = OracleRegion("claim", 224, 0..<8)
  static let cars = OracleRegion("car", 232, 0..<16)
  static let epoch = OracleRegion("epoch", 248, 0..<1)

  static let bounded = OracleRegion("bounded object", 256, 0..<96, .absent)
  static let paged = OracleRegion("paged object", 352, 0..<64)

  static let defaults = OracleRegion("default", 416, 0..<24, isConfirmedByReads: true)
  static let defaultCounters = OracleRegion("counter of defaults", 440, 0..<8)
  static let defaultsOnce = OracleRegion("once", 448, 0..<8)

  /// The keys and the counters of each storage. The values of the layered storage are confirmed
  /// only when they are in both layers, so its reads do not confirm them.
  static let storages: [OracleRegion] = [
    OracleRegion("folder: key", 456, 0..<16, isConfirmedByReads: true),
    OracleRegion("store: key", 480, 0..<16, isConfirmedByReads: true),
    OracleRegion("layers: key", 504, 0..<16),
    OracleRegion("plain files: key", 528, 0..<16, isConfirmedByReads: true),
  ]
  static let storageCounters: [OracleRegion] = [
    OracleRegion("folder: counter", 472, 0..<8), OracleRegion("store: counter", 496, 0..<8),
    OracleRegion("layers: counter", 520, 0..<8), OracleRegion("plain files: counter", 544, 0..<8),
  ]
}

/// The bounds that the oracle had for a key before a read of it began.
struct Expectation: Sendable {
  let acknowledged: UInt64
  /// Milliseconds; no value that is or was in force expires before it. Zero without a deadline.
  var deadline: UInt64 = 0
  /// The store's clock before the read.
  var time: Int64 = 0
}

/// The state that the processes of a storm share outside of the store.
final class StormOracle: Sendable {
  enum Total: Int {
    case operations = 0
    case reads, violations, stop, clock
  }

  enum Field: Int {
    case issued = 0
    case acknowledged, removalIssued, deadline, holder
  }

  /// One issued write of a key.
  typealias Write = (key: Int, sequence: UInt64)

  private let words: SharedWords

  init(path: String) throws { words = try SharedWords(path: path, size: 36_864) }

  // MARK: Totals

  func add(_ total: Total, _ amount: UInt64 = 1) { words.add(total.rawValue, amount) }
  func value(_ total: Total) -> UInt64 { words[total.rawValue] }
  func stop() { words[Total.stop.rawValue] = 1 }
  var isOver: Bool { value(.stop) != 0 }

  /// The time of stores that use the oracle's clock.
  var clock: Int64 { Int64(value(.clock)) }

  // MARK: Keys

  private func index(_ region: OracleRegion, _ key: Int, _ field: Field) -> Int {
    precondition(region.keys.contains(key), "the oracle has no such key")
    return (region.line + key) * 8 + field.rawValue
  }

  subscript(region: OracleRegion, key: Int, field: Field) -> UInt64 {
    get { words[index(region, key, field)] }
    set { words[index(region, key, field)] = newValue }
  }

  @discardableResult
  func add(_ region: OracleRegion, _ key: Int, _ field: Field) -> UInt64 {
    words.add(index(region, key, field))
  }

  func raise(_ region: OracleRegion, _ key: Int, _ field: Field, to value: UInt64) {
    words.raise(index(region, key, field), to: value)
  }

  /// Announces one write of each key.
  func issue(_ keys: some Sequence<Int>, of region: OracleRegion, removing: Bool = false) -> [Write]
  {
    keys.map { key in
      let sequence = add(region, key, .issued)
      if removing { raise(region, key, .removalIssued, to: sequence) }
      return (key, sequence)
    }
  }

  func issue(_ key: Int, of region: OracleRegion, removing: Bool = false) -> Write {
    issue(CollectionOfOne(key), of: region, removing: removing)[0]
  }

  /// Records that the calls of these writes have returned success.
  func acknowledge(_ writes: Write..., of region: OracleRegion) {
    acknowledge(writes, of: region)
  }

  func acknowledge(_ writes: [Write], of region: OracleRegion) {
    for write in writes { raise(region, write.key, .acknowledged, to: write.sequence) }
  }

  /// Announces a write that expires: no value that is in force expires before `deadline`.
  func lowerDeadline(_ key: Int, to deadline: UInt64) {
    let index = index(.expiring, key, .deadline)
    if words.replace(index, 0, with: deadline) != 0 { words.lower(index, to: deadline) }
  }

  // MARK: Holders

  /// Stores a holder.
  ///
  /// - Returns: The previous holder, or zero.
  func hold(_ region: OracleRegion, _ key: Int, _ holder: UInt64) -> UInt64 {
    words.exchange(index(region, key, .holder), holder)
  }

  /// Clears a holder, if it is still that one.
  func release(_ region: OracleRegion, _ key: Int, _ holder: UInt64) {
    words.replace(index(region, key, .holder), holder, with: 0)
  }

  /// Stores a value if the key has none.
  ///
  /// - Returns: The value that the key has now.
  func settle(_ region: OracleRegion, _ key: Int, on value: UInt64) -> UInt64 {
    let original = words.replace(index(region, key, .issued), 0, with: value)
    return original == 0 ? value : original
  }

  // MARK: Epochs

  var epoch: UInt64 { self[.epoch, 0, .issued] + 1 }

  func endEpoch(_ epoch: UInt64) {
    words.replace(index(.epoch, 0, .issued), epoch - 1, with: epoch)
  }
}
#endif
