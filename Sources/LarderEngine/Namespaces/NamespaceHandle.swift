// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem
internal import Synchronization

/// A key as bytes, for hashing, storage and comparison.
package struct EncodedKey: Hashable, Sendable {
  package let tag: UInt8
  package let bytes: [UInt8]

  package init(tag: UInt8, bytes: [UInt8]) {
    self.tag = tag
    self.bytes = bytes
  }
}

/// A namespace of a store in this process.
///
/// The cached hash of its prefix and its identifier belong to one generation, and are determined
/// again in the next.
package final class NamespaceHandle: Sendable {
  package let name: String
  let nameBytes: [UInt8]

  private struct Known {
    var generation: UInt64 = 0
    /// A store that was deleted and created again may have the same generation number, but has
    /// another secret.
    var secret: (UInt64, UInt64) = (0, 0)
    var prefix = SipHash13(key: (0, 0))
    var number: UInt32 = 0

    func matches(_ other: Generation) -> Bool {
      generation == other.number && secret == other.meta.secret
    }
  }

  private let known = Mutex(Known())

  /// Creates a handle.
  ///
  /// - Throws: ``StoreError/Code/invalidNamespace`` for a name of more than 400 bytes.
  package init(name: String) throws(StoreError) {
    self.name = name
    self.nameBytes = Array(name.utf8)
    guard nameBytes.count <= NamespaceRecord.maximumNameLength else {
      throw StoreError(
        .invalidNamespace, during: "namespace",
        "The name of a namespace has at most \(NamespaceRecord.maximumNameLength) bytes; this one "
          + "has \(nameBytes.count). Use a shorter name; keys may have any length.")
    }
  }

  /// Returns whether this is the namespace with a name. The store compares bytes: names that differ in
  /// Unicode normalisation, which are equal strings in Swift, are two namespaces.
  package func isNamed(_ name: String) -> Bool { name.utf8.elementsEqual(nameBytes) }

  /// Returns the keyed hash under which an entry is stored.
  ///
  /// Namespace, tag and key are each hashed with their length, so different keys never produce the
  /// same input.
  package func hash(of key: EncodedKey, in generation: Generation) -> UInt64 {
    place(of: key, in: generation).hash
  }

  /// Returns the hash of a key, and the namespace identifier, which is zero while it is unknown in
  /// this process.
  func place(of key: EncodedKey, in generation: Generation) -> (hash: UInt64, number: UInt32) {
    key.bytes.withRawSpan { place(of: key.tag, $0, in: generation) }
  }

  /// Returns the hash of a key's tag and bytes, and the namespace identifier, which is zero while
  /// it is unknown in this process.
  func place(
    of tag: UInt8, _ key: RawSpan, in generation: Generation
  ) -> (hash: UInt64, number: UInt32) {
    let (prefix, number) = known.withLock { known in
      if !known.matches(generation) { start(&known, generation) }
      return (known.prefix, known.number)
    }
    return (
      NamespaceHandle.hash(of: tag, key, after: prefix, bits: generation.meta.hashBits), number
    )
  }

  /// Returns the hash state after a namespace's name, which the hashes of all its keys continue.
  package static func prefix(of name: [UInt8], secret: (UInt64, UInt64)) -> SipHash13 {
    var prefix = SipHash13(key: secret)
    prefix.combine(word: UInt64(name.count))
    prefix.combine(bytes: name)
    // Padding to complete words, so that every key begins on a word boundary.
    for _ in 0..<((8 - name.count % 8) % 8) { prefix.combine(byte: 0) }
    return prefix
  }

  @inline(__always)
  package static func hash(of key: EncodedKey, after prefix: SipHash13, bits: UInt8) -> UInt64 {
    key.bytes.withRawSpan { hash(of: key.tag, $0, after: prefix, bits: bits) }
  }

  @inline(__always)
  private static func hash(
    of tag: UInt8, _ key: RawSpan, after prefix: SipHash13, bits: UInt8
  ) -> UInt64 {
    var hasher = prefix
    hasher.combine(word: UInt64(tag) << 56 | UInt64(key.byteCount))
    hasher.combine(key)
    let hash = hasher.finish()
    return bits == 64 ? hash : hash & (1 << UInt64(bits) - 1)
  }

  private func start(_ known: inout Known, _ generation: Generation) {
    known.generation = generation.number
    known.secret = generation.meta.secret
    known.number = 0
    known.prefix = NamespaceHandle.prefix(of: nameBytes, secret: generation.meta.secret)
  }

  /// Returns the namespace identifier in a generation, or zero while it is unknown in this process.
  func number(in generation: Generation) -> UInt32 {
    known.withLock { $0.matches(generation) ? $0.number : 0 }
  }

  /// Caches an identifier that was read from a committed record.
  func learn(number: UInt32, in generation: Generation) {
    known.withLock { known in
      if !known.matches(generation) { start(&known, generation) }
      known.number = number
    }
  }
}
