// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding

/// The reason why an entry was removed.
public struct RemovalCause: Sendable, Hashable, CustomStringConvertible {
  let code: UInt8
  /// The name of the cause, such as `evicted`.
  public let description: String
  /// The code of the kind of the change in the change log, or zero if it is part of another change there:
  /// a value that was replaced, or removed with others.
  var change: UInt8 = 0

  /// Its time was over.
  public static let expired = RemovalCause(
    code: 1, description: "expired", change: ChangeKind.expired.code)
  /// The budget required it.
  public static let evicted = RemovalCause(
    code: 2, description: "evicted", change: ChangeKind.evicted.code)
  /// The key was written again.
  public static let replaced = RemovalCause(code: 3, description: "replaced")
  /// A caller removed the key.
  public static let removed = RemovalCause(
    code: 4, description: "removed", change: ChangeKind.removed.code)
  /// It was removed with its namespace, with a tag, or because it was not used for long; reported when
  /// the data is deleted.
  public static let invalidated = RemovalCause(code: 5, description: "invalidated")
  /// It could not be read.
  public static let damaged = RemovalCause(
    code: 6, description: "damaged", change: ChangeKind.damaged.code)

  /// It was not used for long: reported as ``invalidated``, and as a removal in the change log.
  static let unused = RemovalCause(
    code: 5, description: "invalidated", change: ChangeKind.removed.code)

  static let all: [RemovalCause] = [
    .expired, .evicted, .replaced, .removed, .invalidated, .damaged,
  ]

  /// Returns the cause with a code; one of a newer version of the library has no name.
  static func named(_ code: UInt8) -> RemovalCause {
    all.first { $0.code == code } ?? RemovalCause(code: code, description: "unknown \(code)")
  }
}

/// An entry that a process has removed from a store.
public struct RemovedEntry: Sendable, Hashable {
  /// The reason.
  public let cause: RemovalCause
  /// The name of the namespace.
  public let namespace: String
  /// The text of the key, as `larder list` shows it; of a key of more than 256 bytes its beginning.
  public let keyText: String
  /// The bytes that the entry counted against the budget.
  public let bytes: Int
  /// The process that removed it.
  public let pid: Int32
  /// Whether it was a negative entry, which says that a key has no value.
  public let isNegative: Bool
  private let keyTag: UInt8
  private let keyBytes: [UInt8]?

  init(_ event: RecordedRemoval, namespace: String) {
    cause = .named(event.cause)
    self.namespace = namespace
    let text = KeyTextFormat.display(tag: KeyTag(rawValue: event.keyTag), bytes: event.key)
    keyText = event.isKeyCut ? text + "…" : text
    bytes = Int(event.bytes)
    pid = Int32(truncatingIfNeeded: event.pid)
    isNegative = event.isAbsent
    keyTag = event.keyTag
    keyBytes = event.isKeyCut ? nil : event.key
  }

  /// Returns the key.
  ///
  /// - Returns: `nil` if the key is of another type, or has more than 256 bytes.
  public func key<Key: DecodableCacheKey>(as type: Key.Type = Key.self) -> Key? {
    guard keyTag == Key.keyTag.rawValue, let keyBytes else { return nil }
    return Key(keyBytes: keyBytes)
  }
}

/// An element of ``SharedStore/removals``.
public enum StoreRemoval: Sendable, Hashable {
  /// An entry was removed.
  case entry(RemovedEntry)
  /// Removals are missing here: at least `count` of them, or an unknown number if it is `nil`.
  case gap(count: Int?)
}
