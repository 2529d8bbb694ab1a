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
  let header: ObjectHeader
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
  ///
  /// - Parameter layouts: Called with the copies of the layouts of types.
  func forEachObject(
    layouts: (ObjectLayouts, UInt32) -> Void = { _, _ in }, _ body: (FoundObject) throws -> Void
  ) throws {
    let (values, chunks) = (values, chunks)
    for source in [SalvageReader.Source.table(Generation.objectsName), .unknown] {
      try reader.forEachNode(of: source) { node in
        let place = node.key.withRawSpan { ObjectFormat.place($0) }
        guard let (type, sequence) = place else { return }
        let record = values.bytes(of: node.value) ?? []
        if sequence == 0 {
          if let found = record.withRawSpan({ ObjectLayouts(copy: $0) }) { layouts(found, type) }
          return
        }
        let header = record.withRawSpan { ObjectHeader(in: $0) }
        let object = header.flatMap {
          Self.object($0, in: record, type, sequence, chunks: chunks, values)
        }
        // Of an unknown table it may be anything.
        if source == .unknown, object == nil { return }
        try body(
          FoundObject(type: type, sequence: sequence, object: object, chunks: header?.chunks))
      }
    }
  }

  /// Returns the object of a record, or `nil` if it is damaged.
  private static func object(
    _ header: ObjectHeader, in record: [UInt8], _ type: UInt32, _ sequence: UInt64,
    chunks: [UInt64: SalvageReader.Value], _ values: SalvageReader.Values
  ) -> SalvagedObject? {
    var content: [UInt8]?
    if let reference = header.chunks {
      content = self.content(of: reference, length: header.contentLength, chunks, values)
    } else {
      content = Array(record[header.contentStart...])
    }
    guard let content else { return nil }
    let isIntact = record.withRawSpan { record in
      header.isChunked
        ? header.isIntact(in: record, with: content, type: type, sequence: sequence)
        : header.isIntact(in: record, type: type, sequence: sequence)
    }
    let payload = Array(content[header.idLength...])
    guard isIntact, let front = payload.withRawSpan({ ObjectFormat.indexKeys($0) }) else {
      return nil
    }
    return SalvagedObject(
      type: type, sequence: sequence, header: header, id: Array(content[..<header.idLength]),
      payload: payload, keys: front.keys)
  }

  /// Reads all objects and records their type identifiers.
  func readObjects() throws {
    var numbers: [UInt32: UInt32] = [:]
    try forEachObject(layouts: { catalog.note($0, of: $1) }) { found in
      guard let object = found.object else { return }
      numbers[found.type] = max(numbers[found.type] ?? 1, object.header.version)
    }
    for (number, version) in numbers { catalog.note(object: number, version: version) }
  }

  /// Reads the entries of live identifiers in the tables of ids and indexes.
  func storedObjectKeys() throws -> (ids: SetFingerprint, keys: IndexContent) {
    var (ids, keys) = (SetFingerprint(), IndexContent())
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
      node.key.withRawSpan { key in
        var offset = 0
        guard let index = PackedKey.number(in: key, at: &offset), indexes.contains(index) else {
          return
        }
        (values.bytes(of: node.value) ?? []).withRawSpan { keys.add(entry: key, $0) }
      }
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
