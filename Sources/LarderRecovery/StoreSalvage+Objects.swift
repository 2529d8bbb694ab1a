// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderObjectEngine
internal import LarderSystem

/// An object of a damaged store whose checksum matches.
struct SalvagedObject {
  let type: UInt32
  let sequence: UInt64
  let header: EntryHeader
  let id: [UInt8]
  let payload: [UInt8]
  let keys: [ObjectIndexKey]
}

extension StoreSalvage {
  /// A record of the table of objects.
  struct FoundObject {
    let type: UInt32
    let sequence: UInt64
    /// The object, or `nil` if it is damaged.
    let object: SalvagedObject?
    let chunks: ChunkReference?
  }

  /// Calls `body` with every object record.
  func forEachObject(_ body: (FoundObject) throws -> Void) throws {
    let (values, chunks) = (values, chunks)
    for source in [SalvageReader.Source.table(Generation.objectsName), .unknown] {
      try reader.forEachNode(of: source) { node in
        guard let (type, sequence) = ObjectFormat.place(node.key) else { return }
        let record = values.bytes(of: node.value) ?? []
        let item = record.withRawSpan { (try? Record.items(in: $0))?.first }
        var object: SalvagedObject?
        if let item, item.header.namespace == type, item.header.keyTag == ObjectFormat.keyTag,
          let entry = StoreSalvage.entry(item, in: record, chunks: chunks, values),
          let front = entry.payload.withRawSpan({ ObjectFormat.indexKeys($0) })
        {
          object = SalvagedObject(
            type: type, sequence: sequence, header: item.header, id: entry.key.bytes,
            payload: entry.payload, keys: front.keys)
        }
        // Of an unknown table it may be anything.
        if source == .unknown, object == nil { return }
        try body(
          FoundObject(type: type, sequence: sequence, object: object, chunks: item?.chunks))
      }
    }
  }

  /// Reads all objects and records their type identifiers.
  func readObjects() throws {
    var numbers: [UInt32: UInt32] = [:]
    try forEachObject { found in
      guard let object = found.object else { return }
      numbers[found.type] = max(numbers[found.type] ?? 1, object.header.epoch)
    }
    for (number, version) in numbers { catalog.note(object: number, version: version) }
  }

  /// Reads the entries of live identifiers in the tables of ids and indexes.
  func storedObjectKeys() throws -> (ids: SetFingerprint, keys: SetFingerprint) {
    var (ids, keys) = (SetFingerprint(), SetFingerprint())
    let (catalog, values) = (catalog, values)
    let indexes = catalog.indexes
    try reader.forEachNode(of: .table(Generation.idsName)) { node in
      guard let place: UInt64 = node.key.integer(at: 0), let record = values.bytes(of: node.value)
      else { return }
      for item in record.withRawSpan({ ObjectFormat.idItems($0) })
      where catalog.isLive(item.type) {
        ids.add(Self.idItem(at: place, item.type, item.sequence))
      }
    }
    try reader.forEachNode(of: .table(Generation.indexesName)) { node in
      guard let index: UInt32 = node.key.integer(at: 0), indexes.contains(index.byteSwapped) else {
        return
      }
      keys.add(node.key)
    }
    return (ids, keys)
  }

  static func idItem(at place: UInt64, _ type: UInt32, _ sequence: UInt64) -> [UInt8] {
    var key: [UInt8] = []
    key.append(littleEndian: place)
    key.append(littleEndian: type)
    key.append(littleEndian: sequence)
    return key
  }
}
