// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine

// ENTRIES AS A CBOR SEQUENCE (RFC 8742)
//
// One array of seven items an entry, every length definite and as short as it can be:
//
//     namespace  text
//     key tag    unsigned
//     key        byte string
//     codec      unsigned
//     created    unsigned, milliseconds since 1970; told, not read
//     expires    unsigned, milliseconds since 1970, or null: never
//     payload    byte string

/// Writes entries as items of a CBOR sequence.
package enum CBOREntryWriter {
  /// What every item begins with; no line of JSON does.
  package static let start: UInt8 = 0x87

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

/// Reads a CBOR sequence of entries that comes in pieces.
package struct CBOREntryReader {
  private let read: () throws -> [UInt8]
  private var buffer: [UInt8]
  private var position = 0
  private var counted = 0
  private var isAtEnd = false
  /// The number of the item given last, or of the one that is wrong, from 1.
  package private(set) var number = 0
  /// Bytes given so far.
  package private(set) var consumed = 0

  /// - Parameters:
  ///   - first: What was read already.
  ///   - read: The next piece; empty: there is no more.
  package init(first: [UInt8] = [], read: @escaping () throws -> [UInt8]) {
    buffer = first
    self.read = read
  }

  /// The next entry; `nil`: there is none.
  package mutating func next() throws -> ExportedEntry? {
    consumed += position - counted
    counted = position
    // Not for every item: what is left has to be moved.
    if position > 1 << 16 {
      buffer.removeFirst(position)
      (position, counted) = (0, 0)
    }
    if try !has(1) { return nil }
    number += 1
    guard try byte() == CBOREntryWriter.start else {
      throw flaw("This is no entry: an array of seven items has to begin here.")
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
    guard try has(count) else { throw flaw("The file ends inside the entry; it is cut.") }
  }

  private mutating func byte() throws -> UInt8 {
    try need(1)
    defer { position += 1 }
    return buffer[position]
  }

  private mutating func number(_ major: UInt8) throws -> UInt64 {
    let head = try byte()
    guard head >> 5 == major, head & 31 < 28 else {
      throw flaw("An item of another kind stands where the entry needs its next one.")
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
