// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

/// Look-ups of entries at the locations where they were last read.
@Suite(.timeLimit(.minutes(60))) struct LocationCacheTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  private func remembered(_ key: some CacheKey, _ store: SharedStore) throws -> [UInt8]? {
    let namespace = try store.namespace("")
    // The first look-up determines a namespace's identifier.
    _ = try namespace.bytes(forKey: key)
    return try store.openCore("get").readCachedLocation(EncodedKey(key), in: namespace.space)
  }

  @Test func `An entry that was read is found again without the tree until it is written`() throws {
    let store = try SharedStore(at: path)
    try store.setBytes([1, 2, 3], forKey: "a")
    let namespace = try store.namespace("")
    let core = try store.openCore("get")
    #expect(try core.readCachedLocation(EncodedKey("a"), in: namespace.space) == nil)
    #expect(try namespace.bytes(forKey: "a") == [1, 2, 3])
    #expect(try core.readCachedLocation(EncodedKey("a"), in: namespace.space) == [1, 2, 3])

    let hits = try store.statistics().storeHits
    #expect(try namespace.bytes(forKey: "a") == [1, 2, 3])
    #expect(try store.statistics().storeHits == hits + 1)

    try store.setBytes([4], forKey: "a")
    #expect(try core.readCachedLocation(EncodedKey("a"), in: namespace.space) == nil)
    #expect(try namespace.bytes(forKey: "a") == [4])
    #expect(try core.readCachedLocation(EncodedKey("a"), in: namespace.space) == [4])
    try store.remove(forKey: "a")
    #expect(try core.readCachedLocation(EncodedKey("a"), in: namespace.space) == nil)
    #expect(try namespace.bytes(forKey: "a") == nil)
  }

  @Test(.enabled(if: hasTools, needsTools))
  func `An entry that another process wrote is not read at its old location`() throws {
    let store = try SharedStore(at: path)
    try store.setBytes([1], forKey: "a")
    #expect(try remembered("a", store) == [1])
    let tool = try TestExecutable.tool.path
    for value in ["x", "y", "z"] {
      let set = try ChildProcess.run(tool, ["set", "a", value, "--store", path])
      #expect(set.status.isSuccess, "\(set.standardError)")
      #expect(
        try store.openCore("get").readCachedLocation(EncodedKey("a"), in: NamespaceHandle(name: ""))
          == nil)
      #expect(try store.bytes(forKey: "a") == Array(value.utf8))
    }
    let remove = try ChildProcess.run(tool, ["remove", "a", "--store", path])
    #expect(remove.status.isSuccess, "\(remove.standardError)")
    #expect(try store.bytes(forKey: "a") == nil)
  }

  @Test func `Clearing, expiry and a new generation end what is remembered`() throws {
    let clock = ManualClock(milliseconds: 1_000_000)
    let store = try SharedStore(at: path, StoreOptions(clock: clock.storeClock))
    let namespace = try store.namespace("")
    try namespace.setBytes([1], forKey: 1)
    try namespace.setBytes([2], forKey: 2, expires: .after(.seconds(10)))
    #expect(try remembered(1, store) == [1])
    #expect(try remembered(2, store) == [2])
    clock.advance(by: .seconds(11))
    #expect(try remembered(2, store) == nil)
    #expect(try namespace.bytes(forKey: 2) == nil)
    #expect(try remembered(1, store) == [1])
    try store.compact()
    #expect(
      try store.openCore("get").readCachedLocation(EncodedKey(1), in: namespace.space) == nil)
    #expect(try remembered(1, store) == [1])
    try namespace.removeAll()
    #expect(
      try store.openCore("get").readCachedLocation(EncodedKey(1), in: namespace.space) == nil)
    #expect(try namespace.bytes(forKey: 1) == nil)
  }

  @Test(arguments: [64, 8])
  func `Every read is right while pages are reused repeatedly`(bits: Int) throws {
    let seed = Seed.announce()
    var random = seed.generator()
    var options = StoreOptions(budget: .megabytes(64))
    options.hashBits = bits
    let store = try SharedStore(at: path, options)
    let namespace = try store.namespace("")
    var expected: [Int: [UInt8]] = [:]
    var (remembered, again) = (0, 0)
    for round in 0..<60 {
      let changes = (0..<40).map { _ -> (key: Int, bytes: [UInt8]?) in
        let key = Int.random(in: 0..<1000, using: &random)
        guard Int.random(in: 0..<5, using: &random) > 0 else { return (key, nil) }
        let size = Int.random(in: 0..<1500, using: &random)
        return (key, [UInt8](repeating: UInt8(truncatingIfNeeded: round), count: size))
      }
      for (key, bytes) in changes { expected[key] = bytes }
      try store.write { transaction in
        for (key, bytes) in changes {
          if let bytes {
            try transaction.setBytes(bytes, forKey: key)
          } else {
            try transaction.remove(forKey: key)
          }
        }
      }
      for key in 0..<1000 {
        let core = try store.openCore("get")
        if let found = try core.readCachedLocation(EncodedKey(key), in: namespace.space) {
          remembered += 1
          #expect(found == expected[key], "key \(key) in round \(round)")
        }
        #expect(try namespace.bytes(forKey: key) == expected[key], "key \(key) in round \(round)")
        if let found = try core.readCachedLocation(EncodedKey(key), in: namespace.space) {
          again += 1
          #expect(found == expected[key], "key \(key) in round \(round)")
        }
      }
    }
    // With few hashes all keys share one line: the test is about its collisions.
    #expect(again > 10_000 && (bits < 64 || remembered > 10_000), "\(remembered), \(again)")
    #expect(try store.verify() == [])
  }

  @Test func `Empty and long keys and values are equal by location and by tree`()
    throws
  {
    let store = try SharedStore(at: path)
    let namespace = try store.namespace("")
    for length in [0, 1, 7, 8, 500, 32_000, 100_000] {
      for size in [0, 1, 300, 32_600, 200_000] {
        let key = String(repeating: "é", count: length / 2) + (length % 2 == 0 ? "" : "k")
        let value = EntryDamageTests.payload(size)
        try namespace.setBytes(value, forKey: key)
        for _ in 0..<3 {
          #expect(try namespace.bytes(forKey: key) == value, "\(length), \(size)")
        }
        let isWhole = 64 + key.utf8.count + size <= 32_752
        let found = try store.openCore("get").readCachedLocation(
          EncodedKey(key), in: namespace.space)
        #expect(found == (isWhole ? value : nil), "\(length), \(size)")
      }
    }
    #expect(try store.verify() == [])
  }

  @Test func `Damage at a remembered location is reported as damage`() throws {
    let store = try SharedStore(at: path, .init(durability: .durable))
    let payload = EntryDamageTests.payload(400)
    try store.setBytes(payload, forKey: "broken")
    #expect(try remembered("broken", store) == payload)
    #expect(try EntryDamageTests.flip(payload, in: StoreFiles(of: path).data) > 0)
    #expect(
      try store.openCore("get").readCachedLocation(
        EncodedKey("broken"), in: NamespaceHandle(name: ""))
        == nil)
    #expect(throws: StoreError.self) { try store.bytes(forKey: "broken") }
  }
}
