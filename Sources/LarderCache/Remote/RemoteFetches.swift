// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

/// A request for one key, whose answer several tasks may share.
final class RemoteFetch: Sendable {
  private typealias Outcome = TimedOutcome<Result<RemoteAnswer, any Error>>

  private struct State {
    var result: Result<RemoteAnswer, any Error>?
    var waiters: [Outcome] = []
  }

  private let fence: RemoteFence
  private let start = ContinuousClock.now
  private let state = Mutex(State())

  init(_ fence: RemoteFence) { self.fence = fence }

  /// Whether the answer is one to a later request as well: the server was asked within a time, and neither
  /// the link nor a process of the host has noted a change of the key since.
  func answers(_ later: RemoteFetch, within limit: Duration) -> Bool {
    guard fence == later.fence, later.start - start < limit else { return false }
    return state.withLock { state in
      if case .failure? = state.result { false } else { true }
    }
  }

  func finish(_ result: Result<RemoteAnswer, any Error>) {
    let waiters = state.withLock { state in
      state.result = result
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.finish(result) }
  }

  /// Waits for the answer, until the caller is cancelled. The time limits of the request end the wait as well.
  func answer() async throws -> RemoteAnswer {
    if let result = state.withLock({ $0.result }) { return try result.get() }
    let own = Mutex<Outcome?>(nil)
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let outcome = Outcome { continuation.resume(with: $0) }
        own.withLock { $0 = outcome }
        let result = state.withLock { state in
          if state.result == nil { state.waiters.append(outcome) }
          return state.result
        }
        if let result { outcome.finish(result) }
        // The cancellation handler may have run before.
        if Task.isCancelled { outcome.finish(.failure(CancellationError())) }
      }
    } onCancel: {
      own.withLock { $0 }?.finish(.failure(CancellationError()))
    }
  }
}

/// The requests of a process that have no answer, or whose answer is not stored yet.
///
/// Of each key it has the request that began last: a task that has read the answer to another one never gets
/// an older answer.
final class RemoteFetches: Sendable {
  private let running = Mutex<[EncodedKey: RemoteFetch]>([:])

  /// Begins a request, unless a running one has the same answer.
  ///
  /// - Returns: The request that has the answer.
  func begin(
    _ key: EncodedKey, _ own: RemoteFetch, joins: Bool, within limit: Duration
  ) -> RemoteFetch {
    running.withLock { running in
      if joins, let other = running[key], other.answers(own, within: limit) { return other }
      running[key] = own
      return own
    }
  }

  func end(_ key: EncodedKey, _ fetch: RemoteFetch) {
    running.withLock { running in if running[key] === fetch { running[key] = nil } }
  }

  /// Lets no request join one that has begun.
  func removeAll() { running.withLock { $0.removeAll(keepingCapacity: true) } }
}
