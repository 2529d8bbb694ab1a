// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

// REFERENCES IN MIGRATIONS
//
// References are stored as ids, which a migration does not change. The reference index is converted
// with the other indexes: between Swift types, the new object's own references produce its keys;
// without Swift types, the keys follow from the new fields, and a property refers to the same type
// as before.
//
// The keys of all referrers contain the old name of a renamed type. They are rewritten in the
// transaction that renames it, so that queries and delete rules are always correct; `renameLimit`
// bounds this work, because it cannot be split into steps.

extension MigrationStepExecutor {
  /// The maximum number of referrers of a renamed type.
  static let renameLimit = 200_000

  /// Declares a type without stored objects in the target version. The migration counts as applied,
  /// so older programs must not store objects that it would have converted.
  func settle(
    _ copy: ObjectCopyMigration, _ transaction: inout StoreTransaction
  ) throws {
    guard copy.source == copy.target else { return }
    var type = ObjectTypeRecord(
      number: try transaction.newObjectNumber(), name: copy.target, version: copy.version,
      fingerprint: 0, indexes: [], migrations: [migration.name])
    type.born = copy.version
    try transaction.putObjectType(type)
  }

  /// Rewrites all references to a renamed type.
  func rename(
    referencesTo old: String, as new: String, _ transaction: inout StoreTransaction
  ) throws {
    let (from, to) = (ReferenceIndex.prefix(old), ReferenceIndex.prefix(new))
    for var owner in try transaction.withSnapshot({ try ObjectReading.types($0) }) {
      if let references = owner.references {
        guard references.builtTo == nil else {
          throw error(
            .migrationInProgress, owner.name,
            "cannot rename the type while the indexes of the referring type \"\(owner.name)\" are "
              + "being rebuilt. Finish that first, with its migration or with prepare(_:).")
        }
        let index = references.number
        let sequences = try referrers(from, index, transaction)
        if !sequences.isEmpty, let other = owner.migration, other != migration.name {
          throw error(
            .migrationInProgress, owner.name,
            "cannot rename the type while the migration \"\(other)\" of the referring type "
              + "\"\(owner.name)\" is in progress. Apply it first, or abandon it.")
        }
        for sequence in sequences {
          try rename(from, to, index, owner.number, sequence, &transaction)
        }
      }
      guard var relations = owner.relations, relations.contains(where: { $0.target == old }) else {
        continue
      }
      for position in relations.indices where relations[position].target == old {
        relations[position].target = new
      }
      owner.relations = relations
      try transaction.putObjectType(owner)
    }
  }

  private func referrers(
    _ prefix: [UInt8], _ index: UInt32, _ transaction: borrowing StoreTransaction
  ) throws -> Set<UInt64> {
    var sequences: Set<UInt64> = []
    try transaction.withSnapshot { snapshot in
      try ObjectReading.scanIndex(
        index, from: prefix, below: ReferenceIndex.end(of: prefix), in: snapshot
      ) { _, sequence in
        sequences.insert(sequence)
        return sequences.count <= Self.renameLimit
      }
    }
    if sequences.count > Self.renameLimit {
      throw error(
        .migrationFailed, "",
        "cannot rename a type with more than \(Self.renameLimit) referrers. Copy it to a new type, "
          + "and change the references to that type.")
    }
    return sequences
  }

  private func rename(
    _ from: [UInt8], _ to: [UInt8], _ index: UInt32, _ type: UInt32, _ sequence: UInt64,
    _ transaction: inout StoreTransaction
  ) throws {
    // The references of a damaged object cannot be read under either name.
    guard
      let moving = try? transaction.movingObject(type: type, sequence: sequence)
    else { return }
    let keys = moving.keys.map { key in
      guard key.index == index, key.bytes.starts(with: from) else { return key }
      return ObjectIndexKey(index: index, bytes: to + key.bytes.dropFirst(from.count))
    }
    let stored = moving.stored
    try transaction.replace(
      ObjectWrite(
        id: stored.id, bytes: stored.bytes, codec: stored.codec, version: stored.version,
        keys: keys, uniqueIndexes: []), type: type, sequence: sequence, created: stored.created)
  }

  /// Drops the reference index of a type whose objects have no references.
  func dropUnusedReferences(
    of target: inout ObjectTypeRecord, _ transaction: inout StoreTransaction
  ) throws {
    guard let references = target.references else { return }
    var isUsed = false
    try transaction.withSnapshot { snapshot in
      try ObjectReading.scanIndex(
        references.number, from: [], below: nil, in: snapshot
      ) { _, _ in
        isUsed = true
        return false
      }
    }
    if isUsed { return }
    try transaction.dropObjectNumber(references.number, isIndex: true)
    target.indexes.removeAll { $0.number == references.number }
  }
}
