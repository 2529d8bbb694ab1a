// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

/// A dry run: applies migrations to the stored objects, each object through all of them, without
/// writing.
struct MigrationDryRun {
  /// The state of a type after the migrations so far.
  private struct Stage {
    /// The stored record.
    let root: ObjectTypeRecord
    var now: ObjectTypeRecord
    var steps:
      [(run: MigrationStepExecutor, copy: ObjectCopyMigration, types: ObjectCopyMigration.Types)] =
        []
  }

  let store: ObjectStore
  let applied: Set<String>

  func run(
    _ migrations: [ObjectMigration], progress: (ObjectProgress) -> Void
  ) throws -> [MigrationReport] {
    let core = try store.storage.openCore("migrate")
    let types = try core.withSnapshot("migrate") { snapshot in
      try ObjectReading.types(snapshot)
    }
    var stages: [String: Stage] = [:]
    for type in types where type.movedTo == nil && type.version > 0 {
      stages[type.name] = Stage(root: type, now: type)
    }
    return try migrations.map { migration in
      guard !applied.contains(migration.name) else {
        return MigrationReport(name: migration.name, outcome: .applied)
      }
      var report = MigrationReport(name: migration.name, outcome: .pending)
      switch migration.work {
      case .rename(let old, let new):
        if let stage = stages.removeValue(forKey: old) { stages[new] = stage }
      case .deleteAll(let type):
        if let stage = stages.removeValue(forKey: type) {
          report.dropped = try count(stage.root)
        }
      case .rebuild(let rebuild):
        if let stage = stages[rebuild.type] { report.objects = try count(stage.root) }
      case .copy(let copy):
        guard var stage = stages[copy.source],
          try copy.isNeeded(migration.name, for: stage.now)
        else { break }
        var target = copy.plan(stage.now)
        for position in target.indexes.indices {
          target.indexes[position].number = UInt32(position + 1)
        }
        target.born = stage.now.born ?? stage.now.version
        stage.steps.append(
          (
            MigrationStepExecutor(migration: migration, store: store), copy,
            ObjectCopyMigration.Types(source: stage.now, target: target)
          ))
        try evaluate(stage, &report, progress)
        stage.now = target
        stages[copy.source] = nil
        stages[copy.target] = stage
      }
      return report
    }
  }

  private func count(_ type: ObjectTypeRecord) throws -> Int {
    try store.storage.openCore("migrate").withSnapshot("migrate") { snapshot in
      Int(clamping: try ObjectReading.books(type.number, snapshot).count)
    }
  }

  /// Converts every object with the migrations so far, and reports on the last of them.
  private func evaluate(
    _ stage: Stage, _ report: inout MigrationReport, _ progress: (ObjectProgress) -> Void
  ) throws {
    let core = try store.storage.openCore("migrate")
    let total = try count(stage.root)
    // Hashes of ids and of unique keys, to bound the memory.
    var taken: Set<Int> = []
    var next: UInt64 = 1
    while true {
      // One snapshot per batch, so that no snapshot is held for long.
      let batch = try core.withSnapshot("migrate") { snapshot in
        try ObjectReading.batch(
          type: stage.root.number, from: next, limit: MigrationStepExecutor.limit,
          bytes: MigrationStepExecutor.byteLimit, in: snapshot)
      }
      report.damaged += batch.damaged.count
      for moving in batch.objects { judge(moving, stage, &report, &taken) }
      report.objects += batch.objects.count
      progress(
        ObjectProgress(
          step: "dry run of migration \"\(report.name)\"", done: report.objects, total: total))
      guard !batch.isAtEnd, let last = batch.last else { return }
      next = last + 1
    }
  }

  private func judge(
    _ moving: MigratingObject, _ stage: Stage, _ report: inout MigrationReport,
    _ taken: inout Set<Int>
  ) {
    var moving = moving
    for (position, step) in stage.steps.enumerated() {
      let isLast = position == stage.steps.count - 1
      do {
        guard let write = try step.run.converted(moving, step.copy, step.types) else {
          if isLast { report.dropped += 1 }
          return
        }
        if isLast {
          try claim(write, step.types.target, &taken)
          if write.bytes != moving.stored.bytes || write.id != moving.stored.id {
            report.changed += 1
          }
        }
        moving = MigratingObject(write, replacing: moving.stored)
      } catch {
        guard isLast else { return }
        report.failed += 1
        if report.failures.count < 10, let error = error as? ObjectError {
          report.failures.append(error)
        }
        return
      }
    }
  }

  /// Records the id and the unique keys of a write.
  ///
  /// - Throws: ``ObjectError/Code/uniqueViolation`` if another object has one of them.
  private func claim(
    _ write: ObjectWrite, _ type: ObjectTypeRecord, _ taken: inout Set<Int>
  ) throws {
    let id = String(decoding: write.id, as: UTF8.self)
    func claim(_ index: UInt32, _ bytes: [UInt8]) throws {
      var hasher = Hasher()
      hasher.combine(index)
      hasher.combine(bytes)
      guard !taken.insert(hasher.finalize()).inserted else { return }
      let name = type.indexes.first { $0.number == index }?.name
      throw ObjectError(
        .uniqueViolation, type: type.name,
        "\"\(id)\" would have the same "
          + (name.map { "key of the unique index \"\($0)\"" } ?? "id") + " as another object.",
        ids: [id], index: name)
    }
    try claim(0, write.id)
    for key in write.keys where write.uniqueIndexes.contains(key.index) {
      try claim(key.index, key.bytes)
    }
  }
}
