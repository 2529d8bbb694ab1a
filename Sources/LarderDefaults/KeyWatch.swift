// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

/// The observed keys of a suite.
///
/// A key is retained by its observations and removed with the last one, because a program may use any
/// number of keys.
final class KeyWatches: Sendable {
  private struct Entry: Sendable {
    weak let watch: KeyWatch?
    let number: UInt64
  }

  // By bytes: two strings that are equal in Swift may be two keys.
  private let entries = Mutex<[EncodedKey: Entry]>([:])

  func watch(of key: String, in store: DefaultsStore) -> KeyWatch {
    let encoded = EncodedKey(key)
    return entries.withLock { entries in
      if let watch = entries[encoded]?.watch { return watch }
      let watch = KeyWatch(key: key, store: store, watches: self)
      entries[encoded] = Entry(watch: watch, number: watch.number)
      return watch
    }
  }

  /// Removes a watch that was deallocated, unless another one has replaced it.
  func forget(_ key: String, number: UInt64) {
    entries.withLock { entries in
      let key = EncodedKey(key)
      if entries[key]?.number == number { entries[key] = nil }
    }
  }

  /// Ends all tasks, so that no observation is notified any more.
  func end() {
    let all = entries.withLock { entries in entries.values.compactMap(\.watch) }
    for watch in all { watch.end() }
  }

  var count: Int { entries.withLock { $0.count } }
}

/// A key of a suite as an observable source, which any process may change.
///
/// While the key has observations, a task waits for changes and reports them one at a time.
final class KeyWatch: ObservableSource {
  private struct State {
    /// The version that the task observed last or, without a task, the last read observed.
    var seen: DefaultsStore.ObservedVersion?
    var changes = 0
    var watches = WatchList()
    var task: Task<Void, Never>?
    var hasEnded = false
  }

  let number = WatchRegistry.newNumber()
  private let key: String
  private let store: DefaultsStore
  private let watches: KeyWatches
  private let state = Mutex(State())

  init(key: String, store: DefaultsStore, watches: KeyWatches) {
    self.key = key
    self.store = store
    self.watches = watches
  }

  deinit {
    state.withLock { $0.task }?.cancel()
    watches.forget(key, number: number)
  }

  var isCrossThread: Bool { true }

  func mark() -> Int {
    let needsLook = state.withLock { $0.task == nil && !$0.hasEnded }
    let seen = needsLook ? try? store.look(at: key) : nil
    return state.withLock { state in
      if state.task == nil, let seen {
        if let old = state.seen, !old.isSame(as: seen) { state.changes += 1 }
        state.seen = seen
      }
      return state.changes
    }
  }

  func add(_ observation: any Observation, since mark: Int) -> Bool {
    let (hasChanged, suspects) = state.withLock { state -> (Bool, [any Observation]?) in
      guard !state.hasEnded else { return (false, nil) }
      state.watches.add(observation)
      if state.task == nil, let seen = state.seen {
        state.task = Task.detached { [weak self, store, key] in
          await KeyWatch.run(after: seen, store, key) { [weak self] in self?.tell($0) ?? false }
        }
      }
      return (state.changes != mark, state.watches.startSweep())
    }
    if let suspects {
      for suspect in suspects where suspect.isOver { suspect.end() }
      state.withLock { $0.watches.endSweep() }
    }
    return hasChanged
  }

  func remove(_ observation: any Observation) {
    let (removed, task) = state.withLock { state in
      let removed = state.watches.remove(observation)
      guard state.watches.isEmpty else { return (removed, nil as Task<Void, Never>?) }
      defer { state.task = nil }
      // The observed version stays, so an observation added now continues from it.
      return (removed, state.task)
    }
    task?.cancel()
    withExtendedLifetime(removed) {}
  }

  func end() {
    let (removed, task) = state.withLock { state in
      defer {
        state.task = nil
        state.seen = nil
        state.hasEnded = true
      }
      return (state.watches.removeAll(), state.task)
    }
    task?.cancel()
    for observation in removed { observation.sourceEnded(self) }
  }

  /// Waits for changes one at a time. Retains the watch only while it reports one.
  private static func run(
    after first: DefaultsStore.ObservedVersion, _ store: DefaultsStore, _ key: String,
    _ tell: @Sendable (DefaultsStore.ObservedVersion) -> Bool
  ) async {
    var seen = first
    while true {
      await store.change(since: seen)
      guard !Task.isCancelled else { return }
      let now: DefaultsStore.ObservedVersion
      do { now = try store.look(at: key) } catch {
        if store.store.hasClosed { return }
        // For example without descriptors. A change in the meantime is reported once reads succeed.
        do { try await BlockingWork.sleep(for: .seconds(1)) } catch { return }
        continue
      }
      let isSame = now.isSame(as: seen)
      seen = now
      if !isSame, !tell(now) { return }
    }
  }

  /// Notifies the observations of a change.
  ///
  /// - Returns: Whether there were any.
  private func tell(_ seen: DefaultsStore.ObservedVersion) -> Bool {
    let observations = state.withLock { state in
      state.seen = seen
      state.changes += 1
      return state.watches.all
    }
    for observation in observations { observation.didChange(by: seen.write) }
    return !observations.isEmpty
  }
}

extension Defaults {
  /// Records a read of a key with the tracker of the calling thread, if there is one.
  @usableFromInline func noteRead(of key: String) {
    guard let store = try? state.get(), !store.store.hasClosed, !store.store.isForkedChild else {
      return
    }
    AccessTracker.note(watches.watch(of: key, in: store))
  }
}

extension Defaults: PropertyWatchable {
  /// The number of observed keys, for tests of leaks.
  package var watchedKeyCount: Int { watches.count }
}
