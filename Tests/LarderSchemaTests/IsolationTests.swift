// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import LarderMainActorTypes
import LarderSchema
import LarderTesting
import Testing

/// Stored types in modules and declarations of every isolation.
@Suite(.timeLimit(.minutes(60))) struct IsolationTests {
  /// The options of a module whose declarations are the main actor's, without and with the features that Xcode adds.
  private static let modules = [
    ["-default-isolation", "MainActor"],
    [
      "-default-isolation", "MainActor", "-enable-upcoming-feature",
      "NonisolatedNonsendingByDefault", "-enable-upcoming-feature", "InferIsolatedConformances",
    ],
    [],
  ]

  @Test func `Types of a module of the main actor are stored and found`() async throws {
    let temporary = try TemporaryStore()
    let found = try await storeMainActorTypes(in: ObjectStore(temporary.store))
    #expect(
      found == [
        "1", "2", "1", "t", "p", "7", "scan", #"paint(color: "red", layers: 2)"#, "red", "T",
      ])
    #expect(try temporary.store.verify() == [])
  }

  @Test(arguments: modules)
  func `A stored type compiles with every default isolation`(options: [String]) throws {
    let output = try MacroCompiler(
      """
      @StorableValue enum Fuel: String { case petrol }
      @StorableValue enum Cover { case none, paint(color: String) }
      @StorableValue struct Engine { var power = 1; var fuel = Fuel.petrol }
      @Storable struct Car {
        let id: String
        @Indexed var year: Int
        var fuel = Fuel.petrol
        var engine = Engine()
        var cover = Cover.none
        @Transient var isSelected = false
        static let indexes = [Index("year and id", \\Car.year, \\Car.id)]
      }
      struct Plain: Storable {
        let id: String
        var year: Int
        static let indexes = [Index<Plain>("year", \\.year)]
      }
      func use(_ store: ObjectStore) async throws {
        try await store.save(Car(id: "", year: 1))
        _ = try await store.objects(Car.self).where(\\.year == 1).count()
        _ = try await store.objects(Car.self).where { $0.fuel == .petrol }.fetch()
        try await store.save(Plain(id: "", year: 1))
        _ = try await store.objects(Plain.self).where { $0.year == 1 }.fetch()
      }
      """, options: options)
    #expect(output.allErrors == [])
  }

  @Test(arguments: modules)
  func `A stored type that is declared nonisolated compiles with every default isolation`(
    options: [String]
  ) throws {
    let output = try MacroCompiler(
      """
      @StorableValue nonisolated enum Fuel: String { case petrol }
      @StorableValue nonisolated struct Engine { var power = 1; var fuel = Fuel.petrol }
      @Storable nonisolated struct Car: Equatable {
        let id: String
        @Indexed var year: Int
        var fuel = Fuel.petrol
        static let indexes = [Index("year and id", \\Car.year, \\Car.id)]
      }
      @Storable nonisolated final class Note: @unchecked Sendable {
        let id: Int
        var text = ""
        init(id: Int) { self.id = id }
      }
      nonisolated struct Plain: Storable {
        let id: String
        var year: Int
        static let indexes = [Index<Plain>("year", \\.year)]
      }
      nonisolated func use(_ store: ObjectStore) async throws {
        try await store.save(Car(id: "", year: 1))
        _ = try await store.objects(Car.self).where(\\.year == 1).count()
        try await store.save(Note(id: 1))
        try await store.save(Plain(id: "", year: 1))
        _ = try await store.objects(Plain.self).where { $0.year == 1 }.fetch()
      }
      """, options: options)
    #expect(output.allErrors == [])
  }
}
#endif
