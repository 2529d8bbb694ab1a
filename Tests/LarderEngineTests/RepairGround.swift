// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// A durable store with a past: every key was written several times, some were removed, and it is
/// known what is in it.
struct RepairGround {
  static let spaces = ["", "users", "blobs"]

  let path: String
  /// The newest acknowledged value of each key; those removed are missing.
  private(set) var newest: [Place: [UInt8]] = [:]
  /// All values a key ever had.
  private(set) var past: [Place: Set<[UInt8]>] = [:]

  struct Place: Hashable {
    let space: String
    let key: Int
  }

  init(at path: String, seed: Seed, hashBits: Int = 64, rounds: Int = 150) throws {
    self.path = path
    var random = seed.generator()
    var options = StoreOptions(durability: .durable)
    options.hashBits = hashBits
    // No checkpoint of an idle store comes in between, however slow the machine is.
    options.idleSyncDelay = nil
    let store = try SharedStore(at: path, options)
    for round in 0..<rounds {
      let clearing = round == rounds / 2 ? "users" : nil
      var writes: [(Place, [UInt8]?)] = []
      for _ in 0..<Int.random(in: 1...12, using: &random) {
        let place = Place(
          space: Self.spaces.randomElement(using: &random)!,
          key: Int.random(in: 0..<150, using: &random))
        let size = [20, 200, 700, 3000, 20_000, 80_000][
          min(5, Int.random(in: 0..<18, using: &random) / 3)]
        let isRemoval = Int.random(in: 0..<6, using: &random) == 0
        writes.append((place, isRemoval ? nil : Self.value(place, round, size)))
      }
      let batch = writes
      if let clearing { try store.removeAll(in: clearing) }
      try store.write { transaction in
        for (place, value) in batch {
          if let value {
            try transaction.setBytes(
              value, forKey: place.key, in: place.space,
              expires: place.key % 5 == 0
                ? .after(.seconds(86_400))
                : place.key % 5 == 1 ? .afterAccess(.seconds(86_400)) : .never)
          } else {
            try transaction.remove(forKey: place.key, in: place.space)
          }
        }
      }
      if let clearing { newest = newest.filter { $0.key.space != clearing } }
      for (place, value) in batch {
        newest[place] = value
        if let value { past[place, default: []].insert(value) }
      }
    }
    store.close()
  }

  /// Every page with a part of the value contains its key.
  static func value(_ place: Place, _ round: Int, _ size: Int) -> [UInt8] {
    let mark = mark(place, round)
    var value: [UInt8] = []
    while value.count < size { value += mark }
    return value
  }

  static func mark(_ place: Place, _ round: Int) -> [UInt8] {
    Array("<\(place.space)/\(place.key)@\(round)>".utf8)
  }

  /// A copy to be damaged.
  func copy(to target: String) throws -> StoreFiles {
    TestFiles.removeAll(target)
    try run("/bin/cp", "-a", "--sparse=always", path, target)
    return try StoreFiles(of: target)
  }

  /// A copy to be damaged, with neither checkpoint nor log: what is readable is all that a repair has.
  func copyWithoutCheckpoint(to target: String) throws -> StoreFiles {
    let files = try copy(to: target)
    let names = TestFiles.names(in: files.generation)
      .filter { $0 == "synced" || $0.hasPrefix("log-") }
    #expect(names.count > 1)
    for name in names { TestFiles.removeAll(files.generation + "/" + name) }
    return files
  }

  /// Checks the contents of a repaired store. Every value must be the newest, unless commits may be
  /// missing; then it must be an earlier value of its key.
  func check(
    _ path: String, mayMissCommits: Bool, _ comment: Comment
  ) throws -> Set<Place> {
    let store = try SharedStore(at: path, .init(durability: .durable))
    defer { store.close() }
    var found: Set<Place> = []
    let names = try store.statistics().namespaces.map(\.name)
    for place in past.keys {
      for name in [place.space] + names.filter({ $0.hasPrefix("recovered-") }) {
        guard let value = try store.bytes(forKey: place.key, in: name) else { continue }
        if name != place.space, !value.starts(with: Array("<\(place.space)/".utf8)) { continue }
        found.insert(place)
        let isRight =
          mayMissCommits ? past[place]!.contains(value) : value == newest[place]
        #expect(
          isRight, "\(place): \(String(decoding: value.prefix(20), as: UTF8.self)), \(comment)")
      }
    }
    #expect(try store.verify() == [], comment)
    try store.setBytes([1, 2, 3], forKey: "written after", in: "users")
    #expect(try store.bytes(forKey: "written after", in: "users") == [1, 2, 3], comment)
    #expect(try store.verify() == [], comment)
    return found
  }
}

/// The pages of a valid data file that are in use, and their purpose.
struct LivePages {
  enum Kind: Hashable { case branch, leaf, overflow }
  struct Page: Hashable {
    let table: String
    let kind: Kind
  }

  private(set) var pages: [Int: Page] = [:]
  private let bytes: [UInt8]

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
    let meta = word(144) < word(4096 + 144) ? 4096 : 0
    walk(Int(truncatingIfNeeded: word(meta + 88 + 40)), "main")
    walk(Int(truncatingIfNeeded: word(meta + 40 + 40)), "free")
  }

  private func word(_ offset: Int, count: Int = 8) -> UInt64 {
    (0..<count).reduce(0) { $0 | UInt64(bytes[offset + $1]) << UInt64(8 * $1) }
  }
  private func half(_ offset: Int) -> Int { Int(word(offset, count: 2)) }

  private mutating func walk(_ page: Int, _ table: String) {
    guard page > 0 else { return }
    let base = page * 4096
    let isBranch = half(base + 10) == 1
    pages[page] = Page(table: table, kind: isBranch ? .branch : .leaf)
    for index in 0..<(half(base + 12) - 16) / 2 {
      let node = base + half(base + 16 + 2 * index)
      if isBranch {
        walk(half(node) | half(node + 2) << 16 | half(node + 4) << 32, table)
        continue
      }
      let data = node + 8 + half(node + 6)
      switch half(node + 4) {
      case 1:
        let first = Int(word(data))
        for page in first..<first + Int(word(first * 4096 + 12, count: 4)) {
          pages[page] = Page(table: table, kind: .overflow)
        }
      case 2:
        let name = String(decoding: bytes[(node + 8)..<data], as: UTF8.self)
        walk(Int(truncatingIfNeeded: word(data + 40)), name)
      default: break
      }
    }
  }

  /// For each mark `<...>` the pages in use on which it begins.
  func marks() -> [[UInt8]: Set<Int>] {
    var result: [[UInt8]: Set<Int>] = [:]
    for page in pages.keys {
      for place in (page * 4096)..<(page * 4096 + 4096) where bytes[place] == UInt8(ascii: "<") {
        let end = min(place + 40, bytes.count)
        guard let close = bytes[place..<end].firstIndex(of: UInt8(ascii: ">")) else { continue }
        result[Array(bytes[place...close]), default: []].insert(page)
      }
    }
    return result
  }
}
