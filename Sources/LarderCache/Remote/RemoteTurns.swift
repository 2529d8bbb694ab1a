// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

/// The tasks of this process that change a value by reading and writing it: one at a time for each key.
///
/// At the same time, all but one would find that the value has changed, and begin again. Other processes may come
/// between nevertheless: a turn is no lock. A task that has waited for a second takes no notice of it, nor do those
/// that wait for one which has lost the server: all of them fail together.
final class RemoteTurns: Sendable {
  private typealias Turn = SharedAnswer<Void>

  static let all = RemoteTurns()
  /// The last task of each key.
  private let last = Mutex<[RemotePlace: Turn]>([:])

  /// Runs a closure after those that have begun before.
  func run<R: Sendable>(
    _ key: RemotePlace, in copies: RemoteCopies, _ place: RemoteCopies.Place,
    _ body: () async throws -> R
  ) async throws -> R {
    let own = Turn()
    let before = last.withLock { last in
      defer { last[key] = own }
      return last[key]
    }
    defer {
      own.finish(.success(()))
      last.withLock { last in if last[key] === own { last[key] = nil } }
    }
    if let before, !copies.loss.isKnown {
      _ = try await copies.awaiting(place) { try await before.value(within: RemoteFetch.patience) }
    }
    return try await body()
  }
}
