// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

extension PersistentCache {
  /// The value of a key, computed by one caller of the whole machine if there is none.
  ///
  /// ```swift
  /// let page = try await cache.value(forKey: url, expires: .after(.seconds(60))) {
  ///   try await download(url)
  /// }
  /// ```
  ///
  /// Callers in this process share one task. Among processes the one that computes holds a lock of
  /// the kernel, so when it is killed another takes over at once; the rest wait and get its result.
  /// The result is stored only if nobody wrote or removed the key meanwhile; the callers get it in
  /// any case. Cancelling one caller never cancels the work the others wait for. An error of
  /// `compute` goes to this process's callers and is not stored.
  public func value(
    forKey key: Key, expires: Expiration = .never,
    _ compute: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    if let value = tier.hit(key) { return value }
    if let value = try loadForCompute(key) { return value }
    let encoded = EncodedKey(key)
    let marked = EncodedKey(tag: encoded.tag, bytes: Array(namespace.utf8) + [0] + encoded.bytes)
    guard !FlightTable.computing.contains(marked) else {
      throw StoreError(
        .recursiveComputation, during: "compute",
        "The computation of a key asked for the value of the same key, which waits for it. Compute "
          + "it directly.")
    }
    let task = flights.join(encoded, in: namespace, Value.self) {
      Task {
        defer { self.flights.leave(encoded, in: self.namespace, Value.self) }
        return try await FlightTable.$computing.withValue(
          FlightTable.computing.union([marked])
        ) {
          try await self.compute(key, encoded, expires, compute)
        }
      }
    }
    return try await task.value
  }

  /// An entry that cannot be read is computed anew and replaced.
  private func loadForCompute(_ key: Key) throws -> Value? {
    do {
      return try loadValue(key)
    } catch let error as StoreError where error.code == .unreadableEntry {
      report(error)
      return nil
    }
  }

  private func compute(
    _ key: Key, _ encoded: EncodedKey, _ expires: Expiration,
    _ compute: @Sendable () async throws -> Value
  ) async throws -> Value {
    guard let (core, space) = try engine("compute") else {
      if let value = try loadForCompute(key) { return value }
      let mark = memoryWrites.begin(key)
      let value = try await compute()
      // A write or removal during the computation is newer than its result.
      if foreign == nil {
        _ = fileLocal(value, key, expires) { mark.isCurrent }
      } else if mark.isCurrent {
        self[item: key] = Item(
          value, expiration: Self.date(expires.deadline(now: systemMilliseconds())))
      }
      return value
    }
    while true {
      if let leadership = try await core.tryLead(encoded, in: space) {
        defer { core.endLeading(leadership) }
        // Whoever computed it before us has committed by now.
        if let value = try loadForCompute(key) { return value }
        let value = try await core.timed(.computation, compute)
        core.countComputation()
        try await fill(value, key, encoded, expires, leadership, core, space)
        return value
      }
      await core.waitForNews()
      if let value = try loadForCompute(key) { return value }
    }
  }

  private func fill(
    _ value: Value, _ key: Key, _ encoded: EncodedKey, _ expires: Expiration,
    _ leadership: Leadership, _ core: StoreCore, _ space: Space
  ) async throws {
    do {
      let content = try content(value, encoded, expires, core)
      _ = try await core.submitAsync(
        .fill(content, leadership.permit), space: space, key: encoded)
    } catch {
      // The value is right even if it cannot be kept.
      report(error)
    }
  }
}
