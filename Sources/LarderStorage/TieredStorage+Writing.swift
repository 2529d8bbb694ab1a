// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Every write holds the key's stripe and advances the stamp before and after. The back is authoritative:
// if it was changed and the front cannot follow, the key is removed from the front; if that fails too,
// reads bypass the front.

extension TieredStorage {
  // MARK: The front

  /// Writes a value that may expire to the front, or removes the key if the front has no expiration.
  private var frontTakes: StorageOperation<StorageWrite<Key, Value>, Void> {
    guard !front.supportsExpiration, let remove = front.remove else { return front.write }
    let write = front.write
    return .composed(max(write.kind, remove.kind)) { item in
      if item.expires == nil { try write.now!(item) } else { try remove.now!(item.key) }
    } asynchronous: { item in
      if item.expires == nil { try await write(item) } else { try await remove(item.key) }
    }
  }

  /// Writes the front, before the back is.
  var frontWrite: StorageOperation<StorageWrite<Key, Value>, Void> {
    let (write, bypass) = (frontTakes, bypass)
    return .composed(write.kind) { item in
      try write.now!(item)
      bypass.remove(item.key)
    } asynchronous: { item in
      try await write(item)
      bypass.remove(item.key)
    }
  }

  /// Lets the front follow what became of a key in the back.
  private var frontFollows: StorageOperation<(Key, StorageEntry<Value>?), Void> {
    let (write, remove, bypass) = (frontTakes, front.remove, bypass)
    return .composed(max(write.kind, remove?.kind ?? .quick)) { (key, entry) in
      do {
        if let entry { try write.now!(StorageWrite(key, entry)) } else { try remove?.now!(key) }
      } catch {
        do {
          guard let remove, entry != nil else { throw error }
          try remove.now!(key)
        } catch {
          bypass.add(key)
          throw StorageError.staleFront(entry == nil ? "remove" : "update", error)
        }
      }
      bypass.remove(key)
    } asynchronous: { (key, entry) in
      do {
        if let entry {
          try await write(StorageWrite(key, entry))
        } else {
          try await remove?(key)
        }
      } catch {
        do {
          guard let remove, entry != nil else { throw error }
          try await remove(key)
        } catch {
          bypass.add(key)
          throw StorageError.staleFront(entry == nil ? "remove" : "update", error)
        }
      }
      bypass.remove(key)
    }
  }

  /// Removes everything in front, the back being empty.
  private func frontClears(_ removeAll: StorageOperation<Void, Void>) -> StorageOperation<
    Void, Void
  > {
    let bypass = bypass
    return .composed(removeAll.kind) { _ in
      do { try removeAll.now!(()) } catch {
        bypass.addAll()
        throw StorageError.staleFront("removeAll", error)
      }
      bypass.removeAll()
    } asynchronous: { _ in
      do { try await removeAll(()) } catch {
        bypass.addAll()
        throw StorageError.staleFront("removeAll", error)
      }
      bypass.removeAll()
    }
  }

  // MARK: Both

  /// Removes a key, from the back to the front.
  var remove: StorageOperation<Key, Void>? {
    guard let last = back.remove, front.remove != nil else { return nil }
    return turns.inTurn(last.then(frontFollows.pullback { ($0, nil) })) { $0 }
  }

  /// Removes everything, from the back to the front.
  var removeAll: StorageOperation<Void, Void>? {
    guard let last = back.removeAll, let first = front.removeAll else { return nil }
    return turns.inTurnOfAll(last.then(frontClears(first)))
  }

  /// Changes the value in the back as the back does it; the front follows.
  var update: StorageOperation<StorageUpdate<Key, Value>, StorageEntry<Value>?> {
    let front = front
    // What the front could never follow is refused before the back is changed.
    return turns.inTurn(
      back.update!.pullback { (update: StorageUpdate<Key, Value>) in
        front.remove == nil ? update.then(front.check) : update
      }.followed(by: frontFollows)
    ) { $0.key }
  }

  /// Changes the value in the front atomically; without a value there, the change begins with the back's.
  ///
  /// The front's update cannot wait for the back. If it finds no value it is aborted, the back is read,
  /// and the update is repeated; a value that is in the front by then takes precedence.
  var updateInFront: StorageOperation<StorageUpdate<Key, Value>, StorageEntry<Value>?> {
    let (change, entries) = (front.update!, back.entries)
    let (check, reportsExpiration) = (front.check, back.reportsExpiration)
    @Sendable func looking(
      _ update: StorageUpdate<Key, Value>, _ isMissing: Flag
    ) -> StorageUpdate<Key, Value> {
      var update = update
      let change = update.change
      update.change = { entry in
        guard entry != nil else {
          isMissing.raise()
          throw MissingInFront()
        }
        try change(&entry)
      }
      return update
    }
    @Sendable func filling(
      _ update: StorageUpdate<Key, Value>, _ found: StorageEntry<Value>?
    ) throws -> StorageUpdate<Key, Value> {
      if found != nil, !reportsExpiration {
        throw StorageError.unsupported("update of a value that may expire", by: "to be updated")
      }
      var result = update.then(check)
      let change = result.change
      result.change = { entry in
        entry = entry ?? found
        try change(&entry)
      }
      return result
    }
    return turns.inTurn(
      .composed(max(change.kind, entries.kind)) { update in
        let isMissing = Flag()
        do { return try change.now!(looking(update, isMissing)) } catch  where isMissing.isRaised {
          let found = try update.known { try entries.now!(update.key) }
          return try change.now!(filling(update, found))
        }
      } asynchronous: { update in
        let isMissing = Flag()
        do { return try await change(looking(update, isMissing)) } catch  where isMissing.isRaised {
          let found = try await update.known { try await entries(update.key) }
          return try await change(filling(update, found))
        }
      }
    ) { $0.key }
  }

  /// Changes the value in front as the front does it, and pushes it to the back.
  var updatePushing: StorageOperation<StorageUpdate<Key, Value>, StorageEntry<Value>?> {
    let back = back
    return turns.inTurn(
      front.update!.pullback { $0.then(back.check) }.followed(by: back.stored)
    ) { $0.key }
  }

  /// Fills both, the back first: what the back refuses, the front does not have.
  var fill: StorageOperation<Key, ConditionalFill<Value>>? {
    guard let first = back.fill, let second = front.fill else { return nil }
    let supportsExpiration = front.supportsExpiration
    @Sendable func both(
      _ back: ConditionalFill<Value>, _ front: ConditionalFill<Value>
    ) -> ConditionalFill<Value> {
      ConditionalFill(
        commit: .composed(max(back.commit.kind, front.commit.kind)) { entry in
          guard try back.commit.now!(entry) else { return false }
          // What expires stays where it can.
          return try entry.expires != nil && !supportsExpiration || front.commit.now!(entry)
        } asynchronous: { entry in
          guard try await back.commit(entry) else { return false }
          if entry.expires != nil, !supportsExpiration { return true }
          return try await front.commit(entry)
        })
    }
    return turns.filling(
      .composed(max(first.kind, second.kind)) { key in
        both(try first.now!(key), try second.now!(key))
      } asynchronous: { key in
        let back = try await first(key)
        return both(back, try await second(key))
      })
  }
}

/// The front has no value to change.
private struct MissingInFront: Error {}
