// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

extension StoreTransaction {
  /// Removes the ids and index keys of objects whose records are too damaged to name them. Their
  /// sequences may get other records, and a remaining key would lead to one of those, or occupy a
  /// unique key permanently.
  ///
  /// - Complexity: O(*n*) in all ids and index keys, for any number of objects; damage is rare.
  mutating func removeDanglingKeys(of sequences: Set<UInt64>, _ type: UInt32) throws {
    var hashes: [(hash: UInt64, sequence: UInt64)] = []
    var entries: [[UInt8]] = []
    var texts: Set<UInt32> = []
    try withSnapshot { snapshot in
      var indexes = Set(
        try ObjectReading.types(snapshot).filter { $0.number == type }.flatMap {
          $0.indexes.map(\.number)
        })
      for migration in try ObjectReading.migrations(snapshot) where migration.target?.number == type
      {
        indexes.formUnion(migration.target!.indexes.map(\.number))
      }
      texts = indexes.filter(ObjectFormat.isText)
      for index in indexes.subtracting(texts) {
        try ObjectReading.scanIndex(index, in: snapshot) { key, found in
          if sequences.contains(found) {
            entries.append(
              ObjectFormat.indexEntry(
                ObjectIndexKey(index: index, bytes: key.copied()), sequence: found))
          }
          return true
        }
      }
      var cursor = try Cursor(over: snapshot.generation.ids, in: snapshot.transaction)
      var more = try cursor.moveToFirst()
      while more {
        for item in ObjectFormat.idItems(cursor.currentValue)
        where item.0 == type && sequences.contains(item.1) {
          hashes.append(
            (
              ObjectFormat.hash(ofIDKey: cursor.currentInteger, snapshot.generation.meta), item.1
            ))
        }
        more = try cursor.moveToNext()
      }
    }
    for entry in entries { try transaction.remove(key: entry, in: generation.indexes) }
    for index in texts {
      for sequence in sequences { try removePostings(of: sequence, in: index) }
    }
    for (hash, sequence) in hashes { try unlink(hash, type, sequence) }
  }

  /// Shows the stored object of the same version to a closure that may change the write.
  mutating func revise(
    _ write: inout ObjectWrite, _ old: Old, type: UInt32,
    _ body: (RawSpan, [ObjectIndexKey], inout ObjectWrite) throws -> Void
  ) throws {
    guard case .found(let header, let content, let keys) = old, header.version == write.version
    else { return }
    let layouts =
      header.codec == ObjectLayout.codec || write.codec == ObjectLayout.codec
      ? try layouts(of: type) : nil
    guard layouts != nil || header.codec == write.codec else { return }
    try content.withRawSpan { content in
      let payload = content.slice(header.idLength..<content.byteCount)!
      guard let start = ObjectFormat.objectStart(payload) else { return }
      let object = payload.slice(start..<payload.byteCount)!
      if write.codec == ObjectLayout.codec {
        // Scalars of the same fields: there is nothing else in the stored object.
        let number = write.bytes.withRawSpan { ObjectLayouts.number(in: $0) }
        if header.codec == write.codec, ObjectLayouts.number(in: object) == number { return }
        guard let map = write.bytes.withRawSpan({ layouts?.expanded($0) }) else { return }
        (write.bytes, write.codec) = (map, CodecIdentifier.cbor.rawValue)
      }
      guard let layouts, header.codec == ObjectLayout.codec else {
        return try body(object, keys, &write)
      }
      try layouts.expanded(object)?.withRawSpan { try body($0, keys, &write) }
    }
  }

  /// Returns whether a write is what is stored, with the same index keys in another order: an index
  /// that is built later puts its keys after all others.
  ///
  /// - Parameters:
  ///   - content: The stored identifier and payload, of the length that the write has.
  ///   - keys: The stored index keys.
  static func isSame(
    _ write: ObjectWrite, as content: [UInt8], _ keys: [ObjectIndexKey]
  ) -> Bool {
    keys.count == write.keys.count && content.suffix(write.bytes.count).elementsEqual(write.bytes)
      && Set(keys) == Set(write.keys)
  }
}
