// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// An operation of a storage, in the forms in which it can be called.
///
/// What never waits has one form, for everybody. What may block a thread (files, locks) has a
/// synchronous form and, for asynchronous callers, one that waits elsewhere. What is asynchronous at
/// heart has only that form. Compositions keep this: over storages that never wait everything runs
/// at once on the calling thread, without a task or a switch of threads.
public struct StorageCall<Input: Sendable, Output: Sendable>: Sendable {
  @usableFromInline var now: (@Sendable (Input) throws -> Output)?
  @usableFromInline var later: (@Sendable (Input) async throws -> Output)?

  @usableFromInline
  init(
    now: (@Sendable (Input) throws -> Output)?,
    orLater later: (@Sendable (Input) async throws -> Output)?
  ) {
    self.now = now
    self.later = later
  }

  /// An operation that never waits for anything.
  @inlinable
  public init(_ now: @escaping @Sendable (Input) throws -> Output) {
    self.init(now: now, orLater: nil)
  }

  /// An operation that may block a thread for a while. Asynchronous callers have it run on a thread
  /// that is none of Swift's pool.
  public static func blocking(
    _ now: @escaping @Sendable (Input) throws -> Output
  ) -> StorageCall {
    StorageCall(
      now: now,
      orLater: { input in try await BackgroundExecutor.shared.run { try now(input) } })
  }

  /// An operation that is asynchronous.
  @inlinable
  public static func later(
    _ later: @escaping @Sendable (Input) async throws -> Output
  ) -> StorageCall {
    StorageCall(now: nil, orLater: later)
  }

  /// An operation that has both forms. The synchronous one must not need Swift's pool.
  public init(
    now: @escaping @Sendable (Input) throws -> Output,
    later: @escaping @Sendable (Input) async throws -> Output
  ) {
    self.init(now: now, orLater: later)
  }

  /// Calls it.
  @inlinable
  public func callAsFunction(_ input: Input) async throws -> Output {
    if let later { return try await later(input) }
    return try now!(input)
  }

  /// Calls it and waits. The calling thread does what it can of the work itself, so this may be
  /// used anywhere, also on threads of Swift's pool and in completions.
  ///
  /// The one thing that cannot work: waiting on the main thread for work of the main actor.
  @inlinable
  public func wait(_ input: Input) throws -> Output {
    if let now { return try now(input) }
    return try waitForTask(input)
  }

  @usableFromInline
  func waitForTask(_ input: Input) throws -> Output {
    let later = later!
    return try ThreadExecutor.run { () -> Result<Output, any Error> in
      do { return .success(try await later(input)) } catch { return .failure(error) }
    }.get()
  }

  // MARK: Composing

  @usableFromInline
  var kind: StorageCallKind { now == nil ? .asynchronous : later == nil ? .quick : .blocking }

  /// An operation made of parts of which the slowest is of a kind.
  @inlinable
  static func composed(
    _ kind: StorageCallKind,
    now: @escaping @Sendable (Input) throws -> Output,
    later: @escaping @Sendable (Input) async throws -> Output
  ) -> StorageCall {
    switch kind {
    case .quick: StorageCall(now)
    case .blocking: .blocking(now)
    case .asynchronous: .later(later)
    }
  }

  /// The operation on something from which its input is made.
  @inlinable
  func pullback<Other: Sendable>(
    _ transform: @escaping @Sendable (Other) throws -> Input
  ) -> StorageCall<Other, Output> {
    let (now, later) = (now, later)
    var made = StorageCall<Other, Output>(now: nil, orLater: nil)
    if let now { made.now = { try now(transform($0)) } }
    if let later { made.later = { try await later(transform($0)) } }
    return made
  }

  /// The operation with its result made into something else.
  @inlinable
  func map<Other: Sendable>(
    _ transform: @escaping @Sendable (Output) throws -> Other
  ) -> StorageCall<Input, Other> {
    let (now, later) = (now, later)
    var made = StorageCall<Input, Other>(now: nil, orLater: nil)
    if let now { made.now = { try transform(now($0)) } }
    if let later { made.later = { try await transform(later($0)) } }
    return made
  }
}

/// How an operation runs; ordered, because the slowest part decides.
@usableFromInline
enum StorageCallKind: Comparable {
  case quick, blocking, asynchronous
}
