// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// The state of a store at one time, as a process that does not have it open reads it.
package struct StoreObservation: Sendable {
  /// A process that has the store open.
  package struct Process: Sendable {
    package let pid: Int32
    package let startTime: UInt64
    /// The counters, in the order of ``Counter``.
    package let counters: [UInt64]
    package let commitTimes: CommitTimes
    /// The time for which it has had the writer lock, or `nil` if it does not have it.
    package let writingNanoseconds: UInt64?
    package let isStopped: Bool
  }

  /// A process that holds snapshots.
  package struct Reader: Sendable {
    package let pid: Int32
    /// The commits since its oldest snapshot.
    package var commitsBehind: Int
    /// The pages that these commits freed, which the snapshot keeps from reuse.
    package var pinnedPages = 0
    /// Whether ``pinnedPages`` are all such pages; otherwise there are more.
    package var isPageCountComplete = true
    /// The age of its oldest read in milliseconds, in steps of 16 s; `nil` if it holds the snapshot to
    /// sync, verify or copy the store.
    package var milliseconds: Int64?
    package var isStopped = false

    /// The reader without a count of pages.
    var withoutPages: Reader {
      var result = self
      if commitsBehind > 0 { (result.pinnedPages, result.isPageCountComplete) = (0, false) }
      return result
    }
  }

  /// A computation in flight.
  package struct Computation: Sendable {
    package let pid: Int32
    package let lease: LeaseDescription
  }

  package var path = ""
  package var durability = Durability.cache
  package var generation: UInt64 = 0
  /// The identity of the store and its generation: counters of another one are not comparable.
  package var binding = SharedTable.Binding(storeID: (0, 0), generation: 0)
  /// Whether the processes are about to leave the generation.
  package var isFenced = false
  /// Milliseconds since 1970, and nanoseconds of the monotonic clock.
  package var time: (milliseconds: Int64, nanoseconds: UInt64) = (0, 0)
  /// The counters of all processes, including those that have exited.
  package var counters: [UInt64] = []
  package var processes: [Process] = []
  package var computations: [Computation] = []
  package var locks: [LockStatus] = []
  /// `nil` without a budget.
  package var budget: UInt64?
  package var entryBudget: UInt64?
  package var fileBytes = 0
  package var pageSize = 0
  /// The records of the newest snapshot; `nil` if they could not be read.
  package var content: Content?

  /// The records of a snapshot, without a reader slot.
  package struct Content: Sendable {
    package var totals = StoreTotals()
    var hasTotals = false
    package var namespaces: [UInt32: NamespaceRecord] = [:]
    package var readers: [Reader] = []
  }

  /// The sum of some counters in a list of ``counters``.
  package static func sum(_ counters: [UInt64], _ wanted: [Counter]) -> UInt64 {
    wanted.reduce(0) { $0 &+ counters[$1.rawValue] }
  }
}
