// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderLMDB
import LarderSystem
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct TransactionTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  static func environment(_ path: String) throws -> EnvironmentHandle {
    try EnvironmentHandle(path: path, options: .init(mapSize: 1 << 26, synchronous: false))
  }

  /// The id of the newest snapshot, and what it has for key 7.
  static func snapshot(
    _ environment: EnvironmentHandle, _ table: TableHandle? = nil
  ) throws -> (id: UInt64, value: [UInt8]?) {
    let transaction = try ReadTransaction(in: environment)
    guard let table else { return (transaction.id, nil) }
    return (transaction.id, try transaction.value(forKey: 7, in: table)?.copied())
  }

  @Test func `What is committed is in the next snapshot, what is not is nowhere`() throws {
    let environment = try Self.environment(directory.path)
    var write = try WriteTransaction(in: environment)
    let table = try write.makeTable("t", keys: .integers)
    try [1, 2, 3].withRawSpan { span throws(LMDBError) in
      try write.put(span, forKey: 7, in: table)
    }
    #expect(try Self.snapshot(environment).id == 0)
    try write.commit()
    #expect(try Self.snapshot(environment, table) == (1, [1, 2, 3]))
    do {
      var aborted = try WriteTransaction(in: environment)
      try aborted.remove(key: 7, in: table)
    }
    #expect(try Self.snapshot(environment, table) == (1, [1, 2, 3]))
    environment.close()
  }

  @Test func `A cursor walks integer keys in order, from any start`() throws {
    let environment = try Self.environment(directory.path)
    var write = try WriteTransaction(in: environment)
    let table = try write.makeTable("t", keys: .integers)
    for key in stride(from: UInt64(0), to: 1000, by: 10) {
      try [UInt8(key & 255)].withRawSpan { span throws(LMDBError) in
        try write.put(span, forKey: key << 32, in: table)
      }
    }
    try write.commit()
    var keys: [UInt64] = []
    do {
      let read = try ReadTransaction(in: environment)
      var cursor = try Cursor(over: table, in: read)
      var more = try cursor.move(atLeast: 495 << 32)
      while more {
        keys.append(cursor.currentInteger >> 32)
        more = try cursor.moveToNext()
      }
    }
    #expect(keys == Array(stride(from: UInt64(500), to: 1000, by: 10)))
    environment.close()
  }

  /// The entries of two tables, with values from nothing to several pages.
  private struct CursorModel {
    var integers: [UInt64: [UInt8]] = [:]
    var bytes: [[UInt8]: [UInt8]] = [:]

    init(_ random: inout SeededRandom) {
      for _ in 0..<1500 {
        let size = random.chance(5) ? 9000 : Int.random(in: 0..<200, using: &random)
        let value = (0..<size).map { _ in UInt8.random(in: 0...255, using: &random) }
        integers[UInt64.random(in: 0..<1 << 40, using: &random)] = value
        let length = Int.random(in: 1...60, using: &random)
        bytes[(0..<length).map { _ in UInt8.random(in: 0...3, using: &random) }] = value
      }
    }
  }

  /// Moves a cursor at random and compares it with sorted entries.
  @_lifetime(cursor: copy cursor)
  private static func wander(
    _ cursor: inout Cursor, _ entries: [(key: [UInt8], value: [UInt8])],
    _ random: inout SeededRandom
  ) throws -> Bool {
    var position = 0
    guard try cursor.moveToFirst() else { return entries.isEmpty }
    for _ in 0..<6000 {
      guard cursor.currentKey.copied() == entries[position].key,
        cursor.currentValue.copied() == entries[position].value
      else { return false }
      switch Int.random(in: 0..<100, using: &random) {
      case 0:
        position = Int.random(in: 0..<entries.count, using: &random)
        guard try cursor.move(atLeast: entries[position].key) else { return false }
      case 1:
        position = entries.count - 1
        guard try cursor.moveToLast() else { return false }
      case 2..<12:
        guard try cursor.moveToPrevious() == (position > 0) else { return false }
        if position == 0 { _ = try cursor.moveToFirst() } else { position -= 1 }
      default:
        guard try cursor.moveToNext() == (position + 1 < entries.count) else { return false }
        if position + 1 == entries.count {
          position = 0
          _ = try cursor.moveToFirst()
        } else {
          position += 1
        }
      }
    }
    return true
  }

  @Test func `A cursor gives what LMDB stores, whether pages are committed or changed`() throws {
    let seed = Seed.announce()
    var random = SeededRandom(seed: seed.value)
    let model = CursorModel(&random)
    let environment = try Self.environment(directory.path)
    var write = try WriteTransaction(in: environment)
    let integers = try write.makeTable("integers", keys: .integers)
    let bytes = try write.makeTable("bytes", keys: .bytes)
    for (key, value) in model.integers {
      try value.withRawSpan { span throws(LMDBError) in
        try write.put(span, forKey: key, in: integers)
      }
    }
    for (key, value) in model.bytes { try write.put(value, forKey: key, in: bytes) }
    let numbers = model.integers.sorted { $0.key < $1.key }.map { number in
      var key: [UInt8] = []
      key.append(littleEndian: number.key)
      return (key: key, value: number.value)
    }
    let strings = model.bytes.sorted { $0.key.lexicographicallyPrecedes($1.key) }
      .map { (key: $0.key, value: $0.value) }
    // Changed pages are not in the map.
    try write.withReading { reading in
      var cursor = try Cursor(over: bytes, in: reading)
      #expect(try Self.wander(&cursor, strings, &random), "\(seed)")
    }
    try write.commit()
    do {
      let read = try ReadTransaction(in: environment)
      var cursor = try Cursor(over: bytes, in: read)
      #expect(try Self.wander(&cursor, strings, &random), "\(seed)")
      var other = try Cursor(over: integers, in: read)
      #expect(try Self.wander(&other, numbers, &random), "\(seed)")
    }
    environment.close()
  }

  @Test func `A cursor passes every entry once, whatever the bytes of a key are`() throws {
    let names = (0..<400).map { Array("key-\(1000 + $0)".utf8) }
    func walk() throws -> Int {
      let environment = try Self.environment(directory.path)
      defer { environment.close() }
      let read = try ReadTransaction(in: environment)
      let table = try #require(try read.table("t", keys: .bytes))
      var cursor = try Cursor(over: table, in: read)
      var steps = 0
      var more = try cursor.moveToFirst()
      while more, steps <= 2 * names.count {
        steps += 1
        more = try cursor.moveToNext()
      }
      return steps
    }
    do {
      let environment = try Self.environment(directory.path)
      var write = try WriteTransaction(in: environment)
      let table = try write.makeTable("t", keys: .bytes)
      for name in names {
        try write.put([UInt8](repeating: 7, count: 90), forKey: name, in: table)
      }
      try write.commit()
      environment.close()
    }
    #expect(try walk() == names.count)
    let file = directory.path + "/data.mdb"
    let intact = try TestFiles.contents(of: file)
    for number in stride(from: 1, to: names.count, by: 3) {
      var bytes = intact
      // The key of each leaf entry, and of branches, becomes lower than all others.
      for place in Self.places(of: names[number], in: intact) { bytes[place + 4] = 0x20 }
      try TestFiles.write(bytes, to: file)
      #expect(try walk() == names.count, "\(number)")
    }
  }

  private static func places(of name: [UInt8], in bytes: [UInt8]) -> [Int] {
    (0..<bytes.count - name.count).filter {
      bytes[$0] == name[0] && bytes[$0..<$0 + name.count].elementsEqual(name)
    }
  }

  @Test func `A directory is opened once per process, by whatever path`() throws {
    let environment = try Self.environment(directory.path)
    let error = #expect(throws: LMDBError.self) {
      try Self.environment(directory.path + "/../" + directory.path.split(separator: "/").last!)
    }
    #expect(error?.code == .alreadyOpen)
    environment.close()
    try Self.environment(directory.path).close()
  }

  @Test func `An error names the call and the code`() throws {
    let error = #expect(throws: LMDBError.self) {
      try Self.environment(directory.path + "/missing")
    }
    #expect(error?.operation == "mdb_env_open")
    #expect(error.map { "\($0)".contains("mdb_env_open") } == true)
  }

  @Test func `The readers of an environment are listed with what they hold`() throws {
    let environment = try Self.environment(directory.path)
    do {
      let resting = try ReadTransaction(in: environment)
      let readers = try environment.readers()
      #expect(readers.contains { $0.pid == ProcessIdentity.pid })
      let dead = try environment.clearDeadReaders()
      let id = resting.id
      #expect(dead == 0 && id == 0)
    }
    environment.close()
  }

  @Test func `A write transaction on another thread is a trap, not a hang`() async {
    await #expect(processExitsWith: .failure) {
      let directory = try TemporaryDirectory()
      let environment = try TransactionTests.environment(directory.path)
      let box = TransactionBox()
      box.transaction = try WriteTransaction(in: environment)
      JoinableThread { _ = try? box.transaction.take()?.commit() }.join()
    }
  }
}

/// Carries a transaction where it must not go.
final class TransactionBox: @unchecked Sendable {
  // Two threads never touch it at the same time: one waits for the other.
  var transaction: WriteTransaction?
}
