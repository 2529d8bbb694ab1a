// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

/// The input of the next step of a build.
struct IndexTarget {
  let record: ObjectTypeRecord
  /// The incomplete indexes that are built up to the same object.
  let indexes: [ObjectTypeRecord.Index]
  let builtTo: UInt64
  /// The next objects with notes for the indexes; `nil` if the step is about all objects.
  let noted: [UInt64]?
  let status: IndexBuild.Status

  var numbers: Set<UInt32> { Set(indexes.map(\.number)) }

  /// Creates the target with the least complete indexes, or `nil` if all are complete.
  ///
  /// - Parameters:
  ///   - record: The record of the type.
  ///   - numbers: The identifiers of the indexes that may be built.
  ///   - limit: The maximum number of noted objects of each index.
  init?(
    _ record: ObjectTypeRecord, _ numbers: Set<UInt32>, limit: Int,
    _ snapshot: borrowing Snapshot
  ) throws {
    let books = try ObjectReading.books(record.number, snapshot)
    let total = Int(clamping: books.count)
    let open = record.indexes.filter { numbers.contains($0.number) && !$0.isComplete }
    guard let first = open.first else { return nil }
    self.record = record
    guard let builtTo = open.compactMap(\.builtTo).min() else {
      indexes = open
      let noted = try ObjectReading.noted(record.notes(for: open), limit: limit, in: snapshot)
      self.noted = noted
      builtTo = noted.first ?? .max
      status = IndexBuild.Status(
        index: first.name, builtTo: builtTo, done: Swift.max(total - noted.count, 0), total: total,
        builder: nil)
      return
    }
    self.builtTo = builtTo
    noted = nil
    indexes = open.filter { $0.builtTo == builtTo }
    let share = Double(builtTo) / Double(Swift.max(books.nextSequence - 1, 1))
    status = IndexBuild.Status(
      index: indexes[0].name, builtTo: builtTo, done: Int(Double(total) * Swift.min(share, 1)),
      total: total, builder: indexes[0].builtBy)
  }

  /// Returns the progress of the build after a batch.
  func status(after batch: IndexBatch, _ books: ObjectTypeCounters) -> IndexBuild.Status {
    let total = Int(clamping: books.count)
    let share = Double(batch.last) / Double(Swift.max(books.nextSequence - 1, 1))
    return IndexBuild.Status(
      index: status.index, builtTo: batch.last,
      done: batch.isEnd ? total : Int(Double(total) * Swift.min(share, 1)), total: total,
      builder: ProcessIdentity.pid)
  }
}

/// The objects of one step with their keys.
struct IndexBatch {
  let target: IndexTarget
  let generation: UInt64
  var objects: [(stored: StoredObject, keys: [ObjectIndexKey], unique: [UInt32])] = []
  /// The sequence numbers of the damaged objects.
  var damaged: [UInt64] = []
  /// The sequence number of the last object of the batch.
  var last: UInt64
  /// Whether no object follows the last one.
  var isEnd: Bool
}

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
    let broken = builder.broken
    let input: (record: ObjectTypeRecord, target: IndexTarget?)? = try core.withSnapshot(
      "build an index"
    ) { snapshot in
      guard let record = try ObjectReading.type(named: name, snapshot) else { return nil }
      let numbers = buildable(record).subtracting(broken)
      return (
        record, try IndexTarget(record, numbers, limit: Self.mostObjects, snapshot)
      )
    }
    guard let input else { return nil }
    guard let target = input.target else {
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
      try advance(target, core, store)
    } catch let error as ObjectError where error.code == .uniqueViolation {
      // The other indexes do not depend on this one.
      let taken = target.indexes.filter { $0.name == error.index }.map(\.number)
      if taken.isEmpty || build.isAwaited { throw error }
      builder.broken.formUnion(taken)
      builder.failure = builder.failure ?? error
    }
    return 0
  }

  private func advance(_ target: IndexTarget, _ core: StoreCore, _ store: ObjectStore) throws {
    let found = try core.withSnapshot("build an index") { snapshot in
      try stored(behind: target, snapshot)
    }
    let batch = try batch(found, target)
    let status = try store.write { try self.apply(batch, &$0) }
    guard let status else { return }
    _ = build.note(status)
    for index in target.indexes {
      core.notify(
        .indexBuilding(type: name, index: index.name, done: status.done, total: status.total))
    }
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
      for sequence in noted where bytes < Self.mostBytes {
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
  ) throws -> IndexBatch {
    var batch = IndexBatch(
      target: target, generation: found.generation, damaged: found.damaged, last: found.last,
      isEnd: found.isEnd)
    let numbers = target.numbers
    for stored in found.objects {
      do {
        let object = try decode(stored)
        var (keys, unique) = keys(of: object, target.record)
        if let references = target.record.references, numbers.contains(references.number) {
          let collector = ReferenceCollector()
          _ = try encode(object, collector)
          keys += ReferenceIndex.keys(collector.links, references.number)
        }
        keys.removeAll { !numbers.contains($0.index) }
        unique.removeAll { !numbers.contains($0) }
        batch.objects.append((stored, keys, unique))
      } catch {
        core.report(error)
        // The object loses its note, as a build passes over it.
        if target.noted != nil { batch.objects.append((stored, [], [])) }
      }
    }
    return batch
  }

  /// Stores a batch if the build is still at the start of the batch.
  ///
  /// - Returns: The progress, or `nil` if another process has advanced the build.
  private func apply(
    _ batch: IndexBatch, _ transaction: inout ObjectTransaction
  ) throws -> IndexBuild.Status? {
    var record = try prepare(&transaction.entries)
    let target = batch.target
    let numbers = target.numbers
    // Equal: no other process built, and no import deferred keys, since the objects were read.
    let open = record.indexes.filter { target.indexes.contains($0) }
    guard transaction.entries.generation.number == batch.generation,
      record.number == target.record.number, open.count == numbers.count
    else { return nil }
    let notes = record.notes(for: open)
    for (stored, keys, unique) in batch.objects {
      do {
        try transaction.entries.setIndexKeys(
          keys, in: numbers, settling: notes, unique: unique, of: stored, type: record.number)
      } catch let error as UniqueKeyConflict {
        throw record.violation(error)
      } catch let error as ObjectTooLarge {
        throw tooLarge(error)
      }
    }
    let before = record
    if target.noted != nil {
      for sequence in batch.damaged { try transaction.entries.removeNotes(notes, of: sequence) }
      try transaction.entries.settleNotes(for: numbers, of: &record)
    } else {
      for position in record.indexes.indices
      where numbers.contains(record.indexes[position].number) {
        record.indexes[position].builtTo = batch.isEnd ? nil : batch.last
        record.indexes[position].builtBy = batch.isEnd ? nil : ProcessIdentity.pid
      }
    }
    if record != before { try transaction.entries.putObjectType(record) }
    return target.status(after: batch, try transaction.entries.objectBooks(record.number))
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
    let status = try apply(batch(found, target), &transaction)
    return status.map { ($0.done, $0.total) }
  }

  // MARK: Explaining

  /// Returns the incomplete index that a query would use, with the progress of its build, or `nil`.
  func explainBuild(
    for query: Query<Object>, _ record: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws -> String? {
    guard isUnbuilt(record) else { return nil }
    var complete = record
    for index in declared {
      if let position = record.indexes.firstIndex(where: { index.isStored(as: $0) }) {
        complete.indexes[position].builtTo = nil
        complete.indexes[position].isBehind = nil
      } else {
        complete.indexes.append(
          ObjectTypeRecord.Index(
            number: 0, name: index.name, fields: index.fields, isUnique: index.isUnique,
            definition: index.definition, builtTo: nil))
      }
    }
    guard let scan = QueryPlan(query, self, complete).scan,
      let index = declared.first(where: { $0.name == scan.name })
    else { return nil }
    var share = 0.0
    if let stored = record.indexes.first(where: { index.isStored(as: $0) }) {
      guard !stored.isComplete else { return nil }
      let books = try ObjectReading.books(record.number, snapshot)
      if let builtTo = stored.builtTo {
        share = Double(builtTo) / Double(Swift.max(books.nextSequence - 1, 1))
      } else {
        let noted = try ObjectReading.noted(
          record.notes(for: [stored]), limit: .max, in: snapshot)
        share = 1 - Double(noted.count) / Double(Swift.max(books.count, 1))
      }
    }
    let percent = Int(Swift.max(0, Swift.min(share, 1)) * 100)
    guard let failure = build.failure else {
      return "index \"\(index.name)\" is being built, \(percent) %"
    }
    return "index \"\(index.name)\" is not built, \(percent) %: \(failure)"
  }
}
