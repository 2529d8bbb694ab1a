// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Commands for changes that depend on what is stored.
//
//   increment KEY          increments a counter without an end -> ack N each time
//   countlog KEY DIRECTORY increments a counter without an end, and logs each increment in DIRECTORY
//   exchange DIRECTORY SEED  changes six registers without an end and logs each operation in DIRECTORY
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
    case "countlog":
      let counters = PersistentCache<String, UInt64>(storage: store, namespace: "counters")
      let log = try HistoryLog(directory: String(words[1]), capacity: 1 << 17)
      while let entry = log.begin(.increment, key: 0, value: 1) {
        let number = try counters.increment(forKey: String(words[0]))
        log.end(entry, old: number - 1)
      }
    case "exchange":
      try exchange(
        store, HistoryLog(directory: String(words[0]), capacity: 1 << 17),
        SeededRandom(seed: UInt64(number(words[1]))))
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

  private func exchange(
    _ store: SharedStore, _ log: HistoryLog, _ random: SeededRandom
  ) throws {
    var random = random
    let cache = PersistentCache<Int, UInt64>(storage: store, namespace: "registers")
    var count: UInt64 = 0
    var key = 0
    repeat {
      count += 1
      key = Int.random(in: 0..<6, using: &random)
    } while try RegisterChange.run(
      UInt64(key), key, writing: UInt64(ProcessIdentity.pid) << 40 | count << 16, in: cache, log,
      using: &random)
  }
}
