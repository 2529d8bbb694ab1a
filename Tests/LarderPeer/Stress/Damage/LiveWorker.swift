// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderEngine
import LarderSystem
import LarderTesting

/// A process that uses a cache while the parent damages its files.
///
/// It writes the keys whose remainder is its number, so that each key has one writer at a time, and
/// reads all keys. A value contains its key and its sequence number; a reader compares it with the
/// write that was acknowledged before the read began. A read may return nothing, or throw an error;
/// it must not return an older value, another key's value, or a value that was not written. For 3 s
/// after files were removed, an older value may come from the removed file, which the process still
/// has open.
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
    random = SeededRandom(seed: UInt64(ProcessIdentity.pid) << 8 | UInt64(id))
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

  /// Counts an error. Only these codes are permitted for damaged files.
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
    // The write is completed: it was read back.
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
#endif
