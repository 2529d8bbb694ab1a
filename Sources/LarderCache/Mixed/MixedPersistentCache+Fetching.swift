// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Dispatch

extension MixedPersistentCache {
  /// Returns the value of a key. If there is none, stores and returns the result of `fallback`. As
  /// ``PersistentCache/fetch(_:fallback:)``.
  public func fetch<Value>(_ key: Key<Value>, fallback: () throws -> Value) rethrows -> Value {
    if let value = self[key] { return value }
    let value = try fallback()
    self[key] = value
    return value
  }

  /// Passes the value of a key to `completion`. If there is none, stores and passes the result of
  /// `fallback`. As ``PersistentCache/fetch(_:queue:fallback:completion:)``.
  @preconcurrency
  public func fetch<Value>(
    _ key: Key<Value>, queue: DispatchQueue = .main, fallback: @escaping @Sendable () -> Value,
    completion: @escaping @Sendable (Value) -> Void
  ) {
    deliver(on: queue, fallback, completion, cache.report) { [self] compute in
      try await value(forKey: key, compute)
    }
  }

  /// Passes the value of a key to `completion`, or `nil` if it has none. As
  /// ``PersistentCache/fetch(_:queue:completion:)``.
  @preconcurrency
  public func fetch<Value>(
    _ key: Key<Value>, queue: DispatchQueue = .main,
    completion: @escaping @Sendable (Value?) -> Void
  ) {
    DispatchQueue.global().async { [self] in
      let value = self[key]
      queue.async { completion(value) }
    }
  }

  /// Returns the current value of a key and its changes by any process. As
  /// ``PersistentCache/values(forKey:)``.
  public func values<Value>(forKey key: Key<Value>) -> MixedCacheValues<Value> {
    MixedCacheValues(cache: self, key: key, values: cache.values(forKey: key.rawValue))
  }

  /// Returns the changes of a key's value from this call on, by any process.
  public func updates<Value>(forKey key: Key<Value>) -> MixedCacheValues<Value> {
    MixedCacheValues(cache: self, key: key, values: cache.updates(forKey: key.rawValue))
  }
}

/// The values of a key of a ``MixedPersistentCache``; see ``CacheValues``.
///
/// The sequence throws when the value is replaced by one of another type.
public struct MixedCacheValues<Value: Codable & Sendable>: AsyncSequence, Sendable {
  /// A value, or `nil` while the key has none.
  public typealias Element = Value?

  let cache: MixedPersistentCache
  let key: Key<Value>
  let values: CacheValues<String, MixedValue>

  /// An iterator that waits for the next change.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private let values: MixedCacheValues
    private var base: CacheValues<String, MixedValue>.AsyncIterator

    init(_ values: MixedCacheValues) {
      self.values = values
      base = values.values.makeAsyncIterator()
    }

    /// Returns the next value, or `nil` at the end. Throws as ``CacheValues``.
    public mutating func next() async throws -> Value?? {
      guard let mixed = try await base.next() else { return nil }
      return .some(try mixed.map { try values.cache.unwrap($0, values.key) })
    }
  }

  /// Creates an iterator. Each iterates independently.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}
