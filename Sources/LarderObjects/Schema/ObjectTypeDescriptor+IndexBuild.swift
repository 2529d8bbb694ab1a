// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

extension ObjectTypeDescriptor {
  private static var mostObjects: Int { 1000 }
  private static var mostBytes: Int { 4 << 20 }

  // MARK: In the background

  /// Executes one step of the build.
  ///
  /// - Returns: The nanoseconds until the next step, or `nil` if the build has ended.
  func runBuildStep(_ builder: inout IndexBuilder) -> UInt64? {
    do {
      let pause = try buildStep(&builder)
      if pause == 0 { builder.retries = 0 }
      return pause
    } catch {
      if isOver(error) { return nil }
      // A transient error of the store: retry, unless a caller waits for the result.
      if error is StoreError, !build.isAwaited, builder.retries < 10 {
        builder.retries += 1
        if builder.retries == 1 { core.report(error) }
        return builder.retries * 1_000_000_000
      }
      builder.failure = error
      return nil
    }
  }

  /// Returns whether an error ends the build without a failure: the store was closed, or the type
  /// was migrated, which its next use reports.
  private func isOver(_ error: any Error) -> Bool {
    if let error = error as? StoreError {
      return error.code == .closed || error.code == .usedAfterFork
    }
    guard let error = error as? ObjectError, !build.isAwaited else { return false }
    return error.code == .newerSchema || error.code == .migrationInProgress
  }

  private func buildStep(_ builder: inout IndexBuilder) throws -> UInt64? {
    guard let store = buildStore else { return nil }
    let core = try store.storage.openCore("build an index")
    let (broken, triedTo) = (builder.broken, builder.triedTo)
    let input: (record: ObjectTypeRecord, target: IndexTarget?)? = try core.withSnapshot(
      "build an index"
    ) { snapshot in
      guard let record = try ObjectReading.type(named: name, snapshot) else { return nil }
      let numbers = buildable(record).subtracting(broken)
      var target = try IndexTarget(record, numbers, limit: Self.mostObjects, snapshot)
      if target == nil {
        target = try IndexTarget(
          undecodedIn: record, numbers.filter { !build.hasTried($0) }, after: triedTo,
          limit: Self.mostObjects, snapshot)
      }
      return (record, target)
    }
    guard let input else { return nil }
    guard let target = input.target else {
      let lacking = input.record.indexes.filter { $0.lacksObjects == true }.map(\.number)
      build.noteTried(buildable(input.record).intersection(lacking))
      guard broken.isEmpty, isUnbuilt(input.record) else { return nil }
      // The index is not declared in the catalog yet, or the declaration of this program failed.
      let record = try store.write { try self.prepare(&$0.entries) }
      return isUnbuilt(record) ? 0 : nil
    }
    let isStalled = build.note(target.status)
    if !builder.isLocked { builder.isLocked = try core.tryLockIndexBuild(of: name) }
    // Another process builds, unless it is stopped and this one takes over.
    if !builder.isLocked, !isStalled, target.status.builder != ProcessIdentity.pid {
      return 20_000_000
    }
    do {
      let last = try advance(target, core, store)
      if target.isUndecoded, let last { builder.triedTo = last }
    } catch let error as ObjectError where error.code == .uniqueViolation {
      // The other indexes do not depend on this one.
      let taken = target.indexes.filter { $0.name == error.index }.map(\.number)
      if taken.isEmpty || build.isAwaited { throw error }
      builder.broken.formUnion(taken)
      builder.failure = builder.failure ?? error
    }
    return 0
  }

  /// Executes the step of a target.
  ///
  /// - Returns: The last object of the step, or `nil` if another process has advanced the build.
  private func advance(
    _ target: IndexTarget, _ core: StoreCore, _ store: ObjectStore
  ) throws -> UInt64? {
    let found = try core.withSnapshot("build an index") { snapshot in
      try stored(behind: target, snapshot)
    }
    let batch = try batch(found, target)
    let step = try store.write { try self.apply(batch, &$0) }
    guard let step else { return nil }
    if let violation = step.violation { throw violation }
    let status = step.status
    _ = build.note(status)
    for index in target.indexes {
      core.notify(
        .indexBuilding(type: name, index: index.name, done: status.done, total: status.total))
    }
    return batch.last
  }

  // MARK: Parts

  private struct Found {
    var objects: [StoredObject] = []
    var damaged: [UInt64] = []
    var last: UInt64
    var isEnd = true
    let generation: UInt64
  }

  /// Returns the next objects, up to a bounded number of bytes.
  private func stored(
    behind target: IndexTarget, _ snapshot: borrowing Snapshot
  ) throws -> Found {
    var result = Found(last: target.builtTo, generation: snapshot.generation.number)
    var (seen, bytes) = (0, 0)
    if let noted = target.noted {
      // Without any, all are behind the step.
      result.last = noted.first ?? .max - 1
      for sequence in noted where bytes < Self.mostBytes {
        result.last = sequence
        do {
          let found = try ObjectReading.object(
            type: target.record.number, sequence: sequence, in: snapshot)
          // A deleted object has lost its note.
          guard let found else { continue }
          bytes += found.bytes.count
          result.objects.append(found)
        } catch let damage as DamagedObject {
          result.damaged.append(sequence)
          core.report(damaged(damage))
        }
      }
      return result
    }
    try ObjectReading.scan(
      type: target.record.number, from: target.builtTo + 1, in: snapshot
    ) { found in
      // Only an object after the bound shows that the batch is not the last.
      if seen >= Self.mostObjects || bytes >= Self.mostBytes {
        result.isEnd = false
        return false
      }
      seen += 1
      switch found {
      case .success(let stored):
        bytes += stored.bytes.count
        result.objects.append(stored)
        result.last = stored.sequence
      case .failure(let damage):
        result.last = damage.sequence
        core.report(damaged(damage))
      }
      return true
    }
    return result
  }

  /// Computes the keys of objects. This runs the program's own code.
  private func batch(
    _ found: Found, _ target: IndexTarget
  ) throws -> IndexBatch<Object> {
    let completes = declared.contains { index in
      index.shape.defaults.areComputed && target.indexes.contains { index.isStored(as: $0) }
    }
    var batch = IndexBatch<Object>(
      target: target, generation: found.generation, damaged: found.damaged, last: found.last,
      isEnd: found.isEnd)
    let numbers = target.numbers
    for stored in found.objects {
      do {
        let object = try decode(stored)
        if completes, try !isComplete(stored, as: object) {
          batch.completed.append((stored, object))
          continue
        }
        var keys = keys(of: object, target.record).keys
        if let references = target.record.references, numbers.contains(references.number) {
          let collector = ReferenceCollector()
          _ = try encode(object, collector)
          keys += ReferenceIndex.keys(collector.links, references.number)
        }
        keys.removeAll { !numbers.contains($0.index) }
        batch.objects.append((stored, keys))
      } catch {
        // Reported when it was found.
        if !target.isUndecoded { core.report(error) }
        batch.undecoded.append(stored)
      }
    }
    return batch
  }

  /// Returns whether a stored object has every field with which the program writes it.
  private func isComplete(_ stored: StoredObject, as object: Object) throws -> Bool {
    let bytes = try encode(object, ReferenceCollector())
    return stored.bytes.withRawSpan { old in bytes.withRawSpan { StoredField.covers(old, $0) } }
  }

  /// Stores objects once with the defaults that another decoding may not repeat, unless they were
  /// changed after they were read.
  private func complete(
    _ batch: IndexBatch<Object>, _ record: inout ObjectTypeRecord,
    _ transaction: inout ObjectTransaction
  ) throws {
    if batch.completed.isEmpty { return }
    let wasBuilding = transaction.isBuildingIndex
    transaction.isBuildingIndex = true
    defer { transaction.isBuildingIndex = wasBuilding }
    for (stored, object) in batch.completed {
      let now: StoredObject?
      do {
        now = try transaction.entries.object(type: record.number, id: stored.id)
      } catch is DamagedObject {
        continue
      }
      guard now?.sequence == stored.sequence, now?.commitVersion == stored.commitVersion else {
        continue
      }
      _ = try transaction.store(object, self)
    }
    // The saves may have added to it.
    record = try prepare(&transaction.entries)
  }

  /// The outcome of a step.
  private struct Step: Sendable {
    let status: IndexBuild.Status
    /// The error of a unique index that the step ended and stored objects violate.
    let violation: ObjectError?
  }

  /// Stores a batch if the build is still at the start of the batch.
  ///
  /// - Returns: The outcome, or `nil` if another process has advanced the build.
  private func apply(
    _ batch: IndexBatch<Object>, _ transaction: inout ObjectTransaction
  ) throws -> Step? {
    var record = try prepare(&transaction.entries)
    let target = batch.target
    let numbers = target.numbers
    // Equal: no other process built, and no import deferred keys, since the objects were read.
    let open = record.indexes.filter { target.indexes.contains($0) }
    guard transaction.entries.generation.number == batch.generation,
      record.number == target.record.number, open.count == numbers.count
    else { return nil }
    if !batch.undecoded.isEmpty { try transaction.entries.declareNotes(&record) }
    let notes = record.allNotes(for: open)
    try complete(batch, &record, &transaction)
    for (stored, keys) in batch.objects {
      do {
        try transaction.entries.setIndexKeys(
          keys, in: numbers, settling: notes, of: stored, type: record.number)
      } catch let error as ObjectTooLarge {
        throw tooLarge(error)
      }
    }
    // After another program's try they have their notes, and perhaps keys of that program in some of the indexes.
    for stored in batch.undecoded where !target.isUndecoded {
      try transaction.entries.setIndexKeys(
        record.undecodedNotes(for: open), in: numbers, settling: notes, of: stored,
        type: record.number)
    }
    let before = record
    for position in record.indexes.indices
    where !batch.undecoded.isEmpty && numbers.contains(record.indexes[position].number) {
      record.indexes[position].lacksObjects = true
    }
    if target.noted != nil {
      for sequence in batch.damaged { try transaction.entries.removeNotes(notes, of: sequence) }
    }
    try transaction.entries.settleNotes(for: numbers, of: &record)
    if target.noted == nil {
      for position in record.indexes.indices
      where numbers.contains(record.indexes[position].number) {
        record.indexes[position].builtTo = batch.isEnd ? nil : batch.last
        record.indexes[position].builtBy = batch.isEnd ? nil : ProcessIdentity.pid
      }
    }
    let violation = try checkUnique(numbers, &record, &transaction)
    if record != before { try transaction.entries.putObjectType(record) }
    return Step(
      status: target.status(after: batch, try transaction.entries.objectBooks(record.number)),
      violation: violation)
  }

  /// Notes of the unique indexes that have all keys whether stored objects violate them.
  ///
  /// - Returns: The error of the first one that they violate.
  private func checkUnique(
    _ numbers: Set<UInt32>, _ record: inout ObjectTypeRecord,
    _ transaction: inout ObjectTransaction
  ) throws -> ObjectError? {
    var violation: ObjectError?
    for position in record.indexes.indices {
      let index = record.indexes[position]
      guard numbers.contains(index.number), index.isUnique, index.hasAllKeys else { continue }
      let found = try transaction.entries.firstDuplicate(in: index.number, type: record.number)
      record.indexes[position].isViolated = found == nil ? nil : true
      violation = violation ?? found.map { record.violation(ofNewIndex: $0) }
    }
    return violation
  }

  /// Returns whether objects lack their keys in a unique index, so that a save cannot be compared with
  /// them.
  func lacksUniqueKeys(_ record: ObjectTypeRecord) -> Bool {
    guard record.version == version, record.migration == nil else { return false }
    return record.indexes.contains { stored in
      stored.isUnique && !stored.hasAllKeys && declared.contains { $0.isStored(as: stored) }
    }
  }

  /// Executes one step inside a transaction, for a migration that rebuilds all indexes.
  ///
  /// - Returns: The progress, or `nil` if all indexes are complete.
  func buildStep(_ transaction: inout ObjectTransaction) throws -> (done: Int, total: Int)? {
    let record = try prepare(&transaction.entries)
    let numbers = buildable(record)
    let input = try transaction.entries.withSnapshot { snapshot -> (IndexTarget, Found)? in
      let target = try IndexTarget(record, numbers, limit: Self.mostObjects, snapshot)
      return try target.map { ($0, try stored(behind: $0, snapshot)) }
    }
    guard let (target, found) = input else { return nil }
    guard let step = try apply(batch(found, target), &transaction) else { return nil }
    if let violation = step.violation { throw violation }
    return (step.status.done, step.status.total)
  }

  /// Builds the unique indexes inside a transaction, to the last key.
  func completeUniqueIndexes(_ transaction: inout ObjectTransaction) throws {
    transaction.isBuildingIndex = true
    defer { transaction.isBuildingIndex = false }
    while true {
      let record = try prepare(&transaction.entries)
      let numbers = Set(record.indexes.filter { $0.isUnique && !$0.hasAllKeys }.map(\.number))
        .intersection(buildable(record))
      let input = try transaction.entries.withSnapshot { snapshot -> (IndexTarget, Found)? in
        let target = try IndexTarget(record, numbers, limit: Self.mostObjects, snapshot)
        return try target.map { ($0, try stored(behind: $0, snapshot)) }
      }
      guard let (target, found) = input,
        try apply(batch(found, target), &transaction) != nil
      else { return }
    }
  }
}
