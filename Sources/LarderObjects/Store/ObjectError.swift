// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// What went wrong with objects; the store's own failures are `StoreError`s.
public struct ObjectError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What kind of failure it was. Open: later versions may add codes.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The code as a text that does not change between versions.
    public let rawValue: String
    /// A code of a text.
    public init(rawValue: String) { self.rawValue = rawValue }
    public var description: String { rawValue }

    /// Another object has the same key of a unique index.
    public static let uniqueViolation = Code(rawValue: "keyTaken")
    /// There is no such object.
    public static let notFound = Code(rawValue: "notFound")
    /// What is stored cannot be decoded as the type, or is damaged.
    public static let unreadable = Code(rawValue: "unreadable")
    /// The stored type has a newer version than this program declares.
    public static let newerSchema = Code(rawValue: "newerSchema")
    /// The stored type differs from what this program declares.
    public static let schemaMismatch = Code(rawValue: "schemaMismatch")
    /// The type's declaration contradicts itself.
    public static let invalidSchema = Code(rawValue: "invalidSchema")
    /// Other objects refer to the one to delete, and forbid it.
    public static let deletionDenied = Code(rawValue: "referenced")
    /// An operation failed after it had written a part, and the transaction went on: nothing of it is
    /// stored.
    public static let transactionFailed = Code(rawValue: "transactionFailed")
    /// A reference was assigned after its objects could not be loaded, and would lose them.
    public static let notLoaded = Code(rawValue: "notLoaded")
    /// The object cannot be encoded.
    public static let unencodable = Code(rawValue: "unencodable")
    /// The object is larger than the whole budget of its type.
    public static let tooLarge = Code(rawValue: "tooLarge")
    /// A migration cannot go on with an object. Nothing of it was kept.
    public static let migrationFailed = Code(rawValue: "migrationFailed")
    /// A migration comes too late, or too early.
    public static let migrationOrder = Code(rawValue: "migrationOrder")
    /// A regular expression is none.
    public static let invalidPattern = Code(rawValue: "invalidPattern")
    /// The type is being migrated, by another process or by one that was ended.
    public static let migrationInProgress = Code(rawValue: "migrating")
    /// A page's cursor is damaged, or of another query.
    public static let invalidCursor = Code(rawValue: "invalidCursor")
    /// The sum of integers does not fit their type.
    public static let overflow = Code(rawValue: "overflow")
    /// An index was not complete when a wait for it ended.
    public static let buildTimeout = Code(rawValue: "buildTimeout")
    /// A snapshot was read for longer than it may.
    public static let snapshotExpired = Code(rawValue: "snapshotExpired")
  }

  /// What kind of failure it was.
  public let code: Code
  /// The stored name of the type.
  public let type: String
  /// What happened and what to do about it.
  public let message: String
  /// The ids of the objects concerned.
  public let ids: [String]
  /// The name of the index concerned.
  public let index: String?

  /// An error of a code.
  public init(
    _ code: Code, type: String, _ message: String, ids: [String] = [], index: String? = nil
  ) {
    self.code = code
    self.type = type
    self.message = message
    self.ids = ids
    self.index = index
  }

  public var description: String { "\(type): \(message) [\(code)]" }
}
