// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A condition that ``eventually(_:within:_:)`` waited for did not become true in time.
public struct ConditionTimedOut: Error, CustomStringConvertible {
  /// The text given to the call.
  public let condition: String
  /// The longest wait of the call.
  public let limit: Duration

  public var description: String { "Not within \(limit): \(condition)" }
}

/// Waits until a condition is true, and fails when it does not become true in time.
///
/// A loop without a deadline never ends if the condition does not become true, and says nothing. The limit only
/// ends a hang: it is long, because a machine with other work can be slower by a factor of a hundred.
///
/// ```swift
/// let worker = try TestExecutable("MyWorker").start()
/// try eventually("the worker has stored its entry") { try store.bytes(forKey: "ready") != nil }
/// ```
///
/// - Parameters:
///   - text: What is waited for; a part of the error.
///   - limit: The longest wait.
///   - condition: It is called at intervals of 50 microseconds to one millisecond.
/// - Throws: ``ConditionTimedOut``, and errors of `condition`.
@available(*, noasync, message: "It blocks a thread that the condition may need; await it.")
public func eventually(
  _ text: String, within limit: Duration = .seconds(600), _ condition: () throws -> Bool
) throws {
  let end = ContinuousClock.now + limit
  var pause = Backoff()
  while try !condition() {
    if ContinuousClock.now >= end { throw ConditionTimedOut(condition: text, limit: limit) }
    pause.take()
  }
}

/// Waits in a task until a condition is true, and lets other tasks run.
///
/// ```swift
/// try await awaitEventually("the cache has the value") { try await cache.value(forKey: 1) != nil }
/// ```
///
/// The limit is long: Swift Testing starts all tests at once, and a task that suspends continues after
/// those that wait for a thread before it.
///
/// - Parameters:
///   - text: What is waited for; a part of the error.
///   - limit: The longest wait.
///   - condition: It is called at intervals of a millisecond or more.
/// - Throws: ``ConditionTimedOut``, `CancellationError`, and errors of `condition`.
public func awaitEventually(
  _ text: String, within limit: Duration = .seconds(600), _ condition: () async throws -> Bool
) async throws {
  let end = ContinuousClock.now + limit
  while try await !condition() {
    if ContinuousClock.now >= end { throw ConditionTimedOut(condition: text, limit: limit) }
    try await Task.sleep(for: .milliseconds(1))
  }
}
