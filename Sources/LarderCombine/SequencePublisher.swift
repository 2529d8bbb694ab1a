// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Combine || canImport(Combine)
internal import Synchronization

#if canImport(Combine)
internal import Combine
#else
internal import OpenCombine
#endif

// FROM A SEQUENCE TO A PUBLISHER
//
// A subscription is a task that awaits the next state of its sequence only while its subscriber has
// demand. So nothing is buffered: a subscriber that had no demand for a time receives the newest
// state, once. Cancelling the subscription cancels the task, which removes the observer from the
// store's list.

/// A publisher of an asynchronous sequence, driven by the demand of its subscribers.
///
/// Each subscriber has a separate iterator.
struct SequencePublisher<Values: AsyncSequence & Sendable, Failure: Error>: Publisher
where Values.Element: Sendable, Values.AsyncIterator: SendableMetatype {
  typealias Output = Values.Element

  let values: Values
  /// Maps an error to the failure of the publisher, or to `nil` to finish normally.
  let failure: @Sendable (any Error) -> Failure?

  func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
    let subscription = SequenceSubscription(
      values, Receiver(receive: subscriber.receive, complete: subscriber.receive), failure)
    subscriber.receive(subscription: subscription)
    subscription.run()
  }
}

/// A type-erased subscriber.
// @unchecked Sendable: only the task of its subscription calls it, one call after the other.
private struct Receiver<Input, Failure: Error>: @unchecked Sendable {
  let receive: (Input) -> Subscribers.Demand
  let complete: (Subscribers.Completion<Failure>) -> Void
}

/// One subscription to a sequence.
private final class SequenceSubscription<Values: AsyncSequence & Sendable, Failure: Error>:
  Subscription, Sendable
where Values.Element: Sendable, Values.AsyncIterator: SendableMetatype {
  private struct State {
    var receiver: Receiver<Values.Element, Failure>?
    var demand = Subscribers.Demand.none
    var waiting: CheckedContinuation<Void, Never>?
    var task: Task<Void, Never>?
    var isCancelled = false
  }

  private let state: Mutex<State>
  private let values: Values
  private let failure: @Sendable (any Error) -> Failure?

  init(
    _ values: Values, _ receiver: Receiver<Values.Element, Failure>,
    _ failure: @escaping @Sendable (any Error) -> Failure?
  ) {
    self.values = values
    self.failure = failure
    state = Mutex(State(receiver: receiver))
  }

  /// Starts the task that serves the subscriber until it cancels or the sequence ends.
  func run() {
    state.withLock { state in
      guard !state.isCancelled else { return }
      state.task = Task { await serve() }
    }
  }

  private func serve() async {
    var iterator = values.makeAsyncIterator()
    do {
      while true {
        await demand()
        guard let value = try await iterator.next(isolation: #isolation), take() else { break }
        guard let receiver = state.withLock({ $0.receiver }) else { return }
        add(receiver.receive(value))
      }
      finish(nil)
    } catch {
      finish(error)
    }
  }

  /// Waits until the subscriber has demand or has cancelled.
  private func demand() async {
    await withCheckedContinuation { continuation in
      let isReady = state.withLock { state in
        if state.isCancelled || state.demand > .none { return true }
        state.waiting = continuation
        return false
      }
      if isReady { continuation.resume() }
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
    receiver?.complete(failure.map { .failure($0) } ?? .finished)
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
#endif
