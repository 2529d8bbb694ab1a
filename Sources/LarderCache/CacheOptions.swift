// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine

/// How a cache keeps values in this process's memory, and how it writes them.
public struct CacheOptions: Sendable {
  /// The most the values in memory may cost, each counted with the size of its encoded form. In a
  /// cache without a store nothing is encoded, and only ``memoryCountLimit`` bounds what values refer to.
  public var memoryCostLimit: ByteCount
  /// The most values in memory; zero: none.
  public var memoryCountLimit: Int
  /// How values are encoded that are not bytes, text, numbers, dates or UUIDs.
  public var codec: any ValueCodec
  /// Whether a cache over a ``CacheStorage`` also reads what PersistentCacheKit wrote into it: under the
  /// key's text of PersistentCacheKit, which is the namespace and the key's description without anything in
  /// between, as a property list of the value and its expiration.
  ///
  /// Only keys that the storage does not have under their own text are read so, and setting or removing a
  /// key removes both. `removeAll()` fails then: no prefix tells the old texts of one
  /// namespace from those of another. Old texts of two namespaces may be the same, `"A"` with `"Bx"` and
  /// `"AB"` with `"x"`: turn the option off when the old entries have been read.
  public var readsPersistentCacheKitEntries = false
  /// How long a caller of ``PersistentCache/value(forKey:expires:_:)`` waits for a value that another
  /// task or another process computes. Then it throws
  /// ``/LarderEngine/StoreError/Code/computationStalled``. A caller's own computation has no limit.
  public var computeTimeout: Duration

  /// Creates options. Each parameter sets the property of its name.
  public init(
    memoryCostLimit: ByteCount = .megabytes(64), memoryCountLimit: Int = 100_000,
    codec: any ValueCodec = .cbor, computeTimeout: Duration = .seconds(30)
  ) {
    self.memoryCostLimit = memoryCostLimit
    self.memoryCountLimit = memoryCountLimit
    self.codec = codec
    self.computeTimeout = computeTimeout
  }
}
