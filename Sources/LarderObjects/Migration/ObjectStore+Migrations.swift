// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

extension ObjectStore {
  /// Returns whether a migration of this program moves the objects of a type to another one.
  func migratesAway(_ type: String) -> Bool { movedTypes.withLock { $0.contains(type) } }

  /// Notes what the migrations of this program do.
  private func declare(_ migrations: [ObjectMigration]) {
    movedTypes.withLock { $0.formUnion(migrations.compactMap(\.movedType)) }
  }

  /// Applies migrations in order, each once for all processes that ever open the store.
  ///
  /// Several processes can call this method at the same time: they execute the steps alternately,
  /// and each call returns when all migrations are complete. A step is a transaction of at most a
  /// thousand objects; between the steps, other processes read and write in the old version, and
  /// their writes are migrated too. The last step of a migration makes all of it visible. After the
  /// exit of a process, the next call continues at the last step.
  ///
  /// ```swift
  /// try objects.migrate([years.step, .deleteAll(named: "Horse")]) {
  ///   print("\($0.step): \($0.done) of \($0.total)")
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - migrations: All migrations of the store from the first one, with new ones at the end.
  ///   - dryRun: Whether to run the closures on all objects without writing.
  ///   - progress: A closure that is called after each step, outside transactions.
  /// - Returns: One report per migration, in order.
  /// - Throws: ``ObjectError/Code/migrationFailed`` with the id of the object whose conversion
  ///   failed, or ``ObjectError/Code/uniqueViolation`` with the ids of two objects with the same
  ///   key; the result of that migration is discarded, and the next call starts it again.
  ///   ``ObjectError/Code/migrationOrder`` if a migration conflicts with the applied ones;
  ///   ``ObjectError/Code/migrationInProgress`` if another migration of the type must be finished
  ///   first; ``ObjectError/Code/invalidSchema`` if two migrations have the same name; `StoreError`
  ///   if a write fails.
  /// - Complexity: O(*n*) in the objects of the affected types, in bounded memory.
  @discardableResult
  public func migrate(
    _ migrations: [ObjectMigration], dryRun: Bool = false,
    progress: (ObjectProgress) -> Void = { _ in }
  ) throws -> [MigrationReport] {
    let applied = try requireOrder(migrations)
    if !dryRun { declare(migrations) }
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

  /// Applies migrations without blocking a thread of the cooperative pool.
  ///
  /// - Parameters:
  ///   - migrations: All migrations of the store from the first one, with new ones at the end.
  ///   - progress: A closure that is called after each step, outside transactions.
  /// - Returns: One report per migration, in order.
  /// - Throws: The errors of the synchronous overload.
  @discardableResult
  public func migrate(
    _ migrations: [ObjectMigration], progress: (ObjectProgress) -> Void = { _ in }
  ) async throws -> [MigrationReport] {
    let applied = try requireOrder(migrations)
    declare(migrations)
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

  /// Applies one migration between two types under its own name.
  ///
  /// - Parameter migration: The migration.
  /// - Throws: The errors of ``migrate(_:dryRun:progress:)``.
  public func register<Old: Storable, New: Storable>(
    migration: Migration<Old, New>
  ) throws {
    try migrate([migration.step])
  }

  /// Returns the names of the applied migrations in order.
  ///
  /// - Returns: The names, without migrations in progress.
  /// - Throws: `StoreError` if the store cannot be read.
  public func appliedMigrations() throws -> [String] {
    try storage.openCore("migrations").withSnapshot("migrations") { snapshot in
      try ObjectReading.migrations(snapshot).filter(\.isApplied).map(\.name)
    }
  }

  /// Abandons a migration that is in progress and that no program declares any more. Discards its
  /// result; the stored objects are unchanged.
  ///
  /// - Parameter name: The name of the migration.
  /// - Returns: Whether the migration was in progress.
  /// - Throws: `StoreError` if the write fails.
  @discardableResult
  public func abandonMigration(named name: String) throws -> Bool {
    try write { try MigrationStepExecutor.abandon(name, &$0.entries) }
  }

  /// Verifies the list without writing.
  ///
  /// - Returns: The names of the applied migrations.
  /// - Throws: ``ObjectError/Code/invalidSchema`` if two migrations have the same name;
  ///   ``ObjectError/Code/migrationOrder`` if a new migration precedes an applied one.
  private func requireOrder(_ migrations: [ObjectMigration]) throws -> Set<String> {
    let applied = Set(try appliedMigrations())
    var names: Set<String> = []
    var pending: String?
    for migration in migrations {
      guard names.insert(migration.name).inserted else {
        throw ObjectError(
          .invalidSchema, type: migration.name,
          "Two migrations have the name \"\(migration.name)\". Give each migration a unique name.")
      }
      if !applied.contains(migration.name) {
        pending = pending ?? migration.name
      } else if let pending {
        throw ObjectError(
          .migrationOrder, type: migration.name,
          "\"\(pending)\" precedes \"\(migration.name)\", which is already applied. Add new "
            + "migrations at the end of the list.")
      }
    }
    return applied
  }
}

extension MigrationStepExecutor {
  /// Returns whether the objects caused an error of a step, so that all steps are discarded.
  func undoes(_ error: any Error) -> Bool {
    guard case .copy = migration.work, let error = error as? ObjectError else { return false }
    return error.code == .migrationFailed || error.code == .uniqueViolation
  }
}

extension MigrationReport {
  /// Records the result of a step.
  ///
  /// - Returns: Whether steps remain.
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
