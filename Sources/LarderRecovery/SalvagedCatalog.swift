// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderObjectEngine
internal import LarderSystem

// SALVAGE OF A DAMAGED CATALOG
//
// Records of types, migrations and counters have checksums. Valid ones are used, from the main
// table of one commit earlier if the newest does not have them. Replacements of missing ones:
//
//   a type        its objects go to the type `recovered-<number>`, without indexes, with the layouts
//                 whose copy is among the objects; a migration may give that its name back
//   counters      recounted; the next sequence number follows the highest there is
//   a migration   in progress is dropped and starts again: no process has seen any of its results.
//                 Applied migrations stay applied
//   numbers       the next one follows the highest that is seen anywhere
//
// An identifier with a tombstone (`d:`), or of an unfinished copy, belongs to no type, and its
// objects are not salvaged.

/// The types of a store whose files no process has open.
struct SalvagedCatalog {
  private(set) var types: [UInt32: ObjectTypeRecord] = [:]
  private(set) var books: [UInt32: ObjectTypeCounters] = [:]
  private(set) var migrations: [String: ObjectMigrationRecord] = [:]
  private(set) var nextNumber: UInt32 = 1
  /// Records that are there and damaged.
  private(set) var damaged: [String] = []
  private var names: Set<String> = []
  private var givenUp: Set<UInt32> = []
  /// Types whose record is lost, by the highest version of their objects.
  private(set) var lost: [UInt32: UInt32] = [:]
  /// The copies of the layouts of types.
  private var layouts: [UInt32: ObjectLayouts] = [:]

  static func isKey(_ key: [UInt8]) -> Bool {
    key == ObjectTypeCounters.numbersKey
      || ["t:", "c:", "d:", "m:"].contains { key.starts(with: $0.utf8) }
  }

  /// Takes a record of the main table, or of a page that may have been one of its.
  mutating func read(_ value: RawSpan, _ key: [UInt8], source: SalvageReader.Source) {
    if source != .unknown, key == ObjectTypeCounters.numbersKey {
      note(number: (value.integer(at: 0, as: UInt32.self) ?? 1) &- 1)
    } else if key.starts(with: "t:".utf8) {
      guard let type = ObjectTypeRecord(value), ObjectTypeRecord.key(type.name) == key else {
        return reject(key, source)
      }
      guard names.insert(type.name).inserted, types[type.number] == nil else { return }
      types[type.number] = type
      for number in [type.number] + type.indexes.map(\.number) { note(number: number) }
    } else if key.starts(with: "m:".utf8) {
      guard let migration = ObjectMigrationRecord(value),
        ObjectMigrationRecord.key(migration.name) == key
      else { return reject(key, source) }
      if migrations[migration.name] == nil { migrations[migration.name] = migration }
      for number in migration.numbers {
        givenUp.insert(number)
        note(number: number)
      }
    } else if let number = Self.number(in: key) {
      if key.starts(with: "d:".utf8) {
        if source == .main { givenUp.insert(number) }
        note(number: number)
      } else {
        guard let found = ObjectTypeCounters(value) else { return reject(key, source) }
        note(number: max(number, found.sample, found.watch))
        if books[number] == nil { books[number] = found }
      }
    }
  }

  private mutating func reject(_ key: [UInt8], _ source: SalvageReader.Source) {
    if source == .main { damaged.append(String(decoding: key, as: UTF8.self)) }
  }

  private static func number(in key: [UInt8]) -> UInt32? {
    guard key.count == 6 else { return nil }
    return key.withRawSpan { $0.integer(at: 2, as: UInt32.self) }?.byteSwapped
  }

  /// Records an identifier, which no new type or index gets again.
  mutating func note(number: UInt32) {
    let number = number & ~ObjectFormat.textBit
    if number < ObjectFormat.textBit / 2 { nextNumber = max(nextNumber, number + 1) }
  }

  /// Records the type identifier of an object. An identifier without a known type is a lost type.
  mutating func note(object type: UInt32, version: UInt32) {
    note(number: type)
    if isUnknown(type) { lost[type] = max(lost[type] ?? 1, version) }
  }

  /// Records the layouts of a type, from their copy among the objects.
  mutating func note(_ found: ObjectLayouts, of type: UInt32) { layouts[type] = found }

  private func isUnknown(_ type: UInt32) -> Bool { types[type] == nil && !givenUp.contains(type) }

  /// Returns whether the repaired store keeps the objects of a type identifier.
  func isLive(_ type: UInt32) -> Bool {
    types[type].map { $0.movedTo == nil && $0.version > 0 } ?? !givenUp.contains(type)
  }

  /// The indexes of all types.
  var indexes: Set<UInt32> { Set(types.values.flatMap { $0.indexes.map(\.number) }) }

  /// The name of a type in the repaired store.
  func name(of type: UInt32) -> String {
    if let name = types[type]?.name { return name }
    var name = "recovered-\(type)"
    while names.contains(name) { name += "-2" }
    return name
  }

  // MARK: What is written

  /// The records of the types, as the repaired store has them.
  var repairedTypes: [ObjectTypeRecord] {
    var result: [ObjectTypeRecord] = []
    for (_, type) in types where type.version > 0 {
      var type = type
      // The partial copy is not salvaged; the next migration starts again.
      type.migration = nil
      result.append(type)
    }
    for (number, version) in lost {
      var type = ObjectTypeRecord(
        number: number, name: name(of: number), version: version, fingerprint: 0, indexes: [],
        migrations: [])
      type.layouts = layouts[number]
      result.append(type)
    }
    return result
  }

  var appliedMigrations: [ObjectMigrationRecord] { migrations.values.filter(\.isApplied) }
}

extension ObjectMigrationRecord {
  /// The identifiers that an unfinished migration uses.
  fileprivate var numbers: [UInt32] {
    guard let target, !isApplied else { return [] }
    return [target.number, watch] + target.indexes.map(\.number)
  }
}
