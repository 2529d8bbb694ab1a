// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

// The path of a saved object: one object and many take the same.

extension ObjectTransaction {
  mutating func storeAll<Object: Storable>(
    _ objects: [Object], _ children: ChildPolicy
  ) throws {
    var pending: [any PendingChild] = []
    let kind = store.kind(Object.self)
    entries.beginIndexBatch()
    do {
      for object in objects { pending += try store(object, kind) }
    } catch {
      try entries.endIndexBatch()
      throw error
    }
    try entries.endIndexBatch()
    try saveChildren(pending, of: objects, children)
  }

  mutating func saveChildren<Object: Storable>(
    _ pending: [any PendingChild], of objects: [Object], _ policy: ChildPolicy,
    _ versioned: VersionedSave? = nil
  ) throws {
    guard policy != .ignore, !pending.isEmpty else { return }
    let type = Object.storedName
    var visited = Set(
      objects.map { ObjectIdentity(type: type, id: ObjectTypeDescriptor<Object>.bytes(of: $0.id)) })
    // Breadth first with a list instead of recursion, because references can be deeply nested.
    var generation = pending
    while !generation.isEmpty {
      var next: [any PendingChild] = []
      for child in generation where visited.insert(child.reference).inserted {
        next += try child.save(in: &self, policy, versioned)
      }
      generation = next
    }
  }

  /// Stores one object without its children.
  ///
  /// - Returns: The objects that were assigned to its references.
  mutating func store<Object: Storable>(
    _ object: Object, _ kind: ObjectTypeDescriptor<Object>,
    asChild saving: ChildSaving<Object>? = nil
  ) throws -> [any PendingChild] {
    let baseline = saving?.baseline
    if baseline == nil, let fields = kind.fields(of: object) {
      let type = try prepare(kind)
      if let write = kind.write(object, fields, type) {
        let keeps = try keepsExisting(object, kind, write, type.record, saving)
        try save(object, kind, write, type.record, keepsExisting: keeps)
        return []
      }
    }
    let encoder = spare ?? ReferenceEncoder()
    // An object that cannot be encoded leaves its references in the collector.
    spare = nil
    let collector = encoder.collector
    let bytes = try kind.encode(object, with: encoder)
    if collector.isEmpty { spare = encoder }
    if let baseline {
      let before = try kind.encode(baseline, ReferenceCollector())
      if before == bytes { return collector.children }
      if let saving { try requireUnchanged(object, since: before, kind, saving) }
    }
    let (record, write) = try erasing(kind) { transaction in
      var record = try transaction.declared(kind)
      let write = try kind.write(object, bytes, collector, &record, in: &transaction.entries)
      try kind.requireSameSchema(object, bytes, record, &transaction.entries)
      return (record, write)
    }
    let keeps = try keepsExisting(object, kind, write, record, saving)
    try save(object, kind, write, record, keepsExisting: keeps)
    return collector.children
  }

  /// Returns the record of a type for a save. A new unique index is complete first, because otherwise
  /// the save is not compared with objects that lack their keys.
  private mutating func declared<Object: Storable>(
    _ kind: ObjectTypeDescriptor<Object>
  ) throws -> ObjectTypeRecord {
    let record = try kind.prepare(&entries)
    guard !isBuildingIndex, kind.lacksUniqueKeys(record) else { return record }
    try kind.completeUniqueIndexes(&self)
    return try kind.prepare(&entries)
  }

  /// Prepares a type for saves without a map.
  private mutating func prepare<Object: Storable>(
    _ kind: ObjectTypeDescriptor<Object>
  ) throws -> PreparedType {
    if let prepared, prepared.isCurrent(kind, changes: entries.objects.typeChanges) {
      return prepared
    }
    let record = try declared(kind)
    let type = PreparedType(kind, record, changes: entries.objects.typeChanges)
    prepared = type
    return type
  }

  private mutating func save<Object: Storable>(
    _ object: Object, _ kind: ObjectTypeDescriptor<Object>, _ write: ObjectWrite,
    _ record: ObjectTypeRecord, keepsExisting: Bool
  ) throws {
    var write = write
    if isBuildingIndex {
      // Whether stored objects violate an index that is built is found when it has all keys.
      write.uniqueIndexes.removeAll { number in
        record.indexes.contains { $0.number == number && !$0.hasAllKeys }
      }
    }
    var stored = write.bytes
    let (store, overlay) = (store, overlay)
    do {
      let saved = try entries.save(
        write, type: record.number, keepsExisting: keepsExisting, defersConflicts: true
      ) { old, keys, write in
        try kind.keepUnknownFields(of: old, keys, in: &write, object, record) {
          ReferenceLoader(store: store, overlay: overlay)
        }
        kind.keepUndeclaredKeys(of: old, keys, in: &write, record)
        stored = write.bytes
      }
      if case .kept = saved { return }
      if saved.isWritten {
        noteWrite()
        if store.erasesOnSchemaChange { kind.noteWritten(record.number) }
        if kind.mayLackIndexes(record) { try entries.markBehind(write.keys, record) }
      }
      let layouts = write.codec == ObjectLayout.codec ? record.layouts : nil
      overlay.save(ObjectIdentity(type: kind.name, id: write.id), stored, layouts)
    } catch let error as ObjectTooLarge {
      throw kind.tooLarge(error)
    } catch {
      // The store failed, not the object: assume a partial write.
      noteWrite()
      throw error
    }
  }
}
