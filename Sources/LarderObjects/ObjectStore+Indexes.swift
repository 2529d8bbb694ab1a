// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB

/// How far a long piece of work has come.
public struct ObjectProgress: Sendable, Hashable {
  /// What is being done, and to which type.
  public let step: String
  /// Objects looked at so far.
  public let done: Int
  /// How many objects there are.
  public let total: Int
}

extension ObjectStore {
  /// Declares a type, and builds indexes that were declared after objects were stored.
  ///
  /// An index is built in transactions of a thousand objects, so that other processes read and write
  /// on. Until it is complete, queries do without it. Killed, it goes on where it was with the next
  /// call, of any process. Saving declares a type as well, but leaves the building to this.
  ///
  /// ```swift
  /// try objects.prepare(Car.self) { print("\($0.step): \($0.done) of \($0.total)") }
  /// ```
  ///
  /// - Throws: ``ObjectError``; `keyTaken` when objects that are stored already break a new unique
  ///   index. It stays incomplete then, and is enforced for what is saved from now on.
  public func prepare<Object: Storable>(
    _ type: Object.Type, progress: (ObjectProgress) -> Void = { _ in }
  ) throws {
    let kind = kind(type)
    try write { transaction in try kind.learnRelations(&transaction.entries) }
    var isDone = false
    while !isDone {
      let step: (name: String, done: Int, total: Int)? = try write { transaction in
        try kind.buildStep(&transaction, limit: 1000)
      }
      guard let step else {
        isDone = true
        continue
      }
      progress(
        ObjectProgress(
          step: "index \"\(step.name)\" of \(kind.name)", done: step.done, total: step.total))
    }
  }
}

extension Kind {
  /// Takes the next objects into the first index that is not complete.
  ///
  /// - Returns: `nil`: all are complete.
  func buildStep(
    _ transaction: inout ObjectTransaction, limit: Int
  ) throws -> (name: String, done: Int, total: Int)? {
    var record = try prepare(&transaction.entries)
    guard let position = record.indexes.firstIndex(where: { $0.builtTo != nil }) else { return nil }
    let from = record.indexes[position].builtTo! + 1
    var batch: [StoredObject] = []
    var last: UInt64?
    var seen = 0
    try transaction.entries.withReading { reading in
      try ObjectReading.scan(
        type: record.number, from: from, in: transaction.entries.generation, reading
      ) { found in
        seen += 1
        switch found {
        case .success(let stored):
          batch.append(stored)
          last = stored.sequence
        case .failure(let damage):
          last = damage.sequence
          core.report(damaged(damage))
        }
        return seen < limit
      }
    }
    for stored in batch {
      let object: Object
      do {
        object = try decode(stored)
      } catch {
        core.report(error)
        continue
      }
      var write = try write(object, &record, in: &transaction.entries)
      // Its keys change and nothing else: there may be fields that this program does not know.
      write.bytes = stored.bytes
      write.version = stored.version
      do {
        _ = try transaction.entries.save(write, type: record.number, since: stored.created)
      } catch let error as ObjectKeyTaken {
        throw taken(error, record)
      }
    }
    let name = record.indexes[position].name
    record.indexes[position].builtTo = seen < limit ? nil : last
    try transaction.entries.putObjectType(record)
    let total = Int(clamping: try transaction.entries.objectBooks(record.number).count)
    return (name, Swift.min(Int(clamping: last ?? 0), total), total)
  }
}
