// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

#if canImport(Combine)
  public import Combine
#else
  public import OpenCombine
#endif

// FROM A SEQUENCE TO A PUBLISHER
//
// A subscription is a task that asks its sequence for the next state only while its subscriber wants
// one. So nothing is ever buffered: a subscriber that comes back late is given the newest state, once.
// Cancelling cancels the task, which takes the observer out of the store's list.

/// Publishes what an asynchronous sequence gives, as fast as subscribers ask for it.
///
/// Each subscriber has a sequence of its own. Values come on a thread of Swift's pool: use
/// `receive(on:)` to have them elsewhere.
public struct SequencePublisher<Output: Sendable, Failure: Error>: Publisher {
  private let start: @Sendable () -> (() async throws -> Output?)
  private let failure: @Sendable (any Error) -> Failure?

  /// - Parameter failure: What subscribers are told of an error; `nil`: that it is over.
  init<Values: AsyncSequence & Sendable>(
    _ values: Values, failure: @escaping @Sendable (any Error) -> Failure?
  ) where Values.Element == Output {
    start = {
      var iterator = values.makeAsyncIterator()
      return { try await iterator.next() }
    }
    self.failure = failure
  }

  /// Begins a subscription.
  public func receive<S: Subscriber>(subscriber: S)
  where S.Input == Output, S.Failure == Failure {
    let subscription = SequenceSubscription(subscriber, failure)
    subscriber.receive(subscription: subscription)
    subscription.run(start)
  }
}

/// One subscriber of a sequence.
private final class SequenceSubscription<S: Subscriber>: Subscription, Sendable
where S.Input: Sendable {
  /// A subscriber is called by one thread at a time: by the subscription's task.
  // Sound: that is what the protocol asks of publishers, and all that is done with it.
  private struct Receiver: @unchecked Sendable {
    let subscriber: S
  }

  private struct State {
    var receiver: Receiver?
    var demand = Subscribers.Demand.none
    var waiting: CheckedContinuation<Void, Never>?
    var task: Task<Void, Never>?
    var isCancelled = false
  }

  private let state: Mutex<State>
  private let failure: @Sendable (any Error) -> S.Failure?

  init(_ subscriber: S, _ failure: @escaping @Sendable (any Error) -> S.Failure?) {
    state = Mutex(State(receiver: Receiver(subscriber: subscriber)))
    self.failure = failure
  }

  /// Starts the task that serves the subscriber until it has enough.
  func run(_ start: @escaping @Sendable () -> (() async throws -> S.Input?)) {
    state.withLock { state in
      guard !state.isCancelled else { return }
      state.task = Task { await serve(start()) }
    }
  }

  private func serve(_ next: () async throws -> S.Input?) async {
    do {
      while true {
        await demand()
        guard let value = try await next(), take() else { break }
        guard let receiver = state.withLock({ $0.receiver }) else { return }
        add(receiver.subscriber.receive(value))
      }
      finish(nil)
    } catch {
      finish(error)
    }
  }

  /// Returns when the subscriber wants a value, or nothing any more.
  private func demand() async {
    await withCheckedContinuation { continuation in
      let goesOn = state.withLock { state in
        if state.isCancelled || state.demand > .none { return true }
        state.waiting = continuation
        return false
      }
      if goesOn { continuation.resume() }
    }
  }

  private func take() -> Bool {
    state.withLock { state in
      guard !state.isCancelled else { return false }
      state.demand -= 1
      return true
    }
  }

  private func add(_ demand: Subscribers.Demand) {
    let waiting = state.withLock { state in
      state.demand += demand
      defer { if state.demand > .none { state.waiting = nil } }
      return state.demand > .none ? state.waiting : nil
    }
    waiting?.resume()
  }

  private func finish(_ error: (any Error)?) {
    let receiver = state.withLock { state in
      defer { state.receiver = nil }
      return state.isCancelled ? nil : state.receiver
    }
    let failure = error.flatMap(failure)
    receiver?.subscriber.receive(completion: failure.map { .failure($0) } ?? .finished)
  }

  // MARK: Subscription

  func request(_ demand: Subscribers.Demand) { add(demand) }

  func cancel() {
    let (task, waiting) = state.withLock { state in
      state.isCancelled = true
      state.receiver = nil
      defer { state.waiting = nil }
      return (state.task, state.waiting)
    }
    task?.cancel()
    waiting?.resume()
  }
}
