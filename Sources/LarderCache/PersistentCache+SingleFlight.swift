// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
public import LarderEngine
internal import Synchronization

extension PersistentCache {
  /// Returns the value of a key. If there is none, one caller on the machine computes it.
  ///
  /// ```swift
  /// let page = try await cache.value(forKey: url, expires: .after(.seconds(60))) {
  ///   try await download(url)
  /// }
  /// ```
  ///
  /// Callers in this process share one task. Among processes, the computing process holds a kernel
  /// lock: if it is killed, another process computes at once; the others wait for its result. A
  /// computation begins after the pending writes of its process to the key. Its result is stored only
  /// if no process wrote or removed the key since it began; the callers get it in any case. All
  /// processes read a stored result from then on.
  ///
  /// The callers wait at most 250 ms for the result to be stored, and about 10 ms if another process
  /// stays in one write, or is stopped in it, for that long. Then they get the value, storing
  /// continues, and the store's `onError` receives an error of storing. An error of `compute` is thrown
  /// to this process's callers and is not stored.
  ///
  /// A caller that waits stops waiting when it is cancelled, and if another task or process computes,
  /// after ``CacheOptions/computeTimeout``. The computation continues for the other callers of its
  /// process; when the last of them has left, its task is cancelled.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - expires: The expiration of a computed value.
  ///   - refresh: When the value is computed again in the background, and how long an expired value is
  ///     returned meanwhile. A value that was stored without a refresh is not kept after its expiration.
  ///   - tags: The tags of a computed value. If one of them is removed during the computation, the value
  ///     is not stored.
  ///   - compute: A closure that computes the value. It may request other keys, but not `key`.
  /// - Returns: The stored value, or the computed one.
  /// - Throws: Any error that `compute` throws; `CancellationError`; ``/LarderEngine/StoreError``, with
  ///   ``/LarderEngine/StoreError/Code/computationStalled`` after a time limit, and
  ///   ``/LarderEngine/StoreError/Code/recursiveComputation`` inside a computation that `key` waits
  ///   for. Both name the key and the process;
  ///   ``/LarderEngine/StoreError/Code/invalidOption`` for a lifetime of zero or less, and a refresh with
  ///   negative durations. A cycle over several processes, or through detached tasks, ends with the time
  ///   limit.
  public func value(
    forKey key: Key, expires: Expiration = .never, refresh: Refresh = .never, tags: [String] = [],
    _ compute: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    let attributes = EntryAttributes(expires, tags: tags)
    // Before the look-up, so that a wrong lifetime is an error of every call and not only of a miss.
    try attributes.validate()
    try refresh.validate(expires)
    if refresh.early == 0, let value = tier.validValue(key) { return value }
    var computation = Computation<Value>(
      tags: tags, refresh: refresh, mayBeNil: false, acceptsAbsence: false,
      body: { _ in
        let value = try await compute()
        return (value, .value(value, attributes))
      })
    while true {
      if let value = try await result(computation, forKey: key) { return value }
      // The flight was of a caller for which the key may have no value.
      computation.joinsAny = false
    }
  }

  /// Returns the value of a key, or `nil` if the key is known to have none. If nothing is known, one
  /// caller on the machine finds out.
  ///
  /// ```swift
  /// let user = try await users.value(forKey: 7, absentFor: .seconds(30)) {
  ///   try await database.user(7)   // nil: there is no such user
  /// }
  /// ```
  ///
  /// A result of `nil` is stored as a negative entry: until it expires, no process computes the key
  /// again. Otherwise this is ``value(forKey:expires:refresh:tags:_:)``.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - expires: The expiration of a computed value.
  ///   - lifetime: The time for which a result of `nil` is kept.
  ///   - refresh: When the value is computed again in the background.
  ///   - tags: The tags of a computed value, and of a negative entry.
  ///   - compute: A closure that computes the value, or returns `nil` if there is none.
  /// - Returns: The stored value, or the computed one, or `nil`.
  /// - Throws: Any error that `compute` throws, and those of
  ///   ``value(forKey:expires:refresh:tags:_:)``.
  public func value(
    forKey key: Key, expires: Expiration = .never, absentFor lifetime: Duration,
    refresh: Refresh = .never, tags: [String] = [],
    _ compute: @escaping @Sendable () async throws -> Value?
  ) async throws -> Value? {
    let attributes = EntryAttributes(expires, tags: tags)
    let absent = EntryAttributes(.after(lifetime), tags: tags, isAbsent: true)
    try attributes.validate()
    try absent.validate()
    try refresh.validate(expires)
    if refresh.early == 0, let value = tier.validValue(key) { return value }
    return try await result(
      Computation(
        tags: tags, refresh: refresh,
        body: { _ in
          let value = try await compute()
          return (value, value.map { .value($0, attributes) } ?? .absent(absent))
        }), forKey: key)
  }

  /// Returns the value of a key, or `nil` if the key is known to have none. If nothing is known, one
  /// caller on the machine computes it, and decides how long the result is valid.
  ///
  /// ```swift
  /// let page = try await pages.computedValue(forKey: url, refresh: Refresh(keptFor: .seconds(86_400))) {
  ///   old in
  ///   let answer = try await client.get(url, etag: old?.etag)
  ///   switch answer.status {
  ///   case 304: return .unchanged(expires: .after(answer.maxAge))
  ///   case 404: return .absent(for: .seconds(10))
  ///   default: return Computed(Page(answer), expires: .after(answer.maxAge), tags: [url.host])
  ///   }
  /// }
  /// ```
  ///
  /// Otherwise this is ``value(forKey:expires:refresh:tags:_:)``. A result that is not stored because of
  /// a wrong lifetime or tag is an error of the call.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - refresh: When the value is computed again in the background, and how long an expired value is
  ///     kept for `compute`.
  ///   - compute: A closure that computes the result. It is passed the value of the key that has expired
  ///     or is to be replaced, or `nil` if there is none any more.
  /// - Returns: The stored value, or the computed one, or `nil`.
  /// - Throws: Any error that `compute` throws, and those of
  ///   ``value(forKey:expires:refresh:tags:_:)``;
  ///   ``/LarderEngine/StoreError/Code/invalidOption`` for a result
  ///   ``Computed/unchanged(expires:)`` without an old value.
  public func computedValue(
    forKey key: Key, refresh: Refresh = .never,
    _ compute: @escaping @Sendable (Value?) async throws -> Computed<Value>
  ) async throws -> Value? {
    try refresh.validate()
    if refresh.early == 0, let value = tier.validValue(key) { return value }
    return try await result(
      Computation(
        refresh: refresh, usesOldValue: true,
        body: { old in
          let computed = try await compute(old)
          try computed.attributes.validate()
          try refresh.validate(computed.attributes.expiration)
          switch computed.kind {
          case .value(let value): return (value, .value(value, computed.attributes))
          case .absent: return (nil, .absent(computed.attributes))
          case .unchanged:
            guard let old else { throw StoreError.unchangedNothing }
            return (old, .unchanged(computed.attributes))
          }
        }), forKey: key)
  }

  /// Changes a value in a transaction among all processes. The cache must have a ``storage``.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - body: A closure that runs under the store's writer lock. It receives a closure that reads the
  ///     item, and returns the item to store, or `nil` to remove the key.
  /// - Returns: The item that `body` returned.
  package func change(
    _ key: Key,
    _ body: @escaping @Sendable (_ read: () throws -> Item<Value>?) throws -> Item<Value>?
  ) throws -> Item<Value>? {
    let result = Mutex<Item<Value>?>(nil)
    let now: @Sendable () -> Int64 = { [tier] in tier.now }
    _ = try backend.change(
      KeyChange(operation: "update") { read in
        var old: (value: Value, expires: Int64)?
        let item = try body {
          old = try read()
          return old.map { Item($0.value, millisecondsSince1970: $0.expires) }
        }
        result.withLock { $0 = item }
        guard let item else { return .removed }
        let isKept = try old.map { try item.expires.deadline(now: now()) == $0.expires } ?? false
        return .stored(item.value, isKept ? nil : item.expires)
      }, key)
    return result.withLock { $0 }
  }

  /// Reads a key to store a value later, only if the key has none and is not written or removed until
  /// then: by any process, or without a store by any caller of this process.
  ///
  /// - Returns: A closure that stores a value, and returns whether it did.
  package func beginConditionalFill(
    _ key: Key
  ) throws -> @Sendable (_ value: Value, _ expires: Expiration) throws -> Bool {
    try backend.beginConditionalFill(key)
  }

  /// The identity of the cache's data: equal for caches that must order their writes among each other.
  package var dataIdentity: ObjectIdentifier { backend.identity }
}
