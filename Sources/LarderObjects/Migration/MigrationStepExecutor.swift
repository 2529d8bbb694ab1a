// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

// ONE STEP OF A MIGRATION
//
// Every step is one transaction of at most a thousand objects and four megabytes. It
// begins with the state in the catalog (`ObjectMigrationRecord.swift`), so any process can execute
// the next step. The exit of a process leaves a complete number of steps.
//
// The last transaction (the cutover) finds every object copied and every change of the change log
// applied, and assigns the name to the new identifiers. Before the cutover, no reader sees the new
// objects. Its cost does not depend on their number: for a type with a budget, the eviction index
// grows with the copy.

/// The execution of a migration within one transaction.
struct MigrationStepExecutor {
  enum Result: Sendable {
    case going(type: String, done: Int, total: Int)
    case done(ObjectMigrationRecord)
    case wasApplied
  }

  static let limit = FaultInjection.stepLimit ?? 1000
  static let byteLimit = 4 << 20

  let migration: ObjectMigration
  let store: ObjectStore

  /// Executes the next step.
  func step(_ transaction: inout ObjectTransaction) throws -> Result {
    let known = try transaction.entries.migration(named: migration.name)
    if let known, known.isApplied { return .wasApplied }
    switch migration.work {
    case .copy(let copy): return try step(copy, known, &transaction.entries)
    case .rename(let old, let new): return try rename(old, to: new, &transaction.entries)
    case .deleteAll(let type): return try deleteAll(type, &transaction.entries)
    case .rebuild(let rebuild): return try step(rebuild, known, &transaction)
    }
  }

  private func finish(
    _ record: ObjectMigrationRecord, _ transaction: inout StoreTransaction
  ) throws -> Result {
    try transaction.finishMigration(record)
    return .done(record)
  }

  func error(
    _ code: ObjectError.Code, _ type: String, _ reason: String, ids: [String] = [],
    index: String? = nil
  ) -> ObjectError {
    ObjectError(
      code, type: type, "The migration \"\(migration.name)\" \(reason)", ids: ids, index: index)
  }

  private func requireRest(_ type: ObjectTypeRecord) throws {
    guard let other = type.migration, other != migration.name else { return }
    throw error(
      .migrationInProgress, type.name,
      "cannot begin: the migration \"\(other)\" is in progress. Apply it first, or abandon it.")
  }

  // MARK: At once

  private func rename(
    _ old: String, to new: String, _ transaction: inout StoreTransaction
  ) throws -> Result {
    let record = ObjectMigrationRecord(name: migration.name)
    guard var type = try transaction.objectType(named: old), type.movedTo == nil else {
      return try finish(record, &transaction)
    }
    try requireRest(type)
    try clear(new, &transaction)
    try leave(type, for: new, &transaction)
    type.name = new
    // No program has declared the indexes under the new name yet.
    type.indexedIn = 0
    type.migrations.append(migration.name)
    try transaction.putObjectType(type)
    try rename(referencesTo: old, as: new, &transaction)
    return try finish(record, &transaction)
  }

  private func deleteAll(
    _ name: String, _ transaction: inout StoreTransaction
  ) throws -> Result {
    var record = ObjectMigrationRecord(name: migration.name)
    if let type = try transaction.objectType(named: name) {
      try requireRest(type)
      record.dropped = try transaction.objectBooks(type.number).count
      try transaction.dropObjects(of: type)
      try transaction.removeObjectType(named: name)
    }
    return try finish(record, &transaction)
  }

  /// Verifies that no objects are stored under a name, and drops its record.
  ///
  /// - Throws: ``ObjectError/Code/migrationOrder`` if objects are stored under the name.
  private func clear(_ name: String, _ transaction: inout StoreTransaction) throws {
    guard let type = try transaction.objectType(named: name) else { return }
    let count = try transaction.objectBooks(type.number).count
    guard count == 0 else {
      throw error(
        .migrationOrder, name,
        "cannot be applied: \(count) objects are already stored under the new name. Delete them, "
          + "and save under the new name only after the migration.")
    }
    try transaction.dropObjects(of: type)
    try transaction.removeObjectType(named: name)
  }

  /// Reserves the new name, so that programs cannot save under it before the cutover.
  private func reserve(_ name: String, _ transaction: inout StoreTransaction) throws {
    var type = ObjectTypeRecord(
      number: try transaction.newObjectNumber(), name: name, version: 0, fingerprint: 0,
      indexes: [], migrations: [])
    type.migration = migration.name
    try transaction.putObjectType(type)
  }

  /// Stores a record that directs older programs to the new name.
  private func leave(
    _ type: ObjectTypeRecord, for new: String, _ transaction: inout StoreTransaction
  ) throws {
    var left = type
    left.number = try transaction.newObjectNumber()
    left.version += 1
    left.indexes = []
    left.schema = nil
    left.fingerprint = 0
    left.minimumReaderVersion = nil
    left.migration = nil
    left.movedTo = new
    try transaction.removeObjectType(named: type.name)
    try transaction.putObjectType(left)
  }

  // MARK: Indexes

  private func step(
    _ rebuild: IndexRebuildMigration, _ known: ObjectMigrationRecord?,
    _ transaction: inout ObjectTransaction
  ) throws -> Result {
    let record = known ?? ObjectMigrationRecord(name: migration.name)
    guard let type = try transaction.entries.objectType(named: rebuild.type),
      type.movedTo == nil
    else { return try finish(record, &transaction.entries) }
    if known == nil {
      try requireRest(type)
      try rebuild.begin(&transaction)
      try transaction.entries.putMigration(record)
      return .going(type: rebuild.type, done: 0, total: 0)
    }
    guard let step = try rebuild.step(&transaction) else {
      return try finish(record, &transaction.entries)
    }
    return .going(type: rebuild.type, done: step.done, total: step.total)
  }

  // MARK: Objects

  private func step(
    _ copy: ObjectCopyMigration, _ known: ObjectMigrationRecord?,
    _ transaction: inout StoreTransaction
  ) throws -> Result {
    let source = try transaction.objectType(named: copy.source)
    guard let source, try copy.isNeeded(migration.name, for: source) else {
      _ = try Self.abandon(migration.name, &transaction)
      if source == nil { try settle(copy, &transaction) }
      return try finish(ObjectMigrationRecord(name: migration.name), &transaction)
    }
    var record = try begun(copy, source, known, &transaction)
    let types = ObjectCopyMigration.Types(source: source, target: record.target!)
    let batch = try transaction.objectBatch(
      type: source.number, from: record.next, limit: Self.limit, bytes: Self.byteLimit)
    for damage in batch.damaged { report(damage, copy) }
    record.damaged += UInt64(batch.damaged.count)
    for moving in batch.objects {
      try take(moving, copy, types, &record, &transaction)
    }
    record.done += UInt64(batch.objects.count)
    if let last = batch.last {
      record.next = last + 1
      try transaction.changeObjectBooks(source.number) { $0.watchedTo = last }
    }
    if batch.isAtEnd {
      let noted = try transaction.notedChanges(record.watch, limit: Self.limit + 1)
      try follow(noted.prefix(Self.limit), copy, types, &record, &transaction)
      if noted.count <= Self.limit {
        try cutOver(from: source, to: record.target!, copy, record, &transaction)
        return try finish(record, &transaction)
      }
    }
    try transaction.putMigration(record)
    let total = try transaction.objectBooks(source.number).count
    return .going(
      type: copy.target, done: Int(clamping: record.done),
      total: Int(clamping: max(total, record.done)))
  }

  /// Returns the state of the migration; a new state if no process has begun it or if the stored
  /// one does not apply.
  private func begun(
    _ copy: ObjectCopyMigration, _ source: ObjectTypeRecord, _ known: ObjectMigrationRecord?,
    _ transaction: inout StoreTransaction
  ) throws -> ObjectMigrationRecord {
    try requireRest(source)
    var planned = copy.plan(source)
    let isBounded = try transaction.objectBooks(source.number).isBounded
    if let known, let target = known.target {
      var bare = target
      bare.number = 0
      for position in bare.indexes.indices { bare.indexes[position].number = 0 }
      let canBeBounded = try !isBounded || transaction.objectBooks(target.number).sample != 0
      if known.source == source.number, bare == planned, canBeBounded { return known }
      // All objects were deleted, the type received its first budget, or another version of the
      // program began the migration.
      try transaction.dropObjects(of: target)
      try transaction.dropObjectNumber(known.watch, isIndex: true)
    }
    var record = ObjectMigrationRecord(name: migration.name, source: source.number)
    planned.number = try transaction.newObjectNumber()
    try transaction.changeObjectBooks(planned.number) { $0.isCopy = true }
    for (position, index) in planned.indexes.enumerated() {
      planned.indexes[position].number = try transaction.newNumber(for: index)
    }
    if isBounded { try transaction.beginObjectSample(planned.number) }
    record.target = planned
    record.watch = try transaction.newObjectNumber()
    if copy.source != copy.target {
      try clear(copy.target, &transaction)
      try reserve(copy.target, &transaction)
    }
    try transaction.changeObjectBooks(source.number) {
      $0.watch = record.watch
      $0.watchedTo = 0
    }
    var marked = source
    marked.migration = migration.name
    try transaction.putObjectType(marked)
    return record
  }

  private func report(_ damage: DamagedObject, _ copy: ObjectCopyMigration) {
    store.storage.core.report(
      error(
        .unreadable, copy.source,
        "omits the object with sequence number \(damage.sequence), because it is damaged."))
  }

  // MARK: One object

  /// Returns the write for the new object of an old one, or `nil` if the migration drops it.
  func converted(
    _ moving: MigratingObject, _ copy: ObjectCopyMigration, _ types: ObjectCopyMigration.Types
  ) throws -> ObjectWrite? {
    do {
      return try copy.convert(moving, types, store)
    } catch let failure {
      let id = String(decoding: moving.stored.id, as: UTF8.self)
      let reason = (failure as? ObjectError)?.message ?? "\(failure)"
      throw error(
        .migrationFailed, copy.source,
        "failed at \"\(id)\"; the stored objects are unchanged: \(reason)", ids: [id])
    }
  }

  private func take(
    _ moving: MigratingObject, _ copy: ObjectCopyMigration, _ types: ObjectCopyMigration.Types,
    _ record: inout ObjectMigrationRecord, _ transaction: inout StoreTransaction
  ) throws {
    let type = types.target.number
    let sequence = moving.stored.sequence
    guard let write = try converted(moving, copy, types) else {
      record.dropped += 1
      return try transaction.removeObject(type: type, sequence: sequence)
    }
    while true {
      let holder: UInt64
      let index: UInt32?
      do {
        try transaction.place(
          write, type: type, sequence: sequence, created: moving.stored.created)
        return transaction.copyRecency(
          of: moving.stored.id, types.source.number, to: write.id, type)
      } catch let taken as ObjectIDConflict {
        (holder, index) = (taken.holder, nil)
      } catch let taken as UniqueKeyConflict {
        holder = try transaction.objectSequence(type: type, id: taken.holder) ?? 0
        index = taken.index
      }
      // The other object has changed since it was copied: delete its copy and copy it again later.
      if holder != 0, try transaction.isNoted(record.watch, holder) {
        try transaction.removeObject(type: type, sequence: holder)
        continue
      }
      throw try clash(moving, holder, index, copy, types, transaction)
    }
  }

  private func clash(
    _ moving: MigratingObject, _ holder: UInt64, _ index: UInt32?, _ copy: ObjectCopyMigration,
    _ types: ObjectCopyMigration.Types, _ transaction: borrowing StoreTransaction
  ) throws -> ObjectError {
    let other = try transaction.movingObject(type: types.source.number, sequence: holder)?.stored
    let ids = [moving.stored.id, other?.id ?? []].map { String(decoding: $0, as: UTF8.self) }
    let name = types.target.indexes.first { $0.number == index }?.name
    return error(
      .uniqueViolation, copy.target,
      "produces the same "
        + (name.map { "key of the unique index \"\($0)\"" } ?? "id")
        + " for \"\(ids[0])\" and \"\(ids[1])\". The stored objects are unchanged.", ids: ids,
      index: name)
  }

  /// Copies objects of the change log again.
  private func follow(
    _ noted: ArraySlice<UInt64>, _ copy: ObjectCopyMigration, _ types: ObjectCopyMigration.Types,
    _ record: inout ObjectMigrationRecord, _ transaction: inout StoreTransaction
  ) throws {
    let source = types.source.number
    for sequence in noted {
      try transaction.removeNote(record.watch, sequence)
      do {
        if let moving = try transaction.movingObject(type: source, sequence: sequence) {
          try take(moving, copy, types, &record, &transaction)
          continue
        }
      } catch let damage as DamagedObject {
        report(damage, copy)
      }
      try transaction.removeObject(type: types.target.number, sequence: sequence)
    }
  }

  /// Performs the cutover, which makes the new objects visible to all processes.
  private func cutOver(
    from source: ObjectTypeRecord, to target: ObjectTypeRecord, _ copy: ObjectCopyMigration,
    _ record: ObjectMigrationRecord, _ transaction: inout StoreTransaction
  ) throws {
    let old = try transaction.objectBooks(source.number)
    try transaction.changeObjectBooks(target.number) {
      $0.nextSequence = max($0.nextSequence, old.nextSequence)
      $0.isCopy = false
    }
    try transaction.setObjectBudget(target.number, bytes: old.budget, objects: old.mostObjects)
    try transaction.dropObjects(of: source)
    try transaction.dropObjectNumber(record.watch, isIndex: true)
    if copy.source != copy.target {
      try clear(copy.target, &transaction)
      try leave(source, for: copy.target, &transaction)
    }
    var target = target
    if source.references == nil { try dropUnusedReferences(of: &target, &transaction) }
    target.isBounded = source.isBounded
    target.migrations.append(migration.name)
    target.born = copy.source == copy.target ? source.born ?? source.version : target.version
    try transaction.putObjectType(target)
    if copy.source != copy.target {
      try rename(referencesTo: copy.source, as: copy.target, &transaction)
    }
  }
}
