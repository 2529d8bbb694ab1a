// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
#if Macros
import Foundation
import LarderObjects
import LarderSchema
import LarderTesting

@StorableValue enum Grade: Int, Comparable, CaseIterable, IndexValue {
  case low = 1
  case mid = 300
  case high = -5
  static func < (left: Grade, right: Grade) -> Bool { left.rawValue < right.rawValue }
}

extension Grade: DifferentialValue {}

@StorableValue struct Spot: Equatable {
  var city: String
  var level: Int?
}

/// A type with a declared schema: conditions, sorts, groups and sums read its stored bytes.
@Storable struct Declared: DifferentialModel {
  let id: Int
  var text: String
  var note: String?
  @Indexed var year: Int
  var ratio: Double
  var share: Float = 0.5
  var small: Int8?
  var moment: Date
  var grade: Grade
  var token: UUID
  var tags: [String]
  var isOpen = false
  var spot: Spot?

  static let indexes = [
    Index<Declared>("text", \.text), Index("note and year", \.note, \.year),
    Index("tag", each: \.tags), Index("city", \.spot?.city), Index("level", \.spot?.level),
    Index("newest", .ascending(\Declared.note), .descending(\Declared.year)),
    Index("wide", .descending(\Declared.ratio), .ascending(\Declared.text)),
    Index("case", .ignoringCase(\Declared.text), .ignoringCase(\Declared.note, .descending)),
  ]

  static func random(_ random: inout SeededRandom) -> Declared {
    Declared(
      id: Int.random(in: 0..<120, using: &random), text: OddValues.text(&random),
      note: random.chance(40) ? nil : OddValues.text(&random), year: OddValues.integer(&random),
      ratio: OddValues.double(&random), share: Float(Int.random(in: 0...3, using: &random)) / 2,
      small: random.chance(30) ? nil : Int8.random(in: -2...2, using: &random),
      moment: OddValues.date(&random), grade: Grade.allCases.randomElement(using: &random)!,
      token: UUID(
        uuid: (
          0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, UInt8.random(in: 0...3, using: &random)
        )),
      tags: (0..<Int.random(in: 0...3, using: &random)).map { _ in OddValues.text(&random) },
      isOpen: random.chance(50),
      spot: random.chance(40)
        ? nil
        : Spot(
          city: OddValues.text(&random),
          level: random.chance(40) ? nil : OddValues.integer(&random)))
  }

  var facts: String {
    "\(id) \(Facts.of(text)) \(Facts.of(note)) \(year) \(Facts.of(ratio)) \(share) "
      + "\(small ?? 99) \(moment.timeIntervalSinceReferenceDate) \(grade) \(token) "
      + "\(tags.map { Facts.of($0) }) \(isOpen) \(Facts.of(spot?.city)) \(spot?.level ?? 7)"
  }

  static let conditions: [Condition<Declared>] = [
    .compared(\.text, OddValues.text), .text(\.text, OddValues.text),
    .compared(optional: \.note, OddValues.text), .compared(\.year, OddValues.integer),
    .compared(\.ratio, OddValues.double), .compared(\.moment, OddValues.date),
    .compared(\.grade) { Grade.allCases.randomElement(using: &$0)! },
    .element(\.tags, OddValues.text), .compared(\.id, OddValues.integer),
    Condition { _ in (\.isOpen == true, { $0.isOpen }) },
    Condition { random in
      let small = Int8.random(in: -2...2, using: &random)
      return (\.small == small, { $0.small == small })
    },
    Condition { random in
      let share = Float(Int.random(in: 0...3, using: &random)) / 2
      return (\.share >= share, { $0.share >= share })
    },
    Condition { random in
      let (city, level) = (OddValues.text(&random), OddValues.integer(&random))
      let root = PredicateRoot<Declared>()
      switch Int.random(in: 0..<6, using: &random) {
      case 0: return (root.spot?.city == city, { $0.spot?.city == city })
      case 1: return (root.spot?.city != city, { $0.spot?.city != city })
      case 2: return (root.spot?.level == nil, { $0.spot?.level == nil })
      case 3: return (root.spot?.level > level, { $0.spot?.level.map { $0 > level } ?? false })
      case 4: return (root.spot?.level <= level, { $0.spot?.level.map { $0 <= level } ?? false })
      default:
        return (
          !(root.spot?.city.hasPrefix(city)), { !($0.spot?.city.hasPrefix(city) ?? false) }
        )
      }
    },
  ]
  static let sorts: [Sort<Declared>] = [
    Sort(\.text), Sort(\.year), Sort(\.ratio), Sort(optional: \.note), Sort(\.moment),
    Sort(\.grade), Sort(ignoringCase: \.text), Sort(ignoringCase: \.note),
  ]
  static let filters: [Filter<Declared>] = [
    Filter { random in
      let year = OddValues.integer(&random)
      return #Predicate { $0.year > year }
    },
    Filter { random in
      let text = OddValues.text(&random)
      return #Predicate { $0.text == text || $0.note == text }
    },
    Filter { random in
      let part = OddValues.text(&random)
      return #Predicate { $0.text.contains(part) && !$0.isOpen }
    },
    Filter { random in
      let ratio = OddValues.double(&random)
      return #Predicate { $0.ratio <= ratio }
    },
    Filter { random in
      let tag = OddValues.text(&random)
      return #Predicate { $0.tags.contains(tag) || $0.tags.isEmpty }
    },
    Filter { _ in #Predicate { ($0.note?.count ?? 0) > 1 } },
    Filter { _ in #Predicate { $0.isOpen ? $0.year >= 0 : $0.id % 2 == 0 } },
  ]
  /// The first four change fields in place.
  static let updates: [Update<Declared>] = [
    Update(\.ratio) { $0 += 1 }, Update(\.small) { $0 = $0 == nil ? 1 : nil },
    Update(\.share) { $0 = 1 - $0 }, Update(\.isOpen) { $0.toggle() },
    Update(\.year) { $0 = $0 &+ 1 }, Update(\.tags) { $0.append("new") },
    Update(\.note) { $0 = $0.map { $0 + "!" } },
  ]
  static let aggregates: [Aggregate<Declared>] = [
    .groups("texts", \.text), .groups("notes", \.note), .groups("years", \.year),
    .groups("ratios", \.ratio), .groups("shares", \.share), .groups("smalls", \.small),
    .groups("moments", \.moment), .groups("grades", \.grade), .groups("tokens", \.token),
    .groups("open", \.isOpen), .groups("tags", \.tags),
    Aggregate(
      name: "sum of ids", stored: { "\(try $0.sum(\.id))" },
      expected: { "\($0.reduce(0) { $0 + $1.id })" }),
    Aggregate(
      name: "sum of shares", stored: { "\(try $0.sum(\.share))" },
      expected: { "\($0.reduce(0) { $0 + $1.share })" }),
    Aggregate(
      name: "sum of smalls", stored: { "\(try $0.sum(\.id) + Int($0.max(\.small) ?? 0))" },
      expected: { "\($0.reduce(0) { $0 + $1.id } + Int($0.compactMap(\.small).max() ?? 0))" }),
    Aggregate(
      name: "average", stored: { "\(try $0.average(\.id) ?? -1)" },
      expected: { "\($0.isEmpty ? -1 : Double($0.reduce(0) { $0 + $1.id }) / Double($0.count))" }),
    Aggregate(
      name: "sums by text", stored: { Facts.sorted(try $0.grouped(by: \.text).sum(\.id)) },
      expected: { objects in
        Facts.sorted(
          Dictionary(grouping: objects, by: \.text).mapValues { $0.reduce(0) { $0 + $1.id } })
      }),
    Aggregate(
      name: "latest by grade",
      stored: { Facts.sorted(try $0.grouped(by: \.grade).max(\.moment)) },
      expected: { objects in
        Facts.sorted(
          Dictionary(grouping: objects, by: \.grade).mapValues { $0.map(\.moment).max()! })
      }),
  ]
}

extension Facts {
  /// The groups of a result as text. Equal keys may have been read from any object of the group.
  static func sorted(_ groups: [some Hashable: some Any]) -> String {
    let lines = groups.map { group in
      let key = group.key as? Double == 0 ? "0.0" : "\(group.key)"
      return "\(key): \(group.value)"
    }
    return "\(lines.sorted())"
  }
}

extension Aggregate {
  /// The number of objects by a property.
  static func groups<Key: Hashable & Sendable>(
    _ name: String, _ path: Path<Object, Key>
  ) -> Aggregate {
    Aggregate(
      name: name, stored: { Facts.sorted(try $0.grouped(by: path).count()) },
      expected: { objects in
        Facts.sorted(objects.reduce(into: [:]) { $0[$1[keyPath: path], default: 0] += 1 })
      })
  }
}
#endif
#endif
