// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

/// The tasks of this process that change a value by reading and writing it: one at a time for each key.
///
/// At the same time, all but one would find that the value has changed, and begin again. Other processes may come
/// between nevertheless: a turn is no lock, and a task that waits for too long takes no notice of it. If a task loses
/// the server, those that wait for it fail with its error, and not one after the other with an error of each.
final class RemoteTurns: Sendable {
  private typealias Turn = SharedAnswer<Void>

  static let all = RemoteTurns()
  /// The last task of each key.
  private let last = Mutex<[RemotePlace: Turn]>([:])

  /// Runs a closure after those that have begun before.
  ///
  /// - Parameter patience: The longest wait for them.
  func run<R: Sendable>(
    _ key: RemotePlace, in copies: RemoteCopies, _ place: RemoteCopies.Place,
    within patience: Duration, _ body: () async throws -> R
  ) async throws -> R {
    let own = Turn()
    let before = last.withLock { last in
      defer { last[key] = own }
      return last[key]
    }
    defer { last.withLock { last in if last[key] === own { last[key] = nil } } }
    do {
      if let before {
        _ = try await copies.awaiting(place) { try await before.value(within: patience) }
      }
      let result = try await body()
      own.finish(.success(()))
      return result
    } catch {
      own.finish(copies.service.isUnanswered(error) ? .failure(error) : .success(()))
      throw error
    }
  }
}
