// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// A process that uses a cache while somebody damages its files.
///
/// It writes the keys whose remainder is its own number, so that each key has one writer at a time,
/// and reads them all. A value says which key it is of and which write of it; a reader compares with
/// what was acknowledged before it began. It may find nothing, or an error; never an older value,
/// never another key's, never one that was not written. For a moment after files were removed, an
/// older value may be that of the removed file, which nobody else can see any more.
struct LiveWorker {
  static let processes = 3
  let path: String
  let board: LiveOracle
  let id: Int
  private var random: SeededRandom

  init(path: String, board: String, id: Int) throws {
    self.path = path
    self.board = try LiveOracle(path: board)
    self.id = id
    random = SeededRandom(seed: UInt64(getpid()) << 8 | UInt64(id))
  }

  mutating func run() throws {
    while !board.isOver {
      do {
        let store = try SharedStore(
          at: path, .init(openTimeout: .seconds(2), writeTimeout: .seconds(2)))
        try use(store)
        store.close()
      } catch let error as StoreError {
        try note(error)
      }
    }
  }

  private mutating func use(_ store: SharedStore) throws {
    var failures = 0
    for _ in 0..<2000 {
      if board.isOver || failures > 20 { return }
      do {
        if random.chance(30) { try write(store, &random) }
        _ = try read(Int.random(in: 0..<LiveOracle.keyCount, using: &random), store)
      } catch let error as StoreError {
        failures += 1
        try note(error)
      }
    }
  }

  /// What users of a damaged cache may meet. Anything else is no answer to damage.
  private func note(_ error: StoreError) throws {
    board.add(.errors)
    let expected: Set<StoreError.Code> = [
      .damaged, .unreadableEntry, .openTimeout, .writerStalled, .outcomeUnknown, .directory,
      .system,
    ]
    guard expected.contains(error.code) else { throw error }
  }

  private func write(_ store: SharedStore, _ random: inout SeededRandom) throws {
    let own = LiveOracle.keyCount / Self.processes
    let key = Int.random(in: 0..<own, using: &random) * Self.processes + id
    let sequence = board.issue(key)
    let value = Self.value(key, sequence)
    try store.setBytes(value, forKey: key)
    board.acknowledge(key, sequence)
    board.add(.writes)
    // Got through: written, and there.
    if try read(key, store) { board.addProgress(id) }
  }

  private func read(_ key: Int, _ store: SharedStore) throws -> Bool {
    let before = board.acknowledged(key)
    let found = try store.bytes(forKey: key)
    board.add(.reads)
    guard let found else { return false }
    board.add(.hits)
    guard let sequence = Self.sequence(found, of: key), sequence <= board.issued(key) else {
      throw DamageFailure("key \(key): \(found.count) bytes that are not its value")
    }
    guard sequence >= before || board.isSplit else {
      throw DamageFailure("key \(key): stale: value \(sequence), acknowledged was \(before)")
    }
    return true
  }

  private static func value(_ key: Int, _ sequence: UInt64) -> [UInt8] {
    DamageValue.bytes(
      template: 200, key: DamageKey(namespace: sequence % 97 == 0 ? 1 : 0, number: key),
      sequence: UInt32(truncatingIfNeeded: sequence))
  }

  private static func sequence(_ bytes: [UInt8], of key: Int) -> UInt64? {
    guard let value = DamageValue.read(bytes), value.template == 200, value.key.number == key
    else { return nil }
    return UInt64(value.sequence)
  }
}
