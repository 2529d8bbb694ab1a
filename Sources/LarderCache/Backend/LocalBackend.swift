// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

/// The operations of a backend that no other process shares: counts of calls replace stamps.
///
/// Every write is counted, so that no older computation or fill replaces its value, and then notes its
/// key in `changes`, for observers.
protocol LocalBackend<Key, Value>: CacheBackend {
  associatedtype Name: Hashable & Sendable

  var changes: LocalChangeNotifier<Key> { get }

  /// Begins a computation or fill of a key.
  func begin(_ key: Key) -> CallTracker<Name>.Call
  /// Stores a value if its key was not written since `call` began.
  ///
  /// - Returns: Whether it stored the value.
  func fill(
    _ value: Value, for key: Key, _ attributes: EntryAttributes,
    since call: CallTracker<Name>.Call
  ) throws -> Bool
  /// Gives a value another expiration, or removes it if that is `nil`, if its key was not written since
  /// `call` began. The value may have expired.
  func renew(
    _ old: LoadedValue<Value>, of key: Key, _ attributes: EntryAttributes?,
    since call: CallTracker<Name>.Call
  ) throws
}

extension LocalBackend {
  /// Returns the value in memory with its expiration time.
  func cached(_ key: Key) -> LoadedValue<Value>? {
    tier.withEntry(key) { entry, _ in
      guard entry.expires == EntryHeader.never || entry.expires > tier.now else { return nil }
      entry.wasUsed = true
      if entry.lifetime != 0 {
        entry.expires = EntryHeader.deadline(of: entry.lifetime, from: tier.now)
      }
      return LoadedValue(entry)
    } ?? nil
  }

  func values(for keys: some Sequence<Key>) throws -> [Key: Value] {
    var result: [Key: Value] = [:]
    for key in keys { result[key] = try load(key)?.value }
    return result
  }

  func writeAsync(
    _ value: Value?, for key: Key, _ attributes: EntryAttributes
  ) async throws -> Bool {
    try write(value, for: key, attributes)
  }

  func enqueue(
    _ value: Value?, for key: Key, _ attributes: EntryAttributes
  ) throws -> QueuedWrite? {
    _ = try write(value, for: key, attributes)
    return nil
  }

  func setAll(
    _ values: some Sequence<(key: Key, value: Value)>, _ attributes: EntryAttributes
  ) throws {
    for (key, value) in values { _ = try write(value, for: key, attributes) }
  }

  func setAllAsync(
    _ values: some Sequence<(key: Key, value: Value)>, _ attributes: EntryAttributes
  ) async throws {
    try setAll(values, attributes)
  }

  func writeAsync(_ write: ConditionalWrite<Value>, _ key: Key) async throws -> Bool {
    try self.write(write, key)
  }

  func changeAsync(
    _ change: KeyChange<Value>, _ key: Key
  ) async throws -> KeyChange<Value>.Outcome {
    try self.change(change, key)
  }

  func increment(
    _ increment: CounterIncrement, _ key: Key
  ) throws -> CounterIncrement.Outcome? { nil }

  func incrementAsync(
    _ increment: CounterIncrement, _ key: Key
  ) async throws -> CounterIncrement.Outcome? { nil }

  func remove(_ keys: some Sequence<Key>) throws -> Int {
    try keys.reduce(0) { try $0 + (write(nil, for: $1, EntryAttributes()) ? 1 : 0) }
  }

  func removeAsync(_ keys: some Sequence<Key>) async throws -> Int { try remove(keys) }

  func clearMemory() {
    tier.removeAll()
    changes.note(nil)
  }

  func compute(
    _ key: Key, _ computation: Computation<Value>, _ flight: Flight<Value?>
  ) async throws -> Value? {
    if let result = try result(computation, of: key) { return result }
    let call = begin(key)
    let old = try oldValue(computation, of: key)
    let clock = ContinuousClock()
    let start = clock.now
    let (result, content) = try await flight.compute(
      while: { call.isUndisturbed }, limit: context.limit(of: key)
    ) {
      try await computation.body(old?.value)
    }
    let time = start.duration(to: clock.now)
    // A write or removal during the computation is newer than its result.
    do {
      switch content.noting(computation.refresh, computeTime: time) {
      case .nothing: break
      case .absent:
        // There are no negative entries, but the old value is none any more.
        if let old = tier.loaded(key) { try renew(old, of: key, nil, since: call) }
      case .value(let value, let attributes):
        _ = try fill(value, for: key, attributes, since: call)
      case .unchanged(let attributes):
        if let old { try renew(old, of: key, attributes, since: call) }
      }
    } catch {
      report(error)
    }
    return result
  }

  func beginConditionalFill(
    _ key: Key
  ) throws -> @Sendable (_ value: Value, _ expires: Expiration) throws -> Bool {
    // The call begins before the read, so that every later write is noticed.
    let call = begin(key)
    let isThere = try cached(key) != nil || contains(key)
    return { [self] value, expires in
      try !isThere && fill(value, for: key, EntryAttributes(expires), since: call)
    }
  }

  func observe(_ key: Key) throws -> ObservedValue<Value> {
    let mark = changes.mark
    let loaded = try load(key)
    return ObservedValue(value: loaded?.value) { [self] in
      let expires = loaded?.expires ?? EntryHeader.never
      await changes.change(
        of: key, after: mark,
        milliseconds: expires == EntryHeader.never ? nil : max(expires - tier.now, 0))
    }
  }
}
