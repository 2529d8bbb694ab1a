// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderSystem

// THE RECORD OF AN OBJECT
//
//      0  checksum   u64, little-endian
//      8  form       u8    1; 129 if the content is in chunks
//      9  codec, schema version, commit version, created (milliseconds since 1970), length of the
//         id, each a varint (`Varint.swift`)
//      …  content: id, index keys, object
//         or, in chunks: length of the content, first chunk id, each a varint
//
// The checksum is the hash (`WyHash.swift`) of all bytes after it. Its seed is made of the record's key
// in the table `objects`, so a record under the key of another is damaged; the seed of a chunked record
// is the hash of the content with that seed. About 24 bytes precede the content: a small object is read
// and verified in one pass over a few cache lines.
//
// The cost of an object against the budget of its type is 32 bytes plus its content.

/// An object whose checksum is not verified. It may be rejected; to be used, it must be verified first.
struct UnverifiedObject: ~Escapable {
  let codec: UInt16
  let object: RawSpan

  @_lifetime(copy object)
  init(codec: UInt16, object: RawSpan) {
    self.codec = codec
    self.object = object
  }
}

/// The header of a stored object; the table above describes its fields.
package struct ObjectHeader: Sendable, Hashable {
  private static let form: UInt8 = 1
  private static let chunkedForm: UInt8 = 129
  private static let checksumSize = 8
  /// The cost of an object in addition to its content, in bytes.
  package static let overhead = 32
  /// The space for the fields before the content; they take less.
  private static let sizeLimit = 64

  package let codec: UInt16
  /// The schema version of the write.
  package let version: UInt32
  /// The commit version of the transaction that wrote the object.
  package var commitVersion: UInt64
  package let created: Int64
  package let idLength: Int
  package let contentLength: Int
  /// The content's chunks, if it is not in the record.
  package private(set) var chunks: ChunkReference?
  /// The offset of the content in the record.
  package private(set) var contentStart = 0
  private var checksum: UInt64 = 0

  package var isChunked: Bool { chunks != nil }
  /// The cost of the object against the budget of its type, in bytes.
  package var cost: Int { ObjectHeader.overhead + contentLength }

  /// Creates the header of a new object.
  package init(
    codec: UInt16, version: UInt32, commitVersion: UInt64, created: Int64, idLength: Int,
    contentLength: Int
  ) {
    self.codec = codec
    self.version = version
    self.commitVersion = commitVersion
    self.created = created
    self.idLength = idLength
    self.contentLength = contentLength
  }

  /// Whether content of a length must be stored in chunks.
  package static func needsChunks(_ contentLength: Int) -> Bool {
    sizeLimit + contentLength > EntryHeader.inlineLimit
  }

  /// Reads the header of a record, or returns `nil` if the bytes are none.
  @inline(__always)
  package init?(in record: RawSpan) {
    guard let checksum: UInt64 = record.integer(at: 0), let form: UInt8 = record.integer(at: 8),
      form == ObjectHeader.form || form == ObjectHeader.chunkedForm
    else { return nil }
    var offset = 9
    guard let codec = record.varint(at: &offset), let version = record.varint(at: &offset),
      let commitVersion = record.varint(at: &offset), let created = record.varint(at: &offset),
      let idLength = record.varint(at: &offset), codec <= 0xFFFF, version <= 0xFFFF_FFFF,
      idLength <= UInt64(EntryHeader.maximumContent)
    else { return nil }
    self.checksum = checksum
    self.codec = UInt16(truncatingIfNeeded: codec)
    self.version = UInt32(truncatingIfNeeded: version)
    self.commitVersion = commitVersion
    self.created = Int64(bitPattern: created)
    self.idLength = Int(idLength)
    if form == ObjectHeader.form {
      contentLength = record.byteCount - offset
    } else {
      guard let length = record.varint(at: &offset), let first = record.varint(at: &offset),
        length <= UInt64(EntryHeader.maximumContent), offset == record.byteCount
      else { return nil }
      let count = ChunkReference.count(forContent: Int(length))
      guard first <= UInt64.max - UInt64(count) else { return nil }
      chunks = ChunkReference(first: first, count: count)
      contentLength = Int(length)
    }
    contentStart = offset
    guard self.idLength <= contentLength else { return nil }
  }

  /// Finds the object in a record whose checksum may not match, as a scan does to reject most objects
  /// before it reads all of their bytes.
  ///
  /// - Returns: The codec and the object, or `nil` if the record must be read with its header.
  @inline(__always)
  @_lifetime(copy record)
  static func unverifiedObject(in record: RawSpan) -> UnverifiedObject? {
    guard record.integer(at: 8) == form, let codec: UInt8 = record.integer(at: 9), codec < 0x80
    else { return nil }
    var offset = 10
    guard record.skipVarint(at: &offset), record.skipVarint(at: &offset),
      record.skipVarint(at: &offset), let idLength = record.varint(at: &offset),
      idLength <= UInt64(record.byteCount - offset)
    else { return nil }
    offset += Int(idLength)
    guard let payload = record.slice(offset..<record.byteCount),
      let start = ObjectFormat.objectStart(payload)
    else { return nil }
    return UnverifiedObject(codec: UInt16(codec), object: payload.slice(start..<payload.byteCount)!)
  }

  // MARK: The checksum

  /// Returns the seed of the checksum of the record under a key of `objects`.
  @inline(__always)
  private static func seed(_ type: UInt32, _ sequence: UInt64) -> UInt64 {
    UInt64(type) &<< 32 ^ sequence
  }

  private static func hash(_ content: [UInt8], seed: UInt64) -> UInt64 {
    content.withRawSpan { WyHash.hash($0, seed: seed) }
  }

  /// Returns whether the checksum of a record that contains its content matches.
  @inline(__always)
  package func isIntact(in record: RawSpan, type: UInt32, sequence: UInt64) -> Bool {
    WyHash.hash(
      record.slice(ObjectHeader.checksumSize..<record.byteCount)!,
      seed: ObjectHeader.seed(type, sequence)) == checksum
  }

  /// Returns whether the checksum of a record matches with a content from chunks.
  package func isIntact(
    in record: RawSpan, with content: [UInt8], type: UInt32, sequence: UInt64
  ) -> Bool {
    WyHash.hash(
      record.slice(ObjectHeader.checksumSize..<record.byteCount)!,
      seed: ObjectHeader.hash(content, seed: ObjectHeader.seed(type, sequence))) == checksum
  }

  // MARK: Writing

  /// Returns the record of an object.
  ///
  /// - Parameters:
  ///   - id: The stored id.
  ///   - payload: The index keys and the object.
  ///   - chunks: The chunks that contain the id and the payload, if the record does not.
  package func record(
    _ id: [UInt8], _ payload: [UInt8], chunks: ChunkReference?, type: UInt32, sequence: UInt64
  ) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(ObjectHeader.sizeLimit + (chunks == nil ? contentLength : 0))
    appendFields(form: chunks == nil ? ObjectHeader.form : ObjectHeader.chunkedForm, to: &bytes)
    var seed = ObjectHeader.seed(type, sequence)
    if let chunks {
      bytes.append(varint: UInt64(contentLength))
      bytes.append(varint: chunks.first)
      seed = ObjectHeader.hash(id + payload, seed: seed)
    } else {
      bytes += id
      bytes += payload
    }
    ObjectHeader.seal(&bytes, seed: seed)
    return bytes
  }

  /// Appends the record of an object in one piece.
  ///
  /// - Parameters:
  ///   - front: The id and the index keys.
  ///   - object: The object.
  func append(
    _ front: RawSpan, _ object: RawSpan, type: UInt32, sequence: UInt64, to bytes: inout [UInt8]
  ) {
    appendFields(form: ObjectHeader.form, to: &bytes)
    bytes.append(front)
    bytes.append(object)
    ObjectHeader.seal(&bytes, seed: ObjectHeader.seed(type, sequence))
  }

  /// Appends the space of the checksum, and the fields before the content.
  private func appendFields(form: UInt8, to bytes: inout [UInt8]) {
    bytes.append(littleEndian: 0 as UInt64)
    bytes.append(form)
    bytes.append(varint: UInt64(codec))
    bytes.append(varint: UInt64(version))
    bytes.append(varint: commitVersion)
    bytes.append(varint: UInt64(bitPattern: created))
    bytes.append(varint: UInt64(idLength))
  }

  /// Stores the checksum of a record.
  private static func seal(_ bytes: inout [UInt8], seed: UInt64) {
    let checksum = bytes.withRawSpan {
      WyHash.hash($0.slice(checksumSize..<$0.byteCount)!, seed: seed)
    }
    bytes.store(checksum, at: 0)
  }
}
