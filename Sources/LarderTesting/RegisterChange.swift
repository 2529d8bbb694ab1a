// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import Larder

/// An operation on a register, a key of a cache that several processes change. A key without a value has
/// the value zero.
package enum RegisterChange: CaseIterable, Sendable {
  case read, readAgain, readStore, set, remove, swap, take, compareAndSet, setIfAbsent, increment

  /// Runs a random operation and logs it.
  ///
  /// - Parameters:
  ///   - register: The name of the register in the log.
  ///   - key: The key.
  ///   - value: The value to write, a multiple of 65,536 that no other operation writes.
  ///   - cache: The cache.
  ///   - log: The log.
  ///   - random: The generator that chooses the operation.
  /// - Returns: `false` if the log is full.
  /// - Throws: The error of the operation, which is pending in the log.
  package static func run<Key>(
    _ register: UInt64, _ key: Key, writing value: UInt64, in cache: PersistentCache<Key, UInt64>,
    _ log: HistoryLog, using random: inout some RandomNumberGenerator
  ) throws -> Bool {
    let change = allCases.randomElement(using: &random)!
    guard let entry = log.begin(change.kind, key: register, value: change.fixedValue ?? value)
    else { return false }
    do {
      if let found = try change.run(key, value, in: cache) {
        log.end(entry, value: change.kind == .read ? found : nil, old: found)
      } else {
        log.discard(entry)
      }
    } catch {
      if change.kind == .read { log.discard(entry) }
      throw error
    }
    return true
  }

  private var kind: Linearizability.Operation.Kind {
    switch self {
    case .read, .readAgain, .readStore: .read
    case .set, .remove: .write
    case .swap, .take, .compareAndSet, .setIfAbsent: .replacement
    case .increment: .increment
    }
  }

  /// The value that the operation always writes or adds.
  private var fixedValue: UInt64? {
    switch self {
    case .remove, .take: Linearizability.initialValue
    case .increment: 1
    default: nil
    }
  }

  /// - Returns: The value that was read or replaced, zero for a write, and `nil` if nothing was written.
  private func run<Key>(
    _ key: Key, _ value: UInt64, in cache: PersistentCache<Key, UInt64>
  ) throws -> UInt64? {
    let none = Linearizability.initialValue
    switch self {
    // A memory hit, unless another process has changed the key.
    case .read, .readAgain: return try cache.value(forKey: key) ?? none
    case .readStore: return try cache.versionedValue(forKey: key).value ?? none
    case .set: try cache.setValue(value, forKey: key)
    case .remove: try cache.removeValue(forKey: key)
    case .swap: return try cache.swapValue(value, forKey: key) ?? none
    case .take: return try cache.takeValue(forKey: key) ?? none
    case .compareAndSet:
      let old = try cache.versionedValue(forKey: key)
      let isStored = try cache.compareAndSet(value, forKey: key, ifVersion: old.version)
      return isStored ? old.value ?? none : nil
    case .setIfAbsent: return try cache.setIfAbsent(value, forKey: key) ? none : nil
    case .increment: return try cache.increment(forKey: key) - 1
    }
    return none
  }
}
