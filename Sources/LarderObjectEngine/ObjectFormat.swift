// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderSystem

// OBJECTS
//
// Objects are stored in three tables of the environment that contains the cache's entries, so that
// one transaction covers both. Every type and every index has an identifier
// (`ObjectCatalog.swift`), which is never reused.
//
//     objects   type, sequence  ->  record
//     ids       key of type and id (integer key)  ->  type and sequence, both varints; several pairs
//                   where keys collide
//     indexes   index, the key's bytes, sequence  ->  nothing
//               index, a word, sequence  ->  the objects that contain the word
//                   (`PostingBlock.swift`)
//
// Identifiers and sequences in keys take few bytes, in the order of their values (`PackedKey.swift`).
//
// The sequence is assigned when an object is first saved and kept while it exists: the order of
// `objects` is the order of insertion. It begins at 1; the key of sequence zero contains a copy of
// the type's layouts (`ObjectLayout.swift`). A record (`ObjectHeader.swift`) contains the id, then the
// payload, which begins with the index keys that the record owns:
//
//     count, then for each: index, length, bytes; all integers are varints
//
// followed by the object itself. So any process can replace or delete a record together with its
// index entries without knowing the Swift type, or the index, at all.
//
// The key of an id in `ids` is 48 bits of the keyed hash of all of it but its last two bytes, then
// these two bytes. Ids that are counted up (numbers, "part-0000123") are neighbours, a hundred in a
// page: a thousand new ones change a few pages instead of a thousand. Everything else uses the id's
// hash, which is that key with the bits mixed, so that each follows from the other.
//
// Keys in `indexes` are order-preserving bytes, at most 448. A longer key is truncated and ends
// with eight bytes of its hash: equal keys remain equal, and the order is exact up to the
// truncation.

/// One key of an index that a record owns.
package struct ObjectIndexKey: Sendable, Hashable {
  package let index: UInt32
  package let bytes: [UInt8]

  package init(index: UInt32, bytes: [UInt8]) {
    self.index = index
    self.bytes = ObjectFormat.isText(index) ? bytes : ObjectFormat.limited(bytes)
  }

  /// Whether the key has no value in any property: only elements 00, and FE in descending form
  /// (`IndexKeyForm.swift`). Any number of objects may have it in a unique index.
  package var isEmpty: Bool { bytes.allSatisfy { $0 == 0 || $0 == 0xFE } }
}

/// The encoding of objects in the tables described above.
package enum ObjectFormat {
  static let keyLimit = 448
  /// The size of the hash at the end of a truncated key.
  static let keyHashSize = 8

  // MARK: Keys

  package static func objectKey(type: UInt32, sequence: UInt64) -> [UInt8] {
    var key: [UInt8] = []
    key.reserveCapacity(PackedKey.sizeLimit)
    append(type: type, sequence: sequence, to: &key)
    return key
  }

  /// Appends the key of an object.
  static func append(type: UInt32, sequence: UInt64, to key: inout [UInt8]) {
    PackedKey.append(number: type, to: &key)
    PackedKey.append(sequence: sequence, to: &key)
  }

  /// Returns the sequence in a key of `objects`, or `nil` if the key is not of `type`.
  package static func sequence(ofObjectKey key: RawSpan, type: UInt32) -> UInt64? {
    guard let place = PackedKey(key), place.number == type, place.bytes.isEmpty else { return nil }
    return place.sequence
  }

  /// Returns the type and the sequence in a key of `objects`.
  package static func place(_ key: RawSpan) -> (type: UInt32, sequence: UInt64)? {
    guard let place = PackedKey(key), place.bytes.isEmpty else { return nil }
    return (place.number, place.sequence)
  }

  static func indexPrefix(_ index: UInt32, _ bytes: [UInt8] = []) -> [UInt8] {
    var key: [UInt8] = []
    key.reserveCapacity(PackedKey.sizeLimit + bytes.count)
    PackedKey.append(number: index, to: &key)
    key += bytes
    return key
  }

  package static func indexEntry(_ key: ObjectIndexKey, sequence: UInt64) -> [UInt8] {
    indexEntry(key.bytes, in: key.index, sequence: sequence)
  }

  /// Appends the entry of a key.
  static func append(_ key: ObjectIndexKey, sequence: UInt64, to bytes: inout [UInt8]) {
    PackedKey.append(number: key.index, to: &bytes)
    bytes += key.bytes
    PackedKey.append(sequence: sequence, to: &bytes)
  }

  static func indexEntry(_ bytes: [UInt8], in index: UInt32, sequence: UInt64) -> [UInt8] {
    var entry = indexPrefix(index, bytes)
    PackedKey.append(sequence: sequence, to: &entry)
    return entry
  }

  /// Truncates bytes that are too long for a key of LMDB; equal keys remain equal.
  static func limited(_ bytes: [UInt8]) -> [UInt8] {
    guard bytes.count > keyLimit else { return bytes }
    var cut = Array(bytes.prefix(keyLimit - keyHashSize))
    cut.append(littleEndian: XXH64.hash(bytes).byteSwapped)
    return cut
  }

  // MARK: The front of a payload

  package static func payload(_ keys: [ObjectIndexKey], _ object: [UInt8]) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(5 + keys.reduce(0) { $0 + 10 + $1.bytes.count } + object.count)
    bytes.append(varint: UInt64(keys.count))
    for key in keys {
      bytes.append(varint: UInt64(key.index))
      bytes.append(varint: UInt64(key.bytes.count))
      bytes += key.bytes
    }
    bytes += object
    return bytes
  }

  /// Returns the index keys at the beginning of a payload and the offset of the object, or `nil` if
  /// the payload is damaged.
  package static func indexKeys(_ payload: RawSpan) -> (keys: [ObjectIndexKey], object: Int)? {
    var keys: [ObjectIndexKey] = []
    let object = visitIndexKeys(payload) { count, index, bytes in
      if keys.isEmpty { keys.reserveCapacity(count) }
      keys.append(ObjectIndexKey(index: index, bytes: bytes.copied()))
    }
    return object.map { (keys, $0) }
  }

  /// Returns the offset of the object in a payload, without decoding its index keys.
  @inline(__always)
  package static func objectStart(_ payload: RawSpan) -> Int? {
    visitIndexKeys(payload) { _, _, _ in }
  }

  @inline(__always)
  private static func visitIndexKeys(
    _ payload: RawSpan, _ body: (_ count: Int, _ index: UInt32, _ bytes: RawSpan) -> Void
  ) -> Int? {
    var offset = 0
    // A key takes two bytes at least.
    guard let count = payload.varint(at: &offset), count <= UInt64(payload.byteCount / 2) else {
      return nil
    }
    for _ in 0..<count {
      guard let index = payload.varint(at: &offset).flatMap({ UInt32(exactly: $0) }),
        let length = payload.varint(at: &offset), length <= UInt64(payload.byteCount),
        let bytes = payload.slice(offset..<(offset + Int(length)))
      else { return nil }
      body(Int(count), index, bytes)
      offset += Int(length)
    }
    return offset
  }

  /// Appends an item to a record in `ids`.
  package static func appendIDItem(_ type: UInt32, _ sequence: UInt64, to items: inout [UInt8]) {
    items.append(varint: UInt64(type))
    items.append(varint: sequence)
  }

  /// Returns the item at an offset of a record in `ids`, and moves the offset after it; `nil` at the
  /// end, and if the rest is damaged.
  @inline(__always)
  static func idItem(_ record: RawSpan, at offset: inout Int) -> (type: UInt32, sequence: UInt64)? {
    guard let type = record.varint(at: &offset), let sequence = record.varint(at: &offset),
      let type = UInt32(exactly: type)
    else { return nil }
    return (type, sequence)
  }

  /// Returns the items of a record in `ids`.
  package static func idItems(_ record: RawSpan) -> [(type: UInt32, sequence: UInt64)] {
    var items: [(type: UInt32, sequence: UInt64)] = []
    var offset = 0
    while let item = idItem(record, at: &offset) { items.append(item) }
    return items
  }

  // MARK: Hashes

  /// Returns the keyed hash of an id.
  static func hash(type: UInt32, id: [UInt8], in generation: Generation) -> UInt64 {
    hash(type: type, id: id, meta: generation.meta)
  }

  package static func hash(type: UInt32, id: [UInt8], meta: StoreMeta) -> UInt64 {
    id.withRawSpan { hash(type: type, id: $0, meta: meta) }
  }

  static func hash(type: UInt32, id: RawSpan, meta: StoreMeta) -> UInt64 {
    var hasher = SipHash13(key: meta.secret)
    // No namespace has a name of this length: objects and entries never share their hashes' input.
    hasher.combine(word: UInt64.max)
    hasher.combine(word: UInt64(type) << 32 | UInt64(id.byteCount))
    guard meta.hashBits == 64 else {
      hasher.combine(id)
      return hasher.finish() & (1 << UInt64(meta.hashBits) - 1)
    }
    let front = max(id.byteCount - 2, 0)
    hasher.combine(id.slice(0..<front)!)
    var end: UInt64 = 0
    for position in front..<id.byteCount {
      end = end << 8 | UInt64(id.integer(at: position, as: UInt8.self)!)
    }
    return mixed(hasher.finish() & ~0xFFFF | end)
  }

  /// Returns the key in `ids` of an id's hash.
  package static func idKey(_ hash: UInt64, _ meta: StoreMeta) -> UInt64 {
    meta.hashBits == 64 ? unmixed(hash) : hash
  }

  /// Returns the hash of the ids at a key of `ids`.
  static func hash(ofIDKey key: UInt64, _ meta: StoreMeta) -> UInt64 {
    meta.hashBits == 64 ? mixed(key) : key
  }

  // The finaliser of MurmurHash3: every bit of the result depends on every bit, and it is
  // invertible.
  private static func mixed(_ word: UInt64) -> UInt64 {
    var word = word
    word = (word ^ (word &>> 33)) &* 0xFF51_AFD7_ED55_8CCD
    word = (word ^ (word &>> 33)) &* 0xC4CE_B9FE_1A85_EC53
    return word ^ (word &>> 33)
  }

  private static func unmixed(_ word: UInt64) -> UInt64 {
    var word = word
    word = (word ^ (word &>> 33)) &* 0x9CB4_B2F8_1293_37DB
    word = (word ^ (word &>> 33)) &* 0x4F74_430C_22A5_4005
    return word ^ (word &>> 33)
  }

  /// Returns the hash whose stamp slot every write to a type touches.
  static func typeSlot(_ type: UInt32, in generation: Generation) -> UInt64 {
    var hasher = SipHash13(key: generation.meta.secret)
    hasher.combine(word: UInt64.max - 1)
    hasher.combine(word: UInt64(type))
    return hasher.finish()
  }
}
