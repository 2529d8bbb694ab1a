// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderEngine
import LarderSystem
import LarderTesting

// Entries with tags, negative, pinned and sliding entries.
//
// Each tag has a source with a version. A process that changes the source removes the tag, and after
// that no process reads an entry of an earlier version. An entry gets its version from the source in
// a computation, or in the transaction that writes it.

/// A value with a tag: the version of the tag's source.
struct TaggedValue: Codable, Sendable, OracleValue {
  let key: Int
  let version: UInt64
  var sequence: UInt64 { version }
  func isOwn(_ key: Int) -> Bool { self.key % OracleRegion.tags.keys.count == key }
}

extension Worker {
  private static let taggedKeys = 0..<24
  /// The sources of these versions have no value: what is computed from them is a negative entry.
  private static func isWithoutValue(_ version: UInt64) -> Bool { version % 3 == 2 }
  private static func tag(_ key: Int) -> Int { key % OracleRegion.tags.keys.count }

  /// Stores entries with tags, pinned and sliding entries, and removes by tag.
  func useTags() throws -> [Operation] {
    let cache = PersistentCache<Int, TaggedValue>(
      storage: store, namespace: "tagged", options: plan.cacheOptions(slot))
    let bytes = try store.namespace("tagged bytes")
    let pinned = PersistentCache<Int, StressValue>(storage: store, namespace: "pinned")
    let sliding = SlidingKey(self)
    let own = OracleRegion.pinned.own(place)
    return [
      Operation(1) { try self.removeTag() },
      Operation(1) {
        let write = self.board.issue(OracleRegion.tags.keys.randomElement()!, of: .tags)
        try await self.store.removeAll(tagged: "\(write.key)")
        self.board.acknowledge(write, of: .tags)
      },
      Operation(3) { try await self.compute(Self.taggedKeys.randomElement()!, cache) },
      Operation(8) {
        let key = Self.taggedKeys.randomElement()!
        let before = self.expectation(.tags, Self.tag(key))
        if let value = try cache.value(forKey: key) {
          self.judge(value, Self.tag(key), of: .tags, before)
        }
      },
      Operation(1) { try self.writeTagged() },
      Operation(8) {
        let key = Self.taggedKeys.randomElement()!
        let before = self.expectation(.tags, Self.tag(key))
        if let stored = try bytes.bytes(forKey: key) {
          self.judge(Worker.number(stored), Self.tag(key), of: .tags, before.acknowledged)
        }
      },
      Operation(2) {
        guard let key = own.randomElement() else { return }
        let write = self.board.issue(key, of: .pinned)
        try pinned.setValue(
          StressValue(write, size: Int(write.sequence % 300)), forKey: key, pinned: true)
        self.board.acknowledge(write, of: .pinned)
      },
      Operation(4) {
        let key = OracleRegion.pinned.keys.randomElement()!
        try self.check(key, of: .pinned) { try pinned.value(forKey: key) }
      },
      Operation(2) { try sliding.write() },
      Operation(4) { try sliding.read() },
    ]
  }

  private func removeTag() throws {
    let write = board.issue(OracleRegion.tags.keys.randomElement()!, of: .tags)
    if Bool.random() {
      try store.removeAll(tagged: "\(write.key)")
    } else {
      try store.write { transaction in
        try transaction.removeAll(tagged: "\(write.key)", in: "tagged")
        try transaction.removeAll(tagged: "\(write.key)", in: "tagged bytes")
      }
    }
    board.acknowledge(write, of: .tags)
  }

  /// Computes a value, or that there is none, under single flight.
  private func compute(_ key: Int, _ cache: PersistentCache<Int, TaggedValue>) async throws {
    let tag = Self.tag(key)
    let before = expectation(.tags, tag)
    let value = try await cache.value(
      forKey: key, absentFor: .seconds(3600), tags: ["\(tag)", "all", "\(key)"]
    ) { [board] in
      let version = board[.tags, tag, .issued]
      let end = Clocks.monotonicNanoseconds() + UInt64.random(in: 0...2_000_000)
      while Clocks.monotonicNanoseconds() < end {}
      return Self.isWithoutValue(version) ? nil : TaggedValue(key: key, version: version)
    }
    if let value { return judge(value, tag, of: .tags, before) }
    // A version without a value must have been in force since the read began.
    let possible = before.acknowledged...max(before.acknowledged, board[.tags, tag, .issued])
    if !possible.prefix(3).contains(where: Self.isWithoutValue) {
      violation("tag \(tag): key \(key) is absent in versions \(possible)")
    }
  }

  /// Writes entries in a transaction, and sometimes removes their tag in between.
  private func writeTagged() throws {
    let keys = Self.taggedKeys.shuffled().prefix(3)
    let removal = Int.random(in: 0..<4) == 0 ? keys.first.map(Self.tag) : nil
    let write = removal.map { board.issue($0, of: .tags) }
    try store.write { [board] transaction in
      // Of an earlier version than the removal below, which removes it.
      if let write {
        try transaction.setBytes(
          Worker.bytes(write.sequence - 1), forKey: write.key, in: "tagged bytes",
          tags: ["\(write.key)"])
        try transaction.removeAll(tagged: "\(write.key)")
      }
      for key in keys {
        try transaction.setBytes(
          Worker.bytes(board[.tags, Self.tag(key), .issued]), forKey: key, in: "tagged bytes",
          tags: ["\(Self.tag(key))"])
      }
    }
    if let write { board.acknowledge(write, of: .tags) }
  }

  /// Audits the entries that ``useTags()`` writes.
  func auditTags() throws {
    let cache = PersistentCache<Int, TaggedValue>(storage: store, namespace: "tagged")
    for key in Self.taggedKeys {
      let before = expectation(.tags, Self.tag(key))
      if let value = try cache.value(forKey: key) {
        judge(value, Self.tag(key), of: .tags, before)
      }
      if let stored = try store.bytes(forKey: key, in: "tagged bytes") {
        judge(Worker.number(stored), Self.tag(key), of: .tags, before.acknowledged)
      }
    }
    let pinned = PersistentCache<Int, StressValue>(storage: store, namespace: "pinned")
    for key in OracleRegion.pinned.keys {
      try check(key, of: .pinned) { try pinned.value(forKey: key) }
    }
    for tag in OracleRegion.tags.keys { try store.removeAll(tagged: "\(tag)") }
    for key in Self.taggedKeys where try cache.state(forKey: key) != .unknown {
      violation("key \(key) is known after all tags were removed")
    }
  }
}

extension TaggedValue: Equatable {}

/// A key with a sliding expiration that one process alone uses.
final class SlidingKey: @unchecked Sendable {
  // Sound: the loop of one worker uses it, one operation after the other.
  private static let lifetime: Int64 = 400
  /// The unit in which the times of uses are recorded, in milliseconds.
  private static let rounding: Int64 = 1024

  private let worker: Worker
  private let cache: PersistentCache<Int, Int>
  /// The time before the last use, and after it; `nil` if the entry may not exist.
  private var lastUse: (before: Int64, after: Int64)?

  init(_ worker: Worker) {
    self.worker = worker
    cache = PersistentCache(storage: worker.store, namespace: "sliding")
  }

  func write() throws {
    lastUse = nil
    let before = worker.now
    try cache.setValue(
      worker.slot, forKey: worker.slot, expires: .afterAccess(.milliseconds(Self.lifetime)))
    lastUse = (before, worker.now)
  }

  func read() throws {
    if worker.plan.usesBoardClock { worker.board.add(.clock, UInt64.random(in: 0...200)) }
    let before = worker.now
    let value = try cache.value(forKey: worker.slot)
    guard let use = lastUse else { return }
    if let value {
      if value != worker.slot { worker.violation("sliding key \(worker.slot) is \(value)") }
      // Few hash bits give many keys one word of the use table.
      if worker.plan.hashBits == 64, before > use.after + Self.lifetime + 2 * Self.rounding {
        worker.violation("sliding key read at \(before), last used at \(use.after)")
      }
      lastUse = (before, worker.now)
    } else {
      lastUse = nil
      // A compaction forgets uses that are recorded while it runs.
      let mayBeMissing = worker.plan.mayVanish || worker.plan.compacts
      if !mayBeMissing, worker.now < use.before + Self.lifetime {
        worker.violation("sliding key missing at \(worker.now), used at \(use.before)")
      }
    }
  }
}
#endif
