// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine

/// What is stored for a key, not decoded yet.
public struct DefaultsEntry: Sendable {
  let key: String
  let stored: StoredValue

  /// The value.
  ///
  /// - Throws: ``DefaultsError``.
  public func value<Value: Decodable>(_ type: Value.Type) throws -> Value {
    try Defaults.decode(type, stored, key)
  }
}

/// The values of a key, as they become: the present one first, then the newest after each change by
/// any process.
///
/// Values nobody came to see are left out, and what is stored again unchanged is not repeated. The
/// sequence ends when the defaults are closed or the task is cancelled, and with an error when
/// something is stored that cannot be read.
public struct DefaultsValues<Value: Codable & Sendable>: AsyncSequence, Sendable {
  public typealias Element = Value

  let defaults: Defaults
  let key: DefaultsKey<Value>

  /// What waits for the next value.
  public struct AsyncIterator: AsyncIteratorProtocol {
    let key: DefaultsKey<Value>
    /// Kept: the sequence would end with the last reference to them.
    private let defaults: Defaults
    private var entries: DefaultsEntries.AsyncIterator

    init(_ values: DefaultsValues) {
      key = values.key
      defaults = values.defaults
      entries = values.defaults.entries(forKey: key.name).makeAsyncIterator()
    }

    /// The next value; `nil`: the sequence is over.
    public mutating func next() async throws -> Value? {
      guard let stored = try await entries.next() else { return nil }
      guard let stored else { return key.defaultValue }
      return try key.decode(DefaultsEntry(key: key.name, stored: stored))
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}

/// What is stored for a key, as it becomes; `nil` while there is nothing.
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
  /// The value of a key as it is and as it becomes, whichever process changes it.
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

  /// What is stored for a key, as it becomes.
  package func entries(forKey key: String) -> DefaultsEntries {
    DefaultsEntries(state: state, key: key)
  }
}
