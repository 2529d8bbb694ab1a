// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension StripedLock {
  /// A write in its key's turn. The stamp is advanced before and after: pull-ups that began in between,
  /// or before, are refused.
  func inTurn<Key, Input, Output>(
    _ call: StorageOperation<Input, Output>, timeout: Duration? = nil,
    _ key: @escaping @Sendable (Input) -> Key
  ) -> StorageOperation<Input, Output> {
    .composed(call.kind) { input in
      let hash = StripedLock.hash(key(input))
      return try self.take(hash, timeout: timeout) {
        self.advance(hash)
        defer { self.advance(hash) }
        return try call.now!(input)
      }
    } asynchronous: { input in
      let hash = StripedLock.hash(key(input))
      return try await self.take(hash, timeout: timeout) {
        self.advance(hash)
        defer { self.advance(hash) }
        return try await call(input)
      }
    }
  }

  /// A write of everything, in the turn of all keys.
  func inTurnOfAll(_ call: StorageOperation<Void, Void>) -> StorageOperation<Void, Void> {
    .composed(call.kind) { _ in
      try self.withAllLocks {
        self.advanceAll()
        defer { self.advanceAll() }
        try call.now!(())
      }
    } asynchronous: { _ in
      try await self.withAllLocks {
        self.advanceAll()
        defer { self.advanceAll() }
        try await call(())
      }
    }
  }

  /// Pull-ups that are stored only if no write of the key's stripe occurred since they began.
  func filling<Key, Value>(
    _ begin: StorageOperation<Key, ConditionalFill<Value>>
  ) -> StorageOperation<Key, ConditionalFill<Value>> {
    @Sendable func conditional(
      _ commit: StorageOperation<StorageEntry<Value>, Bool>, _ hash: Int, _ stamp: UInt64
    ) -> ConditionalFill<Value> {
      ConditionalFill(
        commit: .composed(commit.kind) { entry in
          try self.fill(hash, ifStill: stamp) { try commit.now!(entry) }
        } asynchronous: { entry in
          try await self.fill(hash, ifStill: stamp) { try await commit(entry) }
        })
    }
    return .composed(begin.kind) { key in
      let hash = StripedLock.hash(key)
      let stamp = self.stamp(hash)
      return conditional(try begin.now!(key).commit, hash, stamp)
    } asynchronous: { key in
      let hash = StripedLock.hash(key)
      let stamp = self.stamp(hash)
      return conditional(try await begin(key).commit, hash, stamp)
    }
  }
}

extension StorageOperation where Output == Void {
  /// One after the other.
  func then(_ next: StorageOperation) -> StorageOperation {
    .composed(max(kind, next.kind)) { input in
      try self.now!(input)
      try next.now!(input)
    } asynchronous: { input in
      try await self(input)
      try await next(input)
    }
  }
}

extension StorageOperation {
  /// An update, and then what has to follow from what it leaves.
  func followed<Key, Value>(
    by follow: StorageOperation<(Key, StorageEntry<Value>?), Void>
  ) -> StorageOperation
  where Input == StorageUpdate<Key, Value>, Output == StorageEntry<Value>? {
    .composed(max(kind, follow.kind)) { update in
      let entry = try self.now!(update)
      try follow.now!((update.key, entry))
      return entry
    } asynchronous: { update in
      let entry = try await self(update)
      try await follow((update.key, entry))
      return entry
    }
  }
}
