// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB

extension ObjectStore {
  /// Applies migrations in their order, each once among all processes that ever open the store.
  ///
  /// Several processes may call it at once: they take the steps in turns, and each returns when all
  /// is done. A step is a transaction of at most a thousand objects; others read and write between
  /// the steps, under the old version, and what they write is migrated as well. The last step of a
  /// migration makes all of it visible. After a kill, whoever comes next goes on where it was.
  ///
  /// ```swift
  /// try objects.migrate([years.step, .deleteAll(named: "Horse")]) {
  ///   print("\($0.step): \($0.done) of \($0.total)")
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - migrations: All of them, from the first; new ones stand at the end.
  ///   - dryRun: Runs the closures over everything and writes nothing.
  ///   - progress: Called after each step, outside of transactions.
  /// - Throws: ``ObjectError``: `migrationFailed` naming the object a closure failed at, `uniqueViolation`
  ///   naming two that clash; nothing of that migration is left then, and the next call starts it
  ///   over. `migrationOrder` when it comes too late.
  /// - Complexity: O(*n*) in the objects of the types concerned, in bounded memory.
  @discardableResult
  public func migrate(
    _ migrations: [ObjectMigration], dryRun: Bool = false,
    progress: (ObjectProgress) -> Void = { _ in }
  ) throws -> [MigrationReport] {
    let applied = try requireOrder(migrations)
    if dryRun {
      return try MigrationDryRun(store: self, applied: applied).run(
        migrations, progress: progress)
    }
    return try migrations.map { migration in
      var report = MigrationReport(name: migration.name, outcome: .applied)
      if applied.contains(migration.name) { return report }
      let run = MigrationStepExecutor(migration: migration, store: self)
      var isGoing = true
      while isGoing {
        let result: MigrationStepExecutor.Result
        do {
          result = try write { try run.step(&$0) }
        } catch {
          if run.undoes(error) {
            _ = try? write { try MigrationStepExecutor.abandon(migration.name, &$0.entries) }
          }
          throw error
        }
        isGoing = report.take(result, progress)
      }
      return report
    }
  }

  /// Applies migrations without blocking a thread of Swift's pool.
  @discardableResult
  public func migrate(
    _ migrations: [ObjectMigration], progress: (ObjectProgress) -> Void = { _ in }
  ) async throws -> [MigrationReport] {
    let applied = try requireOrder(migrations)
    var reports: [MigrationReport] = []
    for migration in migrations {
      var report = MigrationReport(name: migration.name, outcome: .applied)
      let run = MigrationStepExecutor(migration: migration, store: self)
      var isGoing = !applied.contains(migration.name)
      while isGoing {
        try Task.checkCancellation()
        let result: MigrationStepExecutor.Result
        do {
          result = try await write { try run.step(&$0) }
        } catch {
          if run.undoes(error) {
            _ = try? await write { try MigrationStepExecutor.abandon(migration.name, &$0.entries) }
          }
          throw error
        }
        isGoing = report.take(result, progress)
      }
      reports.append(report)
    }
    return reports
  }

  /// Applies one migration between two types, under its own name.
  public func register<Old: Storable, New: Storable>(
    migration: Migration<Old, New>
  ) throws {
    try migrate([migration.step])
  }

  /// The names of the migrations that were applied, in their order.
  public func appliedMigrations() throws -> [String] {
    try storage.openCore("migrations").withObjectSnapshot("migrations") { transaction, _ in
      try ObjectReading.migrations(transaction).filter(\.isApplied).map(\.name)
    }
  }

  /// Forgets a migration that was begun and that no program knows any more.
  ///
  /// - Returns: Whether it was under way.
  @discardableResult
  public func abandonMigration(named name: String) throws -> Bool {
    try write { try MigrationStepExecutor.abandon(name, &$0.entries) }
  }

  /// Looks at the list, without writing anything.
  ///
  /// - Returns: The names of those that were applied.
  private func requireOrder(_ migrations: [ObjectMigration]) throws -> Set<String> {
    let applied = Set(try appliedMigrations())
    var names: Set<String> = []
    var pending: String?
    for migration in migrations {
      guard names.insert(migration.name).inserted else {
        throw ObjectError(
          .invalidSchema, type: migration.name,
          "Two migrations have the name \"\(migration.name)\". Give each one of its own.")
      }
      if !applied.contains(migration.name) {
        pending = pending ?? migration.name
      } else if let pending {
        throw ObjectError(
          .migrationOrder, type: migration.name,
          "\"\(pending)\" stands before \"\(migration.name)\", which was applied already. Add new "
            + "migrations at the end of the list.")
      }
    }
    return applied
  }
}

extension MigrationStepExecutor {
  /// Whether an error of a step is the objects' fault, so that all steps are undone.
  func undoes(_ error: any Error) -> Bool {
    guard case .copy = migration.work, let error = error as? ObjectError else { return false }
    return error.code == .migrationFailed || error.code == .uniqueViolation
  }
}

extension MigrationReport {
  /// - Returns: Whether there is more to do.
  mutating func take(
    _ result: MigrationStepExecutor.Result, _ progress: (ObjectProgress) -> Void
  ) -> Bool {
    switch result {
    case .going(let type, let done, let total):
      outcome = .done
      progress(ObjectProgress(step: "migration \"\(name)\" of \(type)", done: done, total: total))
      return true
    case .done(let record):
      outcome = .done
      objects = Int(clamping: record.done)
      dropped = Int(clamping: record.dropped)
      damaged = Int(clamping: record.damaged)
      progress(ObjectProgress(step: "migration \"\(name)\"", done: objects, total: objects))
      return false
    case .wasApplied: return false
    }
  }
}
