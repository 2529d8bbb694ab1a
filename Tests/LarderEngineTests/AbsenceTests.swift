// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// Damage on the way to a key that is stored, in a store that survives system crashes.
@Suite(.timeLimit(.minutes(60))) struct AbsenceTests {
  /// The damage of one page.
  enum Damage: String, CaseIterable, CustomTestStringConvertible {
    /// A leaf's flags say branch, so the sizes of its values are read as page numbers.
    case leafAsBranch
    /// Two children of a branch page are exchanged.
    case exchangedChildren
    /// A branch page names one child twice.
    case repeatedChild

    var testDescription: String { rawValue }
  }

  private static let pageSize = 4096
  private static let keys = 4000

  /// The data file of a store and its bytes at one moment.
  private struct DataFile {
    let path: String
    let bytes: [UInt8]

    init(of store: String) throws {
      path = try StoreFiles(of: store).data
      bytes = try TestFiles.contents(of: path)
    }

    func short(_ offset: Int) -> Int { Int(bytes[offset]) | Int(bytes[offset + 1]) << 8 }

    /// The starts of the pages with these flags and at least eight nodes.
    func pages(flags: Int) -> [Int] {
      stride(from: 2 * pageSize, to: bytes.count, by: pageSize).filter { page in
        short(page + 10) == flags && short(page + 12) >= 16 + 2 * 8
      }
    }

    /// The offset of the page number in a node of a branch page.
    func child(_ index: Int, of page: Int) -> Int { page + short(page + 16 + 2 * index) }
  }

  private func damage(_ kind: Damage, of store: String) throws {
    let file = try DataFile(of: store)
    switch kind {
    case .leafAsBranch:
      for page in file.pages(flags: 2) {
        try TestFiles.overwrite([1], at: page + 10, in: file.path)
      }
    case .exchangedChildren, .repeatedChild:
      for page in file.pages(flags: 1) {
        let (first, second) = (file.child(2, of: page), file.child(5, of: page))
        try TestFiles.overwrite(
          Array(file.bytes[second..<second + 6]), at: first, in: file.path)
        if kind == .repeatedChild { continue }
        try TestFiles.overwrite(
          Array(file.bytes[first..<first + 6]), at: second, in: file.path)
      }
    }
  }

  private func store(_ durability: Durability) throws -> TemporaryStore {
    let temporary = try TemporaryStore(StoreOptions(durability: durability))
    try temporary.store.write { transaction in
      for key in 0..<Self.keys { try transaction.setBytes(value(key), forKey: key) }
    }
    return temporary
  }

  private func value(_ key: Int) -> [UInt8] { Array("the value of \(key)".utf8) }

  @Test(arguments: [Durability.durable, .relaxed], Damage.allCases)
  func `A stored key behind a damaged page is an error, never absent`(
    durability: Durability, kind: Damage
  ) throws {
    let temporary = try store(durability)
    try damage(kind, of: temporary.path)
    var errors = 0
    for key in 0..<Self.keys {
      do {
        let found = try temporary.store.bytes(forKey: key)
        #expect(found == value(key), "The key \(key) has \(found.map { "\($0)" } ?? "no value").")
      } catch let error as StoreError {
        #expect(error.code == .damaged)
        errors += 1
        // Each error is read again in three snapshots, a millisecond apart.
        if errors == 40 { break }
      }
    }
    #expect(errors > 0, "The damage concerned no key.")
  }

  @Test(arguments: Damage.allCases)
  func `A transaction does not find a stored key absent behind a damaged page`(
    kind: Damage
  ) throws {
    let temporary = try store(.durable)
    try damage(kind, of: temporary.path)
    var errors = 0
    for key in 0..<Self.keys where errors < 40 {
      do {
        let found = try temporary.store.write { try $0.bytes(forKey: key) }
        #expect(found == value(key))
      } catch let error as StoreError {
        #expect(error.code == .damaged)
        errors += 1
      }
    }
    #expect(errors > 0, "The damage concerned no key.")
  }

  @Test func `Keys that are absent are absent, whatever the transactions before did`() throws {
    let temporary = try store(.durable)
    let store = temporary.store
    for round in 0..<20 {
      try store.write { transaction in
        for key in stride(from: round, to: Self.keys, by: 20) {
          try transaction.remove(forKey: key)
          #expect(try transaction.bytes(forKey: key) == nil)
          #expect(try transaction.bytes(forKey: -key - 1) == nil)
        }
      }
      #expect(try store.bytes(forKey: round) == nil)
      #expect(try store.bytes(forKey: round, in: "a namespace without entries") == nil)
    }
    #expect(try store.verify() == [])
  }
}
