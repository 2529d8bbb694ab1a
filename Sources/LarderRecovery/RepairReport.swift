// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

/// What `SharedStore.repair(at:)` found and did.
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

  /// A namespace, and what became of its entries.
  public struct Namespace: Sendable, Hashable {
    /// The name of the namespace.
    public let name: String
    /// The number of entries that repair keeps.
    public let kept: Int
    /// Entries that could not be read, as far as the store's books or the entries themselves tell.
    public let lost: Int
    /// Whether the namespace's own record was lost, and its name with it.
    public let isRecovered: Bool
  }

  /// A type of stored objects, and what became of them.
  public struct ObjectType: Sendable, Hashable {
    /// The stored name; of one whose record was lost, `recovered-` and its number.
    public let name: String
    /// The number of objects that repair keeps.
    public let kept: Int
    /// Objects that could not be read, as far as the books or the objects themselves tell.
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
  /// What was wrong, the worst first.
  public internal(set) var findings: [StoreFinding] = []
  /// In the order of their names.
  public internal(set) var namespaces: [Namespace] = []
  /// Types of objects, in the order of their names.
  public internal(set) var types: [ObjectType] = []
  /// Objects that are, or would be, in the repaired store.
  public internal(set) var objectsKept = 0
  /// Objects that could not be read, as far as books or objects tell.
  public internal(set) var objectsLost = 0
  /// Entries that are, or would be, in the repaired store.
  public internal(set) var kept = 0
  /// Entries that could not be read, as far as the store's books or the entries themselves tell.
  public internal(set) var lost = 0
  /// Whether that is all. Otherwise the books were damaged too, and nothing tells how many entries
  /// were on pages that cannot be read.
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
  /// Whether the last commit, or the last few, may be missing: what said which one is the newest
  /// was damaged. Then a key may have an older value.
  public internal(set) var mayMissCommits = false
  /// Whether the cache was in use when the system went down, so that nothing of it can be trusted.
  public internal(set) var isDiscarded = false
  /// Where the damaged files were kept.
  public internal(set) var damagedFiles: String?

  /// Whether everything the store held is in the repaired one.
  public var isComplete: Bool {
    lost == 0 && objectsLost == 0 && !types.contains(where: \.isRecovered) && isLossKnown
      && evicted == 0 && !mayMissCommits && !isDiscarded
  }
}
