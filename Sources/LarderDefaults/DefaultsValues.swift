// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine

/// The stored value of a key, not yet decoded.
public struct DefaultsEntry: Sendable {
  let key: String
  let stored: StoredValue

  /// Decodes the value.
  ///
  /// - Throws: ``DefaultsError``.
  public func value<Value: Decodable>(_ type: Value.Type) throws -> Value {
    try Defaults.decode(type, stored, key)
  }
}

/// The current value of a key, then its newest value after each change by any process.
///
/// Values that are replaced before the iterator requests them are left out, and a write of an equal
/// value is not reported. The sequence ends when the defaults are closed or the task is cancelled. It
/// throws if the stored value cannot be read.
public struct DefaultsValues<Value: Codable & Sendable>: AsyncSequence, Sendable {
  public typealias Element = Value

  let defaults: Defaults
  let key: DefaultsKey<Value>

  /// The iterator of the sequence.
  public struct AsyncIterator: AsyncIteratorProtocol {
    let key: DefaultsKey<Value>
    /// Retained, because the sequence ends when the last reference to the defaults is released.
    private let defaults: Defaults
    private var entries: DefaultsEntries.AsyncIterator

    init(_ values: DefaultsValues) {
      key = values.key
      defaults = values.defaults
      entries = values.defaults.entries(forKey: key.name).makeAsyncIterator()
    }

    /// Waits for the next value.
    ///
    /// - Returns: The value, or `nil` at the end of the sequence.
    public mutating func next() async throws -> Value? {
      guard let stored = try await entries.next() else { return nil }
      guard let stored else { return key.defaultValue }
      return try key.decode(DefaultsEntry(key: key.name, stored: stored))
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}

/// The stored value of a key and its later values; an element is `nil` while the key has none.
package struct DefaultsEntries: AsyncSequence, Sendable {
  package typealias Element = StoredValue?

  let state: Result<DefaultsStore, any Error>
  let key: String

  package struct AsyncIterator: AsyncIteratorProtocol {
    let entries: DefaultsEntries
    private var last: DefaultsStore.ObservedVersion?

    init(_ entries: DefaultsEntries) { self.entries = entries }

    package mutating func next() async throws -> StoredValue?? {
      let suite = try entries.state.get()
      while true {
        if let last { await suite.change(since: last) }
        if Task.isCancelled { return nil }
        let now: DefaultsStore.ObservedVersion
        do { now = try suite.look(at: entries.key) } catch let error as StoreError
          where error.code == .closed
        {
          return nil
        }
        let isSame = last?.isSame(as: now) ?? false
        last = now
        if !isSame { return .some(try now.entry.get()) }
      }
    }
  }

  package func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}

extension Defaults {
  /// Returns the current value of a key, followed by its newest value after each change by any
  /// process.
  ///
  /// ```swift
  /// for try await volume in defaults.values(of: .volume) {
  ///   print(volume)
  /// }
  /// ```
  public func values<Value: Codable & Sendable>(
    of key: DefaultsKey<Value>
  ) -> DefaultsValues<Value> {
    DefaultsValues(defaults: self, key: key)
  }

  /// Returns the stored value of a key and its later values.
  package func entries(forKey key: String) -> DefaultsEntries {
    DefaultsEntries(state: state, key: key)
  }
}
