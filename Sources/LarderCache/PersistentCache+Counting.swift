// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
public import LarderEngine

extension PersistentCache where Value: FixedWidthInteger {
  /// Adds a number to a counter.
  ///
  /// ```swift
  /// let visits = try counters.increment(forKey: "home", expires: .after(.seconds(86_400)))
  /// ```
  ///
  /// No increment of any process is lost. Increments of several threads and tasks of a process are
  /// committed together.
  ///
  /// - Parameters:
  ///   - key: The key. A key without a value counts from zero.
  ///   - amount: The number to add, which may be negative.
  ///   - expires: The expiration of a new counter. A counter that exists keeps its own.
  ///   - pinned: Whether a new counter is never evicted. A counter that exists stays as it is.
  /// - Returns: The new value. It is committed.
  /// - Throws: ``/LarderEngine/StoreError`` with the code ``/LarderEngine/StoreError/Code/overflow`` if
  ///   the sum exceeds the range of the type: the counter is unchanged. Other codes as
  ///   ``update(forKey:expires:_:)``.
  @discardableResult
  public func increment(
    forKey key: Key, by amount: Value = 1, expires: Expiration = .never, pinned: Bool = false
  ) throws -> Value {
    try backend.change(adding(amount, expires, pinned), key).value!
  }

  /// Adds a number to a counter, without blocking a thread of Swift's pool; see the synchronous form.
  @discardableResult
  public func increment(
    forKey key: Key, by amount: Value = 1, expires: Expiration = .never, pinned: Bool = false
  ) async throws -> Value {
    try await backend.changeAsync(adding(amount, expires, pinned), key).value!
  }

  private func adding(
    _ amount: Value, _ expires: Expiration, _ isPinned: Bool
  ) -> KeyChange<Value> {
    KeyChange(
      operation: "increment",
      runsOnlyOwnCode: StandardIntegers.contain(Value.self)
        && options.codec.identifier.rawValue < 256,
      pinsNew: isPinned
    ) { read in
      guard let old = try read() else { return .stored(amount, expires) }
      let (sum, overflow) = old.value.addingReportingOverflow(amount)
      guard !overflow else {
        throw StoreError(
          .overflow, during: "increment",
          "\(old.value) and \(amount) exceed the range of \(Value.self), \(Value.min) to "
            + "\(Value.max). The counter was not changed. Use a wider type or set the key again.")
      }
      return .stored(sum, nil)
    }
  }
}

/// The integers of the standard library, whose coding runs no code of the user.
private enum StandardIntegers {
  static func contain(_ type: Any.Type) -> Bool {
    let all: [Any.Type] = [
      Int.self, UInt.self, Int64.self, UInt64.self, Int32.self, UInt32.self, Int16.self,
      UInt16.self, Int8.self, UInt8.self,
    ]
    return all.contains { $0 == type }
  }
}

extension PersistentCache where Value: RangeReplaceableCollection {
  /// Appends elements to the value of a key. A key without a value gets one of these elements alone.
  ///
  /// ```swift
  /// let lines = try log.append(["started"], forKey: "today")
  /// ```
  ///
  /// - Parameters:
  ///   - elements: The elements.
  ///   - key: The key.
  ///   - expires: The expiration of a new value. A value that exists keeps its own.
  /// - Returns: The new value. It is committed.
  /// - Throws: ``/LarderEngine/StoreError``, as ``update(forKey:expires:_:)``.
  /// - Complexity: O(*n*) in the bytes of the value, which is read and written.
  @discardableResult
  public func append(
    _ elements: Value, forKey key: Key, expires: Expiration = .never
  ) throws -> Value {
    try backend.change(.appending(elements, expires), key).value!
  }

  /// Appends elements to the value of a key, on a thread of the store; see the synchronous form.
  @discardableResult
  public func append(
    _ elements: Value, forKey key: Key, expires: Expiration = .never
  ) async throws -> Value {
    try await backend.changeAsync(.appending(elements, expires), key).value!
  }
}

extension KeyChange where Value: RangeReplaceableCollection {
  fileprivate static func appending(_ elements: Value, _ expires: Expiration) -> Self {
    KeyChange(operation: "append") { read in
      guard let old = try read() else { return .stored(elements, expires) }
      return .stored(old.value + elements, nil)
    }
  }
}
