// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine

// REFERENCES IN MIGRATIONS
//
// What refers is stored as ids, which a migration leaves as they are. The index of references goes
// over with the others: between Swift types the new object's own references make its keys; without
// them the keys are made of the new fields, a property leading to the type it led to before.
//
// A type that gets another name is known by its old one in the keys of all that refer to it. They are
// rewritten in the transaction that gives the name, so that no query and no rule is ever wrong; this
// is bounded by `renameLimit`, since it cannot be done in steps.

extension MigrationStepExecutor {
  /// The most objects that may refer to a type that gets another name.
  static let renameLimit = 200_000

  /// Declares a type of which nothing is stored in the version that is reached: the migration counts
  /// as applied, so older programs must not begin to store what it would have converted.
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

  /// Makes everything that refers to a type by its old name refer to it by the new one.
  func rename(
    referencesTo old: String, as new: String, _ transaction: inout StoreTransaction
  ) throws {
    let (from, to) = (ReferenceIndex.prefix(old), ReferenceIndex.prefix(new))
    for var owner in try transaction.withReading({ try ObjectReading.types($0) }) {
      if let references = owner.references {
        guard references.builtTo == nil else {
          throw error(
            .migrationInProgress, owner.name,
            "cannot rename what \"\(owner.name)\" may refer to: its indexes are being built anew. Go on "
              + "with that first, by the migration that began it or by prepare(_:).")
        }
        let index = references.number
        let sequences = try referrers(from, index, transaction)
        if !sequences.isEmpty, let other = owner.migration, other != migration.name {
          throw error(
            .migrationInProgress, owner.name,
            "cannot rename what \"\(owner.name)\" refers to: \"\(other)\" is under way. Apply that "
              + "first, or abandon it.")
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
    try transaction.withReading { reading in
      try ObjectReading.scanIndex(
        index, from: prefix, below: ReferenceIndex.end(of: prefix), in: transaction.generation,
        reading
      ) { _, sequence in
        sequences.insert(sequence)
        return sequences.count <= Self.renameLimit
      }
    }
    if sequences.count > Self.renameLimit {
      throw error(
        .migrationFailed, "",
        "cannot rename a type that more than \(Self.renameLimit) objects refer to. Copy it to a new "
          + "type, and let the objects refer to that.")
    }
    return sequences
  }

  private func rename(
    _ from: [UInt8], _ to: [UInt8], _ index: UInt32, _ type: UInt32, _ sequence: UInt64,
    _ transaction: inout StoreTransaction
  ) throws {
    // A damaged one leads nowhere by any name.
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

  /// Drops the index of references of a type whose objects refer to nothing.
  func dropUnusedReferences(
    of target: inout ObjectTypeRecord, _ transaction: inout StoreTransaction
  ) throws {
    guard let references = target.references else { return }
    var isUsed = false
    try transaction.withReading { reading in
      try ObjectReading.scanIndex(
        references.number, from: [], below: nil, in: transaction.generation, reading
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
