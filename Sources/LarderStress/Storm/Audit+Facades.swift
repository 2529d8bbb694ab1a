// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderDefaults
import LarderEngine
import LarderSystem
import LarderTesting

extension Audit {
  /// The last look at defaults and storages.
  static func facades(_ worker: Worker, _ violation: (String) -> Void) throws {
    let (board, directory) = (worker.board, worker.directory)
    let defaults = try Defaults(at: directory + "/defaults")
    for key in OracleRegion.defaults.keys {
      worker.judge(
        try Worker.defaultSequence(key, defaults), key, of: .defaults, "default",
        acknowledged: board.value(.defaults, key, .acknowledged))
    }
    for key in OracleRegion.defaultCounters.keys {
      let count = try defaults.value(Int.self, forKey: Worker.counterName(key)) ?? 0
      worker.judgeCounter(
        UInt64(count), key, of: .defaultCounters, "counter",
        atLeast: board.value(.defaultCounters, key, .acknowledged))
    }
    for key in OracleRegion.defaultsOnce.keys {
      let decided = board.value(.defaultsOnce, key, .issued)
      let found = try defaults.value(Int.self, forKey: "once \(key)") ?? 0
      if decided != 0, decided != UInt64(found) {
        violation("once \(key) is \(found), and was \(decided)")
      }
    }
    defaults.close()
    let suite = try SharedStore(
      at: directory + "/defaults", StoreOptions(durability: .durable))
    for finding in try suite.verify() { violation("verify of the defaults: \(finding)") }
    suite.close()

    for kind in StressStorage.Kind.allCases {
      let storage = StressStorage(kind, worker.store, directory)
      for key in storage.lane.keys { try worker.read(key, from: storage) }
      guard storage.countsAmongProcesses else { continue }
      for key in storage.counterLane.keys {
        worker.judgeCounter(
          try storage.counters.value(forKey: key)?.first ?? 0, key, of: storage.counterLane,
          "\(kind): counter", atLeast: board.value(storage.counterLane, key, .acknowledged))
      }
    }
    // Opening the folders has removed what killed processes had begun.
    for folder in ["files", "counters", "behind", "behind-counters"] {
      let left = (try? FileSystem.names(in: directory + "/" + folder)) ?? []
      for name in left where name.hasPrefix(".new-") {
        violation("\(folder): \(name) is left behind")
      }
    }
  }
}
