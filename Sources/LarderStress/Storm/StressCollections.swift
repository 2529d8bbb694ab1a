// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects

/// An object of a type with a budget. Any of them may be gone; what is there is right.
struct StressThumb: Storable {
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
  ]

  /// - Parameter size: By default mostly small, so that now bytes and now objects are too many.
  init(_ id: Int, _ sequence: UInt64, size: Int? = nil) {
    self.id = id
    self.sequence = sequence
    group = StressItem.group(sequence)
    tags = StressItem.tags(sequence)
    check = StressValue.check(id, sequence)
    let size = size ?? (sequence % 31 == 0 ? 40_000 : Int(sequence % 400))
    padding = [UInt8](repeating: UInt8(truncatingIfNeeded: sequence), count: size)
  }

  func isWhole(_ key: Int) -> Bool {
    id == key && check == StressValue.check(id, sequence) && group == StressItem.group(sequence)
      && tags == StressItem.tags(sequence)
      && padding.allSatisfy { $0 == UInt8(truncatingIfNeeded: sequence) }
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

/// What all accounts and all vaults hold together.
enum StressBank {
  static let ids = 0..<6
  static let total = 12_000

  /// What is wrong with the amounts of one state of the store.
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

/// Comes and goes while others turn pages; where it stands in the order never changes.
struct StressPage: Storable {
  let id: Int
  /// Tells this object from the one of its id that was deleted before.
  let birth: UInt64
  let version: UInt64
  let rank: Int
  let weight: Int

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
