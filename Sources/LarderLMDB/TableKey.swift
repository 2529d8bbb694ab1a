// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// What can be a key of a table: `[UInt8]` and `String` (its UTF-8) of tables with keys of bytes,
/// `UInt64` of tables with integers.
///
/// A type of your own can be one as well: it lends its bytes.
///
/// ```swift
/// extension UserID: TableKey {
///   static var keyKind: Table.Keys { .bytes }
///   func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R { text.withKeyBytes(body) }
/// }
/// ```
public protocol TableKey {
  /// Which tables it is a key of.
  static var keyKind: Table.Keys { get }
  /// Lends the bytes: 1 to 511, or the eight of an integer in the order of this machine.
  func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R
}

extension [UInt8]: TableKey {
  public static var keyKind: Table.Keys { .bytes }
  public func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R {
    unsafe withUnsafeBytes { bytes in body(unsafe RawSpan(_unsafeBytes: bytes)) }
  }
}

extension String: TableKey {
  public static var keyKind: Table.Keys { .bytes }
  public func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R {
    var text = self
    return text.withUTF8 { bytes in body(unsafe RawSpan(_unsafeElements: bytes)) }
  }
}

extension UInt64: TableKey {
  public static var keyKind: Table.Keys { .integers }
  public func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R {
    unsafe Swift.withUnsafeBytes(of: self) { bytes in body(unsafe RawSpan(_unsafeBytes: bytes)) }
  }
}

extension Table {
  /// A table of this transaction's environment with keys of that kind, or an error: LMDB itself would
  /// take another table of the same number, or compare a key beyond its end.
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
