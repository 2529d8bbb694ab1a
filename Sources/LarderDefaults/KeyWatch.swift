// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

/// The keys of a suite that somebody watches.
final class KeyWatches: Sendable {
  private let watches = Mutex<[String: KeyWatch]>([:])

  func watch(of key: String, in store: DefaultsStore) -> KeyWatch {
    watches.withLock { watches in
      if let watch = watches[key] { return watch }
      let watch = KeyWatch(key: key, store: store)
      watches[key] = watch
      return watch
    }
  }

  /// Ends all tasks; nobody hears anything from now on.
  func end() {
    let all = watches.withLock { watches in
      defer { watches = [:] }
      return Array(watches.values)
    }
    for watch in all { watch.end() }
  }
}

/// A key of a suite as something that changes, by any process.
///
/// While somebody watches, a task of its own waits for changes and tells them, one after the other.
final class KeyWatch: WatchSource {
  private struct State {
    /// What was seen last: by the task or, while there is none, when the value was last read.
    var seen: DefaultsStore.Sighting?
    var changes = 0
    var observations: [any Observation] = []
    var task: Task<Void, Never>?
  }

  private let key: String
  private let store: DefaultsStore
  private let state = Mutex(State())

  init(key: String, store: DefaultsStore) {
    self.key = key
    self.store = store
  }

  deinit { state.withLock { $0.task }?.cancel() }

  var isForeign: Bool { true }

  func mark() -> Int {
    let needsLook = state.withLock { $0.task == nil }
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
    state.withLock { state in
      if !state.observations.contains(where: { $0 === observation }) {
        state.observations.append(observation)
      }
      if state.task == nil, let seen = state.seen {
        state.task = Task.detached { [weak self, store, key] in
          await KeyWatch.run(after: seen, store, key) { [weak self] in self?.tell($0) ?? false }
        }
      }
      return state.changes != mark
    }
  }

  func remove(_ observation: any Observation) {
    let (removed, task) = state.withLock { state -> ([any Observation], Task<Void, Never>?) in
      let removed = state.observations.filter { $0 === observation }
      state.observations.removeAll { $0 === observation }
      guard state.observations.isEmpty else { return (removed, nil) }
      defer { state.task = nil }
      // What was seen stays: who comes at this moment goes on from there.
      return (removed, state.task)
    }
    task?.cancel()
    withExtendedLifetime(removed) {}
  }

  func end() {
    let (removed, task) = state.withLock { state in
      defer {
        state.observations = []
        state.task = nil
        state.seen = nil
      }
      return (state.observations, state.task)
    }
    task?.cancel()
    for observation in removed { observation.lose(self) }
  }

  /// Waits for one change after the other. Holds the watch only while it tells one.
  private static func run(
    after first: DefaultsStore.Sighting, _ store: DefaultsStore, _ key: String,
    _ tell: @Sendable (DefaultsStore.Sighting) -> Bool
  ) async {
    var seen = first
    while true {
      await store.change(since: seen)
      guard !Task.isCancelled else { return }
      let now: DefaultsStore.Sighting
      do { now = try store.look(at: key) } catch {
        if store.store.hasClosed { return }
        // Such as a lack of descriptors: what was missed is seen as soon as looking works again.
        do { try await Task.sleep(for: .seconds(1)) } catch { return }
        continue
      }
      let isSame = now.isSame(as: seen)
      seen = now
      if !isSame, !tell(now) { return }
    }
  }

  /// - Returns: Whether somebody still watches.
  private func tell(_ seen: DefaultsStore.Sighting) -> Bool {
    let observations = state.withLock { state in
      state.seen = seen
      state.changes += 1
      return state.observations
    }
    for observation in observations { observation.didChange(announced: false) }
    return !observations.isEmpty
  }
}

extension Defaults {
  /// Tells who tracks the calling thread that a key is about to be read.
  @usableFromInline func noteRead(of key: String) {
    guard let store = try? state.get() else { return }
    AccessTracker.note(watches.watch(of: key, in: store))
  }
}

extension Defaults: PropertyWatchable {}
