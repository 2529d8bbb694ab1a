// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine

// ENTRIES AS A CBOR SEQUENCE (RFC 8742)
//
// One array of seven items per entry, with definite lengths in the shortest form:
//
//     namespace  text
//     key tag    unsigned
//     key        byte string
//     codec      unsigned
//     created    unsigned, milliseconds since 1970; ignored by the import
//     expires    unsigned, milliseconds since 1970, or null if the entry does not expire
//     payload    byte string

/// A writer of entries as items of a CBOR sequence.
package enum CBOREntryWriter {
  /// The first byte of every item, which differs from the first byte of every line of JSON.
  package static let start: UInt8 = 0x87

  /// Appends the item of an entry.
  package static func append(_ entry: borrowing ExportedEntry, to output: inout [UInt8]) {
    output.append(start)
    append(3, UInt64(entry.namespace.utf8.count), to: &output)
    output += entry.namespace.utf8
    append(0, UInt64(entry.key.tag), to: &output)
    append(2, UInt64(entry.key.bytes.count), to: &output)
    output += entry.key.bytes
    append(0, UInt64(entry.codec), to: &output)
    append(0, UInt64(max(entry.created, 0)), to: &output)
    if entry.expires == ExportedEntry.never {
      output.append(0xF6)
    } else {
      append(0, UInt64(max(entry.expires, 0)), to: &output)
    }
    append(2, UInt64(entry.payload.count), to: &output)
    output += entry.payload
  }

  private static func append(_ major: UInt8, _ value: UInt64, to output: inout [UInt8]) {
    let width: Int
    let code: UInt8
    switch value {
    case ..<24:
      output.append(major << 5 | UInt8(value))
      return
    case ...0xFF: (width, code) = (1, 24)
    case ...0xFFFF: (width, code) = (2, 25)
    case ...0xFFFF_FFFF: (width, code) = (4, 26)
    default: (width, code) = (8, 27)
    }
    output.append(major << 5 | code)
    for index in (0..<width).reversed() {
      output.append(UInt8(truncatingIfNeeded: value >> UInt64(8 * index)))
    }
  }
}

/// A reader of the entries of a stream of bytes that contains a CBOR sequence.
package struct CBOREntryReader {
  private let read: () throws -> [UInt8]
  private var buffer: [UInt8]
  private var position = 0
  private var counted = 0
  private var isAtEnd = false
  /// The number of the last returned or rejected item, from 1.
  package private(set) var number = 0
  /// The number of bytes returned so far.
  package private(set) var consumed = 0

  /// Creates a reader.
  ///
  /// - Parameters:
  ///   - first: The bytes at the beginning that the caller has read.
  ///   - read: Returns the next bytes, or an empty array at the end.
  package init(first: [UInt8] = [], read: @escaping () throws -> [UInt8]) {
    buffer = first
    self.read = read
  }

  /// Returns the next entry, or `nil` after the last one.
  ///
  /// - Throws: ``DynamicObjectError`` if the item is not an entry; the errors of `read`.
  package mutating func next() throws -> ExportedEntry? {
    consumed += position - counted
    counted = position
    // Only every 64 KiB, because it moves the rest of the buffer.
    if position > 1 << 16 {
      buffer.removeFirst(position)
      (position, counted) = (0, 0)
    }
    if try !has(1) { return nil }
    number += 1
    guard try byte() == CBOREntryWriter.start else {
      throw flaw("The item is not an entry, which is an array of seven items.")
    }
    let namespace = try string(3)
    let tag = try number(0)
    let key = try string(2)
    let codec = try number(0)
    let created = try number(0)
    let expires = try has(1) && buffer[position] == 0xF6 ? nil : number(0)
    if expires == nil { position += 1 }
    let payload = try string(2)
    guard let tag = UInt8(exactly: tag), let codec = UInt16(exactly: codec),
      let name = String(validating: namespace, as: UTF8.self)
    else { throw flaw("The namespace, the key's tag or the codec is out of range.") }
    return ExportedEntry(
      namespace: name, key: EncodedKey(tag: tag, bytes: key), codec: codec,
      created: Int64(clamping: created),
      expires: expires.map { Int64(clamping: $0) } ?? ExportedEntry.never, payload: payload)
  }

  private func flaw(_ message: String) -> DynamicObjectError {
    DynamicObjectError(.invalidLine, message, line: number)
  }

  private mutating func has(_ count: Int) throws -> Bool {
    while buffer.count - position < count, !isAtEnd {
      let piece = try read()
      isAtEnd = piece.isEmpty
      buffer += piece
    }
    return buffer.count - position >= count
  }

  private mutating func need(_ count: Int) throws {
    guard try has(count) else { throw flaw("The file ends inside the entry; it is truncated.") }
  }

  private mutating func byte() throws -> UInt8 {
    try need(1)
    defer { position += 1 }
    return buffer[position]
  }

  private mutating func number(_ major: UInt8) throws -> UInt64 {
    let head = try byte()
    guard head >> 5 == major, head & 31 < 28 else {
      throw flaw("The entry contains an item of another kind than its format.")
    }
    if head & 31 < 24 { return UInt64(head & 31) }
    let width = 1 << (Int(head & 31) - 24)
    try need(width)
    var value: UInt64 = 0
    for index in 0..<width { value = value << 8 | UInt64(buffer[position + index]) }
    position += width
    return value
  }

  private mutating func string(_ major: UInt8) throws -> [UInt8] {
    let length = try number(major)
    guard length <= UInt64(LineReader.maximumLength) else {
      throw flaw("A string of \(length) bytes is longer than any entry.")
    }
    try need(Int(length))
    defer { position += Int(length) }
    return Array(buffer[position..<(position + Int(length))])
  }
}
