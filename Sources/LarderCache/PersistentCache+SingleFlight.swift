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
  /// The result is stored only if no process wrote or removed the key since the computation began,
  /// which it does after the writes of this process to the key that wait; the callers get it in any
  /// case. A value that was stored is read by every process from then on. The callers wait for that at
  /// most 250 ms, and about 10 ms when another process is inside one write for so long, or stopped in
  /// it: they get the value, storing it goes on, and an error of storing goes to the store's `onError`.
  /// An error of `compute` goes to this process's callers and is not stored.
  ///
  /// A caller that waits for the computation of another task or process stops waiting when it is
  /// cancelled, and after ``CacheOptions/computeTimeout``. Neither ends the work the others wait for.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - expires: When a computed value expires.
  ///   - compute: Makes the value. It may ask for other keys, but not for its own.
  /// - Returns: The stored value, or the computed one.
  /// - Throws: What `compute` throws; `CancellationError`; ``LarderEngine/StoreError``, with
  ///   ``/LarderEngine/StoreError/Code/computationStalled`` when the time is up, and
  ///   ``/LarderEngine/StoreError/Code/recursiveComputation`` inside of a computation that `key` waits
  ///   for. Both name the key and the process. A circle over several processes, or through detached
  ///   tasks, ends with the time limit.
  public func value(
    forKey key: Key, expires: Expiration = .never,
    _ compute: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    if let value = tier.validValue(key) { return value }
    if let value = try loadForCompute(key) { return value }
    let encoded = EncodedKey(key)
    let call = SingleFlightGroup.Call<Value>(
      encoded, in: namespace, timeout: options.computeTimeout,
      text: { [namespace] in
        "key \(String(describing: key).prefix(200))"
          + (namespace.isEmpty ? "" : " of namespace \(namespace)")
      })
    return try await flights.value(call) { [self] flight in
      try await self.compute(key, encoded, expires, flight, compute)
    }
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
    _ key: Key, _ encoded: EncodedKey, _ expires: Expiration, _ flight: Flight<Value>,
    _ compute: @Sendable () async throws -> Value
  ) async throws -> Value {
    guard let (core, space) = try engine("compute") else {
      if let value = try loadForCompute(key) { return value }
      let mark = memoryWrites.begin(key)
      flight.beginComputing()
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
      // What this process removed before is older than what is computed now.
      await core.settle(encoded, in: space)
      if let leadership = try await core.acquireComputationLease(encoded, in: space) {
        defer { core.release(leadership) }
        // Whoever computed it before us has committed by now.
        if let value = try loadForCompute(key) { return value }
        flight.beginComputing()
        let value = try await core.recordingTimings(.computation, compute)
        core.countComputation()
        do {
          try await core.fill(
            try content(value, encoded, expires, core), leadership, encoded, in: space
          ) {
            flight.deliver(value) { leadership.isUndisturbed }
          }
        } catch {
          // The value is right even if it cannot be kept.
          report(error)
        }
        return value
      }
      flight.note(holder: core.computingProcess(encoded, in: space))
      await core.waitForNextCommit()
      try flights.checkInterest(in: flight, of: encoded, in: namespace)
      if let value = try loadForCompute(key) { return value }
    }
  }
}
