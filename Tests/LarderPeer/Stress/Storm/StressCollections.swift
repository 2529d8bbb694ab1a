// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderObjects

/// An object of a type with a budget. It may be evicted at any time.
struct StressThumb: Storable, StressPayload {
  let id: Int
  let sequence: UInt64
  let group: Int
  let tags: [Int]
  let check: UInt64
  let padding: [UInt8]

  static let storedName = "stress.Thumb"
  static let budget: ObjectBudget? = ObjectBudget(bytes: .bytes(bytes), count: count)
  static let bytes = 160_000
  static let count = 60
  static let indexes = [
    Index<StressThumb>("group", \.group, \.sequence), Index<StressThumb>("tag", each: \.tags),
    Index<StressThumb>("words", fullText: \.words),
  ]
  static let computedProperties = [ComputedProperty<StressThumb>("words", \.words)]
  var words: String { StressItem.words(group, tags, sequence) }

  /// - Parameter size: By default usually small, so that the bytes exceed the budget in some cases
  ///   and the count in others.
  init(_ write: StormOracle.Write, size: Int? = nil) {
    id = write.key
    sequence = write.sequence
    group = StressItem.group(sequence)
    tags = StressItem.tags(sequence)
    check = Self.check(write)
    padding = Self.padding(
      sequence, size ?? (sequence % 31 == 0 ? 40_000 : Self.smallSize(sequence)))
  }

  /// Returns a size of which the budget has room for more objects than its count permits.
  static func smallSize(_ sequence: UInt64) -> Int { Int(sequence % 400) }

  var storedKey: Int { id }
  var hasOwnProperties: Bool {
    group == StressItem.group(sequence) && tags == StressItem.tags(sequence)
  }
}

// MARK: Two types that share an amount

struct StressAccount: Storable {
  let id: Int
  let amount: Int
  static let storedName = "stress.Account"
}

struct StressVault: Storable {
  let id: Int
  let amount: Int
  static let storedName = "stress.Vault"
  static let indexes = [Index<StressVault>("amount", \.amount)]
}

/// The sum of all accounts and all vaults, which is constant.
enum StressBank {
  static let ids = 0..<6
  static let total = 12_000

  /// Returns a description of an inconsistency between the amounts of one snapshot.
  static func defect(_ accounts: [StressAccount], _ vaults: [StressVault]) -> String? {
    if accounts.isEmpty, vaults.isEmpty { return nil }
    if accounts.count != ids.count || vaults.count != ids.count {
      return "\(accounts.count) accounts and \(vaults.count) vaults of \(ids.count) each"
    }
    let sum = accounts.reduce(0) { $0 + $1.amount } + vaults.reduce(0) { $0 + $1.amount }
    return sum == total ? nil : "accounts and vaults hold \(sum) of \(total)"
  }
}

// MARK: Pages

/// An object that is deleted and saved again while other processes read pages; its sort keys never
/// change.
struct StressPage: Storable, OracleValue {
  let id: Int
  /// The write that inserted the object, which distinguishes it from a deleted one with its
  /// identifier.
  let birth: UInt64
  let version: UInt64
  let rank: Int
  let weight: Int
  var sequence: UInt64 { birth }

  static let storedName = "stress.Page"
  static let indexes = [Index<StressPage>("rank", \.rank)]

  init(_ id: Int, birth: UInt64, version: UInt64) {
    self.id = id
    self.birth = birth
    self.version = version
    rank = id % 5
    weight = id % 7
  }
}
#endif
