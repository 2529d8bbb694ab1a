// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderSystem

/// The knowledge of a store about a key.
public enum KeyState<Value> {
  /// The key has a value.
  case value(Value)
  /// The key is known to have no value: a negative entry says so.
  case absent
  /// The store knows nothing of the key.
  case unknown

  /// The value, if the key has one.
  public var value: Value? {
    if case .value(let value) = self { value } else { nil }
  }

  /// Returns the state of a key whose value is the result of `transform`.
  public func map<Other, E>(
    _ transform: (Value) throws(E) -> Other
  ) throws(E) -> KeyState<Other> {
    switch self {
    case .value(let value): .value(try transform(value))
    case .absent: .absent
    case .unknown: .unknown
    }
  }
}

extension KeyState: Sendable where Value: Sendable {}
extension KeyState: Equatable where Value: Equatable {}
extension KeyState: Hashable where Value: Hashable {}

extension SharedStore {
  /// Removes every entry with a tag, in all namespaces, for every process.
  ///
  /// ```swift
  /// try pages.setBytes(html, forKey: "/user/7", tags: ["user:7"])
  /// try store.removeAll(tagged: "user:7")
  /// ```
  ///
  /// No process reads such an entry after the call, from memory neither. An entry that is written with
  /// the tag afterwards is not affected. A value that was being computed with the tag in the meantime is
  /// returned to its callers, but not stored. The data is deleted later, by the thread of a process that
  /// has written to the store; until then it counts against the budget.
  ///
  /// - Parameter tag: The tag, 1 to 250 bytes of UTF-8. A store knows tags by a keyed hash of 64 bits.
  /// - Throws: ``StoreError``; ``StoreError/Code/invalidOption`` for a tag of another length.
  /// - Complexity: One small write, whatever the number of entries.
  public func removeAll(tagged tag: String) throws {
    try openCore("removeAll").removeAll(tagged: tag, in: nil)
  }

}

extension StoreNamespace {
  /// Removes every entry of this namespace with a tag, for every process.
  ///
  /// No process reads such an entry after the call. See ``SharedStore/removeAll(tagged:)`` for what
  /// happens to the data.
  ///
  /// - Parameter tag: The tag, 1 to 250 bytes of UTF-8.
  /// - Throws: ``StoreError``; ``StoreError/Code/invalidOption`` for a tag of another length.
  /// - Complexity: One small write, whatever the number of entries.
  public func removeAll(tagged tag: String) throws {
    try store.openCore("removeAll").removeAll(tagged: tag, in: space)
  }

  /// Records that a key is known to have no value, for every process, and waits for the commit.
  ///
  /// ``bytes(forKey:)`` returns `nil` for such a key, and ``state(forKey:)`` tells it from a key of which
  /// nothing is known. Negative entries have at most an eighth of each budget: if others must make room
  /// and none is found in a sample, the key's value is removed and nothing is recorded.
  ///
  /// - Parameters:
  ///   - key: The key, whose value is removed.
  ///   - expires: The time from which nothing is known of the key.
  ///   - tags: The tags by which the entry can be removed.
  /// - Throws: ``StoreError``, as ``setBytes(_:forKey:expires:tags:pinned:)``.
  /// - Complexity: O(log *n*).
  public func setAbsent(
    forKey key: some CacheKey, expires: Expiration, tags: [String] = []
  ) throws {
    let core = try store.openCore("set")
    try core.submit(
      put([], EncodedKey(key), EntryAttributes(expires, tags: tags, isAbsent: true), core))
  }

  /// Returns what the store knows of a key: its bytes, that it has no value, or nothing.
  ///
  /// - Parameter key: The key.
  /// - Throws: ``StoreError``, as ``bytes(forKey:)``.
  /// - Complexity: O(log *n*), and a copy of the bytes.
  public func state(forKey key: some CacheKey) throws -> KeyState<[UInt8]> {
    try store.openCore("get").state(of: EncodedKey(key), in: space)
  }
}

extension StoreTransaction {
  /// Removes every entry with a tag, of one namespace or of all. Other processes and threads see the
  /// removal after the commit.
  ///
  /// Entries that this transaction has written before are removed, those that it writes afterwards are
  /// not.
  ///
  /// - Parameters:
  ///   - tag: The tag, 1 to 250 bytes of UTF-8.
  ///   - namespace: The name of the namespace, or `nil` for all.
  /// - Throws: ``StoreError``; ``StoreError/Code/invalidOption`` for a tag of another length.
  /// - Complexity: One small write, whatever the number of entries.
  public mutating func removeAll(tagged tag: String, in namespace: String? = nil) throws {
    try removeAll(
      tagged: Tag.bytes(of: tag, during: "removeAll"),
      in: namespace.map { try NamespaceHandle(name: $0) })
  }
}

extension StoreCore {
  /// Removes the entries with a tag, of one namespace, or of all if `space` is `nil`.
  package func removeAll(tagged tag: String, in space: NamespaceHandle?) throws {
    let bytes = try Tag.bytes(of: tag, during: "removeAll")
    try runExclusively { core in
      try core.withGeneration { generation in
        _ = try core.transact(in: generation) { try $0.removeAll(tagged: bytes, in: space) }
      }
    }
  }

  /// Returns what is known of a key. Pending writes of this process override the store.
  package func state(of key: EncodedKey, in space: NamespaceHandle) throws -> KeyState<[UInt8]> {
    if !pending.isEmpty, let record = queue.pendingWrite(of: key, in: space),
      try isWaiting(record, key, in: space)
    {
      if case .put(let content) = record.kind {
        if content.expires <= now { return .unknown }
        return content.isAbsent ? .absent : .value(content.payload)
      }
      if case .remove = record.kind { return .unknown }
    }
    switch try lookup(key, in: space).outcome {
    case .found(let value): return .value(value.payload)
    case .knownAbsent: return .absent
    case .absent, .unchanged: return .unknown
    case .unreadable(let text): throw StoreError.unreadable(text, in: space.name)
    }
  }
}
