// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
public import LarderCoding
public import LarderEngine
public import Synchronization

// MEMORY TIERS
//
// There is one tier for each type that is read, all of the one namespace. A tier contains decoded
// values, validated by the stamps of their keys as in every cache (`MemoryTier`), and contains the
// absence of a value in the same way: a default that was never set is read without a file access. A
// write of a key, with any type, stamps its slot, so every tier of every process reads it again.

/// A key of the memory tiers.
///
/// Two strings that differ in Unicode normalisation are equal in Swift and different keys in the
/// store. A comparison byte by byte would take most of the time of a read, so an inserted key
/// records whether it is ASCII: a string that is equal to an ASCII string and has as many UTF-8
/// bytes has the same bytes, because all other forms of an ASCII character are longer.
@usableFromInline
struct DefaultsTierKey: CacheKey {
  @usableFromInline let text: String
  @usableFromInline let isASCII: Bool

  @inlinable
  init(_ text: String, isASCII: Bool = false) {
    self.text = text
    self.isASCII = isASCII
  }

  /// Creates the key of a value to insert.
  init(filed text: String) { self.init(text, isASCII: text.utf8.allSatisfy { $0 < 0x80 }) }

  /// The tag with which the tiers compare by `==` alone and never encode keys.
  @inlinable static var keyTag: KeyTag { .bytes }
  @usableFromInline func encodeKey(into encoder: inout KeyEncoder) {
    text.encodeKey(into: &encoder)
  }

  @inlinable @inline(__always)
  static func == (left: DefaultsTierKey, right: DefaultsTierKey) -> Bool {
    guard left.text.utf8.count == right.text.utf8.count, left.text == right.text else {
      return false
    }
    return left.isASCII || right.isASCII || left.text.utf8.elementsEqual(right.text.utf8)
  }

  @inlinable
  func hash(into hasher: inout Hasher) { hasher.combine(text) }
}

@usableFromInline typealias DefaultsTier<Value: Sendable> = MemoryTier<DefaultsTierKey, Value?>

/// The decoded values of a suite in this process, by type.
@usableFromInline
final class DefaultsMemoryTiers: Sendable {
  // The tiers of the most frequent types, found without a lookup.
  @usableFromInline let integers: DefaultsTier<Int>
  @usableFromInline let texts: DefaultsTier<String>
  @usableFromInline let booleans: DefaultsTier<Bool>
  @usableFromInline let numbers: DefaultsTier<Double>
  @usableFromInline let others = Mutex<[ObjectIdentifier: any AnyObject & Sendable]>([:])
  private let core: StoreCore?
  @usableFromInline let fork: ForkMark

  private static var options: CacheOptions {
    CacheOptions(memoryCostLimit: .megabytes(16), memoryCountLimit: 20_000)
  }

  init(core: StoreCore?) {
    self.core = core
    fork = ForkMark(isUsed: core != nil)
    integers = MemoryTier(core: core, options: Self.options)
    texts = MemoryTier(core: core, options: Self.options)
    booleans = MemoryTier(core: core, options: Self.options)
    numbers = MemoryTier(core: core, options: Self.options)
  }

  @inlinable @inline(__always)
  func tier<Value: Sendable>(of type: Value.Type) -> DefaultsTier<Value> {
    if Value.self == Int.self { return integers as! DefaultsTier<Value> }
    if Value.self == String.self { return texts as! DefaultsTier<Value> }
    if Value.self == Bool.self { return booleans as! DefaultsTier<Value> }
    if Value.self == Double.self { return numbers as! DefaultsTier<Value> }
    if fork.isForkedChild { return makeTier(of: type) }
    let tier = others.withLock { $0[ObjectIdentifier(type)] }
    return (tier as? DefaultsTier<Value>) ?? makeTier(of: type)
  }

  @usableFromInline
  func makeTier<Value: Sendable>(of type: Value.Type) -> DefaultsTier<Value> {
    // A thread of the parent may have held the lock at the fork. An empty tier finds nothing, as
    // required.
    if fork.isForkedChild { return DefaultsTier<Value>(core: core, options: Self.options) }
    return others.withLock { others in
      if let tier = others[ObjectIdentifier(type)] as? DefaultsTier<Value> { return tier }
      let tier = DefaultsTier<Value>(core: core, options: Self.options)
      others[ObjectIdentifier(type)] = tier
      return tier
    }
  }

  func removeAll() {
    integers.removeAll()
    texts.removeAll()
    booleans.removeAll()
    numbers.removeAll()
    others.withLock { $0 = [:] }
  }
}
