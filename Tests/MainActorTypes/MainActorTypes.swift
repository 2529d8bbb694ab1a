// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
public import LarderSchema

// This module is built with the main actor as its default isolation. Declarations without `nonisolated` are
// the main actor's here, the types below included.

@StorableValue enum Hue: String { case red, blue }

@StorableValue enum Cover: Equatable {
  case none
  case paint(color: String, layers: Int)
}

@StorableValue struct Engine: Equatable {
  var power: Int
  var hue = Hue.red
}

@Storable struct Car: Equatable {
  let id: String
  @Indexed var year: Int
  @Indexed var hue: Hue
  var formerHues: [Hue] = []
  var engine: Engine
  var cover = Cover.none
  @Attribute(name: "no") @Unique var plate: String?
  @Transient var isSelected = false
  @HasOne var maker: Maker?
  static let indexes = [Index("year and plate", \Car.year, \Car.plate)]
}

@Storable nonisolated struct Maker: Equatable {
  let id: String
  var name: String
  var country = "CH"
  var label: String { "\(name), \(country)" }
  static let computedProperties = [ComputedProperty("label", \Maker.label)]
}

// @unchecked Sendable: only the function below has one.
@Storable nonisolated final class Note: @unchecked Sendable {
  let id: Int
  var text = ""
  init(id: Int) { self.id = id }
}

/// A type without the macro.
struct Plain: Storable {
  let id: String
  var rank: Int
  static let indexes = [Index<Plain>("rank", \.rank)]
}

/// Stores objects of every kind, and finds them.
///
/// - Returns: What the queries found, in an order.
public func storeMainActorTypes(in store: ObjectStore) async throws -> [String] {
  let maker = Maker(id: "t", name: "T")
  try await store.save(
    Car(
      id: "1", year: 2020, hue: .blue, formerHues: [.red], engine: Engine(power: 3),
      cover: .paint(color: "red", layers: 2), plate: "P", maker: maker))
  try await store.save(Car(id: "2", year: 2021, hue: .red, engine: Engine(power: 4)))
  try await store.save(Note(id: 7))
  try await store.save(Plain(id: "p", rank: 1))
  var found: [String] = []
  found += try await store.objects(Car.self).where(\.year == 2020).fetch().map(\.id)
  found += try await store.objects(Car.self).where { $0.hue == .red }.fetch().map(\.id)
  found += try await store.objects(Car.self).where { $0.maker?.name == "T" }.fetch().map(\.id)
  found += try await store.objects(Maker.self).where(\.label == "T, CH").fetch().map(\.id)
  found += try await store.objects(Plain.self).where { $0.rank == 1 }.fetch().map(\.id)
  found += try await store.objects(Note.self).fetch().map { "\($0.id)" }
  let plan = try await store.objects(Car.self).where(\.hue == .blue).explain()
  found.append(plan.hasPrefix("scan index \"hue\"") ? "scan" : plan)
  guard let car = try store.object(Car.self, id: "1") else { return found }
  return found + ["\(car.cover)", "\(car.engine.hue)", car.maker?.name ?? "none"]
}
#endif
