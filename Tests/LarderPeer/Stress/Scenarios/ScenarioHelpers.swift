// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A flag that one thread sets and another waits for.
final class CompletionFlag: Sendable {
  private let event = Event()
  init(isDone: Bool) { if isDone { event.set() } }
  func finish() { event.set() }
  func wait(nanoseconds: UInt64) -> Bool { event.wait(nanoseconds: nanoseconds) }
}

func endProcess(_ pid: Int32) { kill(pid, SIGKILL) }

/// The helper processes of the scenarios.
enum ScenarioHelpers {
  static func run(_ command: String, _ path: String) async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, Int>(storage: store)
    ParentProcess.send("ready")
    switch command {
    case "write-200":
      for key in 0..<200 { try await cache.setValue(2, forKey: key) }
      ParentProcess.send("done")
    case "condemn-write-200":
      let old = try store.core.generation()
      old.table.fence()
      _ = try store.core.switchGeneration(from: old)
      for key in 0..<200 { try await cache.setValue(2, forKey: key) }
      ParentProcess.send("done")
    case "set-1":
      try await cache.setValue(2, forKey: 1)
    case "remove-1":
      _ = try await cache.removeValue(forKey: 1)
      ParentProcess.send("done")
    case "compute-forked":
      _ = try await cache.value(forKey: 1) {
        // A child that does not use Larder and keeps every inherited descriptor. It ends with the scenario, or
        // some time after a scenario that was killed.
        let pid = fork()
        if pid == 0 {
          alarm(1200)
          while true { pause() }
        }
        ParentProcess.send("\(pid)")
        _ = CompletionFlag(isDone: false).wait(nanoseconds: 600_000_000_000)
        return 1
      }
    default: throw Violation(description: "no helper \(command)")
    }
    store.close()
  }
}
#endif
