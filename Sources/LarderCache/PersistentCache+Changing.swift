// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
package import LarderEngine

extension PersistentCache {
  /// Changes a value in a transaction among all processes; `nil` is none, before and after.
  ///
  /// The closure runs under the store's writer lock. It is given what reads the value with the time it
  /// expires, and gives what is to be stored. The cache must have a store.
  package func change(
    _ key: Key,
    _ body: @escaping @Sendable (_ read: () throws -> Item<Value>?) throws -> Item<Value>?
  ) throws -> Item<Value>? {
    guard let (core, space) = try engine("update") else {
      preconditionFailure("A cache without a store has no transactions.")
    }
    let encoded = EncodedKey(key)
    if core.pendingWrite(of: encoded, in: space) != nil { try core.flush() }
    return try core.write { [self] transaction in
      let stored = Result { try transaction.value(forKey: encoded, in: space) }
      let item = try body {
        try stored.get().map {
          Item(try decode($0.payload, codec: $0.codec, of: key), expiration: Self.date($0.expires))
        }
      }
      guard let item else {
        _ = try transaction.unset(encoded, in: space)
        return nil
      }
      let (codec, payload) = try StandardCoding.encode(item.value, codec: options.codec)
      let content = EntryContent(
        key: encoded, codec: codec.rawValue, payload: payload,
        expires: item.expires.deadline(now: core.now))
      try transaction.set(content, forKey: encoded, in: space)
      return item
    }
  }

  /// Looks at a key, to store a value later only if nobody wrote or removed it in between: no process,
  /// or without a store none of this cache's callers.
  ///
  /// - Returns: What stores a value then, and tells whether it did.
  package func beginConditionalFill(
    _ key: Key
  ) throws -> @Sendable (_ value: Value, _ expires: Expiration) throws -> Bool {
    guard let (core, space) = try engine("get") else { return try beginFillingLocal(key) }
    let encoded = EncodedKey(key)
    let seen = try core.lookup(encoded, in: space)
    let isThere = if case .absent = seen.outcome { false } else { true }
    return { [self] value, expires in
      if isThere || core.pendingWrite(of: encoded, in: space) != nil { return false }
      let content = try content(value, encoded, expires, core)
      return try core.write { transaction in
        // Under the writer lock: no other process can stamp the key's slot now.
        guard
          transaction.generation.table === seen.generation.table,
          seen.generation.table.isCurrent(slot: seen.slot, seal: seen.seal)
        else { return false }
        try transaction.set(content, forKey: encoded, in: space)
        return true
      }
    }
  }

  private func beginFillingLocal(
    _ key: Key
  ) throws -> @Sendable (_ value: Value, _ expires: Expiration) throws -> Bool {
    // First the mark, then the look: whoever writes from here on is noticed.
    let mark = memoryWrites.begin(key)
    let isThere = try contains(key)
    return { [self] value, expires in
      guard !isThere, mark.isCurrent else { return false }
      if foreign != nil {
        try setLocal(value, key, expires)
        return true
      }
      return fileLocal(value, key, expires) { mark.isCurrent }
    }
  }
}
