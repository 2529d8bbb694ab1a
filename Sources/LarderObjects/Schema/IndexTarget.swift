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
  /// Whether the notes are of objects that another program could not decode.
  var isUndecoded = false
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
    let open = record.indexes.filter { numbers.contains($0.number) && !$0.isBuilt }
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

  /// Creates the target with the next objects that another program could not decode, or `nil` if there are
  /// none.
  ///
  /// - Parameters:
  ///   - record: The record of the type. All its indexes are built.
  ///   - numbers: The identifiers of the indexes that may be built.
  ///   - last: The last object that was tried.
  ///   - limit: The maximum number of noted objects of each index.
  init?(
    undecodedIn record: ObjectTypeRecord, _ numbers: Set<UInt32>, after last: UInt64, limit: Int,
    _ snapshot: borrowing Snapshot
  ) throws {
    let open = record.indexes.filter {
      numbers.contains($0.number) && $0.isBuilt && $0.lacksObjects == true
    }
    guard let first = open.first else { return nil }
    let noted = try ObjectReading.noted(
      record.undecodedNotes(for: open), from: last &+ 1, limit: limit, in: snapshot)
    // Without any, a last step finds whether the notes have gone.
    if noted.isEmpty, last != 0 { return nil }
    let total = Int(clamping: try ObjectReading.books(record.number, snapshot).count)
    self.record = record
    indexes = open
    self.noted = noted
    builtTo = noted.first ?? .max
    isUndecoded = true
    status = IndexBuild.Status(
      index: first.name, builtTo: builtTo, done: Swift.max(total - noted.count, 0), total: total,
      builder: nil)
  }

  /// Returns the progress of the build after a batch.
  func status<Object>(after batch: IndexBatch<Object>, _ books: ObjectTypeCounters)
    -> IndexBuild.Status
  {
    let total = Int(clamping: books.count)
    let share = Double(batch.last) / Double(Swift.max(books.nextSequence - 1, 1))
    return IndexBuild.Status(
      index: status.index, builtTo: batch.last,
      done: batch.isEnd ? total : Int(Double(total) * Swift.min(share, 1)), total: total,
      builder: ProcessIdentity.pid)
  }
}

/// The objects of one step with their keys.
struct IndexBatch<Object: Storable> {
  let target: IndexTarget
  let generation: UInt64
  /// The objects that are stored with the defaults of the fields that they lack.
  var completed: [(stored: StoredObject, object: Object)] = []
  var objects: [(stored: StoredObject, keys: [ObjectIndexKey])] = []
  /// The objects that this program cannot decode.
  var undecoded: [StoredObject] = []
  /// The sequence numbers of the damaged objects.
  var damaged: [UInt64] = []
  /// The sequence number of the last object of the batch.
  var last: UInt64
  /// Whether no object follows the last one.
  var isEnd: Bool
}
