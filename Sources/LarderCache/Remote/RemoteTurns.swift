// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// The tasks of this process that change a value by reading and writing it: one at a time for each key.
///
/// At the same time, all but one would find that the value has changed, and begin again. Other processes may come
/// between nevertheless: a turn is no lock, and a task that waits for too long takes no notice of it.
final class RemoteTurns: Sendable {
  private typealias Turn = SharedAnswer<Void>

  static let all = RemoteTurns()
  /// The last task of each key.
  private let last = Mutex<[RemotePlace: Turn]>([:])

  /// Runs a closure after those that have begun before.
  ///
  /// - Parameter patience: The longest wait for them.
  func run<R: Sendable>(
    _ place: RemotePlace, within patience: Duration, _ body: () async throws -> R
  ) async throws -> R {
    let own = Turn()
    let before = last.withLock { last in
      defer { last[place] = own }
      return last[place]
    }
    defer {
      own.finish(.success(()))
      last.withLock { last in if last[place] === own { last[place] = nil } }
    }
    _ = try await before?.value(within: patience)
    return try await body()
  }
}
