// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The defects that the damage mode found, each with the few bytes that cause it.
@Suite(.timeLimit(.minutes(60))) struct DamageRegressionTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// A closed store with 20 entries in two namespaces; answers its generation's directory.
  func makeStore(_ durability: Durability) throws -> String {
    let store = try SharedStore(at: path, .init(durability: durability))
    for key in 0..<20 { try store.setBytes([7, UInt8(key)], forKey: key, in: key < 10 ? "" : "n") }
    store.close()
    return path + (durability == .cache ? "/v1/g-1" : "/g-1")
  }

  func open(_ durability: Durability) throws -> SharedStore {
    try SharedStore(
      at: path,
      .init(durability: durability, openTimeout: .seconds(600), writeTimeout: .seconds(600)))
  }

  /// Everything is there, and it works.
  func expectWhole(_ store: SharedStore, _ what: String) throws {
    for key in 0..<20 {
      #expect(
        try store.bytes(forKey: key, in: key < 10 ? "" : "n") == [7, UInt8(key)], "\(what)")
    }
    try store.setBytes([1], forKey: "new")
    #expect(try store.bytes(forKey: "new") == [1], "\(what)")
    #expect(try store.verify() == [], "\(what)")
    #expect(try store.statistics().hitRatio ?? 0 <= 1, "\(what)")
  }

  func poke(_ value: UInt64, _ size: Int, at offset: Int, in file: String) throws {
    var bytes: [UInt8] = []
    bytes.append(littleEndian: value)
    try TestFiles.overwrite(Array(bytes.prefix(size)), at: offset, in: file)
  }

  @Test(arguments: [
    ("open attempts at their end", SharedTableLayout.openAttempts, 4, UInt64.max),
    ("deaths inside at their end", SharedTableLayout.crashesInLMDB, 4, UInt64.max),
    ("a writer's label of the future", SharedTableLayout.writerVersion, 8, UInt64.max >> 1),
    ("a stamped label of the future", SharedTableLayout.lastStamped, 8, UInt64.max),
    ("a floor of the future", SharedTableLayout.floor, 8, 0),
    ("a ticket of a process that never was", SharedTableLayout.ticket, 4, 77),
    ("a ticket of no slot that others wait for", SharedTableLayout.ticket, 4, UInt64.max),
    ("a budget of one byte", SharedTableLayout.budget, 8, 1),
    ("memory hits at their end", SharedTableLayout.retired, 8, UInt64.max),
    ("misses at their end", SharedTableLayout.retired + 16, 8, UInt64.max),
    ("a condemned table", SharedTableLayout.condemned, 4, 1),
    ("a log gap of the future", SharedTableLayout.logGap, 8, UInt64.max),
    ("a log that starts at its end", SharedTableLayout.logStart, 8, UInt64.max),
    ("a log that starts where no segment is", SharedTableLayout.logStart, 8, 1 << 39),
    ("logged commits of the future", SharedTableLayout.logged, 8, UInt64.max >> 1),
    ("durable commits of the future", SharedTableLayout.durable, 8, UInt64.max),
    ("an even log end beyond any file", SharedTableLayout.logEnds + 12, 4, UInt64.max),
    ("an odd log end beyond any file", SharedTableLayout.logEnds + 44, 4, UInt64.max),
    ("an even log end in another place", SharedTableLayout.logEnds + 8, 1, 9),
    ("an odd log end in another place", SharedTableLayout.logEnds + 40, 1, 9),
  ])
  func `A hostile word in shared.table costs a durable store nothing`(
    what: String, offset: Int, size: Int, value: UInt64
  ) throws {
    for durability in [Durability.durable, .relaxed] {
      TestFiles.removeAll(path)
      let generation = try makeStore(durability)
      try poke(value, size, at: offset, in: generation + "/shared.table")
      let store = try open(durability)
      try expectWhole(store, what)
      let table = try store.core.generation().table
      #expect(table.durableVersion <= table.lastStamped, "\(what): writes wait for no sync")
      // Segments that a recovery would read are not used again.
      for key in 0..<120 {
        try store.setBytes([UInt8](repeating: 1, count: 3000), forKey: key % 40, in: "log")
      }
      if durability == .relaxed { try store.sync() }
      #expect(try store.core.generation().checkLog() == nil, "\(what)")
      store.close()
      try expectWhole(open(durability), what + ", opened again")
    }
  }

  enum Stranger: String, CaseIterable { case pipe, directory, link }

  func put(_ stranger: Stranger, inPlaceOf file: String) throws {
    switch stranger {
    case .pipe:
      TestFiles.removeAll(file)
      #expect(unsafe mkfifo(file, 0o600) == 0)
    case .directory:
      TestFiles.removeAll(file)
      try TestFiles.makeDirectory(file)
    case .link:
      try TestFiles.move(file, to: file + ".moved")
      try TestFiles.makeSymbolicLink(file, to: file + ".moved")
    }
  }

  @Test(arguments: Stranger.allCases)
  func `A non-file at the path of a file is damage and never blocks`(
    stranger: Stranger
  ) throws {
    for name in ["data.mdb", "lock.mdb", "shared.table", "state", "presence"] {
      TestFiles.removeAll(path)
      try put(stranger, inPlaceOf: makeStore(.cache) + "/" + name)
      let cache = try open(.cache)
      try cache.setBytes([1], forKey: 1)
      #expect(try cache.bytes(forKey: 1) == [1], "\(name)")
      #expect(try cache.verify() == [], "\(name)")
      cache.close()
      TestFiles.removeAll(path)
      try put(stranger, inPlaceOf: makeStore(.durable) + "/" + name)
      let error = #expect(throws: StoreError.self) { try open(.durable) }
      #expect(error?.code == .damaged, "\(name): \(String(describing: error))")
    }
    for durability in Durability.allCases {
      TestFiles.removeAll(path)
      let generation = try makeStore(durability)
      try put(stranger, inPlaceOf: generation.dropLast(4) + "/CURRENT")
      try expectWhole(open(durability), "CURRENT, \(durability)")
    }
  }

  @Test(arguments: Stranger.allCases)
  func `A non-file at the path of a file of the log is damage`(stranger: Stranger) throws {
    for durability in [Durability.durable, .relaxed] {
      for name in ["log-0", "log-1", "synced"] {
        TestFiles.removeAll(path)
        let generation = try makeStore(durability)
        let store = try open(durability)
        for key in 0..<12 { try store.setBytes([UInt8](repeating: 1, count: 3000), forKey: key) }
        store.close()
        #expect(TestFiles.exists(generation + "/" + name))
        try put(stranger, inPlaceOf: generation + "/" + name)
        let error = #expect(throws: StoreError.self, "\(name), \(durability)") {
          try open(durability)
        }
        #expect(error?.code == .damaged, "\(name): \(String(describing: error))")
      }
    }
  }

  /// Changes a byte after a pattern in data.mdb, in every page that contains it.
  func spoil(_ pattern: [UInt8], plus offset: Int, in file: String) throws {
    let data = try TestFiles.contents(of: file)
    var found = 0
    for start in 0..<(data.count - pattern.count - offset)
    where data[start..<(start + pattern.count)].elementsEqual(pattern) {
      try TestFiles.overwrite([data[start + offset] ^ 1], at: start + offset, in: file)
      found += 1
    }
    #expect(found > 0)
  }

  @Test(arguments: [
    ("meta", 4), ("meta", 4 + 32), ("meta", 4 + 48), ("totals", 6), ("totals", 6 + 16),
    ("n:n", 3), ("i:\u{0}\u{0}\u{0}\u{2}", 6), ("i:\u{0}\u{0}\u{0}\u{2}", 6 + 16),
  ])
  func `A flipped bit in the store's own records is noticed`(name: String, offset: Int) throws {
    try spoil(Array(name.utf8), plus: offset, in: makeStore(.durable) + "/data.mdb")
    do {
      let store = try open(.durable)
      #expect(try store.verify() != [])
      for key in 0..<20 {
        do {
          let value = try store.bytes(forKey: key, in: key < 10 ? "" : "n")
          #expect(value == [7, UInt8(key)], "lost without a word: \(key)")
        } catch let error as StoreError {
          #expect(error.code == .damaged)
        }
      }
      // Listing and counting throw nothing of the layers below.
      do { _ = try store.core.page(of: nil, from: 0, limit: 100) } catch is StoreError {}
    } catch let error as StoreError {
      #expect(error.code == .damaged)
    }
  }

  @Test func `A table whose record is marked as a value is damage`() throws {
    for durability in Durability.allCases {
      TestFiles.removeAll(path)
      let file = try makeStore(durability) + "/data.mdb"
      let data = try TestFiles.contents(of: file)
      // A node of LMDB: size, flags (2: a table), length of the key, key.
      let node: [UInt8] = [2, 0, 7, 0] + Array("objects".utf8)
      let starts = (0..<data.count - node.count).filter { data[$0...].starts(with: node) }
      #expect(!starts.isEmpty)
      for start in starts { try TestFiles.overwrite([0], at: start, in: file) }
      guard durability == .cache else {
        let error = #expect(throws: StoreError.self, "\(durability)") { try open(durability) }
        #expect(error?.code == .damaged, "\(durability): \(String(describing: error))")
        continue
      }
      let store = try open(durability)
      #expect(try store.bytes(forKey: 1) == nil)
      try store.setBytes([1], forKey: 1)
      #expect(try store.bytes(forKey: 1) == [1])
      #expect(try store.verify() == [])
    }
  }

  @Test func `A data file of another generation is refused`() throws {
    let generation = try makeStore(.cache)
    let store = try open(.cache)
    let old = try store.core.generation()
    old.table.fence()
    try store.core.switchGeneration(from: old)
    store.close()
    let theirs = try TestFiles.contents(of: generation.dropLast(1) + "2/data.mdb")
    TestFiles.removeAll(path)
    _ = try makeStore(.cache)
    try TestFiles.write(theirs, to: generation + "/data.mdb")
    let again = try open(.cache)
    #expect(try again.bytes(forKey: 1) == nil)
    try again.setBytes([1], forKey: 1)
    #expect(try again.bytes(forKey: 1) == [1])
    #expect(try again.verify() == [])
  }
}
