// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The `onError` and `onEvent` calls, deferred until no engine lock is held.
///
/// A callback may open, use and close stores. So the commit leader makes no calls, and none are
/// made while the store is being opened, closed, or switched to another generation: they are
/// deferred until then.
final class DeferredCallbacks: Sendable {
  enum Notice: Sendable {
    case error(any Error)
    case event(StoreEvent)
  }

  private struct State {
    var held: [Notice] = []
    var holders = 0
  }

  private let state = Mutex(State())
  private let isAnyHeld = Atomic<Bool>(false)
  private let onError: (@Sendable (any Error) -> Void)?
  private let onEvent: (@Sendable (StoreEvent) -> Void)?

  init(_ options: StoreOptions) {
    onError = options.onError
    onEvent = options.onEvent
  }

  /// Returns options for the parts that use only options: their events are sent here.
  func adopting(_ options: StoreOptions) -> StoreOptions {
    var options = options
    if onEvent != nil { options.onEvent = { self.send(.event($0)) } }
    return options
  }

  /// Whether deferred calls are pending.
  var areHeld: Bool { isAnyHeld.load(ordering: .acquiring) }

  /// Makes the call at once, or defers it.
  func send(_ notice: Notice, mustWait: Bool = false) {
    // A forked child must not use locks of the parent.
    if ForkGuard.isForkedChild { return call(notice) }
    let isHeld = state.withLock { state in
      guard mustWait || state.holders > 0 else { return false }
      state.held.append(notice)
      isAnyHeld.store(true, ordering: .releasing)
      return true
    }
    if !isHeld { call(notice) }
  }

  /// Defers all calls until ``endHold()`` has been called as often as this method.
  func hold() { state.withLock { $0.holders += 1 } }
  func endHold() { state.withLock { $0.holders -= 1 } }

  /// Makes the deferred calls. The caller holds no lock and is not the commit leader.
  func deliver() {
    guard areHeld else { return }
    let held: [Notice] = state.withLock { state in
      guard state.holders == 0 else { return [] }
      defer { state.held = [] }
      isAnyHeld.store(false, ordering: .releasing)
      return state.held
    }
    for notice in held { call(notice) }
  }

  private func call(_ notice: Notice) {
    switch notice {
    case .error(let error): onError?(error)
    case .event(let event): onEvent?(event)
    }
  }
}

extension StoreCore {
  /// Whether this thread is the commit leader.
  private var isLeading: Bool { leader.load(ordering: .relaxed) == OSThread.token }

  /// Reports an error for which no caller waits.
  package func report(_ error: any Error) { notices.send(.error(error), mustWait: isLeading) }

  /// Reports an event to `onEvent`.
  package func notify(_ event: StoreEvent) { notices.send(.event(event), mustWait: isLeading) }

  /// Makes the deferred calls, unless this thread is still the commit leader.
  func deliverNotices() {
    if notices.areHeld, !isLeading { notices.deliver() }
  }
}
