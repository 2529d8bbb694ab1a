// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderLMDB
import LarderSystem
import LarderTesting
import Testing

/// The code of the error that `body` throws.
func code(_ body: () throws -> Void) -> LMDBError.Code? {
  do {
    try body()
    return nil
  } catch {
    return (error as? LMDBError)?.code
  }
}

/// The public environment in one process: stored, found, iterated and refused entries.
@Suite(.timeLimit(.minutes(60))) struct EnvironmentTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  var path: String { directory.appending("environment") }

  func open(_ change: (inout EnvironmentOptions) -> Void = { _ in }) throws -> Environment {
    var options = EnvironmentOptions(mapSize: 1 << 26, durability: .onDemand)
    change(&options)
    return try Environment(at: path, options)
  }

  @Test func `What is committed is found again, also after closing`() throws {
    var environment = try open()
    var table = try environment.table("words")
    try environment.withWriteTransaction { transaction in
      try transaction.put("one", forKey: "1", in: table)
      try transaction.put([0, 255], forKey: [0], in: table)
      try [UInt8](repeating: 7, count: 100_000).withRawSpan { span throws(LMDBError) in
        try transaction.put(span, forKey: "large", in: table)
      }
      #expect(try transaction.bytes(forKey: "1", in: table) == Array("one".utf8))
    }
    for _ in 0..<2 {
      try environment.withReadTransaction { snapshot in
        #expect(try snapshot.bytes(forKey: "1", in: table) == Array("one".utf8))
        #expect(try snapshot.bytes(forKey: [0], in: table) == [0, 255])
        #expect(try snapshot.value(forKey: "large", in: table)?.byteCount == 100_000)
        #expect(try snapshot.bytes(forKey: "2", in: table) == nil)
        #expect(try snapshot.contains(key: "1", in: table))
        let statistics = try snapshot.statistics(of: table)
        #expect(statistics.entries == 3 && statistics.overflowPages > 20)
      }
      try environment.close()
      environment = try open()
      table = try environment.table("words")
    }
  }

  @Test func `A write whose closure throws leaves nothing, and one that returns leaves all of it`()
    throws
  {
    struct Changed: Error {}
    let environment = try open()
    let table = try environment.table("words")
    #expect(throws: Changed.self) {
      try environment.withWriteTransaction { transaction in
        try transaction.put("one", forKey: "1", in: table)
        try transaction.removeAll(in: table)
        try transaction.put("two", forKey: "2", in: table)
        throw Changed()
      }
    }
    let count = try environment.withReadTransaction { try $0.statistics(of: table).entries }
    #expect(count == 0)
    let result = try environment.withWriteTransaction { transaction in
      try transaction.put("one", forKey: "1", in: table)
      let first = try transaction.insert([9], forKey: "1", in: table)
      let second = try transaction.insert([9], forKey: "2", in: table)
      return [first, second, try transaction.removeValue(forKey: "3", in: table)]
    }
    #expect(result == [false, true, false])
    let left = try environment.withReadTransaction { try $0.bytes(forKey: "1", in: table) }
    #expect(left == Array("one".utf8))
  }

  @Test func `A snapshot stays as it was while others are committed`() throws {
    let environment = try open()
    let table = try environment.table("words")
    try environment.withWriteTransaction { try $0.put("old", forKey: "1", in: table) }
    try environment.withReadTransaction { snapshot in
      try environment.withWriteTransaction { try $0.put("new", forKey: "1", in: table) }
      #expect(try snapshot.bytes(forKey: "1", in: table) == Array("old".utf8))
      // A read inside of a read is a newer one.
      let inner = try environment.withReadTransaction { try $0.bytes(forKey: "1", in: table) }
      #expect(inner == Array("new".utf8))
    }
  }

  @Test func `Integers are keys in the order of numbers`() throws {
    let environment = try open()
    let table = try environment.table("numbers", keys: .integers)
    let numbers: [UInt64] = [0, 1, 255, 256, 65_536, 1 << 40, .max]
    try environment.withWriteTransaction { transaction in
      for number in numbers.reversed() { try transaction.put([1], forKey: number, in: table) }
    }
    let found = try environment.withReadTransaction { snapshot in
      var cursor = try snapshot.cursor(over: table, .after(UInt64(0)).upTo(UInt64.max).reversed)
      var found: [UInt64] = []
      while try cursor.next() { found.append(cursor.integerKey) }
      return found
    }
    #expect(found == numbers.dropFirst().dropLast().reversed())
  }

  @Test func `Ranges in both directions give what a sorted array gives`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let environment = try open()
    let table = try environment.table("words")
    // Keys that begin alike, with the bytes at the ends of the order.
    func key() -> [UInt8] {
      let letters: [UInt8] = [0, 1, 97, 254, 255]
      return (0..<Int.random(in: 1...4, using: &random)).map { _ in
        letters[Int.random(in: 0..<letters.count, using: &random)]
      }
    }
    var keys: Set<[UInt8]> = []
    for _ in 0..<150 { keys.insert(key()) }
    try environment.withWriteTransaction { transaction in
      for key in keys { try transaction.put(key.reversed(), forKey: key, in: table) }
    }
    let sorted = keys.sorted { $0.lexicographicallyPrecedes($1) }
    for _ in 0..<600 {
      let (first, second) = (key(), key())
      let below: ([UInt8], [UInt8]) -> Bool = { $0.lexicographicallyPrecedes($1) }
      let lower: (KeyRange, ([UInt8]) -> Bool) =
        [
          (.all, { _ in true }), (.from(first), { !below($0, first) }),
          (.after(first), { below(first, $0) }), (.prefix(first), { $0.starts(with: first) }),
          (.from([UInt8]()), { _ in true }),
        ].randomElement(using: &random)!
      let upper: ((KeyRange) -> KeyRange, ([UInt8]) -> Bool) =
        [
          ({ $0 }, { _ in true }), ({ $0.upTo(second) }, { below($0, second) }),
          ({ $0.through(second) }, { !below(second, $0) }),
        ].randomElement(using: &random)!
      // A prefix already has an upper end, which another would replace.
      let isPrefix = lower.0 == .prefix(first)
      var range = isPrefix ? lower.0 : upper.0(lower.0)
      var expected = sorted.filter { lower.1($0) && (isPrefix || upper.1($0)) }
      if Bool.random(using: &random) {
        range = range.reversed
        expected.reverse()
      }
      let found = try environment.withReadTransaction { snapshot in
        var found: [[UInt8]] = []
        try snapshot.forEach(in: table, range) { key, value in
          let key = key.copied()
          found.append(key)
          #expect(value.copied() == key.reversed())
        }
        return found
      }
      #expect(found == expected, "\(range), \(seed)")
    }
    let before = keys.count
    let removed = try environment.withWriteTransaction { transaction in
      try transaction.removeAll(in: table, .prefix([255]).reversed)
    }
    #expect(removed == sorted.count { $0.first == 255 })
    let left = try environment.withWriteTransaction { try $0.removeAll(in: table) }
    #expect(left == before - removed)
  }

  @Test func `Keys that are empty or too long, and bounds that are, do no harm`() throws {
    let environment = try open()
    let table = try environment.table("words")
    let tooLong = [UInt8](repeating: 1, count: 512)
    try environment.withWriteTransaction { transaction in
      try transaction.put([1], forKey: [UInt8](repeating: 1, count: 511), in: table)
      try transaction.put([2], forKey: [2], in: table)
      for key in [[], tooLong] {
        #expect(code { try transaction.put([1], forKey: key, in: table) } == .badValueSize)
        #expect(code { _ = try transaction.insert([1], forKey: key, in: table) } == .badValueSize)
      }
      // Nothing was changed by that, and nothing is in the way.
      #expect(code { try transaction.removeValue(forKey: [], in: table) } == .badValueSize)
      #expect(try !transaction.removeValue(forKey: tooLong, in: table))
    }
    try environment.withReadTransaction { snapshot in
      #expect(code { _ = try snapshot.bytes(forKey: [], in: table) } == .badValueSize)
      let found = try snapshot.bytes(forKey: tooLong, in: table)
      #expect(found == nil)
    }
    let ranges: [KeyRange] = [
      .from([]), .from(tooLong), .upTo([]), .through(tooLong), .prefix([]),
      .upTo([]).reversed, .after(tooLong).reversed,
    ]
    let counts = try environment.withReadTransaction { snapshot in
      try ranges.map { range in
        var count = 0
        try snapshot.forEach(in: table, range) { _, _ in count += 1 }
        return count
      }
    }
    #expect(counts == [2, 1, 0, 1, 2, 0, 1])
  }
}
