// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderSystem
import LarderTesting

// THE CONTENTS OF THE STORES UNDER DAMAGE
//
// Everything follows from a seed and the number of a template: the keys, the order of the writes,
// their sequence numbers, the sizes of the values. So every process derives each acknowledged byte
// from these two numbers, without a file that could be damaged as well.
//
// A value identifies itself: its first bytes contain the template, the namespace, the key and the
// sequence number, and the remaining bytes are computed from them. `DamageValue.read` verifies
// both.
//
// There are five namespaces: the unnamed one with values of all sizes, in pages and on overflow
// pages, "big" in chunks, "temp" with deadlines in the past and in the future, "gone", which is
// cleared once and written again, and "late", which is written last. A third of all keys is written
// twice and an eighth removed, so that the file has many pages with outdated entries.

/// A key of a store under damage.
package struct DamageKey: Hashable, Sendable, CustomStringConvertible {
  package static let namespaces = ["", "big", "temp", "gone", "late"]

  package let namespace: Int
  package let number: Int

  package init(namespace: Int, number: Int) {
    self.namespace = namespace
    self.number = number
  }

  package var description: String { "\(Self.namespaces[namespace])/\(number)" }
}

/// The values, which follow from their template, key and sequence number.
package enum DamageValue {
  package static func bytes(template: Int, key: DamageKey, sequence: UInt32) -> [UInt8] {
    var mixer = SplitMix64(
      state: UInt64(template) << 56 ^ UInt64(key.namespace) << 48 ^ UInt64(key.number) << 32
        ^ UInt64(sequence))
    let size = size(in: key.namespace, &mixer)
    var bytes: [UInt8] = []
    bytes.reserveCapacity(size + 8)
    bytes.append(UInt8(template))
    bytes.append(UInt8(key.namespace))
    bytes.append(littleEndian: UInt32(key.number))
    bytes.append(littleEndian: sequence)
    bytes.append(littleEndian: UInt32(size))
    while bytes.count < size { bytes.append(littleEndian: mixer.next()) }
    bytes.removeLast(bytes.count - size)
    return bytes
  }

  private static func size(in namespace: Int, _ mixer: inout SplitMix64) -> Int {
    if namespace == 1 { return Int.random(in: 33_000...70_000, using: &mixer) }
    return switch Int.random(in: 0..<100, using: &mixer) {
    case ..<65: Int.random(in: 24...300, using: &mixer)
    case ..<88: Int.random(in: 300...1900, using: &mixer)
    case ..<97: Int.random(in: 1900...9000, using: &mixer)
    default: Int.random(in: 20_000...32_000, using: &mixer)
    }
  }

  /// Returns the origin of a value, or `nil` if the bytes are not a complete value of any key.
  package static func read(
    _ bytes: [UInt8]
  ) -> (template: Int, key: DamageKey, sequence: UInt32)? {
    guard bytes.count >= 14, Int(bytes[1]) < DamageKey.namespaces.count else { return nil }
    let number: UInt32 = bytes.integer(at: 2)!
    let sequence: UInt32 = bytes.integer(at: 6)!
    let key = DamageKey(namespace: Int(bytes[1]), number: Int(number))
    guard self.bytes(template: Int(bytes[0]), key: key, sequence: sequence) == bytes else {
      return nil
    }
    return (Int(bytes[0]), key, sequence)
  }
}

/// The acknowledged writes of one template, and the entries that result from them.
package struct DamageModel: Sendable {
  /// One acknowledged write.
  package enum Step: Sendable {
    case put(DamageKey, sequence: UInt32, expires: Int64?)
    case remove(DamageKey)
    case clear(namespace: Int)
  }

  /// The time of the builder, and the later time of the processes that open the damaged store.
  package static let buildTime: Int64 = 1_700_000_000_000
  package static let openTime = buildTime + 60_000

  package let template: Int
  /// The steps up to the copy that serves as "an older state", then the others.
  package let first: [Step]
  package let second: [Step]
  /// Every sequence number of each key.
  package private(set) var history: [DamageKey: [UInt32]] = [:]
  /// The entries of a valid store at `openTime`, before the second half of the steps and after it.
  package private(set) var older: [DamageKey: UInt32] = [:]
  package private(set) var newest: [DamageKey: UInt32] = [:]
  private var sequence: UInt32 = 0

  package init(template: Int, seed: UInt64) {
    self.template = template
    var random = Seed(seed).generator(stream: 1000 + UInt64(template))
    var keys: [DamageKey] = []
    for (namespace, count) in [48, 2, 12, 8, 0].enumerated() {
      for number in 0..<count { keys.append(DamageKey(namespace: namespace, number: number)) }
    }
    keys.shuffle(using: &random)
    var counter: UInt32 = 0
    func put(_ key: DamageKey) -> Step {
      counter += 1
      var expires: Int64?
      if key.namespace == 2 {
        expires = [Self.buildTime + 1000, Self.openTime + 3_600_000, nil][key.number % 3]
      }
      return .put(key, sequence: counter, expires: expires)
    }
    first = keys.map(put)
    var later: [Step] = [.clear(namespace: 3)]
    for key in keys.shuffled(using: &random) where key.namespace != 3 {
      if random.chance(33) {
        later.append(put(key))
      } else if random.chance(12) {
        later.append(.remove(key))
      }
    }
    later += (0..<3).map { put(DamageKey(namespace: 3, number: $0)) }
    later += (0..<6).map { put(DamageKey(namespace: 4, number: $0)) }
    second = later
    for step in first { take(step) }
    older = newest
    for step in second { take(step) }
  }

  /// All keys that were ever written, in a fixed order.
  package var keys: [DamageKey] {
    history.keys.sorted { ($0.namespace, $0.number) < ($1.namespace, $1.number) }
  }

  private mutating func take(_ step: Step) {
    switch step {
    case .put(let key, let sequence, let expires):
      history[key, default: []].append(sequence)
      let isAlive = expires.map { $0 > Self.openTime } ?? true
      newest[key] = isAlive ? sequence : nil
    case .remove(let key): newest[key] = nil
    case .clear(let namespace):
      for key in newest.keys where key.namespace == namespace { newest[key] = nil }
    }
  }
}
#endif
