// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

extension ObjectTransaction {
  /// Deletes objects and applies the delete rules of relationships.
  ///
  /// - Returns: The number of objects that existed.
  @discardableResult
  mutating func remove(_ references: [ObjectIdentity]) throws -> Int {
    let types = try types()
    let plan = try DeletionPlan(entries, types, removing: references)
    noteDenied(plan.denied)
    for (owner, edits) in plan.nullified { try nullify(owner, edits) }
    var kind: (any AnyObjectTypeDescriptor)?
    for reference in plan.removed {
      guard let record = try entries.objectType(named: reference.type) else { continue }
      noteWrite()
      try entries.delete(type: record.number, id: reference.id)
      overlay.delete(reference)
      if kind?.name != reference.type { kind = store.kind(of: record) }
      if let kind { forgotten.note(kind, reference.id) }
    }
    return plan.found
  }

  /// Removes ids from an object's references.
  private mutating func nullify(
    _ owner: ObjectIdentity, _ edits: [[String]: Set<[UInt8]>]
  ) throws {
    guard var record = try entries.objectType(named: owner.type),
      let stored = try entries.object(type: record.number, id: owner.id),
      var value = try? CBORValue(parsing: stored.bytes)
    else { return }
    for (path, ids) in edits { value = value.removing(ids, at: path[...]) }
    let bytes = value.encoded
    var write: ObjectWrite
    if let kind = store.kind(of: record) {
      _ = try kind.prepare(&entries)
      write = try kind.rewrite(owner.id, bytes, &record, in: &entries)
    } else {
      guard let references = record.references, record.indexes.allSatisfy(\.isInternal) else {
        throw ObjectError(
          .schemaMismatch, type: owner.type,
          "Deleting nullifies a reference in \"\(owner.text)\", but this process has not declared "
            + "the type and cannot update its indexes. Call prepare(_:) for it after opening.",
          ids: [owner.text])
      }
      let removedKeys = Set(
        (record.relations ?? []).flatMap { relation in
          (edits[relation.path] ?? []).map { id in
            ObjectIndexKey(
              index: references.number,
              bytes: ReferenceIndex.key(relation.target, id, relation.path))
          }
        })
      let keys = try entries.withSnapshot { snapshot in
        try ObjectReading.indexKeys(
          type: record.number, sequence: stored.sequence, in: snapshot)
      }
      write = ObjectWrite(
        id: owner.id, bytes: bytes, codec: stored.codec, version: stored.version,
        keys: keys.filter { !removedKeys.contains($0) }, uniqueIndexes: [])
    }
    _ = try entries.save(write, type: record.number, defersConflicts: true)
    noteWrite()
    try entries.markBehind(write.keys, record)
    overlay.save(owner, write.bytes)
  }
}
