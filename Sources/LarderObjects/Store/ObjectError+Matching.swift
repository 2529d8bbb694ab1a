// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension ObjectError.Code {
  /// Returns whether an error is an ``ObjectError`` with a code, for patterns of `catch` and
  /// `case`.
  ///
  /// ```swift
  /// do {
  ///   print(try store.object(id: "S", of: Car.self).execute())
  /// } catch ObjectError.notFound {
  ///   print("There is no such car.")
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - code: The code to match.
  ///   - error: The error.
  /// - Returns: `true` if `error` is an ``ObjectError`` with this code.
  public static func ~= (code: Self, error: any Error) -> Bool {
    (error as? ObjectError)?.code == code
  }
}

/// The codes as static properties of the error, for patterns such as `catch ObjectError.notFound`.
extension ObjectError {
  /// See ``Code/uniqueViolation``.
  public static var uniqueViolation: Code { .uniqueViolation }
  /// See ``Code/notFound``.
  public static var notFound: Code { .notFound }
  /// See ``Code/unreadable``.
  public static var unreadable: Code { .unreadable }
  /// See ``Code/newerSchema``.
  public static var newerSchema: Code { .newerSchema }
  /// See ``Code/schemaMismatch``.
  public static var schemaMismatch: Code { .schemaMismatch }
  /// See ``Code/invalidSchema``.
  public static var invalidSchema: Code { .invalidSchema }
  /// See ``Code/deletionDenied``.
  public static var deletionDenied: Code { .deletionDenied }
  /// See ``Code/transactionFailed``.
  public static var transactionFailed: Code { .transactionFailed }
  /// See ``Code/notLoaded``.
  public static var notLoaded: Code { .notLoaded }
  /// See ``Code/unencodable``.
  public static var unencodable: Code { .unencodable }
  /// See ``Code/tooLarge``.
  public static var tooLarge: Code { .tooLarge }
  /// See ``Code/migrationFailed``.
  public static var migrationFailed: Code { .migrationFailed }
  /// See ``Code/migrationOrder``.
  public static var migrationOrder: Code { .migrationOrder }
  /// See ``Code/invalidPredicate``.
  public static var invalidPredicate: Code { .invalidPredicate }
  /// See ``Code/invalidPattern``.
  public static var invalidPattern: Code { .invalidPattern }
  /// See ``Code/migrationInProgress``.
  public static var migrationInProgress: Code { .migrationInProgress }
  /// See ``Code/invalidCursor``.
  public static var invalidCursor: Code { .invalidCursor }
  /// See ``Code/overflow``.
  public static var overflow: Code { .overflow }
  /// See ``Code/identityChanged``.
  public static var identityChanged: Code { .identityChanged }
  /// See ``Code/buildTimeout``.
  public static var buildTimeout: Code { .buildTimeout }
  /// See ``Code/snapshotExpired``.
  public static var snapshotExpired: Code { .snapshotExpired }
}
