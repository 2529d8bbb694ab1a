// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting

/// The processes of a storm. They run until they are killed, or the parent says stop.
enum StormWorkers {
  static func open(_ path: String, _ control: StormControl) throws -> SharedStore {
    try SharedStore(
      at: path,
      .init(
        budget: .megabytes(64), openTimeout: .seconds(60), writeTimeout: .seconds(60),
        onError: { error in
          control.add(.errors)
          ParentProcess.send("error: \(error)")
        }))
  }

  /// Writes the keys that are its own, in every way there is. One writer a key: so the order of
  /// issue is the order of commits.
  static func write(_ path: String, _ control: StormControl, id: Int, of writers: Int) async throws
  {
    let store = try open(path, control)
    let first = PersistentCache<Int, StormValue>(storage: store, namespace: "storm")
    let second = PersistentCache<Int, StormValue>(storage: store, namespace: "storm")
    let keys = (0..<StormControl.keyCount).filter { $0 % writers == id }
    var round = 0
    ParentProcess.send("ready")
    while !control.isOver {
      round += 1
      let key = keys.randomElement()!
      switch Int.random(in: 0..<10) {
      case 0..<4:
        let sequence = control.issue(key)
        try await first.setValue(StormValue(key: key, sequence: sequence), forKey: key)
        control.acknowledge(key, sequence)
      case 4..<7:
        // Two caches take turns behind, in one batch as often as not; then all is committed.
        var last: [(Int, UInt64)] = []
        for step in 0..<Int.random(in: 1...6) {
          let key = keys.randomElement()!
          let sequence = control.issue(key)
          (step % 2 == 0 ? first : second)[key] = StormValue(key: key, sequence: sequence)
          let seen = (step % 2 == 0 ? second : first)[key]?.sequence ?? 0
          if seen < sequence {
            control.add(.stale)
            ParentProcess.send("writer \(id): own write \(sequence) of key \(key) read as \(seen)")
          }
          last.append((key, sequence))
        }
        try store.sync()
        for (key, sequence) in last { control.acknowledge(key, sequence) }
      case 7..<9:
        let batch = keys.shuffled().prefix(3).map { key in
          (key: key, value: StormValue(key: key, sequence: control.issue(key)))
        }
        try await first.setValues(batch)
        for item in batch { control.acknowledge(item.key, item.value.sequence) }
      default:
        if first[key].map({ !$0.isWhole(for: key) }) ?? false { control.add(.torn) }
        second.clearMemoryCache()
      }
    }
    store.close()
  }

  /// Reads as fast as it can. What was acknowledged before a read began must be seen by it.
  static func read(_ path: String, _ control: StormControl) throws {
    let store = try open(path, control)
    let cache = PersistentCache<Int, StormValue>(storage: store, namespace: "storm")
    var newest = [UInt64](repeating: 0, count: StormControl.keyCount)
    ParentProcess.send("ready")
    var reads: UInt64 = 0
    while true {
      reads += 1
      if reads & 0xFFF == 0 {
        control.add(.reads, 0x1000)
        if control.isOver { break }
        if reads & 0x3FFF == 0 { cache.clearMemoryCache() }
      }
      let key = Int.random(in: 0..<StormControl.keyCount)
      let acknowledged = control.acknowledged(key)
      guard let value = cache[key] else {
        control.add(acknowledged > 0 ? .lost : .misses)
        continue
      }
      if value.key != key || value.check != StormValue.check(key, value.sequence) {
        control.add(.torn)
      }
      if value.sequence < acknowledged {
        control.add(.stale)
        let again = cache[key]?.sequence ?? 0
        ParentProcess.send(
          "reader: key \(key) read as \(value.sequence), \(acknowledged) was acknowledged; "
            + "again: \(again)")
      }
      if value.sequence < newest[key] { control.add(.newThenOld) }
      newest[key] = max(newest[key], value.sequence)
      // This process has been told: from here on nobody may read anything older.
      if value.sequence > acknowledged { control.acknowledge(key, value.sequence) }
    }
    store.close()
  }
}
