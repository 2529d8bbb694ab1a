// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import Synchronization

/// In a cache without a store: which computations and pull-ups a write or removal has overtaken.
final class LocalWriteTracker<Key: CacheKey>: Sendable {
  /// Those in flight by key, and how often the key was written since the first began.
  private let inFlight = Mutex<[Key: (marks: Int, writes: Int)]>([:])

  /// What began at a moment, until it is let go of.
  final class Mark: Sendable {
    private let key: Key
    private let writes: Int
    private let all: LocalWriteTracker

    fileprivate init(_ key: Key, _ writes: Int, _ all: LocalWriteTracker) {
      self.key = key
      self.writes = writes
      self.all = all
    }

    /// Whether nobody wrote the key since.
    var isCurrent: Bool { all.inFlight.withLock { $0[key]?.writes == writes } }

    deinit {
      all.inFlight.withLock { inFlight in
        inFlight[key]?.marks -= 1
        if inFlight[key]?.marks == 0 { inFlight[key] = nil }
      }
    }
  }

  func begin(_ key: Key) -> Mark {
    let writes = inFlight.withLock { inFlight in
      inFlight[key, default: (0, 0)].marks += 1
      return inFlight[key]!.writes
    }
    return Mark(key, writes, self)
  }

  func note(_ key: Key) { inFlight.withLock { $0[key]?.writes += 1 } }

  func noteAll() {
    inFlight.withLock { inFlight in for key in inFlight.keys { inFlight[key]!.writes += 1 } }
  }
}

/// In a cache without a store: who waits for a write of a key.
final class LocalChangeNotifier<Key: CacheKey>: Sendable {
  private struct State {
    /// How many writes of any key there were.
    var writes = 0
    var next = 0
    var waiters: [Int: (key: Key, continuation: CheckedContinuation<Void, Never>)] = [:]
  }

  private let state = Mutex(State())

  /// To be read before the key is looked at.
  var mark: Int { state.withLock { $0.writes } }

  /// A key was written, or all were (`nil`); after the fact.
  func note(_ key: Key?) {
    let woken = state.withLock { state in
      state.writes += 1
      let ids = state.waiters.filter { key == nil || $0.value.key == key }.map(\.key)
      return ids.compactMap { state.waiters.removeValue(forKey: $0)?.continuation }
    }
    for continuation in woken { continuation.resume() }
  }

  /// Returns when the key was written since the mark; when the time is over; or when the task is
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
