// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
package import LarderEngine
internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// The catalog of one generation, as far as this process has decoded it.
///
/// A layout never changes, so what is known stays correct; a number that is not known is read again. The record of
/// a type is known with its bytes, and applies if those that are stored are equal.
private final class KnownCatalog: Sendable {
  private let types = Mutex<[UInt32: ObjectLayouts]>([:])
  private let records = Mutex<[String: (bytes: [UInt8], record: ObjectTypeRecord)]>([:])

  func record(named name: String, _ bytes: RawSpan) -> ObjectTypeRecord? {
    records.withLock { records in
      guard let known = records[name], bytes.equals(known.bytes) else { return nil }
      return known.record
    }
  }

  func learn(_ record: ObjectTypeRecord, _ bytes: [UInt8]) {
    records.withLock { $0[record.name] = (bytes, record) }
  }

  subscript(type: UInt32) -> ObjectLayouts? { types.withLock { $0[type] } }

  func learn(_ layouts: ObjectLayouts, of type: UInt32) { types.withLock { $0[type] = layouts } }
}

extension Generation {
  private var catalog: KnownCatalog { layer(KnownCatalog.init) }

  /// Returns the record of a type with these bytes; `nil` if they are damaged.
  func typeRecord(named name: String, _ bytes: RawSpan) -> ObjectTypeRecord? {
    if let known = catalog.record(named: name, bytes) { return known }
    let record = ObjectTypeRecord(bytes)
    if let record, record.name == name { catalog.learn(record, bytes.copied()) }
    return record
  }

  /// Returns the map of an object with a layout if its layout is known, without reading the catalog.
  fileprivate func knownExpansion(_ object: RawSpan, type: UInt32) -> [UInt8]? {
    catalog[type].flatMap { $0.expanded(object) }
  }

  /// Remembers the layouts of a type as a committed transaction stored them.
  func learn(_ found: ObjectLayouts, of type: UInt32) { catalog.learn(found, of: type) }
}

extension ObjectReading {
  /// Returns the layouts of a type, or of the target of a migration.
  static func layouts(of type: UInt32, _ snapshot: borrowing Snapshot) throws -> ObjectLayouts? {
    if let record = try types(snapshot).first(where: { $0.number == type }) {
      return record.layouts
    }
    return try migrations(snapshot).first { $0.target?.number == type }?.target?.layouts
  }

  /// Returns a copy of an object: the map, if it is stored with a layout.
  ///
  /// - Throws: ``DamagedObject`` if the object does not agree with its layout.
  package static func expanded(
    _ object: RawSpan, _ head: StoredObjectMetadata, in snapshot: borrowing Snapshot
  ) throws -> [UInt8] {
    guard head.codec == ObjectLayout.codec else { return object.copied() }
    if let known = snapshot.generation.knownExpansion(object, type: head.type) { return known }
    let layouts = try layouts(of: head.type, snapshot)
    if let layouts, !snapshot.showsUncommitted { snapshot.generation.learn(layouts, of: head.type) }
    guard let map = layouts?.expanded(object) else { throw DamagedObject(sequence: head.sequence) }
    return map
  }
}

extension ObjectTypeRecord {
  /// Returns a copy of an object of the type: the map, if it is stored with a layout; `nil` if it
  /// does not agree with its layout.
  ///
  /// - Parameter object: The object as it is stored, from the snapshot of this record.
  package func map(of object: RawSpan, _ head: StoredObjectMetadata) -> [UInt8]? {
    head.codec == ObjectLayout.codec ? layouts?.expanded(object) : object.copied()
  }
}

extension StoredObject {
  /// Copies the parts of an object out of its snapshot.
  ///
  /// - Throws: ``DamagedObject`` if the object does not agree with its layout.
  package init(
    _ head: StoredObjectMetadata, id: RawSpan, _ object: RawSpan, in snapshot: borrowing Snapshot
  ) throws {
    self.init(
      sequence: head.sequence, id: id.copied(),
      bytes: try ObjectReading.expanded(object, head, in: snapshot),
      codec: head.codec == ObjectLayout.codec ? CodecIdentifier.cbor.rawValue : head.codec,
      version: head.version, commitVersion: head.commitVersion, created: head.created)
  }
}

extension StoreTransaction {
  /// Returns the layouts of a type, as this transaction shows them.
  mutating func layouts(of type: UInt32) throws -> ObjectLayouts? {
    if let known = objects[type].layouts { return known }
    var found: ObjectLayouts?
    if let record = objects.type(type) {
      found = record.layouts
    } else {
      found = try withSnapshot { try ObjectReading.layouts(of: type, $0) }
    }
    objects[type].layouts = .some(found)
    if let found, objects.typeChanges == 0 { generation.learn(found, of: type) }
    return found
  }

  /// Returns a write in the form in which it is stored.
  mutating func packed(_ write: ObjectWrite, type: UInt32) throws -> ObjectWrite {
    guard write.codec == CodecIdentifier.cbor.rawValue, let layouts = try layouts(of: type),
      let bytes = write.bytes.withRawSpan({ layouts.packed($0) })
    else { return write }
    var packed = write
    packed.bytes = bytes
    packed.codec = ObjectLayout.codec
    return packed
  }

  /// Stores a copy of a type's layouts, from which a repair restores them.
  mutating func putLayouts(of record: ObjectTypeRecord) throws {
    guard let layouts = record.layouts else { return }
    let key = ObjectFormat.objectKey(type: record.number, sequence: 0)
    let copy = try layouts.copy()
    if let stored = try transaction.value(forKey: key, in: generation.objects), stored.equals(copy)
    {
      return
    }
    try transaction.put(copy, forKey: key, in: generation.objects)
  }
}

extension ObjectLayouts {
  /// Reads the copy under sequence zero of a type, or returns `nil` if it is damaged.
  package init?(copy: RawSpan) {
    guard let content = ChecksummedRecord.opened(copy),
      let layouts = try? CBORCodec().decode(ObjectLayouts.self, from: content)
    else { return nil }
    self = layouts
  }

  /// The copy that ``init(copy:)`` reads.
  package func copy() throws -> [UInt8] { ChecksummedRecord.sealed(try CBORCodec().encode(self)) }
}
