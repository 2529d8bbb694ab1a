// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

#if canImport(Combine)
  internal import Combine
#else
  internal import OpenCombine
#endif

// FROM A SEQUENCE TO A PUBLISHER
//
// A subscription is a task that asks its sequence for the next state only while its subscriber wants
// one. So nothing is ever buffered: a subscriber that comes back late is given the newest state, once.
// Cancelling cancels the task, which takes the observer out of the store's list.

/// Publishes what an asynchronous sequence gives, as fast as subscribers ask for it.
///
/// Each subscriber has an iterator of its own.
struct SequencePublisher<Values: AsyncSequence & Sendable, Failure: Error>: Publisher
where Values.Element: Sendable, Values.AsyncIterator: SendableMetatype {
  typealias Output = Values.Element

  let values: Values
  /// What subscribers are told of an error; `nil`: that it is over.
  let failure: @Sendable (any Error) -> Failure?

  func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
    let subscription = SequenceSubscription(
      values, Receiver(receive: subscriber.receive, complete: subscriber.receive), failure)
    subscriber.receive(subscription: subscription)
    subscription.run()
  }
}

/// A subscriber, without its type.
// Sound: it is called by its subscription's task alone, one call after the other.
private struct Receiver<Input, Failure: Error>: @unchecked Sendable {
  let receive: (Input) -> Subscribers.Demand
  let complete: (Subscribers.Completion<Failure>) -> Void
}

/// One subscriber of a sequence.
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

  /// Starts the task that serves the subscriber until it has enough.
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
