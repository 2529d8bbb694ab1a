// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// A failure of a storage operation.
///
/// A miss is not a failure: `value(forKey:)` returns `nil`. Only `retrieve(forKey:)`, which cannot return
/// `nil`, throws ``Code/noValue``.
public struct StorageError: Error, Sendable, CustomStringConvertible {
  /// The category of a failure. Later versions may add codes.
  public struct Code: RawRepresentable, Hashable, Sendable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The key has no value. Only `retrieve` throws it.
    public static let noValue = Code(rawValue: "noValue")
    /// The storage does not support the operation.
    public static let unsupported = Code(rawValue: "unsupported")
    /// The closure of an update wrote to the storage that is being updated.
    public static let recursiveUpdate = Code(rawValue: "recursiveUpdate")
    /// Two updates wait for each other: the closure of each writes the storage of the other.
    public static let deadlock = Code(rawValue: "crossingUpdate")
    /// Another process or handle held a lock for longer than the timeout.
    public static let lockTimeout = Code(rawValue: "busy")
    /// The back of a layer was changed, and its front could neither take that nor forget what it has.
    public static let staleFront = Code(rawValue: "staleFront")
    /// The stored data is damaged, truncated, or of another program.
    public static let undecodable = Code(rawValue: "undecodable")
    /// A closure of the storage released its completion without a call.
    public static let completionNotCalled = Code(rawValue: "unanswered")
    /// A file or folder could not be read or written.
    public static let inaccessible = Code(rawValue: "inaccessible")
  }

  /// The category of the failure.
  public let code: Code
  /// The name of the operation.
  public let operation: String
  /// The failure and a remedy, in a sentence or two.
  public let message: String
  /// The error below, if there is one.
  public let underlying: (any Error)?

  /// Creates an error, for custom storages.
  public init(
    _ code: Code, during operation: String, _ message: String, underlying: (any Error)? = nil
  ) {
    self.code = code
    self.operation = operation
    self.message = message
    self.underlying = underlying
  }

  public var description: String { "\(operation): \(message) (\(code.rawValue))" }
}

/// Matches errors by their code: `catch StorageError.Code.noValue`.
public func ~= (code: StorageError.Code, error: any Error) -> Bool {
  (error as? StorageError)?.code == code
}

extension StorageError {
  @usableFromInline
  static func noValue(in storageName: String) -> StorageError {
    StorageError(
      .noValue, during: "retrieve",
      "There is no value for the key in \(storageName). Where a miss is expected, ask "
        + "value(forKey:), which returns nil for it.")
  }

  @usableFromInline
  static func unsupported(_ operation: String, by storageName: String) -> StorageError {
    StorageError(
      .unsupported, during: operation,
      "The storage \(storageName) cannot do this. Give it the operation in its `operations`, or "
        + "use a storage that has it.")
  }

  package static let recursiveUpdate = StorageError(
    .recursiveUpdate, during: "update",
    "A closure that a storage runs during a write wrote to the same storage, which waits for it. "
      + "Change the value that the closure was given, and write other keys afterwards.")

  static let deadlock = StorageError(
    .deadlock, during: "update",
    "Two updates wait for each other: the closure of each writes the storage that the other one "
      + "changes. Write all storages in one order, or write the other one after the update.")

  static func completionNotCalled(_ operation: String) -> StorageError {
    StorageError(
      .completionNotCalled, during: operation,
      "A closure of the storage let go of its completion without calling it. Call it on every way "
        + "out, with a failure if need be.")
  }

  static func tooManyCalls(_ limit: Int) -> StorageError {
    StorageError(
      .lockTimeout, during: "call",
      "\(limit) calls with completions are pending in this process, which is the limit. Make further "
        + "calls when some of their completions have run.")
  }

  static func writerWaits(_ limit: Duration) -> StorageError {
    StorageError(
      .lockTimeout, during: "write",
      "Another write of this process (\(ProcessIdentity.pid)) has kept the storage for longer than "
        + "\(limit): it waits for another process, or its closure does not end.")
  }

  /// An error of pull-ups only, which is not reported.
  static let fillingWaits = StorageError(
    .lockTimeout, during: "set", "The front is being written, and is not filled now.")

  static func staleFront(_ operation: String, _ error: any Error) -> StorageError {
    StorageError(
      .staleFront, during: operation,
      "The back was changed, but the front could neither take that nor forget what it has: "
        + "\(error). Reading goes around the front until the key is set or removed in both.",
      underlying: error)
  }
}

/// Shallows's name of the error for a miss.
///
/// ```swift
/// do {
///   _ = try MemoryStorage<String, Int>().makeSyncStorage().retrieve(forKey: "a")
/// } catch MemoryStorageError.noValue {
///   print("not there")
/// }
/// ```
public enum MemoryStorageError {
  /// The key has no value. `retrieve` of every storage throws it, not only of storages in memory.
  public static let noValue = StorageError.Code.noValue
}

/// The error of a zipped storage of which a side failed, or of `retrieve(forKey:)` if one side has no
/// value.
public struct ZippedResultError: Error, Sendable {
  /// The error of the left side, if it failed or has no value.
  public let left: (any Error)?
  /// The error of the right side, if it failed or has no value.
  public let right: (any Error)?

  /// Creates an error, for custom storages of pairs.
  public init(left: (any Error)?, right: (any Error)?) {
    self.left = left
    self.right = right
  }
}

/// The error of a value that ``StorageProtocol/validate(_:)`` rejects; a stored value is unchanged.
public struct ValueValidationError: Error, Sendable {
  /// Creates an error, for custom storages that validate.
  public init() {}
}

/// The error of a write to a storage that `empty()` creates, and of `retrieve(forKey:)` from it.
public struct EmptyStorageError: Error, Sendable {
  /// Creates an error, for custom storages without values.
  public init() {}
}
