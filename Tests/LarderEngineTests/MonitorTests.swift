// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(60))) struct MonitorTests {
  /// A monitor that breaks the rule: it writes to the store that it observes.
  private final class WritingMonitor: StoreMonitor {
    let store = Mutex<SharedStore?>(nil)
    let errors = Mutex<[StoreError.Code]>([])

    func begin(_ computation: MonitoredComputation) -> (any ComputationMonitor)? { nil }
    func ended(_ wait: WaitReport) {}

    func ended(_ commit: CommitReport, contexts: [any Sendable]?) {
      guard let store = store.withLock({ $0 }) else { return }
      do {
        try store.setBytes([2], forKey: "monitor")
      } catch {
        errors.withLock { $0.append((error as? StoreError)?.code ?? .system) }
      }
    }
  }

  @Test func `A write of a monitor to its store fails at once, and the observed write succeeds`()
    throws
  {
    let monitor = WritingMonitor()
    // A monitor that waited for its own thread would exceed the time limit of the test.
    var options = StoreOptions(writeTimeout: .seconds(3600))
    options.monitors.append { _ in monitor }
    options.sweepsWhenIdle = false
    let temporary = try TemporaryStore(options)
    monitor.store.withLock { $0 = temporary.store }
    try temporary.store.setBytes([1], forKey: "a")
    monitor.store.withLock { $0 = nil }
    #expect(monitor.errors.withLock { $0 } == [.insideTransaction])
    #expect(try temporary.store.bytes(forKey: "a") == [1])
    #expect(try temporary.store.bytes(forKey: "monitor") == nil)
  }
}
