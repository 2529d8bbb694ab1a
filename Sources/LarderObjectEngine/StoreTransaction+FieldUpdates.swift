// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// CHANGES OF ONE FIELD
//
// A change of a field that no index of the type contains leaves the id and the index keys of an object
// as they are. So the record is written once more with the new bytes of the object, at its place,
// without a look-up of the id and without reading the other fields.

extension FieldLocator {
  /// Returns an object with another value of the field, or `nil` if the object has no layout with the
  /// field.
  ///
  /// - Parameter item: The value as a CBOR item, empty if the field is to be missing.
  package func replacing(with item: [UInt8], in object: [UInt8]) -> [UInt8]? {
    object.withRawSpan { object in
      var offset = 1
      guard let width: UInt8 = object.integer(at: 0), width <= 4,
        let number = object.varint(at: &offset), let place = place(inLayout: number),
        let fields = FieldPlaces(object, offset, count: place.count)
      else { return nil }
      var items: [UInt8] = []
      items.reserveCapacity(object.byteCount + item.count)
      var ends: [Int] = []
      ends.reserveCapacity(place.count)
      for position in 0..<place.count {
        guard let range = fields.place(position, in: object) else { return nil }
        if position == place.position { items += item } else { items.append(object.slice(range)!) }
        ends.append(items.count)
      }
      return ObjectLayout.packed(items, ends: ends, number: Int(number))
    }
  }
}

extension StoreTransaction {
  /// Stores other bytes of an object that keeps its id, codec and index keys.
  ///
  /// - Parameter object: The bytes, in the codec in which the object is stored.
  /// - Returns: The id, or `nil` if the object must be saved instead, because it is or becomes too
  ///   large for one piece, or is damaged; nothing was changed then.
  package mutating func rewriteObject(
    _ object: [UInt8], type: UInt32, sequence: UInt64
  ) throws -> [UInt8]? {
    let old = try withSnapshot { snapshot -> (ObjectHeader, id: [UInt8], keys: [UInt8])? in
      guard let record = try snapshot.objectRecord(type: type, sequence: sequence),
        let header = ObjectHeader(in: record), !header.isChunked,
        header.isIntact(in: record, type: type, sequence: sequence),
        let payload = record.slice((header.contentStart + header.idLength)..<record.byteCount),
        let start = ObjectFormat.objectStart(payload)
      else { return nil }
      let id = record.slice(header.contentStart..<(header.contentStart + header.idLength))!
      return (header, id.copied(), payload.slice(0..<start)!.copied())
    }
    guard let (header, id, keys) = old else { return nil }
    let payload = keys + object
    let new = ObjectHeader(
      codec: header.codec, version: header.version, commitVersion: commitVersion, created: now,
      idLength: id.count, contentLength: id.count + payload.count)
    if ObjectHeader.needsChunks(new.contentLength) { return nil }
    try transaction.put(
      new.record(id, payload, chunks: nil, type: type, sequence: sequence),
      forKey: ObjectFormat.objectKey(type: type, sequence: sequence), in: generation.objects)
    bytesWritten += UInt64(new.cost)
    try changeObjectBooks(type) {
      $0.bytes = $0.bytes - min($0.bytes, UInt64(header.cost)) + UInt64(new.cost)
    }
    try logObjectChange(type, sequence)
    touch(hash: ObjectFormat.hash(type: type, id: id, in: generation))
    touchObjectType(type)
    fault(.betweenPuts)
    return id
  }
}
