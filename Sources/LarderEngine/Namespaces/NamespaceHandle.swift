// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A key as bytes: what is hashed, stored and compared.
package struct EncodedKey: Hashable, Sendable {
  package let tag: UInt8
  package let bytes: [UInt8]

  package init(tag: UInt8, bytes: [UInt8]) {
    self.tag = tag
    self.bytes = bytes
  }
}

/// A namespace of a store, as this process knows it.
///
/// What it remembers (the hash of its prefix, its number) belongs to one generation and is looked
/// up again in the next.
package final class NamespaceHandle: Sendable {
  package let name: String
  let nameBytes: [UInt8]

  private struct Known {
    var generation: UInt64 = 0
    /// A store that was deleted and made anew may have the same number, not the same secret.
    var secret: (UInt64, UInt64) = (0, 0)
    var prefix = SipHash13(key: (0, 0))
    var number: UInt32 = 0

    func isOf(_ other: Generation) -> Bool {
      generation == other.number && secret == other.meta.secret
    }
  }

  private let known = Mutex(Known())

  package init(name: String) throws(StoreError) {
    self.name = name
    self.nameBytes = Array(name.utf8)
    guard nameBytes.count <= NamespaceRecord.maximumNameLength else {
      throw StoreError(
        .invalidNamespace, during: "namespace",
        "A namespace's name has at most \(NamespaceRecord.maximumNameLength) bytes; this one has "
          + "\(nameBytes.count). Put what is long into the keys, which have any length.")
    }
  }

  /// The keyed hash under which an entry is stored.
  ///
  /// Namespace, tag and key are each hashed with their length: no two different keys are ever the
  /// same bytes.
  package func hash(of key: EncodedKey, in generation: Generation) -> UInt64 {
    place(of: key, in: generation).hash
  }

  /// The hash of a key and the namespace's number, zero while this process does not know it.
  func place(of key: EncodedKey, in generation: Generation) -> (hash: UInt64, number: UInt32) {
    key.bytes.withRawSpan { place(of: key.tag, $0, in: generation) }
  }

  /// The same for a key's tag and bytes.
  func place(
    of tag: UInt8, _ key: RawSpan, in generation: Generation
  ) -> (hash: UInt64, number: UInt32) {
    let (prefix, number) = known.withLock { known in
      if !known.isOf(generation) { start(&known, generation) }
      return (known.prefix, known.number)
    }
    return (
      NamespaceHandle.hash(of: tag, key, after: prefix, bits: generation.meta.hashBits), number
    )
  }

  /// The hash of a namespace's name, which all hashes of its keys continue.
  static func prefix(of name: [UInt8], secret: (UInt64, UInt64)) -> SipHash13 {
    var prefix = SipHash13(key: secret)
    prefix.combine(word: UInt64(name.count))
    prefix.combine(bytes: name)
    // A whole number of words, so that every key begins on one.
    for _ in 0..<((8 - name.count % 8) % 8) { prefix.combine(byte: 0) }
    return prefix
  }

  @inline(__always)
  static func hash(of key: EncodedKey, after prefix: SipHash13, bits: UInt8) -> UInt64 {
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

  /// The namespace's number in a generation; zero while this process does not know it.
  func number(in generation: Generation) -> UInt32 {
    known.withLock { $0.isOf(generation) ? $0.number : 0 }
  }

  /// Remembers a number that was found committed.
  func learn(number: UInt32, in generation: Generation) {
    known.withLock { known in
      if !known.isOf(generation) { start(&known, generation) }
      known.number = number
    }
  }
}
