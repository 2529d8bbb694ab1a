// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderLMDB
import LarderRecovery
import LarderSystem
import LarderTesting
import Testing

/// The removal of entries by their tags.
@Suite(.timeLimit(.minutes(60))) struct TagTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// A store whose thread deletes nothing.
  private func quietStore(_ options: StoreOptions = StoreOptions()) throws -> SharedStore {
    var options = options
    options.sweepsWhenIdle = false
    return try SharedStore(at: path, options)
  }

  @Test(arguments: [64, 4])
  func `A removal by tag removes exactly the entries with the tag`(bits: Int) throws {
    var options = StoreOptions()
    options.hashBits = bits
    let store = try quietStore(options)
    let first = try store.namespace("first")
    let second = try store.namespace("second")
    for key in 0..<60 {
      let tags = (0..<(key % 4)).map { "tag \(key % (2 + $0))" }
      try first.setBytes([1], forKey: key, tags: tags)
      try second.setBytes([2], forKey: key, tags: tags)
    }
    func has(_ key: Int, _ tag: String) -> Bool {
      (0..<(key % 4)).contains { "tag \(key % (2 + $0))" == tag }
    }
    try first.removeAll(tagged: "tag 1")
    try store.removeAll(tagged: "tag 3")
    for key in 0..<60 {
      // Twice: the second read uses the cached location.
      for _ in 0..<2 {
        let isLeft = !has(key, "tag 3")
        #expect(try second.bytes(forKey: key) == (isLeft ? [2] : nil), "\(key)")
        #expect(try first.bytes(forKey: key) == (isLeft && !has(key, "tag 1") ? [1] : nil))
        #expect(try second.contains(key) == isLeft)
      }
    }
    #expect(try store.verify() == [])
    // What is written with the tag afterwards is not affected.
    try first.setBytes([3], forKey: 1, tags: ["tag 1", "tag 3"])
    #expect(try first.bytes(forKey: 1) == [3])
    #expect(try first.remove(forKey: 1))
    try store.removeAll(tagged: "no entry has it")
    #expect(try store.verify() == [])
  }

  @Test func `A transaction removes what it wrote before the removal and keeps what follows`()
    throws
  {
    let store = try quietStore()
    try store.setBytes([0], forKey: "old", in: "names")
    try store.write { transaction in
      try transaction.setBytes([1], forKey: "before", in: "names", tags: ["tag"])
      try transaction.removeAll(tagged: "tag")
      let found1 = try transaction.bytes(forKey: "before", in: "names")
      #expect(found1 == nil)
      try transaction.setBytes([2], forKey: "between", in: "names", tags: ["tag"])
      try transaction.removeAll(tagged: "tag", in: "names")
      try transaction.setBytes([3], forKey: "after", in: "names", tags: ["tag"])
      try transaction.removeAll(tagged: "tag", in: "other names")
      let found2 = try transaction.bytes(forKey: "after", in: "names")
      #expect(found2 == [3])
      let found3 = try transaction.remove(forKey: "between", in: "names")
      #expect(!found3)
    }
    let names = try store.namespace("names")
    #expect(try names.bytes(forKey: "before") == nil)
    #expect(try names.bytes(forKey: "between") == nil)
    #expect(try names.bytes(forKey: "after") == [3])
    #expect(try names.bytes(forKey: "old") == [0])
    #expect(try store.verify() == [])
  }

  @Test func `A failed transaction with a removal by tag removes nothing`() throws {
    struct Failure: Error {}
    let store = try quietStore()
    let names = try store.namespace("")
    try names.setBytes([1], forKey: 1, tags: ["tag"])
    #expect(throws: Failure.self) {
      try store.write { transaction in
        try transaction.removeAll(tagged: "tag")
        throw Failure()
      }
    }
    #expect(try names.bytes(forKey: 1) == [1])
  }

  @Test func `Tags of zero or over 250 bytes and more than 64 tags are errors`() throws {
    let store = try quietStore()
    let names = try store.namespace("")
    for tags in [[""], [String(repeating: "é", count: 126)], (0..<65).map { "\($0)" }] {
      let error = #expect(throws: StoreError.self) {
        try names.setBytes([1], forKey: 1, tags: tags)
      }
      #expect(error?.code == .invalidOption, "\(tags)")
    }
    #expect(throws: StoreError.self) { try store.removeAll(tagged: "") }
    #expect(try names.bytes(forKey: 1) == nil)
    // The most that is allowed; equal tags count once.
    let many = (0..<64).map { "\($0)" + String(repeating: "x", count: 248) }
    try names.setBytes([1], forKey: 1, tags: many + many)
    #expect(try store.statistics().bytes == 64 + 8 + 64 * 8 + 8 + 1)
    try names.removeAll(tagged: many[63])
    #expect(try names.bytes(forKey: 1) == nil)
    #expect(try store.verify() == [])
  }

  @Test func `Equal texts in other characters are other tags`() throws {
    let store = try quietStore()
    let names = try store.namespace("")
    try names.setBytes([1], forKey: 1, tags: ["caf\u{E9}"])
    try names.removeAll(tagged: "cafe\u{301}")
    #expect(try names.bytes(forKey: 1) == [1])
    try names.removeAll(tagged: "caf\u{E9}")
    #expect(try names.bytes(forKey: 1) == nil)
  }

  @Test(arguments: [0, 100_000])
  func `An entry with tags keeps them while its sliding expiration is renewed`(size: Int) throws {
    let clock = ManualClock(milliseconds: 1_000_000)
    let store = try quietStore(StoreOptions(clock: StoreClock { clock.now }))
    let names = try store.namespace("")
    let value = [UInt8](repeating: 7, count: size)
    try names.setBytes(value, forKey: 1, expires: .afterAccess(.seconds(60)), tags: ["tag"])
    clock.advance(by: .seconds(50))
    #expect(try names.bytes(forKey: 1) == value)
    clock.advance(by: .seconds(50))
    try store.removeExpired()
    #expect(try names.bytes(forKey: 1) == value)
    #expect(try store.verify() == [])
    try names.removeAll(tagged: "tag")
    #expect(try names.bytes(forKey: 1) == nil)
    #expect(try store.verify() == [])
  }

  @Test func `The store's thread deletes removed entries, and then the records of the removals`()
    throws
  {
    let store = try SharedStore(at: path)
    let names = try store.namespace("")
    try store.write { transaction in
      for key in 0..<3000 {
        try transaction.setBytes([1], forKey: key, tags: ["even or odd \(key % 2)", "\(key)"])
      }
    }
    for key in 0..<20 { try names.removeAll(tagged: "\(key)") }
    try names.removeAll(tagged: "even or odd 0")
    try eventually("the entries are deleted") { try store.statistics().entries <= 1490 }
    #expect(try store.statistics().entries == 1490)
    try eventually("the records are deleted") { try store.core.tagRecords() == 0 }
    for key in 0..<3000 {
      #expect(try names.bytes(forKey: key) == (key >= 20 && key % 2 == 1 ? [1] : nil))
    }
    // A pass over the rest finds nothing, and the tags still work.
    try names.removeAll(tagged: "even or odd 1")
    #expect(try names.bytes(forKey: 21) == nil)
    #expect(try store.verify() == [])
  }

  @Test func `Removed entries are the first that an eviction deletes`() throws {
    for policy in EvictionPolicy.all {
      var options = StoreOptions(budget: .megabytes(1))
      options.entryBudget = 200
      options.evictionPolicy = policy
      options.sweepsWhenIdle = false
      let store = try SharedStore(at: path + policy.description, options)
      let names = try store.namespace("")
      for key in 0..<200 { try names.setBytes([1], forKey: key, tags: key < 100 ? ["tag"] : []) }
      try names.removeAll(tagged: "tag")
      for key in 1000..<1080 { try names.setBytes([2], forKey: key) }
      let left = try (100..<200).count { try names.bytes(forKey: $0) != nil }
      #expect(left >= 60, "\(policy): \(left)")
      #expect(try store.verify() == [])
    }
  }

  @Test func `A compaction and a copy keep tags and removals`() throws {
    let store = try quietStore()
    let names = try store.namespace("")
    for key in 0..<10 { try names.setBytes([1], forKey: key, tags: ["\(key % 3)"]) }
    try names.removeAll(tagged: "0")
    try store.compact()
    let copy = directory.appending("copy")
    try store.core.copy(to: copy)
    let other = try SharedStore(at: copy)
    for store in [store, other] {
      let names = try store.namespace("")
      for key in 0..<10 {
        #expect(try names.bytes(forKey: key) == (key % 3 == 0 ? nil : [1]), "\(key)")
      }
      try names.removeAll(tagged: "1")
      for key in 0..<10 { #expect(try names.bytes(forKey: key) == (key % 3 == 2 ? [1] : nil)) }
      #expect(try store.verify() == [])
    }
  }

  @Test(arguments: [false, true])
  func `A repair keeps removals, and drops tagged entries if it may miss one`(
    isMissed: Bool
  ) throws {
    do {
      let store = try quietStore(StoreOptions(durability: .durable))
      let names = try store.namespace("")
      for key in 0..<30 {
        try names.setBytes([UInt8(key)], forKey: key, tags: key < 20 ? ["\(key % 2)"] : [])
      }
      try names.setBytes([1], forKey: "pinned", pinned: true)
      try names.removeAll(tagged: "0")
      try store.core.write { transaction in
        let garbage: [UInt8] = [1, 2, 3]
        try garbage.withRawSpan { garbage throws(LMDBError) in
          if isMissed {
            try transaction.transaction.put(
              garbage, RawSpan(), RawSpan(), forKey: 42 as UInt64, in: transaction.generation.tags)
          }
          try transaction.transaction.put(
            garbage, RawSpan(), RawSpan(), forKey: NamespaceRecord.key(7), in: .main)
        }
        transaction.force()
      }
      let findings = try store.verify()
      #expect(!findings.isEmpty)
      store.close()
    }
    let report = try SharedStore.repair(at: path)
    #expect(report.outcome == .repaired)
    let store = try SharedStore(at: path, StoreOptions(durability: .durable))
    let names = try store.namespace("")
    for key in 0..<30 {
      let isLeft = key >= 20 || !isMissed && key % 2 == 1
      #expect(try names.bytes(forKey: key) == (isLeft ? [UInt8(key)] : nil), "\(key)")
    }
    #expect(try names.bytes(forKey: "pinned") == [1])
    #expect(try store.statistics().pinnedEntries == 1)
    try names.removeAll(tagged: "1")
    #expect(try names.bytes(forKey: 1) == nil)
    #expect(try store.verify() == [])
  }
}
