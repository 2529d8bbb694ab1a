// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The budgets and the eviction policy, which any process changes for all of them.
extension StoreCore {
  /// Throws ``StoreError/Code/invalidOption`` for a budget that no store can have.
  static func requireValidLimits(_ options: StoreOptions, _ path: String) throws(StoreError) {
    if let budget = options.budget,
      !(4096...GenerationBuilder.maximumBudget).contains(budget.bytes)
    {
      throw StoreError(
        .invalidOption, during: "open", path: path,
        "Invalid option: budget is \(budget.bytes) bytes; the range is 4,096 bytes to 8 TiB. "
          + "Pass a value in the range, or none.")
    }
    if let entries = options.entryBudget, !(1...1 << 40).contains(entries) {
      throw StoreError(
        .invalidOption, during: "open", path: path,
        "Invalid option: entryBudget is \(entries); the range is 1 to 2^40 entries. "
          + "Pass a value in the range, or none.")
    }
  }

  /// Stores the limits that the options contain and that differ from the store's, for every process,
  /// and evicts entries in steps until the store fits.
  func applyLimits(of options: StoreOptions) throws {
    let table = try generation().table
    var wanted = Limits(table)
    if let budget = options.budget { wanted.budget = UInt64(budget.bytes) }
    if let entries = options.entryBudget { wanted.entryBudget = UInt64(entries) }
    if let policy = options.evictionPolicy { wanted.policyCode = policy.code }
    if wanted != Limits(table) { try store(wanted) }
  }

  /// Stores the code of a policy, also of one that this version does not know. For tests.
  package func changePolicy(toCode code: UInt8) throws {
    var limits = Limits(try generation().table)
    limits.policyCode = code
    try store(limits)
  }

  private func store(_ limits: Limits) throws {
    let isDone: Bool = try runExclusively { core in
      try core.withGeneration { generation in
        try core.store(limits, in: generation)
        return true
      }
    }
    _ = isDone
  }

  private struct Limits: Sendable, Hashable {
    var budget: UInt64
    var entryBudget: UInt64
    var policyCode: UInt8

    init(_ table: SharedTable) {
      budget = table.budget
      entryBudget = table.entryBudget
      policyCode = table.policyCode
    }
  }

  /// Stores limits and evicts down to them. The caller is the commit leader.
  private func store(_ limits: Limits, in generation: Generation) throws {
    guard limits.budget <= generation.meta.mapSize / 2 else {
      throw StoreError(
        .invalidOption, during: "open", path: directory.path,
        "The map of this store supports budgets up to "
          + "\(ByteCount(bytes: Int(generation.meta.mapSize / 2))), but "
          + "\(ByteCount(bytes: Int(clamping: limits.budget))) was requested. Create a new store in "
          + "another directory.")
    }
    try putMeta(in: generation) { meta in
      meta.budget = limits.budget
      meta.entryBudget = limits.entryBudget
      meta.policyCode = limits.policyCode
    }
    generation.table.budget = limits.budget
    generation.table.entryBudget = limits.entryBudget
    generation.table.policyCode = limits.policyCode
    while try !transact(in: generation, { try $0.trim(limit: 1000) }).result {}
  }
}

extension StoreError {
  /// Returns the error for a store whose eviction policy this version does not know.
  static func unknownPolicy(_ code: UInt8, during operation: String, path: String) -> StoreError {
    StoreError(
      .newerFormat, during: operation, path: path,
      "The store evicts entries by a policy of a newer version (\(code)). Update the program.")
  }
}
