// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

// CHANGES OF ONE KEY IN ONE STEP
//
// A change reads a key and writes it, and no other writer of any process comes between the two.
//
//   conditional write   decides by the version alone. Its value is encoded before.
//   key change          decides by the value, which it decodes.
//
// In a store, conditional writes and increments are requests like all others: the commit leader executes
// those of many callers in one transaction. Every other key change runs the user's code, and has its own
// transaction, on the thread that `SharedStore.write` would use. In memory, a change is repeated until no
// other writer came between.

/// A write that takes place only if the key has a version.
enum ConditionalWrite<Value: Sendable>: Sendable {
  case set(Value, EntryAttributes, ifVersion: EntryVersion)
  case remove(ifVersion: EntryVersion)
  /// Gives the value another expiration, if there is one.
  case renew(Expiration)
}

/// A change of a key that depends on its value.
struct KeyChange<Value: Sendable>: Sendable {
  enum Outcome: Sendable {
    case unchanged
    case removed
    /// The new value, and its expiration, or `nil` to keep that of the old value.
    case stored(Value, Expiration?)
  }

  /// The value of the key with its expiration time in milliseconds since 1970.
  typealias Read = () throws -> (value: Value, expires: Int64)?

  let operation: String
  /// Whether a new value is never evicted. One that replaces another is pinned as that is.
  var pinsNew = false
  /// May be called several times.
  let body: @Sendable (_ read: Read) throws -> Outcome
}

extension KeyChange.Outcome {
  /// The new value, if there is one.
  var value: Value? { if case .stored(let value, _) = self { value } else { nil } }
}

extension KeyChange {
  /// The change by a closure of the user.
  static func updating(
    _ expires: Expiration?, _ body: @escaping @Sendable (Value?) throws -> Value?
  ) -> Self {
    KeyChange(operation: "update") { read in
      try body(read()?.value).map { .stored($0, expires) } ?? .removed
    }
  }
}

/// The value that a change has found.
final class OldValue<Value: Sendable>: Sendable {
  private let found = Mutex<Value?>(nil)

  var value: Value? { found.withLock { $0 } }

  func swapping(_ value: Value, _ expires: Expiration) -> KeyChange<Value> {
    KeyChange(operation: "swap") { [self] read in
      note(try read()?.value)
      return .stored(value, expires)
    }
  }

  func taking() -> KeyChange<Value> {
    KeyChange(operation: "take") { [self] read in
      let old = try read()?.value
      note(old)
      return old == nil ? .unchanged : .removed
    }
  }

  private func note(_ value: Value?) { found.withLock { $0 = value } }
}
