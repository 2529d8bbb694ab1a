// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension StorageProtocol {
  /// This storage in front of another: both hold what is set, and the front is filled from the back.
  ///
  /// A read queries the front; on a miss it queries the back and fills the front with the value, unless
  /// the key was written or removed since. A failure of the front is a failure, not a miss: see
  /// ``recovering(_:)``. Setting writes the front, then the back; if the back fails, the error is thrown
  /// and the front keeps the value. Removing goes the other way. Writers of one key take turns.
  ///
  /// An update is made by the back, as atomic as the back can, and the front follows; keys are those of
  /// both. The back is authoritative: if it was changed and the front fails, the front removes the key; if
  /// that fails too, the error is ``StorageError/Code/staleFront``, and reads bypass the front until the
  /// key can be removed there.
  ///
  /// No value outlives its expiration time: a front without expiration does not store values that
  /// expire.
  @inlinable
  public func combined<Back: StorageProtocol>(
    with back: Back
  ) -> Storage<Key, Value> where Back.Key == Key, Back.Value == Value {
    let (front, back) = (asStorage(), back.asStorage())
    let layers = TieredStorage(front: front.operations, back: back.operations)
    return Storage(
      complete: layers.combined(layers.readThrough),
      named: front.storageName + "<->" + back.storageName)
  }

  /// This storage, filled from another on a miss. Setting and removing leave the other alone.
  ///
  /// An update is made by this storage, as atomic as it can; where it has no value, the other's is
  /// changed.
  @inlinable
  public func backed<Back: ReadableStorageProtocol>(
    by back: Back
  ) -> Storage<Key, Value> where Back.Key == Key, Back.Value == Value {
    let (front, back) = (asStorage(), back.asReadOnlyStorage())
    let layers = TieredStorage(front: front.operations, back: back.operations)
    return Storage(
      storageName: front.storageName + "<-" + back.storageName,
      operations: layers.backed(layers.readThrough))
  }

  /// This storage, whose writes and removals go to another as well. It is read from itself only.
  ///
  /// ``WritableStorageProtocol/pushing(to:)`` is the form that cannot be read.
  public func pushingOnSet<Back: WritableStorageProtocol>(
    to back: Back
  ) -> Storage<Key, Value> where Back.Key == Key, Back.Value == Value {
    let (front, back) = (asStorage(), back.asWriteOnlyStorage())
    let layers = TieredStorage(front: front.operations, back: back.operations)
    return Storage(
      storageName: front.storageName + "-" + back.storageName, operations: layers.pushing(true))
  }
}

extension WritableStorageProtocol {
  /// Writes go to this storage, then to another.
  ///
  /// If this one fails, the other is left alone; if the other fails, this one keeps the value.
  public func pushing<Back: WritableStorageProtocol>(
    to back: Back
  ) -> WriteOnlyStorage<Key, Value> where Back.Key == Key, Back.Value == Value {
    let (front, back) = (asWriteOnlyStorage(), back.asWriteOnlyStorage())
    let layers = TieredStorage(front: front.operations, back: back.operations)
    return WriteOnlyStorage(
      storageName: front.storageName + "-" + back.storageName,
      operations: layers.pushing(false))
  }
}

extension ReadOnlyStorageProtocol {
  /// This storage, and on a miss another.
  public func backed<Back: ReadableStorageProtocol>(
    by back: Back
  ) -> ReadOnlyStorage<Key, Value> where Back.Key == Key, Back.Value == Value {
    let (front, back) = (asReadOnlyStorage(), back.asReadOnlyStorage())
    let layers = TieredStorage(front: front.operations, back: back.operations)
    var operations = front.operations
    operations.read = layers.frontFirst(front.operations.read, back.operations.read) { $0 != nil }
    operations.contains = layers.contains
    operations.entry = layers.entry
    operations.hasUnreportedExpiration = layers.hasUnreportedExpiration
    operations.keys = layers.keys
    operations.lanes = front.operations.lanes(and: back.operations)
    operations.missing = nil
    return ReadOnlyStorage(
      storageName: front.storageName + "-" + back.storageName, operations: operations)
  }
}

extension TieredStorage {
  @usableFromInline
  func combined(_ read: StorageOperation<Key, Value?>) -> StorageOperations<Key, Value> {
    var result = readable(read, write: frontWrite.then(back.write))
    result.remove = remove
    result.removeAll = removeAll
    result.fill = fill
    result.update = update
    result.supportsExpiration =
      back.supportsExpiration && (front.supportsExpiration || front.remove != nil)
    return result
  }

  @usableFromInline
  func backed(_ read: StorageOperation<Key, Value?>) -> StorageOperations<Key, Value> {
    var result = readable(read, write: front.write)
    result.remove = front.remove.map { remove in turns.inTurn(remove) { $0 } }
    result.removeAll = front.removeAll.map { turns.inTurnOfAll($0) }
    result.fill = front.fill
    result.update = updateInFront
    result.supportsExpiration = front.supportsExpiration
    return result
  }

  /// Operations whose reads concern both layers.
  private func readable(
    _ read: StorageOperation<Key, Value?>, write: StorageOperation<StorageWrite<Key, Value>, Void>
  ) -> StorageOperations<Key, Value> {
    var result = StorageOperations(read: read, write: turns.inTurn(write) { $0.key })
    result.keys = keys
    result.contains = contains
    result.entry = entry
    result.hasUnreportedExpiration = hasUnreportedExpiration
    result.lanes = front.lanes(and: back)
    return result
  }

  func pushing(_ isReadable: Bool) -> StorageOperations<Key, Value> {
    var result = StorageOperations(
      read: front.read, write: turns.inTurn(front.write.then(back.write)) { $0.key })
    if let last = back.remove, let first = front.remove {
      result.remove = turns.inTurn(last.then(first)) { $0 }
    }
    if let last = back.removeAll, let first = front.removeAll {
      result.removeAll = turns.inTurnOfAll(last.then(first))
    }
    result.supportsExpiration = front.supportsExpiration && back.supportsExpiration
    result.lanes = front.lanes(and: back)
    guard isReadable else { return result }
    result.keys = front.keys
    result.contains = front.contains
    result.entry = front.entry
    result.hasUnreportedExpiration = front.hasUnreportedExpiration
    result.update = updatePushing
    return result
  }
}
