// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

/// A value on its way into a storage.
public struct StorageWrite<Key: Sendable, Value: Sendable>: Sendable {
  public var key: Key
  public var value: Value
  /// When it stops being there; `nil`: never.
  public var expires: Date?

  @inlinable
  public init(key: Key, value: Value, expires: Date? = nil) {
    self.key = key
    self.value = value
    self.expires = expires
  }
}

/// A value as a storage has it.
public struct StorageEntry<Value: Sendable>: Sendable {
  public var value: Value
  /// When it stops being there; `nil`: never, or the storage does not know.
  public var expires: Date?

  @inlinable
  public init(_ value: Value, expires: Date? = nil) {
    self.value = value
    self.expires = expires
  }
}

/// A change of a key's value that must not be interleaved with others.
public struct StorageUpdate<Key: Sendable, Value: Sendable>: Sendable {
  public var key: Key
  /// Changes the value; `nil` is none, before and after. It may be called more than once.
  public var body: @Sendable (inout Value?) throws -> Void

  @inlinable
  public init(key: Key, body: @escaping @Sendable (inout Value?) throws -> Void) {
    self.key = key
    self.body = body
  }
}

/// The right to fill a key with what another storage had for it, if nobody writes it meanwhile.
public struct StorageFilling<Value: Sendable>: Sendable {
  /// Fills the key unless it was written or removed since; tells whether it did.
  public var commit: StorageCall<StorageEntry<Value>, Bool>

  public init(commit: StorageCall<StorageEntry<Value>, Bool>) { self.commit = commit }
}

/// All that a storage can do. What it cannot do is `nil`.
///
/// A storage of one's own has two methods, and these operations are made of them. One that can do more
/// gives them itself, as the property ``StorageProtocol/operations``; compositions then use them.
public struct StorageOperations<Key: Sendable, Value: Sendable>: Sendable {
  /// The value of a key; `nil` is a miss, an error is a failure.
  public var read: StorageCall<Key, Value?>
  /// Stores a value. One that expires only comes if ``keepsExpiry``.
  public var write: StorageCall<StorageWrite<Key, Value>, Void>
  /// Removes a key; without effect when there is none.
  public var remove: StorageCall<Key, Void>?
  public var removeAll: StorageCall<Void, Void>?
  public var keys: StorageCall<Void, [Key]>?
  /// Whether there is a value; without it, a value is read to find out.
  public var contains: StorageCall<Key, Bool>?
  /// The value with the time it expires, for pull-ups into storages in front.
  public var entry: StorageCall<Key, StorageEntry<Value>?>?
  /// Changes a value such that nothing comes in between, and gives the new one.
  public var update: StorageCall<StorageUpdate<Key, Value>, Value?>?
  /// Begins a conditional pull-up.
  public var fill: StorageCall<Key, StorageFilling<Value>>?
  /// Whether values may expire.
  public var keepsExpiry = false

  @inlinable
  public init(
    read: StorageCall<Key, Value?>, write: StorageCall<StorageWrite<Key, Value>, Void>
  ) {
    self.read = read
    self.write = write
  }
}

extension StorageOperations {
  /// The operations of a storage without an `update` or conditional pull-ups of its own, with both:
  /// they hold for all that is done through these operations.
  func guarded() -> StorageOperations {
    if update != nil, fill != nil { return self }
    let turns = Turns()
    let (read, write, remove) = (read, write, remove)
    var result = self
    result.write = StorageCall.composed(write.kind) { item in
      let hash = Turns.hash(item.key)
      try turns.take(hash) {
        turns.advance(hash)
        defer { turns.advance(hash) }
        try write.now!(item)
      }
    } later: { item in
      let hash = Turns.hash(item.key)
      try await turns.take(hash) {
        turns.advance(hash)
        defer { turns.advance(hash) }
        try await write(item)
      }
    }
    result.remove = remove.map { remove in
      StorageCall.composed(remove.kind) { key in
        let hash = Turns.hash(key)
        try turns.take(hash) {
          turns.advance(hash)
          defer { turns.advance(hash) }
          try remove.now!(key)
        }
      } later: { key in
        let hash = Turns.hash(key)
        try await turns.take(hash) {
          turns.advance(hash)
          defer { turns.advance(hash) }
          try await remove(key)
        }
      }
    }
    result.removeAll = removeAll.map { removeAll in
      StorageCall.composed(removeAll.kind) { _ in
        turns.advanceAll()
        defer { turns.advanceAll() }
        try removeAll.now!(())
      } later: { _ in
        turns.advanceAll()
        defer { turns.advanceAll() }
        try await removeAll(())
      }
    }
    result.update =
      update.map { update in
        // The storage's own lets nothing of other processes come in between, either.
        StorageCall.composed(update.kind) { change in
          let hash = Turns.hash(change.key)
          return try turns.take(hash) {
            turns.advance(hash)
            defer { turns.advance(hash) }
            return try update.now!(change)
          }
        } later: { change in
          let hash = Turns.hash(change.key)
          return try await turns.take(hash) {
            turns.advance(hash)
            defer { turns.advance(hash) }
            return try await update(change)
          }
        }
      } ?? .inTurn(turns, read: read, write: write, remove: remove)
    result.fill = StorageCall { key in
      let hash = Turns.hash(key)
      let stamp = turns.stamp(hash)
      return StorageFilling(
        commit: StorageCall.composed(write.kind) { entry in
          try turns.fill(hash, ifStill: stamp) {
            try write.now!(StorageWrite(key: key, value: entry.value, expires: entry.expires))
            return true
          }
        } later: { entry in
          try await turns.fill(hash, ifStill: stamp) {
            try await write(StorageWrite(key: key, value: entry.value, expires: entry.expires))
            return true
          }
        })
    }
    return result
  }

  /// Whether there is a value.
  var containing: StorageCall<Key, Bool> { contains ?? read.map { $0 != nil } }

  /// A value with its expiration, as far as it is known.
  var entries: StorageCall<Key, StorageEntry<Value>?> {
    entry ?? read.map { $0.map { StorageEntry($0) } }
  }
}

extension StorageCall {
  /// Reads, changes and writes back while it is the key's turn.
  static func inTurn<Key, Value>(
    _ turns: Turns, read: StorageCall<Key, Value?>,
    write: StorageCall<StorageWrite<Key, Value>, Void>, remove: StorageCall<Key, Void>?
  ) -> StorageCall<StorageUpdate<Key, Value>, Value?>
  where Input == StorageUpdate<Key, Value>, Output == Value? {
    let kind = max(read.kind, write.kind, remove?.kind ?? .quick)
    return StorageCall.composed(kind) { update in
      let hash = Turns.hash(update.key)
      return try turns.take(hash) {
        turns.advance(hash)
        defer { turns.advance(hash) }
        var value = try read.now!(update.key)
        let wasThere = value != nil
        try update.body(&value)
        if let value {
          try write.now!(StorageWrite(key: update.key, value: value))
        } else if wasThere {
          guard let remove else { throw StorageError.unsupported("remove", by: "to be updated") }
          try remove.now!(update.key)
        }
        return value
      }
    } later: { update in
      let hash = Turns.hash(update.key)
      return try await turns.take(hash) {
        turns.advance(hash)
        defer { turns.advance(hash) }
        var value = try await read(update.key)
        let wasThere = value != nil
        try update.body(&value)
        if let value {
          try await write(StorageWrite(key: update.key, value: value))
        } else if wasThere {
          guard let remove else { throw StorageError.unsupported("remove", by: "to be updated") }
          try await remove(update.key)
        }
        return value
      }
    }
  }
}
