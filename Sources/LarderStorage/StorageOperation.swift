// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// An operation of a storage, in the forms in which it can be called.
///
/// An operation that never waits has one form for all callers. One that may block a thread (files, locks)
/// has a synchronous form and, for asynchronous callers, one that waits on another thread. An
/// asynchronous operation has only that form. Compositions preserve this: over storages that never wait,
/// everything runs at once on the calling thread, without a task or a thread switch.
public struct StorageOperation<Input: Sendable, Output: Sendable>: Sendable {
  @usableFromInline var now: (@Sendable (Input) throws -> Output)?
  @usableFromInline var asynchronous: (@Sendable (Input) async throws -> Output)?

  @usableFromInline
  init(
    now: (@Sendable (Input) throws -> Output)?,
    orLater asynchronous: (@Sendable (Input) async throws -> Output)?
  ) {
    self.now = now
    self.asynchronous = asynchronous
  }

  /// An operation that never waits for anything.
  @inlinable
  public init(_ now: @escaping @Sendable (Input) throws -> Output) {
    self.init(now: now, orLater: nil)
  }

  /// An operation that may block a thread for a while. For asynchronous callers it runs on a
  /// thread outside Swift's cooperative pool.
  public static func blocking(
    _ now: @escaping @Sendable (Input) throws -> Output
  ) -> StorageOperation {
    StorageOperation(
      now: now,
      orLater: { input in try await BackgroundExecutor.shared.run { try now(input) } })
  }

  /// An operation that is asynchronous.
  @inlinable
  public static func asynchronous(
    _ asynchronous: @escaping @Sendable (Input) async throws -> Output
  ) -> StorageOperation {
    StorageOperation(now: nil, orLater: asynchronous)
  }

  /// An operation that has both forms. The synchronous one must not need Swift's pool.
  public init(
    now: @escaping @Sendable (Input) throws -> Output,
    asynchronous: @escaping @Sendable (Input) async throws -> Output
  ) {
    self.init(now: now, orLater: asynchronous)
  }

  /// Calls it.
  @inlinable
  public func callAsFunction(_ input: Input) async throws -> Output {
    if let asynchronous { return try await asynchronous(input) }
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
    let asynchronous = asynchronous!
    return try CallingThreadExecutor.run { () -> Result<Output, any Error> in
      do { return .success(try await asynchronous(input)) } catch { return .failure(error) }
    }.get()
  }

  // MARK: Composing

  @usableFromInline
  var kind: ExecutionMode { now == nil ? .asynchronous : asynchronous == nil ? .quick : .blocking }

  /// An operation made of parts of which the slowest is of a kind.
  @inlinable
  static func composed(
    _ kind: ExecutionMode,
    now: @escaping @Sendable (Input) throws -> Output,
    asynchronous: @escaping @Sendable (Input) async throws -> Output
  ) -> StorageOperation {
    switch kind {
    case .quick: StorageOperation(now)
    case .blocking: .blocking(now)
    case .asynchronous: .asynchronous(asynchronous)
    }
  }

  /// The operation on something from which its input is made.
  @inlinable
  func pullback<Other: Sendable>(
    _ transform: @escaping @Sendable (Other) throws -> Input
  ) -> StorageOperation<Other, Output> {
    let (now, asynchronous) = (now, asynchronous)
    var made = StorageOperation<Other, Output>(now: nil, orLater: nil)
    if let now { made.now = { try now(transform($0)) } }
    if let asynchronous { made.asynchronous = { try await asynchronous(transform($0)) } }
    return made
  }

  /// The operation with its result made into something else.
  @inlinable
  func map<Other: Sendable>(
    _ transform: @escaping @Sendable (Output) throws -> Other
  ) -> StorageOperation<Input, Other> {
    let (now, asynchronous) = (now, asynchronous)
    var made = StorageOperation<Input, Other>(now: nil, orLater: nil)
    if let now { made.now = { try transform(now($0)) } }
    if let asynchronous { made.asynchronous = { try await transform(asynchronous($0)) } }
    return made
  }
}

/// The execution mode of an operation. Modes are ordered, because the slowest part decides.
@usableFromInline
enum ExecutionMode: Comparable {
  case quick, blocking, asynchronous
}
