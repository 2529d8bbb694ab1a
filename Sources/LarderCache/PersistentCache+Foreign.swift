// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

/// The side of a cache that lies over a storage that is not ours.
struct CustomStorageBacking: Sendable {
  let store: CustomStorageCoordinator
  let onError: (@Sendable (any Error) -> Void)?
}

extension PersistentCache: CustomStorageClient {
  /// What the caches share that are one to each other, when there is no ``SharedStore``.
  package var localIdentity: ObjectIdentifier {
    if let foreign { ObjectIdentifier(foreign.store) } else { ObjectIdentifier(self) }
  }

  func forget(_ key: (any CacheKey)?) {
    // A key of another type may be the same to the storage: 7 as Int and as UInt8.
    guard let key = key as? Key else {
      memoryWrites.noteAll()
      tier.removeAll()
      memoryWatch.note(nil)
      return
    }
    memoryWrites.note(key)
    tier.remove(key)
    memoryWatch.note(key)
  }

  /// Reads past the memory tier, filing what is found.
  func loadForeign(_ key: Key, _ store: CustomStorageCoordinator) throws -> Loaded? {
    let text = CustomStorageKey.text(EncodedKey(key), in: namespace)
    let call = store.begin(text, isWrite: false)
    defer { store.end(call) }
    guard let data = store.storage[text] else {
      guard let old = try oldItem(key, store), old.entry.expires > tier.now else { return nil }
      file(old.value, key, old.entry) { store.isUndisturbed(call) }
      return Loaded(value: old.value, expires: old.entry.expires)
    }
    guard let entry = CustomStorageEntry(data, forKey: text) else {
      throw unreadable("its storage gives other bytes than were set", key)
    }
    guard entry.expires > tier.now else { return nil }
    let value = try decode(entry.payload, codec: entry.codec, of: key)
    file(value, key, entry) { store.isUndisturbed(call) }
    return Loaded(value: value, expires: entry.expires)
  }

  func setForeign(
    _ value: Value, _ key: Key, _ expires: Expiration, _ store: CustomStorageCoordinator
  ) throws {
    let (codec, payload) = try StandardCoding.encode(value, codec: options.codec)
    let entry = CustomStorageEntry(
      codec: codec.rawValue, expires: expires.deadline(now: tier.now), payload: payload)
    write(entry, value, key, store)
  }

  func removeForeign(_ key: Key, _ store: CustomStorageCoordinator) throws -> Bool {
    let existed = try containsForeign(key, store)
    write(nil, nil, key, store)
    return existed
  }

  func containsForeign(_ key: Key, _ store: CustomStorageCoordinator) throws -> Bool {
    let text = CustomStorageKey.text(EncodedKey(key), in: namespace)
    guard let data = store.storage[text] else {
      return try oldItem(key, store).map { $0.entry.expires > tier.now } ?? false
    }
    return CustomStorageEntry(data, forKey: text).map { $0.expires > tier.now } ?? false
  }

  private func write(
    _ entry: CustomStorageEntry?, _ value: Value?, _ key: Key, _ store: CustomStorageCoordinator
  ) {
    let text = CustomStorageKey.text(EncodedKey(key), in: namespace)
    let call = store.begin(text, isWrite: true)
    defer { store.end(call) }
    memoryWrites.note(key)
    // The old entry goes last when there is a new one, and first when there is none: a reader sees what
    // was, or what is.
    if let oldText = oldText(of: key) {
      if entry != nil { store.storage[text] = entry?.data(forKey: text) }
      store.storage[oldText] = nil
      if entry == nil { store.storage[text] = nil }
    } else {
      store.storage[text] = entry?.data(forKey: text)
    }
    store.forget(key, besides: self)
    var isFiled = false
    if let entry, let value {
      file(value, key, entry) {
        isFiled = store.isUndisturbed(call)
        return isFiled
      }
    }
    if !isFiled { tier.remove(key) }
    memoryWatch.note(key)
  }

  private func file(_ value: Value, _ key: Key, _ entry: CustomStorageEntry, if mayFile: () -> Bool)
  {
    tier.file(
      value, forKey: key, seal: 0, label: 0, expires: entry.expires,
      cost: entry.payload.count + EntryHeader.size, storeHash: 0, table: nil, if: mayFile)
  }

  /// The text under which PersistentCacheKit kept a key, if entries of it are to be read.
  private func oldText(of key: Key) -> String? {
    options.readsPersistentCacheKitEntries ? namespace + String(describing: key) : nil
  }

  /// What PersistentCacheKit stored under a key.
  private func oldItem(
    _ key: Key, _ store: CustomStorageCoordinator
  ) throws -> (value: Value, entry: CustomStorageEntry)? {
    guard let text = oldText(of: key), let data = store.storage[text] else { return nil }
    let item = try PropertyListCodec().decode(itemOf: Value.self, from: Array(data))
    let expires = (item.expiration.map(Expiration.at) ?? .never).deadline(now: tier.now)
    return (item.value, CustomStorageEntry(codec: 0, expires: expires, payload: Array(data)))
  }

  func removeAllForeign(_ store: CustomStorageCoordinator) throws {
    if options.readsPersistentCacheKitEntries {
      throw StoreError.unsupported(
        "removeAll",
        "Entries of PersistentCacheKit have no prefix of their namespace. Remove keys, or turn "
          + "readsPersistentCacheKitEntries off.")
    }
    try store.clearing {
      memoryWrites.noteAll()
      defer {
        store.forget(nil, besides: self)
        clearMemoryCache()
      }
      try store.storage.removeAll(withPrefix: CustomStorageKey.prefix(namespace))
    }
  }
}
