// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
public import LarderEngine
internal import Synchronization

// COMPUTING SEVERAL KEYS TOGETHER
//
// Each missing key has a flight, as for a single value: it needs the lease of the key, and other callers
// join it. The body of such a flight does not compute. It reports that its key is to be computed, and
// waits. When every key of the batch is to be computed, is computed by another task or process, or is
// done, one task calls the closure with the keys to be computed, and the bodies get its results. A key
// whose other process was killed comes later, and is computed alone.
//
// The task counts as the first of these flights, and the others as waiting for it. So a closure that
// requests a key of its batch is detected.

/// The computation of the missing keys of one call.
final class BatchComputation<Key: CacheKey, Value: Sendable>: Sendable {
  private struct Waiter {
    let key: Key
    let node: FlightNode?
    let continuation: CheckedContinuation<Value?, any Error>
  }

  private struct State {
    /// The keys of which it is not known yet whether they are to be computed.
    var undecided: Set<Int>
    var waiters: [Int: Waiter] = [:]
    /// The keys whose bodies were cancelled before they waited.
    var cancelled: Set<Int> = []
    /// The keys that a task computes, by the number of the task.
    var computing: [Int: (task: Task<Void, Never>?, left: Set<Int>)] = [:]
    var lastTask = 0
  }

  private let state: Mutex<State>
  private let compute: @Sendable ([Key]) async throws -> [Key: Value]

  init(count: Int, _ compute: @escaping @Sendable ([Key]) async throws -> [Key: Value]) {
    state = Mutex(State(undecided: Set(0..<count)))
    self.compute = compute
  }

  /// Notes that a key is not to be computed by this batch, at least for now.
  func skip(_ index: Int) {
    state.withLock { _ = $0.undecided.remove(index) }
    startIfDecided()
  }

  /// Returns the value of a key that is to be computed, or `nil` if the closure returns none.
  func value(of key: Key, _ index: Int) async throws -> Value? {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isCancelled = state.withLock { state in
          state.undecided.remove(index)
          if state.cancelled.remove(index) != nil { return true }
          state.waiters[index] = Waiter(
            key: key, node: SingleFlightGroup.current, continuation: continuation)
          return false
        }
        if isCancelled { continuation.resume(throwing: CancellationError()) }
        startIfDecided()
      }
    } onCancel: {
      cancel(index)
    }
  }

  private func cancel(_ index: Int) {
    let (waiter, task) = state.withLock { state -> (Waiter?, Task<Void, Never>?) in
      guard let waiter = state.waiters.removeValue(forKey: index) else {
        state.cancelled.insert(index)
        return (nil, nil)
      }
      for number in state.computing.keys {
        state.computing[number]!.left.remove(index)
        if state.computing[number]!.left.isEmpty {
          return (waiter, state.computing.removeValue(forKey: number)?.task)
        }
      }
      return (waiter, nil)
    }
    waiter?.continuation.resume(throwing: CancellationError())
    task?.cancel()
  }

  /// Computes the keys that wait, once every key is decided.
  private func startIfDecided() {
    let wanted = state.withLock { state -> (number: Int, waiters: [(Int, Waiter)])? in
      guard state.undecided.isEmpty else { return nil }
      let busy = state.computing.values.reduce(into: Set<Int>()) { $0.formUnion($1.left) }
      let waiters = state.waiters.filter { !busy.contains($0.key) }.sorted { $0.key < $1.key }
      guard !waiters.isEmpty else { return nil }
      state.lastTask += 1
      state.computing[state.lastTask] = (nil, Set(waiters.map(\.key)))
      return (state.lastTask, waiters.map { ($0.key, $0.value) })
    }
    guard let (number, waiters) = wanted else { return }
    let first = waiters[0].1.node
    let others = waiters.dropFirst().compactMap(\.1.node)
    if let first { for node in others { _ = FlightNode.connect(node, to: first) } }
    let task = SingleFlightGroup.$current.withValue(first) {
      Task { [self] in
        let result: Result<[Key: Value], any Error>
        do {
          result = .success(try await compute(waiters.map(\.1.key)))
        } catch {
          result = .failure(error)
        }
        if let first { for node in others { FlightNode.disconnect(node, from: first) } }
        deliver(result, number, waiters.map(\.0))
      }
    }
    let isOver = state.withLock { state in
      state.computing[number]?.task = task
      return state.computing[number] == nil
    }
    // Delivered already, or all keys were cancelled.
    if isOver { task.cancel() }
  }

  private func deliver(
    _ result: Result<[Key: Value], any Error>, _ number: Int, _ indices: [Int]
  ) {
    let waiters = state.withLock { state in
      state.computing[number] = nil
      return indices.compactMap { state.waiters.removeValue(forKey: $0) }
    }
    for waiter in waiters {
      waiter.continuation.resume(with: result.map { $0[waiter.key] })
    }
  }
}

extension PersistentCache {
  /// Returns the values of several keys. The missing ones are computed together, each by one caller on
  /// the machine.
  ///
  /// ```swift
  /// let users = try await cache.values(forKeys: ids, expires: .after(.seconds(60))) { missing in
  ///   try await database.users(missing)
  /// }
  /// ```
  ///
  /// `compute` is called once with the keys that neither have a value nor are computed by other tasks or
  /// processes. The call waits for those. If another process is killed while it computes keys, `compute`
  /// is called with each of them. Otherwise a key behaves as in
  /// ``value(forKey:expires:refresh:tags:_:)``; the results of `compute` are stored separately.
  ///
  /// - Parameters:
  ///   - keys: The keys.
  ///   - expires: The expiration of the computed values.
  ///   - tags: The tags of the computed values.
  ///   - compute: A closure that computes the values of keys. A key without a value in its result is not
  ///     stored. It must not request any of `keys`.
  /// - Returns: The values of the keys that have one.
  /// - Throws: Any error that `compute` throws, and those of
  ///   ``value(forKey:expires:refresh:tags:_:)``. Values that were computed or stored before are kept.
  public func values(
    forKeys keys: some Sequence<Key>, expires: Expiration = .never, tags: [String] = [],
    _ compute: @escaping @Sendable (_ missing: [Key]) async throws -> [Key: Value]
  ) async throws -> [Key: Value] {
    let attributes = EntryAttributes(expires, tags: tags)
    try attributes.validate()
    var values: [Key: Value] = [:]
    var unknown: Set<Key> = []
    for key in try distinct(keys) where values[key] == nil {
      if let value = tier.validValue(key) { values[key] = value } else { unknown.insert(key) }
    }
    if !unknown.isEmpty { values.merge(try await readable(unknown)) { _, new in new } }
    let missing = unknown.filter { values[$0] == nil }
    guard !missing.isEmpty else { return values }

    let batch = BatchComputation(count: missing.count, compute)
    let computed = try await withThrowingTaskGroup(of: (Key, Value?).self) { group in
      for (index, key) in missing.enumerated() {
        let hasComputed = Mutex(false)
        var computation = Computation<Value>(
          tags: tags, acceptsAbsence: false,
          body: { _ in
            hasComputed.withLock { $0 = true }
            let value = try await batch.value(of: key, index)
            return (value, value.map { .value($0, attributes) } ?? .nothing)
          })
        group.addTask {
          defer { batch.skip(index) }
          while true {
            let value = try await self.flight(of: key, computation) { batch.skip(index) }
            if value != nil || hasComputed.withLock({ $0 }) { return (key, value) }
            // The flight was of a caller for which the key may have no value.
            computation.joinsAny = false
          }
        }
      }
      return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
    }
    return values.merging(computed) { $1 }
  }

  /// Reads keys in one snapshot, or one by one if an entry cannot be read or the server is lost: then the
  /// key is computed.
  private func readable(_ keys: Set<Key>) async throws -> [Key: Value] {
    do {
      return try await backend.valuesAsync(for: keys)
    } catch
      where backend.isServerLoss(error)
      || (error as? StoreError)?.code == .unreadableEntry
    {
      return try keys.reduce(into: [:]) { values, key in
        values[key] = try backend.readable(key, KeyRead()).value?.value
      }
    }
  }
}
