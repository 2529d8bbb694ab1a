// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

extension ObjectTypeDescriptor {
  /// Returns the incomplete index that a query would use, with the progress of its build, or `nil`.
  func explainBuild(
    for query: Query<Object>, _ record: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws -> String? {
    guard
      isUnbuilt(record) || record.indexes.contains(where: { $0.lacksObjects == true })
        || declared.contains(where: { $0.isReplaced(in: record) })
    else { return nil }
    var complete = record
    for index in declared {
      if let position = record.indexes.firstIndex(where: { index.isStored(as: $0) }) {
        complete.indexes[position].builtTo = nil
        complete.indexes[position].isBehind = nil
        complete.indexes[position].isViolated = nil
        complete.indexes[position].lacksObjects = nil
      } else {
        complete.indexes.append(
          ObjectTypeRecord.Index(
            number: 0, name: index.name, fields: index.fields, isUnique: index.isUnique,
            definition: index.definition, defaults: index.shape.defaults.texts, builtTo: nil))
      }
    }
    guard let scan = QueryPlan(query, self, complete).scan,
      let index = declared.first(where: { $0.name == scan.name })
    else { return nil }
    if index.isReplaced(in: record) {
      return
        "index \"\(index.name)\" is not used: another program of this version declares it otherwise"
    }
    var share = 0.0
    if let stored = record.indexes.first(where: { index.isStored(as: $0) }) {
      guard !stored.isComplete else { return nil }
      if stored.isViolated == true {
        let cause = build.failure.map { "\($0)" } ?? "stored objects have the same key"
        return "index \"\(index.name)\" is not used: \(cause)"
      }
      if stored.isBuilt {
        let count = try ObjectReading.noted(
          record.undecodedNotes(for: [stored]), limit: .max, in: snapshot
        ).count
        return "index \"\(index.name)\" is not used: the programs that built it could not decode "
          + "\(count) \(count == 1 ? "object" : "objects")"
      }
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
