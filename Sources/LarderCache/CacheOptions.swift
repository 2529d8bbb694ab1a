// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine

/// The bounds of a cache's memory tier, and the codec of its values.
public struct CacheOptions: Sendable {
  /// The maximum total cost of the values in memory. The cost of a value is the size of its encoded
  /// form, unless the cache is created with a closure that states it. A cache without a store encodes
  /// nothing: there, only such a closure or ``memoryCountLimit`` bounds the memory that values refer to.
  public var memoryCostLimit: ByteCount
  /// The maximum number of values in memory; zero keeps none.
  public var memoryCountLimit: Int
  /// The codec of values that are not bytes, strings, numbers, dates or UUIDs.
  public var codec: any ValueCodec
  /// A Boolean value that indicates whether a cache over a ``CacheStorage`` also reads the entries that
  /// PersistentCacheKit wrote into it. Their text is the namespace followed by the key's description;
  /// their bytes are a property list of the value and its expiration time.
  ///
  /// The cache reads them only for keys that have no entry under their own text. Setting or removing a
  /// key removes both entries. `removeAll()` throws, because no prefix separates the old texts of
  /// namespaces. Old texts of two namespaces can be equal, as those of `"A"` with `"Bx"` and `"AB"`
  /// with `"x"`: turn the option off when the old entries have been read.
  public var readsPersistentCacheKitEntries = false
  /// The maximum time that a caller of ``PersistentCache/value(forKey:expires:refresh:tags:_:)`` waits
  /// for a value that another task or process computes. Then it throws
  /// ``/LarderEngine/StoreError/Code/computationStalled``. A caller's own computation is bounded by
  /// ``computeLimit``.
  public var computeTimeout: Duration
  /// The maximum time that a computation takes, or `nil` for no limit. Then its task is cancelled, and
  /// its callers get ``/LarderEngine/StoreError/Code/computationStalled``. A computation that ignores
  /// its cancellation continues; the next caller of its process begins another one.
  public var computeLimit: Duration?

  /// Creates options. Each parameter sets the property of the same name.
  public init(
    memoryCostLimit: ByteCount = .megabytes(64), memoryCountLimit: Int = 100_000,
    codec: any ValueCodec = .cbor, computeTimeout: Duration = .seconds(30),
    computeLimit: Duration? = nil
  ) {
    self.memoryCostLimit = memoryCostLimit
    self.memoryCountLimit = memoryCountLimit
    self.codec = codec
    self.computeTimeout = computeTimeout
    self.computeLimit = computeLimit
  }
}
