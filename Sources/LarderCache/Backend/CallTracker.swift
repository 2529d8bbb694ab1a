// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import Synchronization

/// The calls about keys that are in progress in this process, by which a call finds out whether a write
/// of its key overlapped.
final class CallTracker<Name: Hashable & Sendable>: Sendable {
  private struct Traffic {
    var users = 0
    var writers = 0
    var writes = 0
  }

  private struct State {
    var traffic: [Name: Traffic] = [:]
    var clearing = 0
    var clearings = 0
  }

  /// A call that is in progress while the object lives.
  final class Call: Sendable {
    private let name: Name
    private let isWrite: Bool
    /// Whether no write was in progress when it began.
    private let isAlone: Bool
    private let writes: Int
    private let clearings: Int
    private let tracker: CallTracker

    fileprivate init(_ name: Name, isWrite: Bool, _ tracker: CallTracker) {
      self.name = name
      self.isWrite = isWrite
      self.tracker = tracker
      (isAlone, writes, clearings) = tracker.state.withLock { state in
        var traffic = state.traffic[name] ?? Traffic()
        let isAlone = traffic.writers == 0 && state.clearing == 0
        traffic.users += 1
        if isWrite {
          traffic.writers += 1
          traffic.writes += 1
        }
        state.traffic[name] = traffic
        return (isAlone, traffic.writes, state.clearings)
      }
    }

    /// Whether no other write of the key has been in progress since the call began.
    var isUndisturbed: Bool {
      tracker.state.withLock { state in
        isAlone && state.traffic[name]?.writes == writes && state.clearings == clearings
      }
    }

    /// Whether this call, a write, is the first one of the key since another call began.
    func isFirstWrite(since call: Call) -> Bool {
      isAlone && call.isAlone && writes == call.writes + 1 && clearings == call.clearings
    }

    deinit {
      tracker.state.withLock { state in
        guard var traffic = state.traffic[name] else { return }
        traffic.users -= 1
        if isWrite { traffic.writers -= 1 }
        state.traffic[name] = traffic.users == 0 ? nil : traffic
      }
    }
  }

  private let state = Mutex(State())

  /// Begins a call that reads, computes or fills a key.
  func begin(_ name: Name) -> Call { Call(name, isWrite: false, self) }

  /// Calls `body`, which writes or removes a key.
  func writing<R>(_ name: Name, _ body: (Call) throws -> R) rethrows -> R {
    try withExtendedLifetime(Call(name, isWrite: true, self), body)
  }

  /// Counts a write of a key that changes memory only. Memory orders it with overlapping calls.
  func note(_ name: Name) { state.withLock { $0.traffic[name]?.writes += 1 } }

  /// Calls `body`, which writes or removes all keys.
  func clearing<R>(_ body: () throws -> R) rethrows -> R {
    state.withLock { state in
      state.clearing += 1
      state.clearings += 1
    }
    defer { state.withLock { $0.clearing -= 1 } }
    return try body()
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
