// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderCache
internal import LarderEngine

// THE KEYS AND VALUES OF A LINK
//
//   PREFIX:v:{NAMESPACE/TAG/KEY}   a value, with the text of `CustomStorageKey`; braces, because all keys about
//                                  one value belong to one slot of a cluster
//   PREFIX:v:{NAMESPACE/#TAG}      eight random bytes, others after each removal of the values with a tag
//   PREFIX:c:{NAMESPACE/TAG/KEY}   the claim of a computation: the number of the claim, in decimal digits
//
// The server names changes of keys that begin with `PREFIX:v:{`. A value is
//
//      0  magic    u8   0x4C      1  format  u8  1      2  codec  u16 as in a store's entry
//      4  flags    u8   1: the key is known to have no value      5  zero  3 bytes
//      8  version  u64  random, another one for each write; little-endian, as all numbers
//     16  tags     u8   count; for each its length u8, its bytes, and the bytes of its key at the time
//         payload
//
// A value is valid only while the keys of its tags have the bytes that it names. They never expire; if the
// server evicts one, the values with the tag are lost for good.

/// The texts of the keys of a link.
struct RedisKeys: Sendable {
  let prefix: String

  /// The beginning of the keys of which the server names changes.
  var tracked: String { prefix + ":v:{" }

  func value(_ key: RemoteKey) -> String {
    tracked + CustomStorageKey.text(key.key, in: key.namespace) + "}"
  }

  func claim(_ key: RemoteKey) -> String {
    prefix + ":c:{" + CustomStorageKey.text(key.key, in: key.namespace) + "}"
  }

  func tag(_ tag: String, in namespace: String) -> String {
    tracked + CustomStorageKey.prefix(namespace) + "#" + CustomStorageKey.escaped(tag.utf8) + "}"
  }

  /// The pattern of the values of a namespace.
  func pattern(of namespace: String) -> String {
    tracked + CustomStorageKey.prefix(namespace) + "[0-9]*"
  }

  /// The pattern of the claims of a namespace.
  func claimPattern(of namespace: String) -> String {
    prefix + ":c:{" + CustomStorageKey.prefix(namespace) + "[0-9]*"
  }

  /// A key of which the server has named a change.
  enum Changed: Hashable {
    case value(RemoteKey)
    case tag(String, namespace: String)
  }

  /// Returns what a key is, or `nil` if it is none of a link.
  func parse(_ key: RedisValue) -> Changed? {
    guard let text = key.text, text.hasPrefix(tracked), text.hasSuffix("}") else { return nil }
    let inner = text.dropFirst(tracked.count).dropLast()
    if let (namespace, key) = CustomStorageKey.parse(inner) {
      return .value(RemoteKey(namespace, key))
    }
    let parts = inner.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, parts[1].hasPrefix("#"),
      let namespace = CustomStorageKey.unescaped(parts[0].utf8),
      let tag = CustomStorageKey.unescaped(parts[1].dropFirst().utf8)
    else { return nil }
    return .tag(
      String(decoding: tag, as: UTF8.self), namespace: String(decoding: namespace, as: UTF8.self))
  }
}

/// The bytes of a value on the server.
struct RedisEntry {
  static let headerSize = 16
  let entry: RemoteEntry
  /// The bytes that the keys of the tags must have.
  let tokens: [[UInt8]]

  /// Returns the bytes of an entry.
  static func bytes(_ entry: RemoteEntry, tokens: [[UInt8]]) -> [UInt8] {
    var result: [UInt8] = [
      0x4C, 1, UInt8(truncatingIfNeeded: entry.codec), UInt8(entry.codec >> 8),
      entry.isAbsent ? 1 : 0, 0, 0, 0,
    ]
    result.reserveCapacity(headerSize + 1 + entry.payload.count + entry.tags.count * 64)
    result += versionBytes(entry.version.version)
    result.append(UInt8(entry.tags.count))
    for (tag, token) in zip(entry.tags, tokens) {
      let bytes = Array(tag.utf8)
      result.append(UInt8(bytes.count))
      result += bytes
      result += token
    }
    result += entry.payload
    return result
  }

  static func versionBytes(_ version: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: version >> (8 * UInt64($0))) }
  }

  /// Returns the version in the first bytes of a value; `nil` if they are not those of one.
  static func version(_ header: [UInt8]) -> UInt64? {
    guard header.count >= headerSize, header[0] == 0x4C, header[1] == 1 else { return nil }
    return header[8..<16].reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// Reads a value. Fails if the bytes are not those of one.
  init?(_ bytes: [UInt8], lifetime: Int64?) {
    guard let version = Self.version(bytes), bytes.count > Self.headerSize else { return nil }
    var position = Self.headerSize + 1
    var tags: [String] = []
    var tokens: [[UInt8]] = []
    for _ in 0..<bytes[Self.headerSize] {
      guard position < bytes.count else { return nil }
      let end = position + 1 + Int(bytes[position])
      guard end + 8 <= bytes.count,
        let tag = String(validating: bytes[(position + 1)..<end], as: UTF8.self)
      else { return nil }
      tags.append(tag)
      tokens.append(Array(bytes[end..<(end + 8)]))
      position = end + 8
    }
    self.tokens = tokens
    entry = RemoteEntry(
      RemoteVersion(version, lifetime: lifetime),
      codec: UInt16(bytes[2]) | UInt16(bytes[3]) << 8, payload: Array(bytes[position...]),
      isAbsent: bytes[4] & 1 != 0, tags: tags)
  }
}
#endif
