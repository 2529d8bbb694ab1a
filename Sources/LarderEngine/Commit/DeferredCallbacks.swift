// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// What a program is told, or is to be told as soon as it may answer.
///
/// Who is called back may open, use and close stores. So nobody is called by the thread that has the
/// writer's role, nor while the store is being opened, moved or closed: it is held back until then.
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

  /// Options for the parts that only know options: their events come here.
  func adopting(_ options: StoreOptions) -> StoreOptions {
    var options = options
    if onEvent != nil { options.onEvent = { self.send(.event($0)) } }
    return options
  }

  /// Whether somebody has to be told still.
  var areHeld: Bool { isAnyHeld.load(ordering: .acquiring) }

  /// Tells it, at once unless it has to wait.
  func send(_ notice: Notice, mustWait: Bool = false) {
    // No lock of the parent is of use in a forked child.
    if ForkGuard.isForkedChild { return tell(notice) }
    let isHeld = state.withLock { state in
      guard mustWait || state.holders > 0 else { return false }
      state.held.append(notice)
      isAnyHeld.store(true, ordering: .releasing)
      return true
    }
    if !isHeld { tell(notice) }
  }

  /// From here on everything waits, until as many calls of ``endHold()``.
  func hold() { state.withLock { $0.holders += 1 } }
  func endHold() { state.withLock { $0.holders -= 1 } }

  /// Tells what has waited. Called with no lock and without the writer's role.
  func deliver() {
    guard areHeld else { return }
    let held: [Notice] = state.withLock { state in
      guard state.holders == 0 else { return [] }
      defer { state.held = [] }
      isAnyHeld.store(false, ordering: .releasing)
      return state.held
    }
    for notice in held { tell(notice) }
  }

  private func tell(_ notice: Notice) {
    switch notice {
    case .error(let error): onError?(error)
    case .event(let event): onEvent?(event)
    }
  }
}

extension StoreCore {
  /// Whether this thread has the writer's role.
  private var isLeading: Bool { leader.load(ordering: .relaxed) == OSThread.token }

  /// An error that has no caller to go to.
  package func report(_ error: any Error) { notices.send(.error(error), mustWait: isLeading) }

  package func notify(_ event: StoreEvent) { notices.send(.event(event), mustWait: isLeading) }

  /// Tells what has waited, unless this thread still has to finish something.
  func deliverNotices() {
    if notices.areHeld, !isLeading { notices.deliver() }
  }
}
