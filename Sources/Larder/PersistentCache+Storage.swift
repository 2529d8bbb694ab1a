
public import LarderCache
public import LarderCoding
public import LarderEngine
public import LarderStorage

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

extension PersistentCache: ReadableStorageProtocol, WritableStorageProtocol, StorageDesign,
  StorageProtocol, SynchronousStorage
{
  public var storageName: String { namespace.isEmpty ? "cache" : namespace }

  /// Stores a value; it is committed when the call returns.
  public func set(_ value: Value, forKey key: Key) throws { try setValue(value, forKey: key) }

  /// What the cache can do in a composition. Each write is committed when it returns, and an update is
  /// a transaction among all processes.
  public var operations: StorageOperations<Key, Value> {
    var result = StorageOperations<Key, Value>(
      read: StorageCall { try self.value(forKey: $0) },
      write: StorageCall.blocking { item in
        try self.setValue(item.value, forKey: item.key, expires: Expiration(item.expires))
      })
    result.remove = .blocking { try self.removeValue(forKey: $0) }
    result.removeAll = .blocking { _ in try self.removeAll() }
    result.contains = StorageCall { try self.contains($0) }
    result.entry = StorageCall { key in
      guard let value = try self.value(forKey: key) else { return nil }
      guard let item = self[item: key] else { return StorageEntry(value) }
      return StorageEntry(item.value, expires: item.expiration)
    }
    result.keepsExpiry = true
    return result
  }
}
