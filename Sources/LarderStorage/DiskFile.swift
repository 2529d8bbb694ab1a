// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// A value's file, in little-endian:
//
//     0   8  "LRDRVAL" and the version, 1
//     8   8  XXH64 of everything from byte 16 on
//    16   8  the expiration time in seconds since 2001, a Double; +infinity: never
//    24   8  the length of the key
//    32      the key's UTF-8, then the value to the end of the file
//
// The file is written under another name and renamed, so a reader gets the complete old or the complete
// new one. The checksum of a truncated or damaged file does not match: the result is an error that
// names the file, never a value.

/// The contents of a value's file.
struct DiskFile {
  static let headerSize = 32
  static let magic = Array("LRDRVAL".utf8) + [1]

  var key: [UInt8]
  var deadline: Double
  var value: [UInt8]

  var encoded: [UInt8] {
    var body: [UInt8] = []
    body.reserveCapacity(key.count + value.count + 16)
    body += Self.bytes(deadline.bitPattern)
    body += Self.bytes(UInt64(key.count))
    body += key
    body += value
    return Self.magic + Self.bytes(XXH64.hash(body)) + body
  }

  /// Parses the bytes of a file. The result is `nil` if they are not a complete file of a value.
  init?(decoding bytes: [UInt8]) {
    guard bytes.count >= Self.headerSize, bytes.starts(with: Self.magic) else { return nil }
    let body = Array(bytes[16...])
    guard XXH64.hash(body) == Self.word(bytes, 8) else { return nil }
    let length = Self.word(body, 8)
    guard length <= UInt64(body.count - 16) else { return nil }
    deadline = Double(bitPattern: Self.word(body, 0))
    key = Array(body[16..<(16 + Int(length))])
    value = Array(body[(16 + Int(length))...])
  }

  init(key: [UInt8], deadline: Double, value: [UInt8]) {
    self.key = key
    self.deadline = deadline
    self.value = value
  }

  static func bytes(_ word: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: word >> (UInt64($0) * 8)) }
  }

  static func word(_ bytes: [UInt8], _ offset: Int) -> UInt64 {
    bytes[offset..<(offset + 8)].reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }
}
