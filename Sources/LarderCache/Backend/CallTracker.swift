// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import Synchronization

/// The computations and fills in progress in a cache without a store, with the number of writes to
/// their keys.
final class LocalWriteTracker<Key: CacheKey>: Sendable {
  /// The number of marks of each key, and of its writes since the first mark.
  private let inFlight = Mutex<[Key: (marks: Int, writes: Int)]>([:])

  /// The point in time at which a computation or fill began. The key is tracked while it lives.
  final class Mark: Sendable {
    private let key: Key
    private let writes: Int
    private let all: LocalWriteTracker

    fileprivate init(_ key: Key, _ writes: Int, _ all: LocalWriteTracker) {
      self.key = key
      self.writes = writes
      self.all = all
    }

    /// Whether the key was not written or removed since the mark.
    var isCurrent: Bool { all.inFlight.withLock { $0[key]?.writes == writes } }

    deinit {
      all.inFlight.withLock { inFlight in
        inFlight[key]?.marks -= 1
        if inFlight[key]?.marks == 0 { inFlight[key] = nil }
      }
    }
  }

  /// Begins to track the writes of a key.
  func begin(_ key: Key) -> Mark {
    let writes = inFlight.withLock { inFlight in
      inFlight[key, default: (0, 0)].marks += 1
      return inFlight[key]!.writes
    }
    return Mark(key, writes, self)
  }

  /// Counts a write of a key.
  func note(_ key: Key) { inFlight.withLock { $0[key]?.writes += 1 } }

  /// Counts a write of every key.
  func noteAll() {
    inFlight.withLock { inFlight in for key in inFlight.keys { inFlight[key]!.writes += 1 } }
  }
}

/// The observers of a cache without a store.
final class LocalChangeNotifier<Key: CacheKey>: Sendable {
  private struct State {
    /// The number of writes, to any key.
    var writes = 0
    var next = 0
    var waiters: [Int: (key: Key, continuation: CheckedContinuation<Void, Never>)] = [:]
  }

  private let state = Mutex(State())

  /// The number of writes. An observer reads it before it reads its key.
  var mark: Int { state.withLock { $0.writes } }

  /// Resumes the observers of a key, or all if it is `nil`. A writer calls it after the write.
  func note(_ key: Key?) {
    let woken = state.withLock { state in
      state.writes += 1
      let ids = state.waiters.filter { key == nil || $0.value.key == key }.map(\.key)
      return ids.compactMap { state.waiters.removeValue(forKey: $0)?.continuation }
    }
    for continuation in woken { continuation.resume() }
  }

  /// Suspends until a write after `mark`, until `milliseconds` have passed, or until the task is
  /// cancelled.
  func change(of key: Key, after mark: Int, milliseconds: Int64?) async {
    let id = state.withLock { state in
      state.next += 1
      return state.next
    }
    let alarm = milliseconds.map { milliseconds in
      Task {
        try? await BlockingWork.sleep(for: .milliseconds(milliseconds))
        self.wake(id)
      }
    }
    defer { alarm?.cancel() }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = state.withLock { state in
          if state.writes != mark || Task.isCancelled { return true }
          state.waiters[id] = (key, continuation)
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      wake(id)
    }
  }

  private func wake(_ id: Int) {
    let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
    waiter?.continuation.resume()
  }
}
