// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Dispatch

extension PersistentCache {
  /// Returns the value of a key. If there is none, stores and returns the result of `fallback`.
  ///
  /// ```swift
  /// let score = cache.fetch("ada") { [3, 1, 4] }
  /// ```
  ///
  /// The calling thread does all the work. Threads and processes that miss at the same time each call
  /// their `fallback`; the asynchronous ``value(forKey:expires:refresh:tags:_:)`` computes once per
  /// machine.
  ///
  /// - Throws: Any error that `fallback` throws. The store's `onError` receives errors of the cache.
  public func fetch(_ key: Key, fallback: () throws -> Value) rethrows -> Value {
    if let value = self[key] { return value }
    let value = try fallback()
    self[key] = value
    return value
  }

  /// Passes the value of a key to `completion`. If there is none, stores and passes the result of
  /// `fallback`.
  ///
  /// The call returns at once. `completion` runs exactly once; on a serial queue it runs after the call
  /// has returned, also on a memory hit.
  ///
  /// An expired value counts as missing. One caller on the machine computes, as in
  /// ``value(forKey:expires:refresh:tags:_:)``. If the cache itself fails (the store is closed, a disk is
  /// full), the store's `onError` receives the error, and `completion` the result of `fallback`.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - queue: The queue on which both closures run. They may use the cache. The default is the main
  ///     queue: a program without a main run loop must pass another, or call `dispatchMain()`.
  ///   - fallback: A closure that computes the value if there is none.
  ///   - completion: A closure that receives the value.
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

  /// Passes the value of a key to `completion`, or `nil` if it has none or has expired.
  ///
  /// The call returns at once. A thread of Dispatch's global queue reads the store. `completion` runs on
  /// `queue`, exactly once, also on a memory hit. The default is the main queue, which the program must
  /// serve.
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

/// Calls `completion` on a queue with the value of a cache, or if the cache fails with the result of
/// `fallback`.
///
/// The task is not detached: a computation that requests its own key is detected by the task.
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
