// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// A property whose changes can be observed by key path, on every platform.
///
/// ```swift
/// final class Player: PropertyWatchable {
///   @Watched var volume = 0.5
///   var isMuted: Bool { volume == 0 }
/// }
///
/// let player = Player()
/// player.watch(\.isMuted) { player, change in print(change.newValue ?? false) }
/// player.volume = 0                    // prints true before it returns
/// ```
///
/// A read and a write are each atomic, on any thread; `property += 1` is a read followed by a write.
/// A write runs the handlers on the writing thread before it returns, outside all locks, also if the
/// new value equals the old one.
@propertyWrapper
public struct Watched<Value> {
  private let box: WatchedBox<Value>

  /// Creates a property with an initial value.
  public init(wrappedValue: Value) { box = WatchedBox(wrappedValue) }

  /// The value.
  public var wrappedValue: Value {
    get { box.value }
    nonmutating set { box.value = newValue }
  }
}

/// A value that crosses isolation boundaries which the compiler cannot prove safe.
// Sendable: only code that may access the object accesses its observed values and runs its handlers.
// Sources of other threads are attached for Sendable objects only, whose handlers are Sendable by
// their type.
struct UncheckedSendable<Value>: @unchecked Sendable {
  var value: Value
}

/// A weak reference that crosses such boundaries.
// Sendable: as UncheckedSendable.
struct WeakUncheckedSendable<Object: AnyObject>: @unchecked Sendable {
  weak var object: Object?
}

/// The storage of an observed property, and its observations.
final class WatchedBox<Value>: ObservableSource {
  private struct State: Sendable {
    var value: UncheckedSendable<Value>
    var changes = 0
    var watches = WatchList()
  }

  private let state: Mutex<State>

  init(_ value: Value) {
    let value = UncheckedSendable(value: value)
    state = Mutex(State(value: value))
  }

  var isCrossThread: Bool { false }

  var value: Value {
    get {
      if accessTrackers.load(ordering: .relaxed) != 0 { AccessTracker.note(self) }
      return state.withLock { $0.value }.value
    }
    set {
      for observation in state.withLock({ $0.watches.all }) { observation.willChange() }
      let new = UncheckedSendable(value: newValue)
      // The old value is released outside the lock: its deinit may run any code.
      let (old, observations) = state.withLock { state in
        let old = state.value
        state.value = new
        state.changes += 1
        return (old, state.watches.all)
      }
      withExtendedLifetime(old) {}
      for observation in observations { observation.didChange(announced: true) }
    }
  }

  func mark() -> Int { state.withLock { $0.changes } }

  func add(_ observation: any Observation, since mark: Int) -> Bool {
    let (hasChanged, suspects) = state.withLock { state in
      state.watches.add(observation)
      return (state.changes != mark, state.watches.startSweep())
    }
    if let suspects {
      for suspect in suspects where suspect.isOver { suspect.end() }
      state.withLock { $0.watches.endSweep() }
    }
    return hasChanged
  }

  func remove(_ observation: any Observation) {
    let removed = state.withLock { $0.watches.remove(observation) }
    // Released outside the lock.
    withExtendedLifetime(removed) {}
  }

  var watchCount: Int { state.withLock { $0.watches.count } }
}

extension Watched {
  /// The number of observations of the property, for tests of leaks.
  package var watchCount: Int { box.watchCount }
}
