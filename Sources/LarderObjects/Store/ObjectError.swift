// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A failure of an operation on objects. Failures of the store itself are `StoreError`s.
public struct ObjectError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The category of a failure. Later versions may add codes.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The code as a string that is stable across versions.
    public let rawValue: String
    /// Creates a code from its string.
    ///
    /// - Parameter rawValue: The string; an unknown one is allowed.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The string of the code.
    public var description: String { rawValue }

    /// Another object has the same key in a unique index.
    public static let uniqueViolation = Code(rawValue: "uniqueViolation")
    /// The object does not exist.
    public static let notFound = Code(rawValue: "notFound")
    /// The stored object is damaged or cannot be decoded as the type.
    public static let unreadable = Code(rawValue: "unreadable")
    /// The stored type has a newer schema version than this program declares.
    public static let newerSchema = Code(rawValue: "newerSchema")
    /// The stored schema of the type differs from the one that this program declares.
    public static let schemaMismatch = Code(rawValue: "schemaMismatch")
    /// The declaration of the type is inconsistent.
    public static let invalidSchema = Code(rawValue: "invalidSchema")
    /// Other objects refer to the object with the delete rule `deny`.
    public static let deletionDenied = Code(rawValue: "deletionDenied")
    /// An earlier operation of the transaction failed after a partial write, and the closure caught
    /// its error. The transaction stores nothing.
    public static let transactionFailed = Code(rawValue: "transactionFailed")
    /// A reference was assigned while its stored objects could not be loaded, so the save would
    /// lose them.
    public static let notLoaded = Code(rawValue: "notLoaded")
    /// The object cannot be encoded.
    public static let unencodable = Code(rawValue: "unencodable")
    /// The object is larger than the budget of its type.
    public static let tooLarge = Code(rawValue: "tooLarge")
    /// A migration cannot convert an object. The migration stores nothing of the failed step.
    public static let migrationFailed = Code(rawValue: "migrationFailed")
    /// A migration is declared in an order that conflicts with the applied migrations.
    public static let migrationOrder = Code(rawValue: "migrationOrder")
    /// The pattern is not a valid regular expression.
    public static let invalidPattern = Code(rawValue: "invalidPattern")
    /// The condition of a query has too many levels.
    public static let invalidPredicate = Code(rawValue: "invalidPredicate")
    /// The full-text query cannot be parsed, or the type has no full-text index for it.
    public static let invalidTextQuery = Code(rawValue: "invalidTextQuery")
    /// Another process migrates the type, or a process exited before its migration finished.
    public static let migrationInProgress = Code(rawValue: "migrationInProgress")
    /// The page cursor is damaged or belongs to another query.
    public static let invalidCursor = Code(rawValue: "invalidCursor")
    /// A sum of integers exceeds the range of its type.
    public static let overflow = Code(rawValue: "overflow")
    /// An update changed the id of an object.
    public static let identityChanged = Code(rawValue: "identityChanged")
    /// The build of an index did not finish within the timeout.
    public static let buildTimeout = Code(rawValue: "buildTimeout")
    /// A read began after the time limit of its snapshot, or outside the closure of the snapshot.
    public static let snapshotExpired = Code(rawValue: "snapshotExpired")
  }

  /// The category of the failure.
  public let code: Code
  /// The stored name of the type.
  public let type: String
  /// A description of the failure with one remedy.
  public let message: String
  /// The ids of the affected objects.
  public let ids: [String]
  /// The name of the affected index, or `nil` if the failure does not concern one.
  public let index: String?

  /// Creates an error.
  ///
  /// - Parameters:
  ///   - code: The category of the failure.
  ///   - type: The stored name of the type.
  ///   - message: A description of the failure with one remedy.
  ///   - ids: The ids of the affected objects.
  ///   - index: The name of the affected index.
  public init(
    _ code: Code, type: String, _ message: String, ids: [String] = [], index: String? = nil
  ) {
    self.code = code
    self.type = type
    self.message = message
    self.ids = ids
    self.index = index
  }

  /// The type, the message and the code in one line; after a difference of a schema, more lines
  /// with the code of a migration.
  public var description: String { "\(type): \(message) [\(code)]" }
}
