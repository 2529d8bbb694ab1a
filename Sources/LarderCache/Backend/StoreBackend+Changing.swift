// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

extension StoreBackend {
  func versionedValue(_ key: Key) throws -> VersionedValue<Value> {
    let place = try open("get", key)
    // A write that waits has no version yet.
    if place.pendingWrite != nil { try place.core.flush() }
    let lookup = try place.core.lookup(place.encoded, in: place.space)
    switch lookup.outcome {
    case .absent, .knownAbsent, .unchanged: return VersionedValue(value: nil, version: .absent)
    case .unreadable(let text): throw context.unreadable(text, key)
    case .found(let stored):
      let value = try context.decode(stored.payload, codec: stored.codec, of: key)
      return VersionedValue(
        value: value,
        version: EntryVersion(commitVersion: stored.commitVersion, payload: stored.payload))
    }
  }

  // MARK: By version

  func write(_ write: ConditionalWrite<Value>, _ key: Key) throws -> Bool {
    let (place, kind) = try prepare(write, key)
    return isChange(
      try place.core.submit(WriteRequest(kind, space: place.space, key: place.encoded)))
  }

  func writeAsync(_ write: ConditionalWrite<Value>, _ key: Key) async throws -> Bool {
    let (place, kind) = try prepare(write, key)
    return isChange(
      try await place.core.submitAsync(kind, space: place.space, key: place.encoded))
  }

  private typealias Step<R> = @Sendable (inout StoreTransaction) throws -> R

  private func prepare(
    _ write: ConditionalWrite<Value>, _ key: Key
  ) throws -> (StoreKey, WriteRequest.Kind) {
    let place = try open("set", key)
    let (space, encoded) = (place.space, place.encoded)
    switch write {
    case .set(let value, let attributes, let version):
      let content = try content(value, encoded, attributes, place.core)
      try StoreCore.check(
        keyLength: encoded.bytes.count, content: content,
        budget: place.core.generation().table.budget)
      return place.alter(bytes: content.payload.count) { transaction in
        guard try transaction.hasVersion(version, of: encoded, in: space) else { return false }
        try transaction.set(content, forKey: encoded, in: space)
        return true
      }
    case .remove(let version):
      return place.alter { transaction in
        guard try transaction.hasVersion(version, of: encoded, in: space) else { return false }
        return try transaction.unset(encoded, in: space)
      }
    case .renew(let expiration):
      _ = try expiration.deadline(now: place.core.now)
      return place.alter { transaction in
        guard let stored = try transaction.value(forKey: encoded, in: space) else { return false }
        let content = try EntryContent(
          key: encoded, codec: stored.codec, payload: stored.payload, replacing: stored,
          expiration: expiration, now: transaction.now)
        try transaction.set(content, forKey: encoded, in: space)
        return true
      }
    }
  }

  // MARK: By value

  func change(_ change: KeyChange<Value>, _ key: Key) throws -> KeyChange<Value>.Outcome {
    let place = try open(change.operation, key)
    return try place.core.write(step(change, key, place))
  }

  func changeAsync(
    _ change: KeyChange<Value>, _ key: Key
  ) async throws -> KeyChange<Value>.Outcome {
    let place = try open(change.operation, key)
    return try await store.write(step(change, key, place))
  }

  func increment(
    _ increment: CounterIncrement, _ key: Key
  ) throws -> CounterIncrement.Outcome? {
    let place = try open("increment", key)
    let box = CounterIncrement.Box()
    try place.core.submit(
      WriteRequest(.increment(increment, box), space: place.space, key: place.encoded))
    return try outcome(in: box, key)
  }

  func incrementAsync(
    _ increment: CounterIncrement, _ key: Key
  ) async throws -> CounterIncrement.Outcome? {
    let place = try open("increment", key)
    let box = CounterIncrement.Box()
    _ = try await place.core.submitAsync(
      .increment(increment, box), space: place.space, key: place.encoded)
    return try outcome(in: box, key)
  }

  /// Returns the outcome of an increment. The text of an error contains the key, whose description is code
  /// of the user, so it is made here and not by the commit leader.
  private func outcome(
    in box: CounterIncrement.Box, _ key: Key
  ) throws -> CounterIncrement.Outcome {
    do {
      return try box.get()
    } catch let error as CodecError {
      throw context.unreadable("\(error)", key)
    }
  }

  /// Returns the transaction of a change.
  private func step(
    _ change: KeyChange<Value>, _ key: Key, _ place: StoreKey
  ) -> Step<KeyChange<Value>.Outcome> {
    { [self] transaction in
      // An unreadable entry has no attributes to keep, and a change that does not read it replaces it.
      var old: StoredValue?
      var failure: (any Error)?
      do {
        old = try transaction.value(forKey: place.encoded, in: place.space)
      } catch let error as StoreError where error.code == .unreadableEntry {
        failure = error
      }
      let outcome = try change.body {
        if let failure { throw failure }
        guard let old else { return nil }
        return (try context.decode(old.payload, codec: old.codec, of: key), old.expires)
      }
      try apply(outcome, of: change, replacing: old, place, &transaction)
      return outcome
    }
  }

  private func apply(
    _ outcome: KeyChange<Value>.Outcome, of change: KeyChange<Value>, replacing old: StoredValue?,
    _ place: StoreKey, _ transaction: inout StoreTransaction
  ) throws {
    switch outcome {
    case .unchanged: break
    case .removed: _ = try transaction.unset(place.encoded, in: place.space)
    case .stored(let value, let expiration):
      let (codec, payload) = try StandardCoding.encode(value, codec: context.options.codec)
      let content =
        if let old {
          try EntryContent(
            key: place.encoded, codec: codec.rawValue, payload: payload, replacing: old,
            expiration: expiration, now: transaction.now)
        } else {
          try EntryContent(
            key: place.encoded, codec: codec.rawValue, payload: payload,
            EntryAttributes(expiration ?? .never, isPinned: change.pinsNew), now: transaction.now)
        }
      try transaction.set(content, forKey: place.encoded, in: place.space)
    }
  }

  // MARK: Several keys

  func remove(_ keys: some Sequence<Key>) throws -> Int {
    try store.write(removal(keys))
  }

  func removeAsync(_ keys: some Sequence<Key>) async throws -> Int {
    try await store.write(removal(keys))
  }

  private func removal(_ keys: some Sequence<Key>) throws -> Step<Int> {
    let (_, space) = try open("remove")
    let encoded = keys.map { EncodedKey($0) }
    return { transaction in
      try encoded.reduce(0) { try $0 + (transaction.unset($1, in: space) ? 1 : 0) }
    }
  }
}

extension StoreKey {
  /// Returns the key with an alteration of it.
  fileprivate func alter(
    bytes: Int = 0, _ body: @escaping @Sendable (inout StoreTransaction) throws -> Bool
  ) -> (StoreKey, WriteRequest.Kind) {
    (self, .alter(bytes: bytes, body))
  }
}
