// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// A type whose values are keys of tables: `[UInt8]` and `String` (its UTF-8) for tables with byte
/// keys, `UInt64` for tables with integer keys.
///
/// Other types can conform by providing their bytes:
///
/// ```swift
/// extension UserID: TableKey {
///   static var keyKind: Table.Keys { .bytes }
///   func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R { text.withKeyBytes(body) }
/// }
/// ```
public protocol TableKey {
  /// The kind of tables to which the key belongs.
  static var keyKind: Table.Keys { get }
  /// Calls `body` with the bytes of the key: 1 to 511, or the eight of an integer in native byte
  /// order.
  ///
  /// - Parameter body: A closure that gets the bytes, valid during the call.
  /// - Returns: The result of `body`.
  func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R
}

extension [UInt8]: TableKey {
  /// The kind of tables to which the key belongs.
  public static var keyKind: Table.Keys { .bytes }
  /// Calls `body` with the bytes of the key.
  public func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R {
    unsafe withUnsafeBytes { bytes in body(unsafe RawSpan(_unsafeBytes: bytes)) }
  }
}

extension String: TableKey {
  /// The kind of tables to which the key belongs.
  public static var keyKind: Table.Keys { .bytes }
  /// Calls `body` with the bytes of the key.
  public func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R {
    var text = self
    return text.withUTF8 { bytes in body(unsafe RawSpan(_unsafeElements: bytes)) }
  }
}

extension UInt64: TableKey {
  /// The kind of tables to which the key belongs.
  public static var keyKind: Table.Keys { .integers }
  /// Calls `body` with the bytes of the key.
  public func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R {
    unsafe Swift.withUnsafeBytes(of: self) { bytes in body(unsafe RawSpan(_unsafeBytes: bytes)) }
  }
}

extension Table {
  /// Throws unless the table belongs to this transaction's environment and has keys of that kind:
  /// LMDB itself would use another table with the same identifier, or compare a key beyond its end.
  func require<Key: TableKey>(_ key: Key.Type, in transaction: OpaquePointer) throws(LMDBError) {
    unsafe try require(in: transaction)
    guard keys == Key.keyKind else {
      throw LMDBError(.keyKindMismatch, during: "use table \"\(name ?? "")\" with \(Key.self)")
    }
  }

  func require(in transaction: OpaquePointer) throws(LMDBError) {
    guard unsafe EnvironmentHandle.serial(of: transaction) == serial else {
      throw LMDBError(.wrongEnvironment, during: "use table \"\(name ?? "")\"")
    }
  }
}
