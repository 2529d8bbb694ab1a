// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Dispatch

extension PersistentCache {
  /// The value of a key, or what `fallback` makes, which is stored then.
  ///
  /// ```swift
  /// let score = cache.fetch("ada") { [3, 1, 4] }
  /// ```
  ///
  /// All of it happens on the calling thread. Threads and processes that miss at the same time each
  /// call their `fallback`; the asynchronous ``value(forKey:expires:_:)`` computes once per machine.
  public func fetch(_ key: Key, fallback: () throws -> Value) rethrows -> Value {
    if let value = self[key] { return value }
    let value = try fallback()
    self[key] = value
    return value
  }

  /// The value of a key, or what `fallback` makes, which is stored then; given to `completion`.
  ///
  /// The call returns at once. `fallback` and `completion` run on `queue`, `completion` exactly once
  /// and never before the call has returned to a serial queue, whether the value was in memory or
  /// not. The default is the main queue: a program without a main run loop must give another, or call
  /// `dispatchMain()`.
  ///
  /// What has expired counts as missing. One caller of the whole machine computes, as in
  /// ``value(forKey:expires:_:)``; where the cache itself fails (the store is closed, a disk is full)
  /// the error goes to the store's `onError`, and `completion` is given what `fallback` makes.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - queue: Where both closures run. They may use the cache.
  ///   - fallback: Makes the value if there is none.
  ///   - completion: Is given the value.
  @preconcurrency
  public func fetch(
    _ key: Key, queue: DispatchQueue = .main, fallback: @escaping @Sendable () -> Value,
    completion: @escaping @Sendable (Value) -> Void
  ) {
    if let value = tier.validValue(key) { return queue.async { completion(value) } }
    deliver(on: queue, fallback, completion, report) { [self] compute in
      try await value(forKey: key, compute)
    }
  }

  /// The value of a key, given to `completion`; `nil` when there is none.
  ///
  /// The call returns at once. The store is read on a thread of Dispatch's global queue; `completion`
  /// runs on `queue`, exactly once, whether the value was in memory or not. The default is the main
  /// queue, which the program must serve. What has expired is not given.
  @preconcurrency
  public func fetch(
    _ key: Key, queue: DispatchQueue = .main,
    completion: @escaping @Sendable (Value?) -> Void
  ) {
    if let value = tier.validValue(key) { return queue.async { completion(value) } }
    DispatchQueue.global().async { [self] in
      let value = self[key]
      queue.async { completion(value) }
    }
  }
}

/// Calls `completion` on a queue with what a cache gives; if it fails, with what `fallback` makes.
///
/// A task and not a detached one: a computation that asks for its own key is recognised by it.
func deliver<Value: Sendable>(
  on queue: DispatchQueue, _ fallback: @escaping @Sendable () -> Value,
  _ completion: @escaping @Sendable (Value) -> Void,
  _ report: @escaping @Sendable (any Error) -> Void,
  from cache:
    @escaping @Sendable (_ compute: @escaping @Sendable () async -> Value) async throws -> Value
) {
  Task {
    do {
      let value = try await cache {
        await withCheckedContinuation { continuation in
          queue.async { continuation.resume(returning: fallback()) }
        }
      }
      queue.async { completion(value) }
    } catch {
      report(error)
      queue.async { completion(fallback()) }
    }
  }
}
