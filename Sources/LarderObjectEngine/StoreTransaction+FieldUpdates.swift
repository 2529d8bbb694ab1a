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
// without a look-up of the id and without reading the other fields. The records are visited in the
// order in which they are stored, so that one cursor changes all records of a page at once.

extension FieldLocator {
  /// Appends an object with another value of the field.
  ///
  /// - Parameters:
  ///   - place: The place of the field from ``find(in:)``, empty if the field is missing.
  ///   - item: The value as a CBOR item, empty if the field is to be missing.
  /// - Returns: Whether the object has a layout with the field; if not, nothing was appended.
  fileprivate func append(
    _ object: RawSpan, replacing place: Range<Int>, with item: [UInt8], to bytes: inout [UInt8]
  ) -> Bool {
    guard place.count != item.count else {
      // All other fields stay where they are.
      let start = bytes.count + place.lowerBound
      bytes.append(object)
      for position in item.indices { bytes[start + position] = item[position] }
      return true
    }
    var offset = 1
    guard let width: UInt8 = object.integer(at: 0), width <= 4,
      let number = object.varint(at: &offset), let place = self.place(inLayout: number),
      let fields = FieldPlaces(object, offset, count: place.count)
    else { return false }
    var items: [UInt8] = []
    items.reserveCapacity(object.byteCount + item.count)
    var ends: [Int] = []
    ends.reserveCapacity(place.count)
    for position in 0..<place.count {
      guard let range = fields.place(position, in: object) else { return false }
      if position == place.position { items += item } else { items.append(object.slice(range)!) }
      ends.append(items.count)
    }
    bytes += ObjectLayout.packed(items, ends: ends, number: Int(number))
    return true
  }
}

/// Other bytes of objects that keep their ids, codecs and index keys. All bytes are in two arrays,
/// because arrays for each object would cost more than the rest of its change.
package struct ObjectRewrites: Sendable {
  /// One object.
  package struct Item: Sendable {
    package let head: StoredObjectMetadata
    /// The place of the bytes of the object, in the codec in which it is stored.
    fileprivate let object: Range<Int>
    /// The place of the id, or `nil` if the object was not stored.
    fileprivate var id: Range<Int>?

    package var isStored: Bool { id != nil }
  }

  package private(set) var items: [Item] = []
  private var objects: [UInt8] = []
  private var ids: [UInt8] = []

  package init() {}

  /// Adds an object with another value of a field, as ``FieldLocator`` replaces it.
  ///
  /// - Returns: Whether it was added.
  package mutating func append(
    _ object: RawSpan, _ head: StoredObjectMetadata, replacing place: Range<Int>,
    with item: [UInt8], _ locator: FieldLocator
  ) -> Bool {
    let start = objects.count
    guard locator.append(object, replacing: place, with: item, to: &objects) else { return false }
    items.append(Item(head: head, object: start..<objects.count))
    return true
  }

  /// Sorts the objects in the order in which they are stored.
  package mutating func sort() { items.sort { $0.head.sequence < $1.head.sequence } }

  /// Returns a copy of the bytes of an object.
  package func object(_ item: Item) -> [UInt8] { Array(objects[item.object]) }

  /// Calls `body` with the id and the bytes of each object that was stored.
  package func forEachStored(_ body: (_ id: [UInt8], _ object: [UInt8]) -> Void) {
    for item in items {
      if let id = item.id { body(Array(ids[id]), object(item)) }
    }
  }

  /// Appends the record of an object in place of its old one.
  ///
  /// - Returns: The old and the new header, or `nil` if the object must be saved instead.
  fileprivate mutating func appendRecord(
    at position: Int, replacing record: RawSpan, written commitVersion: UInt64, _ now: Int64,
    to new: inout [UInt8]
  ) -> (old: ObjectHeader, new: ObjectHeader)? {
    let item = items[position]
    let (type, sequence) = (item.head.type, item.head.sequence)
    guard let old = ObjectHeader(in: record), !old.isChunked,
      old.isIntact(in: record, type: type, sequence: sequence),
      let payload = record.slice((old.contentStart + old.idLength)..<record.byteCount),
      let start = ObjectFormat.objectStart(payload),
      let front = record.slice(old.contentStart..<(old.contentStart + old.idLength + start))
    else { return nil }
    let header = ObjectHeader(
      codec: old.codec, version: old.version, commitVersion: commitVersion, created: now,
      idLength: old.idLength, contentLength: front.byteCount + item.object.count)
    if ObjectHeader.needsChunks(header.contentLength) { return nil }
    objects.withRawSpan { objects in
      let object = objects.slice(item.object)!
      header.append(front, object, type: type, sequence: sequence, to: &new)
    }
    let first = ids.count
    ids.append(front.slice(0..<old.idLength)!)
    items[position].id = first..<ids.count
    return (old, header)
  }

  /// Returns the hash of the id of an object, or `nil` if the object was not stored.
  fileprivate func hash(_ item: Item, in generation: Generation) -> UInt64? {
    guard let id = item.id else { return nil }
    return ids.withRawSpan {
      ObjectFormat.hash(type: item.head.type, id: $0.slice(id)!, meta: generation.meta)
    }
  }
}

extension StoreTransaction {
  /// Stores other bytes of objects of a type, in ascending order of their sequences. An object must be
  /// saved instead if it is or becomes too large for one piece, or is damaged; it is not changed
  /// then.
  package mutating func rewriteObjects(_ rewrites: inout ObjectRewrites, type: UInt32) throws {
    var (added, removed) = (0, 0)
    let (commitVersion, now) = (commitVersion, now)
    let count = rewrites.items.count
    try transaction.replaceValues(in: generation.objects, count: count) { position, key in
      let sequence = rewrites.items[position].head.sequence
      ObjectFormat.append(type: type, sequence: sequence, to: &key)
    } _: { position, record, new in
      let headers = rewrites.appendRecord(
        at: position, replacing: record, written: commitVersion, now, to: &new)
      guard let headers else { return false }
      added += headers.new.cost
      removed += headers.old.cost
      fault(.betweenPuts)
      return true
    }
    bytesWritten += UInt64(added)
    try changeObjectBooks(type) {
      $0.bytes = $0.bytes - min($0.bytes, UInt64(removed)) + UInt64(added)
    }
    let isWatched = try objectBooks(type).watch != 0
    for item in rewrites.items {
      guard let hash = rewrites.hash(item, in: generation) else { continue }
      if isWatched { try logObjectChange(type, item.head.sequence) }
      touch(hash: hash)
    }
    touchObjectType(type)
  }
}
