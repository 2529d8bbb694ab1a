// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

/// An identifier of bytes, nested values, and indexes that only the program can make keys for.
struct Parcel: Storable, Equatable {
  struct Address: Codable, Equatable, Sendable {
    var city: String
    var lines: [String]
  }

  let id: Data
  var address: Address
  var weights: [String: Double]
  var isExpress: Bool
  var label: String { "\(address.city)/\(isExpress)" }

  static let computedProperties = [ComputedProperty("label", \Parcel.label)]
  static let indexes = [
    Index<Parcel>("city", \.address.city), Index("label", \.label),
    Index("express", \.address.city, where: \.isExpress == true),
  ]

  static func sample(_ number: Int) -> Parcel {
    Parcel(
      id: Data([UInt8(number >> 8), UInt8(number & 255), 0]),
      address: Address(city: "c\(number % 7)", lines: ["\(number)", ""]),
      weights: ["net": Double(number) / 3], isExpress: number % 4 == 0)
  }
}

/// The identifier is stored under another name.
struct Voucher: Storable, Equatable {
  var code: String
  var value: Int
  var id: String { code }
}

struct FirstWaybill: Storable {
  static let storedName = "Waybill"
  let id: Int
  var sum: Int
}

struct Waybill: Storable, Equatable {
  static let storedName = "Waybill"
  static let schemaVersion = 2
  let id: Int
  var total: Int

  static let renaming = ObjectMigration.objects("sum is total") { (old: FirstWaybill) in
    Waybill(id: old.id, total: old.sum)
  }
}

struct Depot: Storable {
  let id: Int
  @HasOne var first: Wagon?
  @HasMany var wagons: [Wagon] = []
  static let relationships = [Relationship<Depot>(\.$first, onTargetDelete: .deny)]
}

/// Objects that are exported from one store and imported into another, which a program opens then.
@Suite(.timeLimit(.minutes(60)))
struct ObjectRoundTripTests {
  /// A store, and another that does not exist yet.
  private func withTools(_ body: (Tool, Tool, String) throws -> Void) throws {
    try withTemporaryDirectory { path in
      try body(Tool(store: path + "/a"), Tool(store: path + "/b"), path)
    }
  }

  /// Exports types and imports the files into the other store.
  private func move(
    _ types: [String], from source: Tool, to target: Tool, by directory: String
  ) throws {
    for type in types {
      let file = "\(directory)/\(type).jsonl"
      _ = try source.output("export", type, file)
      _ = try target.output("import", type, file)
      #expect(
        try target.output("export", type, "-") == String(contentsOfFile: file, encoding: .utf8))
    }
  }

  @Test func `An imported type of a migrated version opens with the migrations of its program`()
    throws
  {
    try withTools { source, target, directory in
      do {
        let objects = try ObjectStore(at: source.store)
        try objects.save((0..<20).map { FirstWaybill(id: $0, sum: $0) })
        objects.close()
        try ObjectStore(at: source.store, migrations: [Waybill.renaming]).close()
      }
      try move(["Waybill"], from: source, to: target, by: directory)
      let objects = try ObjectStore(at: target.store, migrations: [Waybill.renaming])
      defer { objects.close() }
      #expect(
        try objects.objects(Waybill.self).fetch() == (0..<20).map { Waybill(id: $0, total: $0) })
    }
  }

  @Test func `An export is imported into a missing store, and its program builds the indexes`()
    throws
  {
    try withTools { source, target, directory in
      let wagons = (0..<2500).map { Wagon.sample($0) }
      let parcels = (0..<600).map { Parcel.sample($0) }
      let vouchers = (0..<5).map { Voucher(code: "v\($0)", value: $0) }
      do {
        let objects = try ObjectStore(at: source.store)
        defer { objects.close() }
        try objects.save(wagons)
        try objects.save(parcels)
        try objects.save(vouchers)
      }
      try move(["Wagon", "Parcel", "Voucher"], from: source, to: target, by: directory)
      let objects = try ObjectStore(at: target.store)
      defer { objects.close() }
      #expect(try objects.objects(Wagon.self).fetch() == wagons)
      #expect(try objects.objects(Parcel.self).fetch() == parcels)
      #expect(try objects.objects(Voucher.self).fetch() == vouchers)
      #expect(try objects.object(Parcel.self, id: parcels[300].id) == parcels[300])
      #expect(try objects.object(Voucher.self, id: "v3") == vouchers[3])
      try objects.prepare(Wagon.self)
      try objects.prepare(Parcel.self)
      let plate = objects.objects(Wagon.self).where(\.plate == "P77")
      #expect(try plate.explain().hasPrefix("scan index \"plate\""))
      #expect(try plate.fetch().map(\.id) == [77])
      let city = objects.objects(Parcel.self).where(\.address.city == "c3")
      #expect(try city.explain().hasPrefix("scan index \"city\""))
      #expect(try city.fetch() == parcels.filter { $0.address.city == "c3" })
      let label = objects.objects(Parcel.self).where(\.label == "c3/true")
      #expect(try label.explain().hasPrefix("scan index \"label\""))
      #expect(try label.count() == parcels.filter { $0.label == "c3/true" }.count)
      let express = objects.objects(Parcel.self).where {
        $0.isExpress == true && $0.address.city == "c3"
      }
      #expect(try express.count() == parcels.filter { $0.label == "c3/true" }.count)
      #expect(throws: ObjectError.self) {
        var second = wagons[1]
        second.plate = "P77"
        try objects.save(second)
      }
      #expect(try objects.storage.verify() == [])
      let again = try target.output("import", "Wagon", directory + "/Wagon.jsonl")
      #expect(again.hasSuffix("0 new, 2,500 unchanged.\n"), "\(again)")
    }
  }

  @Test func `References and their rules are imported, and hold before the index is built`() throws
  {
    try withTools { source, target, directory in
      let wagons = (0..<4).map { Wagon.sample($0) }
      do {
        let objects = try ObjectStore(at: source.store)
        defer { objects.close() }
        try objects.save(wagons)
        try objects.save(Depot(id: 1, first: wagons[2], wagons: [wagons[0], wagons[1]]))
        try objects.save(Depot(id: 2))
      }
      try move(["Depot", "Wagon"], from: source, to: target, by: directory)
      let objects = try ObjectStore(at: target.store)
      defer { objects.close() }
      #expect(throws: ObjectError.self) { try objects.delete(Wagon.self, id: 2) }
      let depot = try #require(try objects.object(Depot.self, id: 1))
      #expect(depot.first == wagons[2] && depot.wagons == [wagons[0], wagons[1]])
      #expect(try objects.object(Depot.self, id: 2)?.first == nil)
      try objects.prepare(Depot.self)
      #expect(throws: ObjectError.self) { try objects.delete(Wagon.self, id: 2) }
      try objects.delete(Wagon.self, id: 3)
      #expect(try objects.storage.verify() == [])
    }
  }

  @Test func `A type that a store lacks is imported while a program has the store open`() throws {
    try withTools { source, target, directory in
      do {
        let objects = try ObjectStore(at: source.store)
        defer { objects.close() }
        try objects.save((0..<5000).map { HalfIndexed(id: $0, level: $0 % 8) })
      }
      let objects = try ObjectStore(at: target.store)
      defer { objects.close() }
      try objects.save(Wagon.sample(1))
      let high = objects.objects(HalfIndexed.self).where(\.level > 3)
      #expect(try high.count() == 0)
      let file = directory + "/half.jsonl"
      _ = try source.output("export", "HalfIndexed", file)
      let isOver = Flag()
      // Each read of the type starts a build, between the transactions of the import.
      let looking = Thread { while !isOver.isSet { _ = try? high.count() } }
      looking.start()
      defer { isOver.set() }
      #expect(try target.json("import", "HalfIndexed", file)["inserted"] as? Int == 5000)
      let again = try target.json("import", "HalfIndexed", file)
      #expect(again["unchanged"] as? Int == 5000 && again["replaced"] as? Int == 0, "\(again)")
      try objects.prepare(HalfIndexed.self)
      #expect(try high.explain().hasPrefix("scan index \"high\""))
      #expect(try high.count() == 2500)
      #expect(try objects.storage.verify() == [])
      #expect(try target.output("verify").hasPrefix("Valid"))
    }
  }

  @Test(
    arguments: [
      ("\"version\":1", "\"version\":2", "version 2"),
      ("Optional<String>", "Optional<Int>", "indexes plate differ"),
      ("year: integer", "year: text", "field year is text"),
      ("LarderCLITests.Wagon", "Elsewhere.Wagons", "not of Wagon"),
      ("\"format\":1", "\"format\":9", "format 9"),
      ("\"name\":\"year\"", "\"name\":\"age\"", "indexes age, year differ"),
    ])
  func `A schema that contradicts the stored type is refused, and nothing is stored`(
    part: String, other: String, reason: String
  ) throws {
    try withTools { source, _, _ in
      let objects = try ObjectStore(at: source.store)
      defer { objects.close() }
      try objects.save(Wagon.sample(1))
      let lines = try source.output("export", "Wagon", "-").split(separator: "\n").map(String.init)
      try #require(lines.count == 2 && lines[0].contains(part), "\(lines)")
      let header = lines[0].replacingOccurrences(of: part, with: other)
      let line = lines[1].replacingOccurrences(of: "\"id\":1", with: "\"id\":2")
      let outcome = try source.run("import", "Wagon", "-", "--json", input: [header, line])
      #expect(outcome.status == .exited(70))
      let error = try Tool.object(outcome.standardError)
      #expect(error["error"] as? String == "schemaMismatch")
      let message = error["message"] as? String ?? ""
      #expect(message.contains(reason), "\(message)")
      #expect(try objects.objects(Wagon.self).fetch() == [Wagon.sample(1)])
      #expect(try source.output("export", "Wagon", "-").hasPrefix(lines[0]))
    }
  }
}

/// Set by one thread and read by others.
private final class Flag: Sendable {
  private let value = Mutex(false)
  var isSet: Bool { value.withLock { $0 } }
  func set() { value.withLock { $0 = true } }
}
#endif
