// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderSystem

/// The kind of a change.
public struct ChangeKind: Sendable, Hashable, CustomStringConvertible {
  let code: UInt8
  /// The name of the kind, such as `set`.
  public let description: String

  /// The key has a new value.
  public static let set = ChangeKind(code: 1, description: "set")
  /// A caller removed the key, or stored that it has no value.
  public static let removed = ChangeKind(code: 2, description: "removed")
  /// The time of the value was over when its data was deleted. It was invisible before, from its
  /// expiration on.
  public static let expired = ChangeKind(code: 3, description: "expired")
  /// The budget required that the value was removed.
  public static let evicted = ChangeKind(code: 4, description: "evicted")
  /// All values of the namespace were removed.
  public static let cleared = ChangeKind(code: 5, description: "cleared")
  /// All values with a tag were removed. The key is the tag.
  public static let untagged = ChangeKind(code: 6, description: "untagged")
  /// The value could not be read, and was removed.
  public static let damaged = ChangeKind(code: 7, description: "damaged")

  static let all: [ChangeKind] = [
    .set, .removed, .expired, .evicted, .cleared, .untagged, .damaged,
  ]

  /// Returns the kind with a code; one of a newer version of the library has no name.
  static func named(_ code: UInt8) -> ChangeKind {
    all.first { $0.code == code } ?? ChangeKind(code: code, description: "unknown \(code)")
  }
}

/// A committed change of an entry by any process.
public struct StoreChange: Sendable, Hashable {
  /// The kind.
  public let kind: ChangeKind
  /// The name of the namespace; `nil` for the removal of a tag in all namespaces.
  public let namespace: String?
  /// The text of the key, as `larder list` shows it; of a key of more than 256 bytes its beginning.
  /// The tag for ``ChangeKind/untagged``, and empty for ``ChangeKind/cleared``.
  public let keyText: String
  /// The process that committed the change. An increment may be committed by another process than the
  /// caller's, see `increment(forKey:by:expires:pinned:)`.
  public let pid: Int32
  /// The time of the transaction by the clock of that process, in milliseconds since 1970.
  public let time: Int64
  /// The number of the commit: larger than those of all earlier commits.
  public let commitVersion: UInt64
  /// Whether ``keyText`` is the beginning of a longer key.
  public let isKeyCut: Bool
  private let keyTag: UInt8
  private let keyBytes: [UInt8]?

  init(_ change: ChangeRecord.Change, of record: ChangeRecord, namespace: String?) {
    kind = .named(change.kind)
    self.namespace = namespace
    let text =
      kind == .untagged
      ? String(decoding: change.key, as: UTF8.self)
      : KeyTextFormat.display(tag: KeyTag(rawValue: change.keyTag), bytes: change.key)
    keyText = kind == .cleared ? "" : change.isKeyCut ? text + "…" : text
    pid = record.pid
    time = record.time
    commitVersion = record.commitVersion
    isKeyCut = change.isKeyCut
    keyTag = change.keyTag
    keyBytes = [.cleared, .untagged].contains(kind) ? nil : change.key
  }

  /// Returns whether this is a change in a namespace. Names are compared by their bytes, as in the store.
  package func isIn(_ name: String) -> Bool {
    namespace.map { $0.utf8.elementsEqual(name.utf8) } ?? false
  }

  /// The key, of which the log may have the beginning only; `nil` for changes of many keys.
  package var encodedKey: EncodedKey? { keyBytes.map { EncodedKey(tag: keyTag, bytes: $0) } }

  /// Returns whether this is a change of a key, or one that has removed it together with others. Of a
  /// longer key than the log records, every change of a key with the same beginning is one.
  package func concerns(_ key: EncodedKey, in namespace: String) -> Bool {
    guard isIn(namespace) else { return false }
    if kind == .cleared { return true }
    guard keyTag == key.tag, let keyBytes else { return false }
    return isKeyCut ? key.bytes.starts(with: keyBytes) : keyBytes == key.bytes
  }

  /// Returns whether this is a change of the key that `larder list` shows as a text; see
  /// ``concerns(_:in:)``.
  package func concerns(keyText text: String) -> Bool {
    guard isKeyCut else { return text.utf8.elementsEqual(keyText.utf8) }
    // Bytes: the log may cut a text key inside a character.
    if keyTag == KeyTag.text.rawValue, let keyBytes { return text.utf8.starts(with: keyBytes) }
    return text.utf8.starts(with: keyText.dropLast().utf8)
  }

  /// Returns the key.
  ///
  /// - Returns: `nil` if the key is of another type or has more than 256 bytes, and for changes of many
  ///   keys.
  public func key<Key: DecodableCacheKey>(as type: Key.Type = Key.self) -> Key? {
    guard keyTag == Key.keyTag.rawValue, !isKeyCut, let keyBytes else { return nil }
    return Key(keyBytes: keyBytes)
  }
}

/// An element of ``SharedStore/changes(since:)``.
public enum ChangeEvent: Sendable, Hashable {
  /// The changes of one commit, in their order.
  case commit([StoreChange], cursor: ChangeCursor)
  /// The changes of the commits from one number to another, both included, are not known: the log has
  /// overwritten them, or a transaction had too many. Read again what the program knows of the store.
  case gap(from: UInt64, to: UInt64, cursor: ChangeCursor)

  /// The place after this event.
  public var cursor: ChangeCursor {
    switch self {
    case .commit(_, let cursor), .gap(_, _, let cursor): cursor
    }
  }
}

/// A place in the changes of a store: after all changes up to a commit.
///
/// Its text can be stored, and passed to other processes. It is valid as long as the store exists, also
/// after a restart of the machine.
///
/// ```swift
/// let saved = try? String(contentsOfFile: "cursor", encoding: .utf8)
/// let cursor = try saved.map { try ChangeCursor($0) } ?? .now
/// for try await event in try store.changes(since: cursor) { print(event) }
/// ```
///
/// The text ends with a check: one that was cut, changed, or never was a cursor is an error, and not another
/// place.
public struct ChangeCursor: Sendable, Hashable, CustomStringConvertible {
  package let storeID: UInt64
  /// The number of the last commit whose changes are before the place; of ``now`` the largest number there
  /// is.
  public let commitVersion: UInt64

  package init(storeID: UInt64, commitVersion: UInt64) {
    self.storeID = storeID
    self.commitVersion = commitVersion
  }

  /// The place after all changes that are committed when a call gets it: of any store, and of each call
  /// another place.
  public static let now = ChangeCursor(storeID: 0, commitVersion: .max)

  /// Creates a cursor from its text.
  ///
  /// - Parameter text: The whole ``description`` of a cursor.
  /// - Throws: ``StoreError/Code/invalidCursor`` for any other text: one that is empty or was cut, or that
  ///   has another character, such as a newline at its end. What was committed since the place is not known
  ///   then: read the store's data again, and begin with ``now``.
  public init(_ text: String) throws(StoreError) {
    if text == Self.now.description {
      self = .now
      return
    }
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
    if parts.count == 3, let storeID = UInt64(parts[0], radix: 36),
      let version = UInt64(parts[1], radix: 36)
    {
      self.init(storeID: storeID, commitVersion: version)
      // Bytes: one place has one text.
      if description.utf8.elementsEqual(text.utf8) { return }
    }
    let shown = text.count > 80 ? text.prefix(80) + "…" : text[...]
    throw StoreError(
      .invalidCursor, during: "cursor",
      "The text \(shown.debugDescription) is not the whole text of a cursor or token. Pass it as "
        + "`description` gave it; if it is lost, read the store's data again and begin with .now.")
  }

  /// The text of the cursor: `now`, or three numbers of letters and digits with hyphens between them.
  public var description: String {
    if self == .now { return "now" }
    let place = "\(String(storeID, radix: 36))-\(String(commitVersion, radix: 36))"
    let check = String(XXH64.hash(Array(place.utf8)) >> 32, radix: 36)
    // All checks have one length, so that a text cannot be the beginning of another.
    return "\(place)-\(String(repeating: "0", count: 7 - check.utf8.count))\(check)"
  }
}
