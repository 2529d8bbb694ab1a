// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
public import LarderCoding
internal import LarderEngine
public import Synchronization

// WHAT IS IN MEMORY
//
// One tier for each type that is asked for, all over the one namespace. A tier keeps decoded values
// under the stamps of their keys, as every cache does (`MemoryTier`), and keeps "there is none" the
// same way: a default that nobody ever set is read without looking into the file too. Whoever
// writes a key, as whatever type, stamps its slot, and every tier of every process looks again.

/// The decoded values of a suite in this process, by type.
@usableFromInline
final class DefaultsTiers: Sendable {
  @usableFromInline let known = Mutex<[ObjectIdentifier: any AnyObject & Sendable]>([:])
  private let core: StoreCore?

  init(core: StoreCore?) { self.core = core }

  @inlinable
  func tier<Value: Sendable>(of type: Value.Type) -> MemoryTier<String, Value?> {
    let tier = known.withLock { $0[ObjectIdentifier(type)] }
    return (tier as? MemoryTier<String, Value?>) ?? makeTier(of: type)
  }

  @usableFromInline
  func makeTier<Value: Sendable>(of type: Value.Type) -> MemoryTier<String, Value?> {
    known.withLock { known in
      if let tier = known[ObjectIdentifier(type)] as? MemoryTier<String, Value?> { return tier }
      let options = CacheOptions(memoryCost: .megabytes(16), memoryCount: 20_000)
      let tier = MemoryTier<String, Value?>(core: core, options: options)
      known[ObjectIdentifier(type)] = tier
      return tier
    }
  }

  func removeAll() { known.withLock { $0 = [:] } }
}
