// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import Synchronization

/// The addition of a number to the integer of a key, in one step. Any process can execute it: it needs
/// neither the type of the caller's cache nor its codec.
package struct CounterIncrement: Sendable {
  /// An integer type of the standard library, whose coding runs no code of the user.
  package struct IntegerType: Sendable, Hashable {
    let bits: UInt8
    let isSigned: Bool

    /// Creates the description of a type; `nil` for types of other libraries and for 128 bits.
    package init?<Value: FixedWidthInteger>(_ type: Value.Type) {
      guard
        type == Int.self || type == Int64.self || type == UInt.self || type == UInt64.self
          || type == Int32.self || type == UInt32.self || type == Int16.self
          || type == UInt16.self || type == Int8.self || type == UInt8.self
      else { return nil }
      (bits, isSigned) = (UInt8(Value.bitWidth), Value.isSigned)
    }

    init?(code: UInt8) {
      (bits, isSigned) = (code & 0x7F, code & 0x80 != 0)
      guard [8, 16, 32, 64].contains(bits) else { return nil }
    }

    var code: UInt8 { bits | (isSigned ? 0x80 : 0) }

    func contains(_ value: Int128) -> Bool {
      let limit = Int128(1) << Int128(isSigned ? bits - 1 : bits)
      return value < limit && value >= (isSigned ? -limit : 0)
    }

    /// Returns the value with a bit pattern of 64 bits.
    func value(_ pattern: UInt64) -> Int128 {
      isSigned ? Int128(Int64(bitPattern: pattern)) : Int128(pattern)
    }

    static func pattern(_ value: Int128) -> UInt64 { UInt64(truncatingIfNeeded: value) }
  }

  package enum Outcome: Sendable {
    case stored(Int128)
    /// The sum does not fit the type. The stored value, which is unchanged.
    case overflow(Int128)
  }

  /// The place for the outcome of an increment that another thread executes, or for an error of the
  /// decision. Without type parameters, because those cost a sixth of an increment.
  package final class Box: Sendable {
    private let value = Mutex<Result<Outcome, any Error>?>(nil)

    package init() {}

    func set(_ result: Result<Outcome, any Error>) { value.withLock { $0 = result } }

    /// Returns the outcome of the last execution.
    package func get() throws -> Outcome {
      guard let result = value.withLock({ $0 }) else { throw StoreError.closed("increment") }
      return try result.get()
    }
  }

  package let type: IntegerType
  package let amount: Int128
  package let expiration: Expiration
  package let isPinned: Bool

  /// - Parameters:
  ///   - amount: The number to add, which fits the type.
  ///   - type: The type of the values.
  ///   - expiration: The expiration of a new counter.
  ///   - isPinned: Whether a new counter is never evicted.
  package init(_ amount: Int128, _ type: IntegerType, _ expiration: Expiration, isPinned: Bool) {
    self.type = type
    self.amount = amount
    self.expiration = expiration
    self.isPinned = isPinned
  }

  /// Executes increments of one key in a transaction, in their order. All are of the same type.
  ///
  /// - Returns: An outcome for each. The error, ``StoreError/Code/unreadableEntry`` or a `CodecError` for
  ///   a value that is no integer of the type, has changed nothing.
  /// - Throws: The errors of the write.
  static func apply(
    _ increments: [CounterIncrement], to key: EncodedKey, in space: NamespaceHandle,
    _ transaction: inout StoreTransaction
  ) throws -> Result<[Outcome], any Error> {
    let outcomes: [Outcome]
    let content: EntryContent
    do {
      let old = try transaction.value(forKey: key, in: space)
      var sum = try old.map(increments[0].decode) ?? 0
      // Its attributes are those of a new counter.
      var first: CounterIncrement?
      outcomes = increments.map { increment in
        guard increment.type.contains(sum + increment.amount) else { return .overflow(sum) }
        sum += increment.amount
        first = first ?? increment
        return .stored(sum)
      }
      guard let first else { return .success(outcomes) }
      content = try first.content(sum, replacing: old, of: key, now: transaction.now)
    } catch  where error is StoreError || error is CodecError {
      return .failure(error)
    }
    try transaction.set(content, forKey: key, in: space)
    return .success(outcomes)
  }

  private func content(
    _ sum: Int128, replacing old: StoredValue?, of key: EncodedKey, now: Int64
  ) throws -> EntryContent {
    let (codec, payload) =
      if let word = Int64(exactly: sum) {
        try StandardCoding.encode(word, codec: CBORCodec())
      } else {
        try StandardCoding.encode(UInt64(sum), codec: CBORCodec())
      }
    if let old {
      return try EntryContent(
        key: key, codec: codec.rawValue, payload: payload, replacing: old, now: now)
    }
    return try EntryContent(
      key: key, codec: codec.rawValue, payload: payload,
      EntryAttributes(expiration, isPinned: isPinned), now: now)
  }

  private func decode(_ stored: StoredValue) throws -> Int128 {
    // The usual form, without a search for the type.
    if stored.codec == CodecIdentifier.plainInteger.rawValue, stored.payload.count == 8 {
      let value = Int128(
        Int64(bitPattern: stored.payload.reversed().reduce(0) { $0 << 8 | UInt64($1) }))
      if type.contains(value) { return value }
    }
    func integer<Value: FixedWidthInteger & Codable>(_ type: Value.Type) throws -> Int128 {
      Int128(
        try StandardCoding.decode(
          type, identifier: CodecIdentifier(rawValue: stored.codec), bytes: stored.payload,
          codec: CBORCodec()))
    }
    return switch (type.bits, type.isSigned) {
    case (8, true): try integer(Int8.self)
    case (8, false): try integer(UInt8.self)
    case (16, true): try integer(Int16.self)
    case (16, false): try integer(UInt16.self)
    case (32, true): try integer(Int32.self)
    case (32, false): try integer(UInt32.self)
    case (_, true): try integer(Int.self)
    case (_, false): try integer(UInt.self)
    }
  }
}
