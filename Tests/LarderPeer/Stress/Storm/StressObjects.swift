// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderObjects
import Synchronization

/// An object whose properties and indexes follow from its key and its sequence.
struct StressItem: Storable, StressPayload {
  let id: Int
  let sequence: UInt64
  /// Follows from the sequence, so that an outdated index entry is found.
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
    Index<StressItem>("words", fullText: \.words),
  ]
  static let computedProperties = [ComputedProperty<StressItem>("words", \.words)]

  init(_ write: StormOracle.Write, owner: Int = 0) {
    id = write.key
    sequence = write.sequence
    group = Self.group(sequence)
    tags = Self.tags(sequence)
    isKept = OracleRegion.keptItems.keys.contains(id)
    self.owner = owner
    check = Self.check(write)
    padding = Self.padding(sequence, nil)
  }

  /// The group and the tags as a text.
  var words: String { Self.words(group, tags, sequence) }

  static func words(_ group: Int, _ tags: [Int], _ sequence: UInt64) -> String {
    "group\(group) " + tags.map { "tag\($0) tag" }.joined(separator: " ") + " number\(sequence)"
  }

  static func group(_ sequence: UInt64) -> Int { Int(sequence % 5) }
  static func tags(_ sequence: UInt64) -> [Int] {
    sequence % 4 == 0 ? [] : [Int(sequence % 3), 10 + Int(sequence % 7)]
  }

  var storedKey: Int { id }
  var hasOwnProperties: Bool { group == Self.group(sequence) && tags == Self.tags(sequence) }
}

/// An object that is deleted with all objects of its type.
struct StressBulk: Storable, OracleValue {
  let id: Int
  let sequence: UInt64
  static let storedName = "stress.Bulk"
  static let indexes = [Index<StressBulk>("sequence", \.sequence)]
}

/// An object that has one of a few keys of a unique index.
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

/// An object whose reference is removed when its target is deleted.
struct StressFan: Storable {
  let id: Int
  @HasOne var favourite: StressChild?
  static let storedName = "stress.Fan"
  static let relationships = [Relationship(\StressFan.$favourite, onTargetDelete: .nullify)]
}

/// An object whose reference prevents the deletion of its target.
struct StressGuard: Storable {
  let id: Int
  @HasOne var ward: StressParent?
  static let storedName = "stress.Guard"
  static let relationships = [Relationship(\StressGuard.$ward, onTargetDelete: .deny)]
}

// MARK: Two versions of a program

/// The current epoch. The types have another name in each, so that every epoch has a migration.
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
  /// The number of migrations of this object.
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
}
#endif
