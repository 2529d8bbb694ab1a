// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation

/// A storage in an `NSCache`, which lets go of values when the system asks for memory (on Apple's
/// systems; elsewhere only by its limits).
///
/// Keys and values are plain Swift types: what had to be `NSString` and `NSData` is boxed here. On other
/// systems than Apple's ``MemoryStorage`` is the better choice: it is bounded, faster, and can list its
/// keys.
public final class NSCacheStorage<Key: Hashable & Sendable, Value: Sendable>: SynchronousStorage {
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
  /// All that is done to the storage, in turns.
  public let operations: StorageOperations<Key, Value>

  /// Creates a storage that holds at most a number of values; 0: as many as there is room for.
  public init(countLimit: Int = 0) {
    let cache = cache
    cache.values.countLimit = countLimit
    var operations = StorageOperations<Key, Value>(
      read: StorageCall { cache.values.object(forKey: KeyBox($0))?.value },
      write: StorageCall { item in
        cache.values.setObject(ValueBox(item.value), forKey: KeyBox(item.key))
      })
    operations.remove = StorageCall { cache.values.removeObject(forKey: KeyBox($0)) }
    operations.removeAll = StorageCall { _ in cache.values.removeAllObjects() }
    self.operations = operations.guarded()
  }

  /// The value of a key, or `nil`.
  public func value(forKey key: Key) throws -> Value? { try operations.read.wait(key) }

  /// Stores a value, which the system may let go at any time.
  public func set(_ value: Value, forKey key: Key) throws {
    try operations.write.wait(StorageWrite(key: key, value: value))
  }

  /// Removes a key; without effect when there is none.
  public func remove(forKey key: Key) throws { try operations.remove!.wait(key) }

  /// Removes every key.
  public func removeAll() throws { try operations.removeAll!.wait(()) }
}
