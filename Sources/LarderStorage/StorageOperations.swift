// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A write request of a storage.
public struct StorageWrite<Key: Sendable, Value: Sendable>: Sendable {
  /// The key.
  public var key: Key
  /// The value to store.
  public var value: Value
  /// The expiration time, or `nil` if the value does not expire.
  public var expires: Date?

  /// Makes a write of its parts.
  @inlinable
  public init(key: Key, value: Value, expires: Date? = nil) {
    self.key = key
    self.value = value
    self.expires = expires
  }

  init(_ key: Key, _ entry: StorageEntry<Value>) {
    self.init(key: key, value: entry.value, expires: entry.expires)
  }
}

/// A stored value with its expiration time.
public struct StorageEntry<Value: Sendable>: Sendable {
  /// The stored value.
  public var value: Value
  /// The expiration time, or `nil` if the value does not expire or the storage does not report it.
  public var expires: Date?

  /// Makes an entry of its parts.
  @inlinable
  public init(_ value: Value, expires: Date? = nil) {
    self.value = value
    self.expires = expires
  }
}

/// A change of a key's value that must not be interleaved with others.
///
/// A storage with a custom `update` reads the key, applies the change, and stores the result, without
/// another write in between:
///
/// ```swift
/// operations.update = .blocking { update in
///   try lock.withLock {
///     let entry = try update.applied { try self.read(update.key) }
///     try self.put(entry, update.key)                   // nil: remove
///     return entry
///   }
/// }
/// ```
public struct StorageUpdate<Key: Sendable, Value: Sendable>: Sendable {
  /// The key to change.
  public var key: Key
  /// Changes the value, where `nil` is the absence of a value. It may be called more than once.
  public var change: @Sendable (inout StorageEntry<Value>?) throws -> Void
  /// Returns a replacement for a value that cannot be read. Without it, the update fails.
  public var recover: (@Sendable (any Error) throws -> StorageEntry<Value>?)?

  /// A change of the value with the time it expires.
  @inlinable
  public init(
    key: Key, changing change: @escaping @Sendable (inout StorageEntry<Value>?) throws -> Void,
    recovering recover: (@Sendable (any Error) throws -> StorageEntry<Value>?)? = nil
  ) {
    self.key = key
    self.change = change
    self.recover = recover
  }

  /// A change of the value; the time it expires stays.
  @inlinable
  public init(key: Key, body: @escaping @Sendable (inout Value?) throws -> Void) {
    self.init(
      key: key,
      changing: { entry in
        var value = entry?.value
        try body(&value)
        entry = value.map { [entry] in StorageEntry($0, expires: entry?.expires) }
      })
  }

  /// Returns the value that `read` reads, after the change.
  public func applied(
    to read: () throws -> StorageEntry<Value>?
  ) throws -> StorageEntry<Value>? {
    var entry = try known(read)
    try change(&entry)
    return entry
  }

  /// Returns the value that `read` reads, or the replacement.
  package func known(_ read: () throws -> StorageEntry<Value>?) throws -> StorageEntry<Value>? {
    guard let recover else { return try read() }
    let error: any Error
    do { return try read() } catch let failure { error = failure }
    return try recover(error)
  }

  func known(
    _ read: @Sendable () async throws -> StorageEntry<Value>?
  ) async throws -> StorageEntry<Value>? {
    guard let recover else { return try await read() }
    let error: any Error
    do { return try await read() } catch let failure { error = failure }
    return try recover(error)
  }

  /// The same with more done to what the change leaves.
  func then(
    _ more:
      @escaping @Sendable (
        _ before: StorageEntry<Value>?, _ after: inout StorageEntry<Value>?
      ) throws -> Void
  ) -> StorageUpdate {
    var result = self
    let change = change
    result.change = { entry in
      let before = entry
      try change(&entry)
      try more(before, &entry)
    }
    return result
  }
}

/// The permission to fill a key with the value of another storage, unless the key is written first.
public struct ConditionalFill<Value: Sendable>: Sendable {
  /// Fills the key unless it was written or removed since. Returns whether it did.
  public var commit: StorageOperation<StorageEntry<Value>, Bool>

  /// Creates the permission from its operation.
  public init(commit: StorageOperation<StorageEntry<Value>, Bool>) { self.commit = commit }
}

/// The operations of a storage. An unsupported operation is `nil`.
///
/// A custom storage has two methods, from which these operations are created. A storage that supports
/// more provides them as the property ``StorageProtocol/operations``, which compositions use.
public struct StorageOperations<Key: Sendable, Value: Sendable>: Sendable {
  /// The value of a key; `nil` is a miss, an error is a failure.
  public var read: StorageOperation<Key, Value?>
  /// Stores a value. One that expires only comes if ``supportsExpiration``.
  public var write: StorageOperation<StorageWrite<Key, Value>, Void>
  /// Removes a key. It has no effect if the key has no value.
  public var remove: StorageOperation<Key, Void>?
  /// Removes every key.
  public var removeAll: StorageOperation<Void, Void>?
  /// The keys there are, in any order.
  public var keys: StorageOperation<Void, [Key]>?
  /// Whether there is a value; without it, a value is read to find out.
  public var contains: StorageOperation<Key, Bool>?
  /// The value with its expiration time, for pull-ups into front storages. A storage whose values expire
  /// and that does not report when is never the source of a pull-up.
  public var entry: StorageOperation<Key, StorageEntry<Value>?>?
  /// Changes a value such that nothing comes in between, and gives the new one.
  public var update: StorageOperation<StorageUpdate<Key, Value>, StorageEntry<Value>?>?
  /// Begins a conditional pull-up.
  public var fill: StorageOperation<Key, ConditionalFill<Value>>?
  /// Whether values may expire.
  public var supportsExpiration = false
  /// Whether a read value may expire at an unknown time, because a part does not report it.
  @usableFromInline var hasUnreportedExpiration = false
  /// The order of calls with a completion, or `nil` for one order of all storages of the type.
  @usableFromInline var lanes: (@Sendable (Key) -> [CallLane])?
  /// Returns the error of a missing value, if the name of the storage does not describe it.
  @usableFromInline var missing: StorageOperation<Key, any Error>?

  /// Operations of a storage that can be read and written, and nothing else.
  @inlinable
  public init(
    read: StorageOperation<Key, Value?>, write: StorageOperation<StorageWrite<Key, Value>, Void>
  ) {
    self.read = read
    self.write = write
  }
}

extension StorageOperations {
  /// The operations of a storage that lacks an `update` or conditional pull-ups, with both added. They are
  /// atomic among the users of these operations.
  ///
  /// - Parameters:
  ///   - turns: Those of the storage, for all its forms; none: new ones.
  ///   - timeout: The longest wait for a turn, or `nil`.
  package func guarded(
    by turns: StripedLock? = nil, timeout: Duration? = nil
  ) -> StorageOperations {
    let turns = turns ?? StripedLock()
    if update != nil, fill != nil { return orderedIfNot(by: turns) }
    let write = write
    var result = orderedIfNot(by: turns)
    result.write = turns.inTurn(write, timeout: timeout) { $0.key }
    result.remove = remove.map { remove in turns.inTurn(remove, timeout: timeout) { $0 } }
    result.removeAll = removeAll.map { turns.inTurnOfAll($0) }
    // The storage's own lets nothing of other processes come in between, either.
    result.update = turns.inTurn(update ?? changed.followed(by: stored), timeout: timeout) {
      $0.key
    }
    result.fill = turns.filling(
      fill
        ?? StorageOperation { key in
          ConditionalFill(commit: write.pullback { StorageWrite(key, $0) }.map { true })
        })
    return result
  }

  /// Reads a value and changes it; what comes of it is not stored yet.
  private var changed: StorageOperation<StorageUpdate<Key, Value>, StorageEntry<Value>?> {
    let (read, check) = (entries, check)
    return .composed(read.kind) { update in
      try update.then(check).applied { try read.now!(update.key) }
    } asynchronous: { update in
      var entry = try await update.known { try await read(update.key) }
      try update.then(check).change(&entry)
      return entry
    }
  }

  /// Stores what an update has left of a key.
  var stored: StorageOperation<(Key, StorageEntry<Value>?), Void> {
    let (write, remove) = (write, remove)
    return .composed(max(write.kind, remove?.kind ?? .quick)) { (key, entry) in
      if let entry { try write.now!(StorageWrite(key, entry)) } else { try remove?.now!(key) }
    } asynchronous: { (key, entry) in
      if let entry {
        try await write(StorageWrite(key, entry))
      } else {
        try await remove?(key)
      }
    }
  }

  /// Whether there is a value.
  var containing: StorageOperation<Key, Bool> { contains ?? read.map { $0 != nil } }

  /// A value with its expiration, as far as it is known.
  var entries: StorageOperation<Key, StorageEntry<Value>?> {
    entry ?? read.map { $0.map { StorageEntry($0) } }
  }

  /// Whether what is read can be kept elsewhere without outliving its time.
  var reportsExpiration: Bool { !hasUnreportedExpiration && (entry != nil || !supportsExpiration) }

  /// Refuses what an update leaves and this storage cannot take.
  @Sendable
  func check(_ before: StorageEntry<Value>?, _ after: inout StorageEntry<Value>?) throws {
    if after == nil, before != nil, remove == nil {
      throw StorageError.unsupported("remove", by: "to be updated")
    }
    if after?.expires != nil, !supportsExpiration {
      throw StorageError.unsupported("update of a value that expires", by: "to be updated")
    }
  }
}

extension StorageOperations {
  /// Those of a storage that never has a value. Removing succeeds, so an empty front follows any back.
  static var empty: StorageOperations {
    var result = StorageOperations(
      read: StorageOperation { _ in nil },
      write: StorageOperation { _ in throw EmptyStorageError() })
    result.remove = StorageOperation { _ in }
    result.removeAll = StorageOperation { _ in }
    result.keys = StorageOperation { _ in [] }
    result.missing = StorageOperation { _ in EmptyStorageError() }
    return result
  }
}
