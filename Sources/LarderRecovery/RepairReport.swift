// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

/// The result of `SharedStore.repair(at:)`.
public struct RepairReport: Sendable {
  /// The result of a repair.
  public enum Outcome: String, Sendable, Hashable {
    /// Nothing was wrong, and nothing was done.
    case sound
    /// The store was repaired.
    case repaired
    /// The store can be repaired; this was a dry run.
    case repairable
  }

  /// A namespace, with the numbers of its kept and lost entries.
  public struct Namespace: Sendable, Hashable {
    /// The name of the namespace.
    public let name: String
    /// The number of entries that repair keeps.
    public let kept: Int
    /// The number of unreadable entries that the store's counters or the entries themselves show.
    public let lost: Int
    /// Whether the namespace's own record was lost, and its name with it.
    public let isRecovered: Bool
  }

  /// A type of stored objects, with the numbers of its kept and lost objects.
  public struct ObjectType: Sendable, Hashable {
    /// The stored name; of one whose record was lost, `recovered-` and its number.
    public let name: String
    /// The number of objects that repair keeps.
    public let kept: Int
    /// The number of unreadable objects that the counters or the objects themselves show.
    public let lost: Int
    /// Whether the type's own record was lost: its name, its indexes, its rules.
    public let isRecovered: Bool
  }

  /// The result of the repair.
  public internal(set) var outcome: Outcome
  /// The path of the store.
  public let path: String
  /// The durability of the store.
  public let durability: Durability
  /// The findings, the most severe first.
  public internal(set) var findings: [StoreFinding] = []
  /// The namespaces, in the order of their names.
  public internal(set) var namespaces: [Namespace] = []
  /// Types of objects, in the order of their names.
  public internal(set) var types: [ObjectType] = []
  /// Objects that are, or would be, in the repaired store.
  public internal(set) var objectsKept = 0
  /// The number of unreadable objects that the counters or the objects themselves show.
  public internal(set) var objectsLost = 0
  /// Entries that are, or would be, in the repaired store.
  public internal(set) var kept = 0
  /// The number of unreadable entries that the store's counters or the entries themselves show.
  public internal(set) var lost = 0
  /// A Boolean value that indicates whether ``lost`` and ``objectsLost`` are complete. If `false`,
  /// the counters were damaged too, and the number of entries on unreadable pages is unknown.
  public internal(set) var isLossKnown = true
  /// Entries that were left out because a cache's budget has no room for them.
  public internal(set) var evicted = 0
  /// The number of pages of the damaged file that were read.
  public internal(set) var pagesRead = 0
  /// The number of pages in use that could not be read.
  public internal(set) var pagesDamaged = 0
  /// The number of valid pages that no readable page refers to.
  public internal(set) var pagesUnreachable = 0
  /// The number of unreachable pages whose entries were recovered.
  public internal(set) var pagesScavenged = 0
  /// Whether the last commit, or the last few, may be missing, because the record of the newest one
  /// was damaged. Then a key may have an older value.
  public internal(set) var mayMissCommits = false
  /// Whether the cache was in use when the system went down, so that nothing of it can be trusted.
  public internal(set) var isDiscarded = false
  /// The path of the quarantined files, or `nil` if none were kept.
  public internal(set) var damagedFiles: String?

  /// Whether everything the store held is in the repaired one.
  public var isComplete: Bool {
    lost == 0 && objectsLost == 0 && !types.contains(where: \.isRecovered) && isLossKnown
      && evicted == 0 && !mayMissCommits && !isDiscarded
  }
}
