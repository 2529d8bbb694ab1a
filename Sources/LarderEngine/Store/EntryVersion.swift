// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The version of the value of a key: each write of the key gives it another one.
///
/// ```swift
/// let page = try pages.versionedValue(forKey: "/")
/// let isStored = try pages.compareAndSet("<new>", forKey: "/", ifVersion: page.version)
/// ```
///
/// A version is valid in every process, also after a compaction and a restart. As text it can be sent to
/// other programs, for example as an HTTP entity tag. It contains a hash of the value, because the commits of
/// a store that was deleted or restored from a copy can have earlier numbers again.
public struct EntryVersion: Sendable, Hashable, LosslessStringConvertible {
  /// The commit version of the entry, or zero.
  package let commitVersion: UInt64
  /// The hash of the value as it is stored, or zero if the number alone is never used again.
  private let content: UInt64

  package init(commitVersion: UInt64) { (self.commitVersion, content) = (commitVersion, 0) }

  /// - Parameter payload: The value as it is stored.
  package init(commitVersion: UInt64, payload: [UInt8]) {
    (self.commitVersion, content) = (commitVersion, XXH64.hash(payload))
  }

  /// The version of a key without a value.
  public static let absent = EntryVersion(commitVersion: 0)

  /// Creates a version of its text.
  ///
  /// - Returns: `nil` if the text is not that of a version.
  public init?(_ description: String) {
    guard description.utf8.allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") }) else {
      return nil
    }
    let numbers = description.split(separator: ".", omittingEmptySubsequences: false).map {
      UInt64($0, radix: 16)
    }
    guard (1...2).contains(numbers.count), let number = numbers[0],
      let hash = numbers.count == 2 ? numbers[1] : 0
    else { return nil }
    (commitVersion, content) = (number, hash)
  }

  /// The text of the version: a hexadecimal number, or two with a point between them.
  public var description: String {
    let number = String(commitVersion, radix: 16)
    return content == 0 ? number : number + "." + String(content, radix: 16)
  }
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
