// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Darwin)
internal import Foundation
#endif

/// A storage in an `NSCache`, which drops values when the system needs memory.
///
/// On other systems than Apple's, it is a ``MemoryStorage`` with the same limit, which needs no
/// Foundation. Keys and values are plain Swift types, which the storage boxes.
public final class NSCacheStorage<Key: Hashable & Sendable, Value: Sendable>: SynchronousStorage {
  #if canImport(Darwin)
  private final class KeyBox: NSObject {
    let key: Key
    init(_ key: Key) { self.key = key }
    override var hash: Int { key.hashValue }
    override func isEqual(_ object: Any?) -> Bool { (object as? KeyBox)?.key == key }
  }

  private final class ValueBox {
    let value: Value
    init(_ value: Value) { self.value = value }
  }

  // NSCache is documented to be safe for use from any thread.
  private final class Cache: @unchecked Sendable {
    let values = NSCache<KeyBox, ValueBox>()
  }

  private let cache = Cache()
  #endif

  /// All that is done to the storage, in turns.
  public let operations: StorageOperations<Key, Value>

  /// Creates a storage that holds at most a number of values; 0: as many as there is room for.
  public init(countLimit: Int = 0) {
    #if canImport(Darwin)
    let cache = cache
    cache.values.countLimit = countLimit
    var operations = StorageOperations<Key, Value>(
      read: StorageOperation { cache.values.object(forKey: KeyBox($0))?.value },
      write: StorageOperation { item in
        cache.values.setObject(ValueBox(item.value), forKey: KeyBox(item.key))
      })
    operations.remove = StorageOperation { cache.values.removeObject(forKey: KeyBox($0)) }
    operations.removeAll = StorageOperation { _ in cache.values.removeAllObjects() }
    #else
    let memory = MemoryStorage<Key, Value>(countLimit: countLimit > 0 ? countLimit : .max)
    var operations = memory.operations
    // As an NSCache: it cannot list its keys, and nothing in it expires.
    operations.keys = nil
    operations.entry = nil
    operations.supportsExpiration = false
    operations.update = nil
    operations.fill = nil
    #endif
    self.operations = operations.guarded()
  }

  /// The value of a key, or `nil`.
  public func value(forKey key: Key) throws -> Value? { try operations.read.wait(key) }

  /// Stores a value, which the system may drop at any time.
  public func set(_ value: Value, forKey key: Key) throws {
    try operations.write.wait(StorageWrite(key: key, value: value))
  }

  /// Removes a key. It has no effect if the key has no value.
  public func remove(forKey key: Key) throws { try operations.remove!.wait(key) }

  /// Removes every key.
  public func removeAll() throws { try operations.removeAll!.wait(()) }
}
