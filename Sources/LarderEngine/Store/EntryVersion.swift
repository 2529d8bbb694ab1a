// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The version of the value of a key: each write of the key gives it a greater one.
///
/// ```swift
/// let page = try pages.versionedValue(forKey: "/")
/// let isStored = try pages.compareAndSet("<new>", forKey: "/", ifVersion: page.version)
/// ```
///
/// A version is valid in every process, also after a compaction and a restart. As text it can be sent to
/// other programs, for example as an HTTP entity tag.
public struct EntryVersion: Sendable, Hashable, LosslessStringConvertible {
  /// The commit version of the entry, or zero.
  package let commitVersion: UInt64

  package init(commitVersion: UInt64) { self.commitVersion = commitVersion }

  /// The version of a key without a value.
  public static let absent = EntryVersion(commitVersion: 0)

  /// Creates a version of its text.
  ///
  /// - Returns: `nil` if the text is not that of a version.
  public init?(_ description: String) {
    guard description.utf8.allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") }),
      let number = UInt64(description, radix: 16)
    else { return nil }
    commitVersion = number
  }

  /// The text of the version: a hexadecimal number.
  public var description: String { String(commitVersion, radix: 16) }
}

/// A value with its version.
public struct VersionedValue<Value: Sendable>: Sendable {
  /// The value, or `nil` if the key has none.
  public let value: Value?
  /// The version of the value; ``EntryVersion/absent`` without a value.
  public let version: EntryVersion

  package init(value: Value?, version: EntryVersion) {
    self.value = value
    self.version = version
  }
}

extension VersionedValue: Equatable where Value: Equatable {}
