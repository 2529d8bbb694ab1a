// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine

/// How a cache keeps values in this process's memory, and how it writes them.
public struct CacheOptions: Sendable {
  /// The most the values in memory may cost, each counted with the size of its encoded form. In a
  /// cache without a store nothing is encoded, and only ``memoryCount`` bounds what values refer to.
  public var memoryCost: ByteCount
  /// The most values in memory; zero: none.
  public var memoryCount: Int
  /// How values are encoded that are not bytes, text, numbers, dates or UUIDs.
  public var codec: any ValueCodec
  /// How long a caller of ``PersistentCache/value(forKey:expires:_:)`` waits for a value that another
  /// task or another process computes. Then it throws
  /// ``LarderEngine/StoreError/Code/computationStalled``. A caller's own computation has no limit.
  public var computeTimeout: Duration

  public init(
    memoryCost: ByteCount = .megabytes(64), memoryCount: Int = 100_000,
    codec: any ValueCodec = .cbor, computeTimeout: Duration = .seconds(30)
  ) {
    self.memoryCost = memoryCost
    self.memoryCount = memoryCount
    self.codec = codec
    self.computeTimeout = computeTimeout
  }
}
