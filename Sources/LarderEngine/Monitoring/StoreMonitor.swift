// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// MONITORS
//
// A monitor gets the slow operations of a store in this process: computations, waits, commits, syncs, and
// samples of the reads from the store's file. It is the only hook for durations: LarderMetrics records
// them, LarderTracing makes spans of them. `StoreOptions.monitors` has the closures that create them,
// which the store calls once when it opens. A store without monitors has `nil` in `StoreCore.monitors`,
// and reads no clock. A memory hit does not reach the engine, so it has no hook at all.
//
//   operation    reported                                  on the thread of
//   computation  at its beginning and its end              its task
//   wait         after its end                             its caller
//   commit       after its end, with the wait before it    the commit leader
//   sync, read   after its end                             its caller
//
// Only a computation runs code of the program, which needs the context of the computation; so only
// computations have a beginning. The end of a commit is reported after the process writer lock was
// released, and before its callers have their results. No other process waits for a monitor.

/// The part of a monitoring system that is attached to one open store.
///
/// Methods are called concurrently, possibly by the commit leader: they must not use the store.
package protocol StoreMonitor: Sendable {
  /// One of how many reads from the store's file is timed, or zero for none.
  var readInterval: Int { get }
  /// Returns the context of the calling task, which is kept with a queued write until it is committed.
  func taskContext() -> (any Sendable)?
  /// Returns the monitor of a computation that begins, in the task of the computation.
  func begin(_ computation: MonitoredComputation) -> (any ComputationMonitor)?
  /// Records a wait that has ended. The calling task has waited.
  func ended(_ wait: WaitReport)
  /// Records a transaction that has ended.
  ///
  /// - Parameter contexts: The contexts of the tasks that queued its writes, as far as they have one;
  ///   `nil` if the transaction is the calling task's.
  func ended(_ commit: CommitReport, contexts: [any Sendable]?)
  /// Records a sync of a `.relaxed` store.
  func ended(sync: OperationTime)
  /// Records a read from the store's file.
  func ended(read: OperationTime)
}

extension StoreMonitor {
  package var readInterval: Int { 0 }
  package func taskContext() -> (any Sendable)? { nil }
  package func ended(sync: OperationTime) {}
  package func ended(read: OperationTime) {}
}

/// The monitor of one computation.
package protocol ComputationMonitor: Sendable {
  /// Runs the computation in the context that the code of the program is to have.
  func withContext<R>(_ body: () async throws -> R) async rethrows -> R
  /// Records the end of the computation. It is called once.
  func end(_ report: ComputationReport)
}

/// The time of an operation, in nanoseconds of the monotonic clock.
package struct OperationTime: Sendable, Hashable {
  package let start: UInt64
  package let end: UInt64

  package var nanoseconds: UInt64 { end &- start }
  /// The time since the start, in nanoseconds.
  package var age: UInt64 { Clocks.monotonicNanoseconds() &- start }

  package init(start: UInt64, end: UInt64) {
    self.start = start
    self.end = end
  }
}

/// A key of an operation.
package struct MonitoredKey: Sendable {
  package let namespace: String
  /// The keyed hash under which the store has the entry, or `nil` if the store is closed.
  package let hash: UInt64?
  /// A closure that returns the key as text. Keys may be personal data.
  package let text: @Sendable () -> String

  package init(namespace: String, hash: UInt64?, text: @escaping @Sendable () -> String) {
    self.namespace = namespace
    self.hash = hash
    self.text = text
  }
}

/// A computation of a value, when it begins.
package struct MonitoredComputation: Sendable {
  /// The reason for which a value is computed.
  package enum Reason: String, Sendable {
    /// The key has no value.
    case miss
    /// The value has expired, and is served stale while it is computed in the background.
    case stale
    /// The value expires soon, and is computed in the background.
    case early
  }

  package let key: MonitoredKey
  package let reason: Reason
  /// Returns whether the callers get the expired value if the computation fails.
  package let servesAfterError: @Sendable () -> Bool

  package init(
    _ key: MonitoredKey, _ reason: Reason, servesAfterError: @escaping @Sendable () -> Bool
  ) {
    self.key = key
    self.reason = reason
    self.servesAfterError = servesAfterError
  }
}

/// The end of a computation.
package struct ComputationReport: Sendable {
  package enum Outcome: Sendable {
    /// The closure returned a value.
    case value
    /// The closure returned that the key has no value.
    case absent
    /// The closure returned that the expired value applies.
    case unchanged
    /// The closure returned nothing that is stored.
    case nothing
    case failed(any Error)
    /// The closure threw because its task was cancelled.
    case cancelled
  }

  package let time: OperationTime
  package let outcome: Outcome
  /// Whether callers got an expired value instead of the one that was computed.
  package let servedStale: Bool
}

/// The description of a wait.
package struct MonitoredWait: Sendable {
  package enum Kind: Sendable, Hashable {
    /// For the computation of a key by another process, or by another task of this one.
    case computation
    /// For the writer lock.
    case writer
    /// For space in the write-behind queue.
    case backpressure
    /// For an element of a deque.
    case element
    /// For the answer of a remote server.
    case remote
    /// For a lock, semaphore, limiter, leadership or barrier.
    case lock(LockKind)

    /// The name of the kind in metrics and spans.
    package var name: String {
      switch self {
      case .computation: "computation"
      case .writer: "writer"
      case .backpressure: "backpressure"
      case .element: "element"
      case .remote: "remote"
      case .lock(let kind): kind.rawValue
      }
    }

    package static let all: [Kind] =
      [.computation, .writer, .backpressure, .element, .remote] + LockKind.all.map { .lock($0) }
  }

  package let kind: Kind
  /// The process that the caller waits for, if it is known.
  package var holder: Int32?
  package var key: MonitoredKey?
  /// The name of the lock, deque or remote server. It may be personal data, like a key.
  package var name: String?

  package init(
    _ kind: Kind, holder: Int32? = nil, key: MonitoredKey? = nil, name: String? = nil
  ) {
    self.kind = kind
    self.holder = holder
    self.key = key
    self.name = name
  }
}

/// A wait that has ended.
package struct WaitReport: Sendable {
  package let wait: MonitoredWait
  package let time: OperationTime
  /// The error with which the wait ended, or `nil` if the caller waits no more.
  package let error: (any Error)?
}

/// A write transaction that has ended.
package struct CommitReport: Sendable {
  package enum Outcome: Sendable {
    case committed
    /// The transaction had nothing to commit.
    case unchanged
    /// The store switched generations, so the transaction runs again.
    case repeated
    case failed(any Error)
  }

  package let time: OperationTime
  package let outcome: Outcome
  /// The namespaces with entries that the transaction wrote or removed.
  package let namespaces: [String]
  /// The number of write requests in the transaction.
  package let requests: Int
  /// The number of entries and objects that the transaction wrote or removed, without evictions.
  package let writes: Int
  /// The size of the entries that it wrote, as counted for the budget.
  package let bytes: Int
  package let durability: Durability
  /// The wait for the writers of other processes before it.
  package let wait: WaitReport?
}
