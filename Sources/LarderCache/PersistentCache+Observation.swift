// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderEngine

/// The values of a key: the current one first, then the newest one after changes by any process. The
/// element is `nil` while the key has no value.
///
/// Several changes between two elements are delivered as one, equal values are not repeated (by `==`
/// if the type is `Equatable`, otherwise by their encoded form), and the newest value is always
/// delivered. When a value expires, the next element is `nil` without a write.
///
/// The sequence ends when the store is closed or the task is cancelled. It throws when an entry cannot
/// be read.
public struct CacheValues<Key: CacheKey, Value: Codable & Sendable>: AsyncSequence, Sendable {
  /// A value, or `nil` while the key has none.
  public typealias Element = Value?

  let cache: PersistentCache<Key, Value>
  let key: Key
  /// The value that was read before the sequence began, which it does not repeat.
  var baseline: ObservedValue<Value>?

  /// An iterator that waits for the next change.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private let values: CacheValues
    private var last: ObservedValue<Value>?

    init(_ values: CacheValues) {
      self.values = values
      last = values.baseline
    }

    /// Returns the next value, or `nil` at the end.
    ///
    /// - Throws: ``/LarderEngine/StoreError`` if the entry cannot be read.
    public mutating func next() async throws -> Value?? {
      while true {
        if let last { await last.change() }
        if Task.isCancelled { return nil }
        let current: ObservedValue<Value>
        do {
          current = try values.cache.backend.observe(values.key)
        } catch let error as StoreError where error.code == .closed {
          return nil
        }
        let isSame = last.map { values.cache.isSame($0.value, current.value) } ?? false
        last = current
        if !isSame { return .some(current.value) }
      }
    }
  }

  /// Creates an iterator. Each iterates independently.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}

extension PersistentCache {
  /// Returns the current value of a key and its changes by any process.
  ///
  /// ```swift
  /// for try await score in cache.values(forKey: "ada") {
  ///   print(score ?? "none")
  /// }
  /// ```
  ///
  /// In a cache without a store, these are the changes by this process. There, the eviction of a value
  /// at the bounds of the memory tier is not reported.
  public func values(forKey key: Key) -> CacheValues<Key, Value> {
    CacheValues(cache: self, key: key)
  }

  /// Returns the changes of a key's value from this call on, by any process.
  public func updates(forKey key: Key) -> CacheValues<Key, Value> {
    CacheValues(cache: self, key: key, baseline: try? backend.observe(key))
  }

  func isSame(_ old: Value?, _ new: Value?) -> Bool {
    guard let old, let new else { return old == nil && new == nil }
    func isEqual<Other: Equatable>(_ value: Other) -> Bool { value == new as? Other }
    if let old = old as? any Equatable { return isEqual(old) }
    guard let before = try? StandardCoding.encode(old, codec: options.codec),
      let after = try? StandardCoding.encode(new, codec: options.codec)
    else { return false }
    return before.0 == after.0 && before.1 == after.1
  }
}
