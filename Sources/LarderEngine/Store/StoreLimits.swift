// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The budgets and the eviction policy of a store, the same for every process.
///
/// A value is a copy: it changes the store only with ``SharedStore/setLimits(_:)``.
public struct StoreLimits: Sendable, Hashable {
  /// The limit for the stored entries in bytes, or `nil` for no limit.
  public var budget: ByteCount?
  /// The most entries, or `nil` for no limit.
  public var entryBudget: Int?
  /// The rule by which entries are chosen for eviction.
  public var evictionPolicy: EvictionPolicy

  /// Creates limits; every parameter sets the property of the same name.
  public init(
    budget: ByteCount?, entryBudget: Int? = nil, evictionPolicy: EvictionPolicy = .adaptive
  ) {
    self.budget = budget
    self.entryBudget = entryBudget
    self.evictionPolicy = evictionPolicy
  }
}

extension SharedStore {
  /// Returns the limits of the store, as its last change of any process left them.
  ///
  /// - Throws: ``StoreError``; ``StoreError/Code/newerFormat`` if a newer version of the library has
  ///   set a policy that this one does not know.
  public func limits() throws -> StoreLimits {
    let core = try openCore("limits")
    let table = try core.generation().table
    guard let policy = EvictionPolicy(code: table.policyCode) else {
      throw StoreError.unknownPolicy(
        table.policyCode, during: "limits", path: core.directory.path)
    }
    return StoreLimits(
      budget: table.budget == 0 ? nil : ByteCount(bytes: Int(clamping: table.budget)),
      entryBudget: table.entryBudget == 0 ? nil : Int(clamping: table.entryBudget),
      evictionPolicy: policy)
  }

  /// Changes the limits of the store for every process.
  ///
  /// ```swift
  /// var limits = try store.limits()
  /// limits.budget = .megabytes(512)
  /// try store.setLimits(limits)
  /// ```
  ///
  /// Every process applies the new limits from its next write on. If the store exceeds them, this call
  /// evicts entries in steps of a thousand, and returns when the store fits; other writers commit
  /// between the steps. Of two processes that change limits at the same time, the last one wins. If
  /// this process is killed before, each later write of any process evicts up to a thousand entries
  /// until the store fits.
  ///
  /// - Parameter limits: The new limits, all of which replace the store's.
  /// - Throws: ``StoreError``; ``StoreError/Code/invalidOption`` for a budget outside 4,096 bytes to
  ///   8 TiB or above half of the store's map, or an entry budget below one. Nothing has changed then.
  /// - Complexity: O(*n*) in the entries to evict.
  public func setLimits(_ limits: StoreLimits) throws {
    let core = try openCore("setLimits")
    try StoreCore.requireValid(
      budget: limits.budget, entryBudget: limits.entryBudget, during: "setLimits",
      path: core.directory.path)
    try core.store(StoreCore.Limits(limits), during: "setLimits")
  }
}
