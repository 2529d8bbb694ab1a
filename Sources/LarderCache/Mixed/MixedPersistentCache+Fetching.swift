// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Dispatch

extension MixedPersistentCache {
  /// The value of a key, or what `fallback` makes, which is stored then. As
  /// ``PersistentCache/fetch(_:fallback:)``.
  public func fetch<Value>(_ key: Key<Value>, fallback: () throws -> Value) rethrows -> Value {
    if let value = self[key] { return value }
    let value = try fallback()
    self[key] = value
    return value
  }

  /// The value of a key, or what `fallback` makes, which is stored then; given to `completion`. As
  /// ``PersistentCache/fetch(_:queue:fallback:completion:)``.
  @preconcurrency
  public func fetch<Value>(
    _ key: Key<Value>, queue: DispatchQueue = .main, fallback: @escaping @Sendable () -> Value,
    completion: @escaping @Sendable (Value) -> Void
  ) {
    deliver(on: queue, fallback, completion, cache.report) { [self] compute in
      try await value(forKey: key, compute)
    }
  }

  /// The value of a key, given to `completion`; `nil` when there is none. As
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

  /// The value of a key as it is and as it becomes, whichever process changes it. As
  /// ``PersistentCache/values(forKey:)``.
  public func values<Value>(forKey key: Key<Value>) -> MixedCacheValues<Value> {
    MixedCacheValues(cache: self, key: key, values: cache.values(forKey: key.rawValue))
  }

  /// The changes of a key's value from this call on, whichever process makes them.
  public func updates<Value>(forKey key: Key<Value>) -> MixedCacheValues<Value> {
    MixedCacheValues(cache: self, key: key, values: cache.updates(forKey: key.rawValue))
  }
}

/// The values of a key of a ``MixedPersistentCache``, as they become; see ``CacheValues``.
///
/// It ends with an error when the value becomes one of another type.
public struct MixedCacheValues<Value: Codable & Sendable>: AsyncSequence, Sendable {
  public typealias Element = Value?

  let cache: MixedPersistentCache
  let key: Key<Value>
  let values: CacheValues<String, MixedValue>

  public struct AsyncIterator: AsyncIteratorProtocol {
    private let values: MixedCacheValues
    private var base: CacheValues<String, MixedValue>.AsyncIterator

    init(_ values: MixedCacheValues) {
      self.values = values
      base = values.values.makeAsyncIterator()
    }

    public mutating func next() async throws -> Value?? {
      guard let mixed = try await base.next() else { return nil }
      return .some(try mixed.map { try values.cache.unwrap($0, values.key) })
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}
