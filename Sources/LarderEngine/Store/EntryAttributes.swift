// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The properties of an entry that a write states in addition to the value.
package struct EntryAttributes: Sendable {
  package var expiration: Expiration
  package var tags: [String]
  /// Whether the entry is never evicted.
  package var isPinned: Bool
  /// Whether the entry says that its key is known to have no value.
  package var isAbsent: Bool
  /// The time in milliseconds for which the entry is kept after its expiration, for a refresh.
  package var kept: Int64 = 0
  /// The time in milliseconds that the computation of the value took, or zero.
  package var computeTime: UInt32 = 0
  /// The version that a remote server has for the value, or zero.
  package var remoteVersion: UInt64 = 0

  @inline(__always)
  package init(
    _ expiration: Expiration = .never, tags: [String] = [], isPinned: Bool = false,
    isAbsent: Bool = false
  ) {
    self.expiration = expiration
    self.tags = tags
    self.isPinned = isPinned
    self.isAbsent = isAbsent
  }

  /// Checks the attributes before work whose result would be written with them.
  ///
  /// - Throws: ``StoreError/Code/invalidOption``.
  package func validate() throws(StoreError) {
    try expiration.validate()
    _ = try Tag.bytes(of: tags)
  }
}

/// A tag as a caller names it.
package enum Tag {
  static var lengths: ClosedRange<Int> { 1...250 }

  /// Returns the bytes of a tag.
  ///
  /// - Throws: ``StoreError/Code/invalidOption`` for a tag of zero or more than 250 bytes.
  package static func bytes(
    of tag: String, during operation: String = "set"
  ) throws(StoreError) -> [UInt8] {
    let bytes = Array(tag.utf8)
    guard lengths.contains(bytes.count) else {
      throw StoreError(
        .invalidOption, during: operation,
        "A tag has 1 to 250 bytes of UTF-8; this one has \(bytes.count). Pass a shorter tag, or one "
          + "that is not empty.")
    }
    return bytes
  }

  /// Returns the bytes of the tags of one entry, each once.
  ///
  /// - Throws: ``StoreError/Code/invalidOption`` for an invalid tag, and for more than 64.
  static func bytes(of tags: [String]) throws(StoreError) -> [[UInt8]] {
    if tags.isEmpty { return [] }
    var result: [[UInt8]] = []
    for tag in tags {
      let bytes = try bytes(of: tag)
      if !result.contains(bytes) { result.append(bytes) }
    }
    guard result.count <= EntryHeader.maximumTags else {
      throw StoreError(
        .invalidOption, during: "set",
        "An entry has at most \(EntryHeader.maximumTags) tags; this one has \(result.count). Pass "
          + "fewer tags, or one tag for several of them.")
    }
    return result
  }

  /// Returns the hashes by which a store knows tags.
  package static func hashes(
    of tags: [String], in generation: Generation
  ) throws(StoreError) -> [UInt64] {
    try bytes(of: tags).map { hash($0, secret: generation.meta.secret) }
  }

  /// Returns the hash by which a cache in memory only knows a tag.
  package static func memoryHash(
    of tag: String, during operation: String
  ) throws(StoreError) -> UInt64 {
    hash(try bytes(of: tag, during: operation), secret: (0, 0))
  }

  /// Returns the hashes by which a cache in memory only knows the tags of one entry.
  package static func memoryHashes(of tags: [String]) throws(StoreError) -> [UInt64] {
    try bytes(of: tags).map { hash($0, secret: (0, 0)) }
  }

  /// Returns the hash by which a store knows a tag. It differs from the hashes of keys.
  static func hash(_ tag: [UInt8], secret: (UInt64, UInt64)) -> UInt64 {
    var hasher = SipHash13(key: secret)
    hasher.combine(word: UInt64.max)
    hasher.combine(word: UInt64(tag.count))
    hasher.combine(bytes: tag)
    return hasher.finish()
  }
}
