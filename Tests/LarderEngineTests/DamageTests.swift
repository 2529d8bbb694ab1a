// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// Damage to the files of a closed store.
@Suite(.timeLimit(.minutes(60))) struct DamageTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// Entries in every stored form: inside a page, on overflow pages, in several chunks.
  static let sizes = [10, 5000, 100_000]

  static func value(_ key: Int) -> [UInt8] {
    [UInt8](repeating: UInt8(truncatingIfNeeded: key &* 7 + 1), count: sizes[key % 3] + key)
  }

  enum Damage: String, CaseIterable {
    case garbage, truncated, empty, missing, foreign
  }

  /// A closed store with 30 entries.
  func makeStore(_ durability: Durability, at path: String, scale: Int = 1) throws {
    let store = try SharedStore(at: path, .init(durability: durability))
    try store.write { transaction in
      for key in 0..<(30 * scale) { try transaction.setBytes(Self.value(key), forKey: key) }
    }
    store.close()
  }

  func apply(_ damage: Damage, to file: String, foreign: String) throws {
    let size = try TestFiles.size(file)
    switch damage {
    case .garbage:
      var random = SeededRandom(seed: UInt64(size))
      try TestFiles.write(
        (0..<size).map { _ in UInt8.random(in: 0...255, using: &random) }, to: file)
    case .truncated: try TestFiles.truncate(file, to: size / 2)
    case .empty: try TestFiles.truncate(file, to: 0)
    case .missing: TestFiles.removeAll(file)
    case .foreign: try TestFiles.write(TestFiles.contents(of: foreign), to: file)
    }
  }

  @Test(arguments: Damage.allCases)
  func `Damage to files other than the data loses nothing`(damage: Damage) throws {
    // The other store is larger, so that the fields of its files are wrong here.
    let stranger = directory.path + "/stranger"
    for durability in Durability.allCases {
      TestFiles.removeAll(stranger)
      try makeStore(durability, at: stranger, scale: 4)
      let theirs = try StoreFiles(of: stranger)
      for name in ["CURRENT", "state", "shared.table", "lock.mdb"] {
        TestFiles.removeAll(path)
        try makeStore(durability, at: path)
        let files = try StoreFiles(of: path)
        func file(_ files: StoreFiles) -> String {
          (name == "CURRENT" ? files.root : files.generation) + "/" + name
        }
        try apply(damage, to: file(files), foreign: file(theirs))
        let log = EventLog()
        let store = try SharedStore(at: path, log.options(durability))
        #expect(!log.resetToEmpty, "\(durability), \(name): \(log.events)")
        for key in 0..<30 {
          #expect(try store.bytes(forKey: key) == Self.value(key), "\(durability), \(name)")
        }
        try expectSound(store)
        store.close()
      }
    }
  }

  @Test(arguments: Damage.allCases)
  func `A cache with damaged data starts empty with an event, and works`(damage: Damage) throws {
    let stranger = directory.path + "/stranger"
    try makeStore(.cache, at: stranger, scale: 4)
    try makeStore(.cache, at: path)
    let files = try StoreFiles(of: path)
    try apply(damage, to: files.data, foreign: StoreFiles(of: stranger).data)
    // A valid but foreign file is accepted only where no other file contradicts it.
    let log = EventLog()
    let store = try SharedStore(at: path, log.options())
    if damage != .foreign {
      #expect(log.resetToEmpty, "\(log.events)")
      #expect(try store.statistics().entries == 0)
    }
    for key in 0..<30 {
      let found = try store.bytes(forKey: key)
      #expect(found == nil || found == Self.value(key))
    }
    try expectSound(store)
    store.close()
    let again = EventLog()
    #expect(try SharedStore(at: path, again.options()).bytes(forKey: "new") == [1, 2, 3])
    #expect(again.events == [])
  }

  @Test(arguments: [Damage.garbage, .truncated, .empty, .missing])
  func `A durable store with damaged data is not opened and not touched`(damage: Damage) throws {
    try makeStore(.durable, at: path)
    let files = try StoreFiles(of: path)
    try apply(damage, to: files.data, foreign: "")
    let before = try? TestFiles.contents(of: files.data)
    for _ in 0..<3 {
      let error = #expect(throws: StoreError.self) {
        try SharedStore(at: path, .init(durability: .durable))
      }
      #expect(error?.code == .damaged, "\(error.map { "\($0)" } ?? "")")
      #expect(error?.message.contains("Nothing was touched") == true)
      #expect((try? TestFiles.contents(of: files.data)) == before)
    }
  }

  @Test func `Two stores that traded their data files do not read each other's values`() throws {
    for durability in Durability.allCases {
      let (one, two) = ("\(path)-1-\(durability)", "\(path)-2-\(durability)")
      try makeStore(durability, at: one)
      let other = try SharedStore(at: two, .init(durability: durability))
      for key in 0..<30 { try other.setBytes([255], forKey: key) }
      other.close()
      let (files, theirs) = (try StoreFiles(of: one), try StoreFiles(of: two))
      try TestFiles.move(files.state, to: one + "-state")
      try TestFiles.move(theirs.state, to: files.state)
      try TestFiles.move(one + "-state", to: theirs.state)
      try TestFiles.move(files.table, to: one + "-table")
      try TestFiles.move(theirs.table, to: files.table)
      try TestFiles.move(one + "-table", to: theirs.table)
      let second = try SharedStore(at: two, .init(durability: durability))
      if durability != .cache {
        // By the other's state this one has lost commits, and nothing says which.
        let before = try TestFiles.contents(of: files.data)
        let error = #expect(throws: StoreError.self) {
          try SharedStore(at: one, .init(durability: durability))
        }
        #expect(error?.code == .damaged, "\(durability)")
        #expect(try TestFiles.contents(of: files.data) == before)
        for key in 0..<30 { #expect(try second.bytes(forKey: key) == [255]) }
        try expectSound(second)
        continue
      }
      let store = try SharedStore(at: one, .init(durability: durability))
      for key in 0..<30 {
        // A cache that seems to lack commits starts empty.
        let (value, others) = (try store.bytes(forKey: key), try second.bytes(forKey: key))
        #expect(value == Self.value(key) || value == nil)
        #expect(others == [255] || others == nil)
      }
      try expectSound(store)
      try expectSound(second)
    }
  }

  /// The store takes a write, keeps it, and finds nothing wrong with itself.
  func expectSound(_ store: SharedStore) throws {
    try store.setBytes([1, 2, 3], forKey: "new")
    #expect(try store.bytes(forKey: "new") == [1, 2, 3])
    #expect(try store.verify() == [])
  }
}
