// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine

/// A set with a name, which all processes of the machine share and which is never evicted.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp")
/// let seen = SharedSet<String>(storage: store, name: "seen")
/// if try seen.insert("https://swift.org/") { print("no process has seen it before") }
/// ```
///
/// Every change is committed when its method returns, and every process sees it then. The elements are
/// the keys of pinned entries in the namespace `set/` and the name. Elements of different types are
/// different (`1` and `"1"`).
public struct SharedSet<Element: CacheKey & Sendable>: Sendable {
  private let cache: PersistentCache<Element, Bool>
  private let store: SharedStore
  /// The name.
  public let name: String

  /// Creates a handle of the set with a name.
  ///
  /// - Parameters:
  ///   - storage: The store.
  ///   - name: At most 396 bytes of UTF-8, compared as bytes. A longer one is an error of each use.
  public init(storage: SharedStore, name: String) {
    cache = PersistentCache(storage: storage, namespace: "set/" + name)
    store = storage
    self.name = name
  }

  /// Adds an element.
  ///
  /// - Returns: Whether it was not in the set. Of several callers on the machine that add an element,
  ///   one gets `true`.
  /// - Throws: ``/LarderEngine/StoreError``; with ``/LarderEngine/StoreError/Code/pinLimitReached`` if
  ///   the store has no room for more elements.
  /// - Complexity: O(log *n*). Calls of several threads and tasks are committed together.
  @discardableResult
  public func insert(_ element: Element) throws -> Bool {
    try cache.setIfAbsent(true, forKey: element, pinned: true)
  }

  /// Adds an element, without blocking a thread of Swift's pool; see the synchronous form.
  @discardableResult
  public func insert(_ element: Element) async throws -> Bool {
    try await cache.setIfAbsent(true, forKey: element, pinned: true)
  }

  /// Removes an element.
  ///
  /// - Returns: Whether it was in the set. Of several callers on the machine that remove an element, one
  ///   gets `true`.
  /// - Throws: ``/LarderEngine/StoreError``.
  @discardableResult
  public func remove(_ element: Element) throws -> Bool { try cache.removeValue(forKey: element) }

  /// Removes an element, without blocking a thread of Swift's pool; see the synchronous form.
  @discardableResult
  public func remove(_ element: Element) async throws -> Bool {
    try await cache.removeValue(forKey: element)
  }

  /// Returns whether an element is in the set.
  ///
  /// - Throws: ``/LarderEngine/StoreError``.
  /// - Complexity: O(1) if the process has read the element since its last change, otherwise
  ///   O(log *n*).
  public func contains(_ element: Element) throws -> Bool {
    // Kept in memory, in contrast to what `contains(_:)` of the cache finds.
    try cache.value(forKey: element) != nil
  }

  /// Returns the number of elements, of all types.
  ///
  /// - Throws: ``/LarderEngine/StoreError``.
  /// - Complexity: As ``/LarderEngine/StoreNamespace/count()``.
  public func count() throws -> Int { try store.namespace(cache.namespace).count() }

  /// Removes all elements.
  ///
  /// - Throws: ``/LarderEngine/StoreError``.
  public func removeAll() throws { try cache.removeAll() }
}

extension SharedSet where Element: DecodableCacheKey {
  /// Returns the elements of this type, in no particular order.
  ///
  /// - Throws: ``/LarderEngine/StoreError``.
  /// - Complexity: O(*n*) in the entries of the store.
  public func elements() throws -> [Element] { try cache.keys() }
}
