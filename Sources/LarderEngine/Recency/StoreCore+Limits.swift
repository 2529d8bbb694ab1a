// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The budgets and the eviction policy, which any process changes for all of them.
extension StoreCore {
  /// Throws ``StoreError/Code/invalidOption`` for a budget that no store can have.
  static func requireValid(
    budget: ByteCount?, entryBudget: Int?, during operation: String, path: String
  ) throws(StoreError) {
    if let budget, !(4096...GenerationBuilder.maximumBudget).contains(budget.bytes) {
      throw StoreError(
        .invalidOption, during: operation, path: path,
        "Invalid option: budget is \(budget.bytes) bytes; the range is 4,096 bytes to 8 TiB. "
          + "Pass a value in the range, or none.")
    }
    if let entryBudget, !(1...1 << 40).contains(entryBudget) {
      throw StoreError(
        .invalidOption, during: operation, path: path,
        "Invalid option: entryBudget is \(entryBudget); the range is 1 to 2^40 entries. "
          + "Pass a value in the range, or none.")
    }
  }

  /// The stored form of limits; a budget of zero is none.
  struct Limits: Sendable, Hashable {
    var budget: UInt64
    var entryBudget: UInt64
    var policyCode: UInt8

    init(_ table: SharedTable) {
      budget = table.budget
      entryBudget = table.entryBudget
      policyCode = table.policyCode
    }

    func publish(in table: SharedTable) {
      table.budget = budget
      table.entryBudget = entryBudget
      table.policyCode = policyCode
    }

    init(_ limits: StoreLimits) {
      budget = UInt64(limits.budget?.bytes ?? 0)
      entryBudget = UInt64(limits.entryBudget ?? 0)
      policyCode = limits.evictionPolicy.code
    }
  }

  /// Stores the limits that the options contain and that differ from the store's, for every process.
  func applyLimits(of options: StoreOptions) throws {
    var limits = Limits(try generation().table)
    if let budget = options.budget { limits.budget = UInt64(budget.bytes) }
    if let entries = options.entryBudget { limits.entryBudget = UInt64(entries) }
    if let policy = options.evictionPolicy { limits.policyCode = policy.code }
    // An opener need not wait until the store fits; each write goes on with it.
    guard try limits != Limits(generation().table) else { return }
    do {
      try store(limits, during: "open")
    } catch let error as StoreError
      where [.pinLimitReached, .minimumsExceedBudget].contains(error.code)
    {
      // The store keeps its budget: otherwise a program could not open it to remove pinned entries.
      report(error)
    }
  }

  /// Stores the code of a policy, also of one that this version does not know. For tests.
  package func changePolicy(toCode code: UInt8) throws {
    var limits = Limits(try generation().table)
    limits.policyCode = code
    try store(limits, during: "setLimits")
  }

  /// Stores limits for every process, and evicts entries in steps until the store fits. The process that
  /// stored equal limits before may have been killed before the store fitted them.
  func store(_ limits: Limits, during operation: String) throws {
    let isDone: Bool = try runExclusively { core in
      try core.withGeneration { generation in
        try core.store(limits, in: generation, during: operation)
        return true
      }
    }
    _ = isDone
  }

  /// Stores limits and evicts down to them. The caller is the commit leader.
  private func store(
    _ limits: Limits, in generation: Generation, during operation: String
  ) throws {
    guard limits.budget <= generation.meta.mapSize / 2 else {
      throw StoreError(
        .invalidOption, during: operation, path: directory.path,
        "The map of this store supports budgets up to "
          + "\(ByteCount(bytes: Int(generation.meta.mapSize / 2))), but "
          + "\(ByteCount(bytes: Int(clamping: limits.budget))) was requested. Create a new store in "
          + "another directory.")
    }
    let table = generation.table
    if limits != Limits(table) {
      var old: Limits?
      do {
        try putMeta(
          in: generation,
          requiring: { try $0.requireQuotas(fit: limits.budget, entryBudget: limits.entryBudget) }
        ) { meta in
          meta.budget = limits.budget
          meta.entryBudget = limits.entryBudget
          meta.policyCode = limits.policyCode
          // Under the writer lock, so that the words of two setters are not mixed. The transaction may
          // run again after a failure.
          if Limits(table) != limits { old = Limits(table) }
          limits.publish(in: table)
        }
      } catch {
        // Unless another process has set others since.
        if let old, Limits(table) == limits { old.publish(in: table) }
        throw error
      }
    }
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
