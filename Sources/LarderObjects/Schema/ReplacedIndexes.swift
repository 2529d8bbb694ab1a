// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

// TWO DECLARATIONS OF ONE INDEX
//
// A program with another declaration of an index (other properties, another definition, another default on
// which its keys rest) replaces the stored index, which reads all objects once. Two such programs of one
// version must not replace each other's index with every save. So an index has the hashes of the declarations
// that it has replaced, and a program with one of these does not replace it again:
//
//     its queries      do not use the index, and are right without it
//     its saves        note their objects for the programs of the other declaration, as for an index that the
//                      program does not declare (`UnindexedNotes.swift` of LarderObjectEngine). If one of
//                      the declarations is unique, its saves throw `schemaMismatch`: the program cannot compare
//                      its keys with the stored ones.
//     prepare(_:)      replaces the index again, because the caller asks for it
//
// A new version, and a type without objects, replace in any case.

extension Index {
  /// A hash of everything that determines the keys, according to this declaration.
  var declaration: UInt64 {
    let defaults = shape.defaults.texts.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
    let parts = [definition, "\(isUnique)", "\(IndexKeyEncoder.revision)"] + fields + defaults
    return XXH64.hash(Array(parts.joined(separator: "\n").utf8))
  }

  /// Returns whether the stored index of the name has replaced one of this declaration.
  func isReplaced(in record: ObjectTypeRecord) -> Bool {
    record.indexes.contains { stored in
      guard stored.name == name, let replaced = stored.replaced else { return false }
      return replaced.contains(declaration) && !isStored(as: stored)
    }
  }

  /// Returns whether a stored index of a type that the program has prepared is this one.
  func isKept(as stored: ObjectTypeRecord.Index) -> Bool {
    // Comparing the declarations of each index for each save would take longer than its keys.
    stored.name == name && (stored.replaced == nil || isStored(as: stored))
  }
}

extension ObjectTypeRecord.Index {
  /// Notes what this index replaces.
  mutating func replace(_ old: ObjectTypeRecord.Index) {
    var all = (old.replaced ?? []) + (old.declaration.map { [$0] } ?? [])
    all.removeAll { $0 == declaration }
    replaced = all.isEmpty ? nil : all
  }
}

extension ObjectTypeDescriptor {
  /// Returns the declared indexes that this program must not replace again, before a save of a type with
  /// objects.
  ///
  /// - Throws: ``ObjectError/Code/schemaMismatch`` if one of them is unique.
  func replacedIndexes(
    _ missing: [Index<Object>], _ record: ObjectTypeRecord
  ) throws -> Set<String> {
    guard build.declarations.load(ordering: .relaxed) == 0 else { return [] }
    let replaced = missing.filter { $0.isReplaced(in: record) }
    for index in replaced
    where index.isUnique || record.indexes.contains(where: { $0.name == index.name && $0.isUnique })
    {
      throw ObjectError(
        .schemaMismatch, type: name,
        "Another program of the same version \(record.version) declares the unique index "
          + "\"\(index.name)\" with other properties or other defaults of fields, and has replaced it. So this "
          + "program cannot check the keys of what it saves. Give both programs one declaration, raise "
          + "schemaVersion in the newer one, or call prepare(_:) to replace the index again, which reads all "
          + "objects.", index: index.name)
    }
    return Set(replaced.map(\.name))
  }

  /// Verifies after a build that no other program has replaced an index of this one meanwhile.
  ///
  /// - Throws: ``ObjectError/Code/schemaMismatch`` if one has.
  func requireNotReplaced(in storage: SharedStore) throws {
    let record = try storage.openCore("prepare").withSnapshot("prepare") { snapshot in
      try ObjectReading.type(named: name, snapshot)
    }
    guard let record, let index = declared.first(where: { $0.isReplaced(in: record) }) else {
      return
    }
    throw ObjectError(
      .schemaMismatch, type: name,
      "Another program of the same version \(record.version) has replaced the index \"\(index.name)\" while this "
        + "one was building it. Give both programs one declaration, or raise schemaVersion in the newer one.",
      index: index.name)
  }
}

extension ObjectTypeDescriptor {
  /// The changes of the stored indexes of a type.
  struct IndexChanges {
    /// The declared indexes that are not stored.
    let missing: [Index<Object>]
    /// The names of the stored indexes that stay although they are declared differently.
    let kept: Set<String>
    /// Whether a stored index with the declaration of this program has the keys that it makes.
    let isKnown: Bool
    /// Whether indexes of others are dropped.
    let mayReplace: Bool
    /// Whether there are no objects.
    let isEmpty: Bool
  }

  /// Drops the stored indexes that the declared ones replace, and adds those.
  func apply(
    _ changes: IndexChanges, to record: inout ObjectTypeRecord,
    _ transaction: inout StoreTransaction
  ) throws {
    let before = record.indexes
    for stored in before
    where !stored.isInternal && !changes.kept.contains(stored.name)
      && (!changes.isKnown || !declared.contains(where: { $0.isStored(as: stored) }))
      && (changes.mayReplace || declared.contains(where: { $0.name == stored.name }))
    {
      try transaction.dropObjectNumber(stored.number, isIndex: true)
      record.indexes.removeAll { $0.number == stored.number }
    }
    for index in changes.missing {
      var new = try stored(index, builtTo: changes.isEmpty ? nil : 0, &transaction)
      if !changes.mayReplace, let old = before.first(where: { $0.name == index.name }) {
        new.replace(old)
      }
      record.indexes.append(new)
    }
  }
}
