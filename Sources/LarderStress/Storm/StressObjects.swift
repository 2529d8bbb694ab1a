// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderObjects
import Synchronization

/// An object that knows its key, its place in the order of writes, and whatever indexes say of it.
struct StressItem: Storable {
  let id: Int
  let sequence: UInt64
  /// What follows from the sequence: an index that lags behind shows.
  let group: Int
  let tags: [Int]
  let isKept: Bool
  let owner: Int
  let check: UInt64
  let padding: [UInt8]

  static let storedName = "stress.Item"
  static let indexes = [
    Index<StressItem>("group", \.group, \.sequence), Index<StressItem>("tag", each: \.tags),
    Index<StressItem>("kept", \.isKept),
    Index<StressItem>("third group", \.sequence, where: \StressItem.group == 3),
  ]

  init(_ id: Int, _ sequence: UInt64, owner: Int = 0) {
    self.id = id
    self.sequence = sequence
    group = StressItem.group(sequence)
    tags = StressItem.tags(sequence)
    isKept = ItemKeys.kept.contains(id)
    self.owner = owner
    check = StressValue.check(id, sequence)
    let size = sequence % 41 == 0 ? 40_000 : Int(sequence % 200)
    padding = [UInt8](repeating: UInt8(truncatingIfNeeded: sequence), count: size)
  }

  static func group(_ sequence: UInt64) -> Int { Int(sequence % 5) }
  static func tags(_ sequence: UInt64) -> [Int] {
    sequence % 4 == 0 ? [] : [Int(sequence % 3), 10 + Int(sequence % 7)]
  }

  func isOwn(_ key: Int) -> Bool {
    id == key && check == StressValue.check(id, sequence) && group == Self.group(sequence)
      && tags == Self.tags(sequence)
  }

  func isWhole(_ key: Int) -> Bool {
    isOwn(key) && padding.allSatisfy { $0 == UInt8(truncatingIfNeeded: sequence) }
  }
}

/// Deleted all at once.
struct StressBulk: Storable {
  let id: Int
  let sequence: UInt64
  static let storedName = "stress.Bulk"
  static let indexes = [Index<StressBulk>("sequence", \.sequence)]
}

/// Who has one of a few keys.
struct StressClaim: Storable {
  let id: Int
  let key: Int
  static let storedName = "stress.Claim"
  static let indexes = [Index<StressClaim>("key", \.key, unique: true)]
}

// MARK: Families

struct StressParent: Storable {
  let id: Int
  let version: UInt64
  @HasMany var children: [StressChild]
  static let storedName = "stress.Parent"
  static let relationships = [Relationship(\StressParent.$children, onDelete: .cascade)]
}

struct StressChild: Storable {
  let id: String
  let parent: Int
  let version: UInt64
  static let storedName = "stress.Child"
  static let indexes = [Index<StressChild>("parent", \.parent)]
}

/// Loses its favourite when that is deleted.
struct StressFan: Storable {
  let id: Int
  @HasOne var favourite: StressChild?
  static let storedName = "stress.Fan"
  static let relationships = [Relationship(\StressFan.$favourite, onTargetDelete: .nullify)]
}

/// Keeps the parent it refers to from being deleted.
struct StressGuard: Storable {
  let id: Int
  @HasOne var ward: StressParent?
  static let storedName = "stress.Guard"
  static let relationships = [Relationship(\StressGuard.$ward, onTargetDelete: .deny)]
}

// MARK: Two versions of a program

/// The types have another name in each epoch, so that there is something to migrate again.
enum StressEpoch {
  static let current = Atomic<UInt64>(0)
  static var carName: String { "stress.Car.\(current.load(ordering: .relaxed))" }

  static var migration: ObjectMigration {
    Migration<OldCar, NewCar>("cars of \(carName)") { NewCar($0) }.step
  }
}

struct OldCar: Storable {
  let id: Int
  let number: String
  static var storedName: String { StressEpoch.carName }
  static let indexes = [Index<OldCar>("number", \.number)]
}

struct NewCar: Storable {
  let id: Int
  let number: UInt64
  /// How often it was migrated.
  let migrations: Int
  static var storedName: String { StressEpoch.carName }
  static let schemaVersion = 2
  static let indexes = [
    Index<NewCar>("number", \.number, unique: true), Index<NewCar>("migrations", \.migrations),
  ]

  init(_ old: OldCar) {
    id = old.id
    number = UInt64(old.number)! << 8 | UInt64(old.id)
    migrations = 1
  }

  init(id: Int, number: UInt64) {
    self.id = id
    self.number = number << 8 | UInt64(id)
    migrations = 0
  }
}
