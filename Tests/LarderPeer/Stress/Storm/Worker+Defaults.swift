// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderDefaults
import LarderEngine
import LarderSystem
import LarderTesting

// Defaults: each key has one writer at a time; every process increments the counters.

extension Worker {
  private func openDefaults() throws -> Defaults {
    let defaults = try Defaults(at: directory + "/defaults")
    let board = board
    defaults.onError { Worker.judge($0, board) }
    return defaults
  }

  static func defaultName(_ key: Int) -> String { "key \(key)" }
  static func counterName(_ key: Int) -> String { "counter \(key)" }

  /// Reads a key: even keys have integers, odd ones have structures.
  static func defaultSequence(_ key: Int, _ defaults: Defaults) throws -> BareSequence? {
    if key % 2 == 0 {
      return BareSequence(
        try defaults.value(Int.self, forKey: defaultName(key)).map(UInt64.init(_:)))
    }
    let value = try defaults.value(StressValue.self, forKey: defaultName(key))
    return BareSequence(value.map { $0.isWhole(key) ? $0.sequence : .max })
  }

  /// Sets its own keys, increments the counters, and reads all keys.
  func setDefaults() throws -> [Operation] {
    var open = [try openDefaults(), try openDefaults()]
    let own = OracleRegion.defaults.own(place)
    return [
      Operation(24) { try self.setDefault(own.randomElement()!, open.randomElement()!) },
      Operation(16) {
        let key = OracleRegion.defaultCounters.keys.randomElement()!
        let defaults = open.randomElement()!
        try self.increment(key, of: .defaultCounters) {
          UInt64(
            try defaults.update(Int.self, forKey: Self.counterName(key)) { $0 = ($0 ?? 0) + 1 }
              ?? 0)
        }
      },
      Operation(1) {
        open[1].close()
        open[1] = try self.openDefaults()
      },
      Operation(8) { try self.setOnce(open.randomElement()!) },
      Operation(47) {
        let defaults = open.randomElement()!
        for _ in 0..<50 {
          let key = OracleRegion.defaults.keys.randomElement()!
          try self.check(key, of: .defaults) { try Self.defaultSequence(key, defaults) }
        }
      },
    ]
  }

  private func setDefault(_ key: Int, _ defaults: Defaults) throws {
    let write = board.issue(key, of: .defaults)
    if key % 2 == 0 {
      try defaults.setValue(Int(write.sequence), forKey: Self.defaultName(key))
    } else {
      try defaults.setValue(StressValue(write), forKey: Self.defaultName(key))
    }
    board.acknowledge(write, of: .defaults)
  }

  /// Reads a default that the first caller sets: every process gets the same value.
  private func setOnce(_ defaults: Defaults) throws {
    let key = OracleRegion.defaultsOnce.keys.randomElement()!
    let pid = Int(ProcessIdentity.pid)
    let found = UInt64(try defaults.value(forKey: "once \(key)", storing: pid))
    let settled = board.settle(.defaultsOnce, key, on: found)
    if found != settled { violation("once \(key) is \(found), and was \(settled)") }
  }

  /// Observes some integer defaults.
  func watchDefaults() async throws {
    let defaults = try openDefaults()
    let keys = OracleRegion.defaults.keys.filter { $0 % 2 == 0 }.shuffled().prefix(4)
    let streams = keys.map { key in
      ObservedStream("the watch of default \(key)", .defaults, [key]) { stream in
        for try await value in defaults.values(
          of: DefaultsKey<Int>(Self.defaultName(key), default: 0))
        {
          if let value = BareSequence(UInt64(value)) { self.take(value, key, stream) }
        }
      }
    }
    await observe(streams, turns: 400)
    defaults.close()
  }
}
#endif
