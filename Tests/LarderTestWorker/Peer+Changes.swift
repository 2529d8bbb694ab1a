// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Commands for changes that depend on what is stored.
//
//   increment KEY          increments a counter without an end -> ack N each time
//   exchange DIRECTORY     changes six registers without an end, and logs each operation in DIRECTORY
//   claim FROM TO          takes each key from FROM to TO -> claimed and the keys that it received

import Larder
import LarderSystem
import LarderTesting

extension Peer {
  func change(_ command: String, _ words: [Substring]) throws -> String {
    let store = try store
    switch command {
    case "increment":
      let counters = PersistentCache<String, Int>(storage: store, namespace: "counters")
      while true {
        ParentProcess.send("ack \(try counters.increment(forKey: String(words[0])))")
      }
    case "exchange": try exchange(store, HistoryLog(directory: String(words[0]), capacity: 1 << 14))
    case "claim":
      let tokens = PersistentCache<Int, Int>(storage: store, namespace: "tokens")
      let taken = try (number(words[0])..<number(words[1])).filter {
        try tokens.takeValue(forKey: $0) != nil
      }
      return "claimed " + taken.map { "\($0)" }.joined(separator: " ")
    default: return try refuse("no command \(command)")
    }
    return "ok"
  }

  /// Changes registers in all ways that return what they replace.
  private func exchange(_ store: SharedStore, _ log: HistoryLog) throws {
    let cache = PersistentCache<Int, UInt64>(storage: store, namespace: "registers")
    var count: UInt64 = 0
    while true {
      let key = Int.random(in: 0..<6)
      count += 1
      let value = UInt64(ProcessIdentity.pid) << 32 | count
      let kind: Linearizability.Operation.Kind =
        [.read, .read, .write, .replacement, .replacement, .replacement].randomElement()!
      guard let entry = log.begin(kind, key: UInt64(key), value: value) else { return }
      switch kind {
      case .read:
        let value = try cache.value(forKey: key) ?? Linearizability.initialValue
        log.end(entry, value: value)
      case .write:
        try cache.setValue(value, forKey: key)
        log.end(entry)
      case .replacement:
        guard let old = try replace(key, by: value, in: cache) else {
          log.discard(entry)
          continue
        }
        log.end(entry, old: old)
      }
    }
  }

  /// - Returns: The replaced value, or `nil` if nothing was written.
  private func replace(
    _ key: Int, by value: UInt64, in cache: PersistentCache<Int, UInt64>
  ) throws -> UInt64? {
    switch Int.random(in: 0..<3) {
    case 0:
      return try cache.swapValue(value, forKey: key) ?? Linearizability.initialValue
    case 1:
      let old = try cache.versionedValue(forKey: key)
      let isStored = try cache.compareAndSet(value, forKey: key, ifVersion: old.version)
      return isStored ? old.value ?? Linearizability.initialValue : nil
    default:
      // Keys have no value only before their first one.
      return try cache.setIfAbsent(value, forKey: key) ? Linearizability.initialValue : nil
    }
  }
}
