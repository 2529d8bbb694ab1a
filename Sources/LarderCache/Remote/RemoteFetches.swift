// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

// SHARED REQUESTS
//
// Tasks that read a key at the same time share one request. A task joins a running one only if nothing can
// have come between that the process may have read already: the fence is the same, no transaction of the
// store has begun since, and no other request of the process for the key has had an answer since.
//
// A value that was returned is stored a moment later. Until then, and whatever has overtaken it, the store may have an
// older copy, which this process must not read any more: its reads ask the server, or join the request
// (`isAnswered(_:)`).
//
// The task that began the request continues it on Swift's pool, never on an actor. A caller that blocks its
// thread joins none: the thread may be one that the request needs.

/// A request for one key, whose answer several tasks may share.
final class RemoteFetch: Sendable {
  let answer = SharedAnswer<RemoteAnswer>()
  private let fence: RemoteFence
  private let start = ContinuousClock.now
  /// The longest wait for the request of another task.
  static let patience: Duration = .seconds(1)

  init(_ fence: RemoteFence) { self.fence = fence }

  /// Whether the answer is one to a later request as well, which may be at most `limit` older.
  func answers(_ later: RemoteFetch, within limit: Duration) -> Bool {
    fence == later.fence && fence.since == later.fence.since && later.start - start < limit
      && !answer.hasFailed
  }
}

/// A key of a store. Several caches may use it, with several links to the same server.
struct RemotePlace: Hashable {
  private let store: ObjectIdentifier
  private let server: RemoteName
  private let key: RemoteKey

  init(_ place: RemoteCopies.Place, _ server: RemoteName) {
    store = ObjectIdentifier(place.store.core)
    self.server = server
    key = place.remote
  }
}

/// The requests of this process that have no answer, or whose answer is not stored yet: of each key the one
/// that began last.
final class RemoteFetches: Sendable {
  static let all = RemoteFetches()
  private let running = Mutex<[RemotePlace: RemoteFetch]>([:])
  /// The number of answers of each key that are not stored yet.
  private let answered = Mutex<[RemotePlace: Int]>([:])
  /// The number of keys in `answered`, so that a process without any looks no further.
  private let answeredCount = Atomic<Int>(0)

  /// Begins a request, unless a running one has the same answer.
  ///
  /// - Returns: The request that has the answer.
  func begin(
    _ place: RemotePlace, _ own: RemoteFetch, joins: Bool, within limit: Duration
  ) -> RemoteFetch {
    running.withLock { running in
      if joins, let other = running[place], other.answers(own, within: limit) { return other }
      running[place] = own
      return own
    }
  }

  /// Notes that a request has an answer: later reads must not get an older one.
  ///
  /// - Parameter fetch: The request; `nil` if no other task may share it.
  func settle(_ place: RemotePlace, _ fetch: RemoteFetch?) {
    running.withLock { running in if running[place] !== fetch { running[place] = nil } }
  }

  /// Notes that answers are returned before they are stored.
  func noteAnswers(of places: [RemotePlace]) {
    answered.withLock { answered in
      for place in places { answered[place, default: 0] += 1 }
      answeredCount.store(answered.count, ordering: .sequentiallyConsistent)
    }
  }

  /// Notes that answers are stored, or are not going to be.
  func endAnswers(of places: [RemotePlace]) {
    answered.withLock { answered in
      for place in places {
        guard let number = answered[place] else { continue }
        answered[place] = number > 1 ? number - 1 : nil
      }
      answeredCount.store(answered.count, ordering: .sequentiallyConsistent)
    }
  }

  /// Whether the process has an answer for a key that is not stored yet, so that the store may have an older one.
  func isAnswered(_ place: @autoclosure () -> RemotePlace) -> Bool {
    if answeredCount.load(ordering: .sequentiallyConsistent) == 0 { return false }
    let place = place()
    return answered.withLock { $0[place] != nil }
  }

  func end(_ place: RemotePlace, _ fetch: RemoteFetch) {
    running.withLock { running in if running[place] === fetch { running[place] = nil } }
  }
}
