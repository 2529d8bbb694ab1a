// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine

extension PersistentCache {
  /// The values of several keys, all from one snapshot of the store.
  ///
  /// Writes of this process that are not committed yet count as they do everywhere in it.
  ///
  /// - Throws: As `value(forKey:)`.
  /// - Complexity: One transaction, whatever the number of keys.
  public func values(forKeys keys: some Sequence<Key>) throws -> [Key: Value] {
    var result: [Key: Value] = [:]
    guard let (core, space) = try engine("get") else {
      for key in keys { result[key] = try load(key)?.value }
      return result
    }
    var wanted: [(key: Key, encoded: EncodedKey)] = []
    for key in keys {
      let encoded = EncodedKey(key)
      // What waits in this process's queue is read where it waits.
      if core.pendingWrite(of: encoded, in: space) != nil {
        result[key] = try load(key)?.value
      } else {
        wanted.append((key, encoded))
      }
    }
    let found = try core.lookup(wanted.map(\.encoded), in: space)
    for (item, lookup) in zip(wanted, found) {
      switch lookup.outcome {
      case .found(let stored):
        let value = try decode(stored.payload, codec: stored.codec, of: item.key)
        insert(value, item.key, item.encoded, stored, lookup, core, space)
        result[item.key] = value
      case .unreadable(let text): throw unreadable(text, item.key)
      case .absent, .unchanged: break
      }
    }
    return result
  }

  /// Stores several values in one transaction: all become visible at once, or none does.
  ///
  /// They are committed when the call returns.
  public func setValues(
    _ values: some Sequence<(key: Key, value: Value)>, expires: Expiration = .never
  ) throws {
    guard let (core, space, contents) = try batch(values, expires) else { return }
    try core.write { transaction in
      for (key, content) in contents { try transaction.set(content, forKey: key, in: space) }
    }
  }

  /// Stores several values in one transaction: all become visible at once, or none does.
  ///
  /// They are committed when the call returns. The store's own thread does the work.
  public func setValues(
    _ values: some Sequence<(key: Key, value: Value)>, expires: Expiration = .never
  ) async throws {
    guard let (_, space, contents) = try batch(values, expires), let storage else { return }
    try await storage.write { transaction in
      for (key, content) in contents { try transaction.set(content, forKey: key, in: space) }
    }
  }

  private func batch(
    _ values: some Sequence<(key: Key, value: Value)>, _ expires: Expiration
  ) throws -> (StoreCore, NamespaceHandle, [(EncodedKey, EntryContent)])? {
    guard let (core, space) = try engine("set") else {
      for (key, value) in values { try setLocal(value, key, expires) }
      return nil
    }
    let contents = try values.map { key, value in
      let encoded = EncodedKey(key)
      return (encoded, try content(value, encoded, expires, core))
    }
    return (core, space, contents)
  }
}

extension PersistentCache where Key: DecodableCacheKey {
  /// The keys that have a value, in no particular order.
  ///
  /// The store is read in pages of a snapshot each, so that no reader pins the file: keys written
  /// or removed meanwhile may or may not be among them.
  ///
  /// - Complexity: O(*n*) for *n* entries of the whole store.
  public func keys() throws -> [Key] {
    guard let (core, space) = try engine("keys") else {
      guard foreign == nil else {
        throw StoreError.unsupported("keys", "Keep a list of the keys beside the cache.")
      }
      return tier.keys
    }
    try core.flush()
    var result: [Key] = []
    var position: UInt64? = 0
    while let start = position {
      let page = try core.page(of: space, from: start, limit: 1000)
      for entry in page.entries where entry.key.tag == Key.keyTag.rawValue {
        if let key = Key(keyBytes: entry.key.bytes) { result.append(key) }
      }
      position = page.next
    }
    return result
  }

  /// The keys that have a value, in no particular order, listed without blocking a thread of Swift's
  /// pool.
  public func keys() async throws -> [Key] {
    try await BlockingWork.run { try self.keys() }
  }
}
