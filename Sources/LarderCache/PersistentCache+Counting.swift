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
  /// committed together, and so are those of several processes: a process that waits for the writer lock
  /// offers its increment to the holder, which executes it in its own transaction. (A process that
  /// observes its commits for metrics or traces executes its increments itself.)
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
    if let request = request(amount, expires, pinned),
      let outcome = try backend.increment(request, key)
    {
      return try sum(outcome, amount)
    }
    return try backend.change(adding(amount, expires, pinned), key).value!
  }

  /// Adds a number to a counter, without blocking a thread of Swift's pool; see the synchronous form.
  @discardableResult
  public func increment(
    forKey key: Key, by amount: Value = 1, expires: Expiration = .never, pinned: Bool = false
  ) async throws -> Value {
    if let request = request(amount, expires, pinned),
      let outcome = try await backend.incrementAsync(request, key)
    {
      return try sum(outcome, amount)
    }
    return try await backend.changeAsync(adding(amount, expires, pinned), key).value!
  }

  /// Returns the increment as a request that any process can execute: another process has neither a type
  /// nor a codec of the user.
  private func request(
    _ amount: Value, _ expires: Expiration, _ isPinned: Bool
  ) -> CounterIncrement? {
    guard options.codec.identifier.rawValue < 256,
      let type = CounterIncrement.IntegerType(Value.self)
    else { return nil }
    return CounterIncrement(
      Int128(truncatingIfNeeded: amount), type, expires, isPinned: isPinned)
  }

  private func sum(_ outcome: CounterIncrement.Outcome, _ amount: Value) throws -> Value {
    switch outcome {
    case .stored(let sum): return Value(truncatingIfNeeded: sum)
    case .overflow(let old): throw Self.overflow(Value(truncatingIfNeeded: old), amount)
    }
  }

  private func adding(
    _ amount: Value, _ expires: Expiration, _ isPinned: Bool
  ) -> KeyChange<Value> {
    KeyChange(operation: "increment", pinsNew: isPinned) { read in
      guard let old = try read() else { return .stored(amount, expires) }
      let (sum, overflow) = old.value.addingReportingOverflow(amount)
      guard !overflow else { throw Self.overflow(old.value, amount) }
      return .stored(sum, nil)
    }
  }

  private static func overflow(_ old: Value, _ amount: Value) -> StoreError {
    StoreError(
      .overflow, during: "increment",
      "\(old) and \(amount) exceed the range of \(Value.self), \(Value.min) to \(Value.max). The "
        + "counter was not changed. Use a wider type or set the key again.")
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
