// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// A property whose changes can be watched by key path, on every platform.
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
/// Reading and writing are each whole, on any thread; `property += 1` is a read and then a write.
/// A write runs the handlers on its own thread before it returns, outside of all locks, and also
/// when the new value equals the old one.
@propertyWrapper
public struct Watched<Value> {
  private let box: WatchedBox<Value>

  /// Starts with a value.
  public init(wrappedValue: Value) { box = WatchedBox(wrappedValue) }

  /// The value.
  public var wrappedValue: Value {
    get { box.value }
    nonmutating set { box.value = newValue }
  }
}

/// A value that is passed on where the compiler cannot see that it may be.
// Sendable: whoever may touch the object may touch its watched values and run its handlers, and
// nobody else gets at them. Sources of other threads are attached for Sendable objects only, whose
// handlers are Sendable by their type.
struct UncheckedSendable<Value>: @unchecked Sendable {
  var value: Value
}

/// The same for an object that is not to be held.
// Sendable: as Carried.
struct WeakUncheckedSendable<Object: AnyObject>: @unchecked Sendable {
  weak var object: Object?
}

/// The storage of a watched property, and who watches it.
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
      // The old value is let go outside the lock: its deinit may be anything.
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
    // Let go of outside the lock.
    withExtendedLifetime(removed) {}
  }

  var watchCount: Int { state.withLock { $0.watches.count } }
}

extension Watched {
  /// How many watches the property holds; for tests of what is left behind.
  package var watchCount: Int { box.watchCount }
}
