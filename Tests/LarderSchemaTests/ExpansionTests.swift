// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import LarderTesting
import Testing

/// The code that the macros generate, and the errors they report.
@Suite(.timeLimit(.minutes(60))) struct ExpansionTests {
  /// Verifies the code that the macros generate for a declaration, in the order of the compiler.
  private func expand(
    _ source: String, _ expansions: [String], location: Testing.SourceLocation = #_sourceLocation
  ) throws {
    let output = try MacroCompiler(source)
    #expect(output.allErrors == [], sourceLocation: location)
    #expect(output.expansions == expansions, sourceLocation: location)
  }

  /// A declaration of one line that is refused, with the message, its column, and the fix.
  private struct Refusal {
    let source: String
    let column: Int
    let message: String
    var fix: String?

    init(_ source: String, _ column: Int, _ message: String, fix: String? = nil) {
      (self.source, self.column, self.message, self.fix) = (source, column, message, fix)
    }
  }

  /// Verifies that declarations are refused and that the macros generate nothing.
  private func refuse(
    _ refusals: [Refusal], location: Testing.SourceLocation = #_sourceLocation
  ) throws {
    var (source, errors) = ("", [String]())
    for (index, refusal) in refusals.enumerated() {
      source += "enum Scope\(index) {\n\(refusal.source)\n}\n"
      errors.append("\(3 * index + 2):\(refusal.column): \(refusal.message)")
      if let fix = refusal.fix { errors.append(fix) }
    }
    let output = try MacroCompiler(source)
    #expect(output.errors == errors, sourceLocation: location)
    #expect(output.expansions == [], sourceLocation: location)
  }

  @Test func `A structure gets its code in an extension, with fields in stored order`() throws {
    try expand(
      """
      @Storable public struct Car {
        public let id: String
        @Indexed var model: String = "S"
        var price: Double?
        @Attribute(name: "no") @Unique var plate: String?
        var made = Date()
        @Transient var isSelected = false
        var isNew: Bool { true }
      }
      """,
      [
        """
        nonisolated extension Car: LarderObjects.Storable, LarderObjects.DeclaresSchema {
            nonisolated private enum CodingKeys: Swift.String, Swift.CodingKey {
                case id = "id"
                case model = "model"
                case price = "price"
                case plate = "no"
                case made = "made"
            }

            public init(from decoder: any Swift.Decoder) throws {
                let fields = try LarderObjects.StoredFieldsDecoder(decoder, keyedBy: CodingKeys.self)
                self.id = try fields.value(.id)
                self.plate = try fields.value(.plate)
                self.made = try fields.value(.made, default: Date())
                self.model = try fields.value(.model, default: ("S") as String)
                self.price = try fields.value(.price)
            }

            public func encode(to encoder: any Swift.Encoder) throws {
                var fields = LarderObjects.StoredFieldsEncoder(encoder, keyedBy: CodingKeys.self)
                try fields.set(.id, self.id)
                try fields.set(.plate, self.plate)
                try fields.set(.made, self.made, keepsNil: true)
                try fields.set(.model, self.model, keepsNil: true)
                try fields.set(.price, self.price)
            }

            public static var schema: LarderObjects.ObjectSchema<Car> {
                LarderObjects.ObjectSchema(
                    [
                        .field("id", \\Car.id),
                        .field("model", \\Car.model, default: "S"),
                        .field("price", \\Car.price),
                        .field("no", \\Car.plate),
                        .computed("made", \\Car.made),
                    ],
                    indexes: [LarderObjects.Index("model", \\Car.model), LarderObjects.Index("no", \\Car.plate, unique: true)])
            }
        }
        """
      ])
  }

  @Test func `A class gets its initialiser in its body`() throws {
    try expand(
      """
      @Storable final class Note {
        let id: Int
      }
      """,
      [
        """
        nonisolated init(from decoder: any Swift.Decoder) throws {
            let fields = try LarderObjects.StoredFieldsDecoder(decoder, keyedBy: CodingKeys.self)
            self.id = try fields.value(.id)
        }
        """,
        """
        nonisolated extension Note: LarderObjects.Storable, LarderObjects.DeclaresSchema {
            nonisolated private enum CodingKeys: Swift.String, Swift.CodingKey {
                case id = "id"
            }

            func encode(to encoder: any Swift.Encoder) throws {
                var fields = LarderObjects.StoredFieldsEncoder(encoder, keyedBy: CodingKeys.self)
                try fields.set(.id, self.id)
            }

            static var schema: LarderObjects.ObjectSchema<Note> {
                LarderObjects.ObjectSchema(
                    [
                        .field("id", \\Note.id),
                    ],
                    indexes: [])
            }
        }
        """,
      ])
  }

  @Test func `An enumeration with raw values is stored as its raw value`() throws {
    try expand(
      """
      @StorableValue enum Fuel: String { case petrol }
      """,
      [
        """
        nonisolated extension Fuel: LarderObjects.StorableValue, LarderObjects.StorableRawValue {
            init(from decoder: any Swift.Decoder) throws {
                self = try LarderObjects.StoredFields.rawValue(Self.self, from: decoder)
            }

            func encode(to encoder: any Swift.Encoder) throws {
                try LarderObjects.StoredFields.encode(rawValueOf: self, to: encoder)
            }
        }
        """
      ])
  }

  @Test func `A type that cannot be stored is refused`() throws {
    try refuse([
      Refusal(
        "@Storable enum Fuel { case petrol }", 1,
        "@Storable applies to structures and final classes. For a value inside an object use "
          + "@StorableValue."),
      Refusal(
        "@StorableValue final class Engine { let power: Int }", 1,
        "@StorableValue applies to structures and enumerations. For an object with an id use "
          + "@Storable."),
      Refusal(
        "@Storable struct Car { var model: String }", 1,
        "A stored type needs a property id: its objects are found by it. Declare one, for example "
          + "let id: UUID."),
      Refusal(
        "@Storable class Car { let id: Int }", 11,
        "A class with @Storable must be final, because a subclass would be stored without its own "
          + "properties.", fix: "Make it final: class becomes final class"),
      Refusal(
        "@StorableValue enum Grade: Character { case a }", 28,
        "A Character cannot be stored. Use String as the type of the raw values.",
        fix: "Use String: Character becomes String"),
    ])
  }

  @Test func `A property that cannot be stored is refused`() throws {
    try refuse([
      Refusal(
        "@Storable struct Car { let id: Int; let year = 2020 }", 37,
        "The constant year has a value already, so the stored one cannot be loaded. Declare it with "
          + "var, or mark it @Transient.", fix: "Declare it with var: let becomes var"),
      Refusal(
        "@Storable struct Car { let id: Int; var act: (@Sendable () -> Void)? }", 41,
        "A function cannot be stored. Mark the property @Transient, with a default."),
      Refusal(
        "@Storable struct Car { let id: Int; var (a, b) = (1, 2) }", 41,
        "A tuple of properties cannot be stored. Declare each property by itself."),
      Refusal(
        "@Storable final class Car { let id: Int; lazy var size = 3 }", 42,
        "A lazy property cannot be stored. Make it a computed property."),
      Refusal(
        "@Storable final class Car { let id: Int; weak var owner: Person? }", 42,
        "A weak or unowned reference cannot be stored. Use @HasOne, or mark it @Transient with a "
          + "default."),
      Refusal(
        "@Storable struct Car { let id: Int; @Transient var size: Int }", 52,
        "A transient property is not stored, so a loaded object needs a value for it. Give it a "
          + "default."),
      Refusal(
        "@Storable struct Car { let id: Int; @Indexed var isNew: Bool { true } }", 37,
        "A computed property is not stored. Index it in static let indexes, with a name in "
          + "computedProperties."),
    ])
  }

  @Test func `An id that cannot be stored is refused once, with what to do`() throws {
    let constant =
      "The constant id has a value already, so all objects would have the same id. Declare its type "
      + "only, for example let id: String."
    try refuse([
      Refusal("@Storable struct Car { let id = \"\" }", 24, constant),
      Refusal("@Storable struct Car { let id: String = \"\"; var year: Int }", 24, constant),
      Refusal(
        "@Storable struct Car { @Transient var id = 3 }", 24,
        "An object is stored under its id, so @Transient does not apply. Delete @Transient."),
    ])
  }

  @Test func `A type of the main actor, or a name that no key path has, is refused`() throws {
    let actor =
      "A store reads and writes values on other threads than that of the main actor. Delete "
      + "@MainActor."
    let name =
      "Choose another name, and keep the stored one with @Attribute(name:)."
    try refuse([
      Refusal("@MainActor @Storable struct Car { let id: Int; var year: Int }", 1, actor),
      Refusal(
        "@Storable @MainActor final class Car { let id: Int; init() { id = 1 } }", 11, actor),
      Refusal("@StorableValue @MainActor struct Engine { var power = 1 }", 16, actor),
      Refusal("@StorableValue @MainActor enum Fuel: String { case petrol }", 16, actor),
      Refusal(
        "@Storable struct Car { let id: Int; var `Type`: Int }", 37,
        "A key path cannot lead to a property named Type. \(name)"),
      Refusal(
        "@StorableValue struct Engine { var `Protocol` = 1 }", 32,
        "A key path cannot lead to a property named Protocol. \(name)"),
    ])
  }

  @Test func `A wrapped property keeps its default, and a value may have no properties`() throws {
    let output = try MacroCompiler(
      """
      @propertyWrapper struct Clamped: Codable, Sendable {
        var wrappedValue: Int
        init(wrappedValue: Int, most: Int = 9) { self.wrappedValue = min(wrappedValue, most) }
      }
      @StorableValue struct Nothing {}
      @StorableValue struct Scratch { @Transient var count = 0 }
      @Storable struct Car {
        let id: Int
        @Clamped var doors: Int
        @Clamped var seats = 3
        @Clamped(most: 200) var speed = 120
        @HasMany var parts: [Car] = []
        var nothing = Nothing()
      }
      """)
    #expect(output.allErrors == [])
    let code = output.expansions.joined()
    #expect(code.contains("self._doors = try fields.value(.doors)\n"))
    #expect(code.contains("value(.seats, default: .init(wrappedValue: 3))"))
    #expect(code.contains("value(.speed, default: .init(wrappedValue: 120, most: 200))"))
  }

  @Test func `A private type without a stored name is refused`() throws {
    let message =
      "A private type needs a stored name, because another file may declare a private type of its name, "
      + "and they would replace each other's objects. Declare it in the body: static let storedName = "
      + "\"…\"."
    try refuse([
      Refusal("@Storable private struct Car { let id: Int }", 1, message),
      Refusal("@Storable fileprivate final class Car { let id: Int }", 1, message),
      Refusal("private enum Inner { @Storable struct Car { let id: Int } }", 22, message),
    ])
    let output = try MacroCompiler(
      """
      @Storable private struct Car { let id: Int; static let storedName = "Car" }
      @Storable fileprivate struct Bus {
        private(set) var id: Int
        static var storedName: String { "Bus" }
      }
      private enum Inner { @Storable struct Van { let id: Int; static let storedName = "Van" } }
      @Storable struct Truck { let id: Int; private(set) var load = 0 }
      """)
    #expect(output.errors == [])
  }

  /// The messages of all errors, without their places.
  private func messages(_ source: String) throws -> Set<String> {
    Set(
      try MacroCompiler(source).allErrors.map { error in
        error.split(separator: " ", maxSplits: 1).last.map(String.init) ?? error
      })
  }

  @Test func `An index over a value without a key names what has one`() throws {
    let source = """
      @StorableValue struct Engine { var power: Int }
      @Storable struct Car { let id: String; @Indexed var engine: Engine }
      """
    #expect(
      try messages(source) == [
        "'init(_:_:unique:)' is unavailable: An index needs numbers, texts, dates or raw values, or a "
          + "path to one: \\.engine.power."
      ])
    #expect(
      try messages(
        """
        @StorableValue enum Fuel: String { case petrol }
        @Storable struct Car {
          let id: String
          @Indexed var tags: [String]
          @Unique var fuels: Set<Fuel>
          @Indexed var notes: [Int]?
        }
        """) == [
          "'init(_:_:unique:)' is unavailable: The elements of a list are indexed by Index(_:each:) in "
            + "static let indexes."
        ])
    #expect(
      try messages(
        """
        @StorableValue enum Fuel: String { case petrol }
        @Storable struct Car { let id: String; @Indexed var fuel: Fuel; @Unique var old: Fuel? }
        """) == [])
  }

  @Test func `A property that is not Codable is an error that names both remedies`() throws {
    let text =
      "is unavailable: A stored property must be Codable and Sendable: use @StorableValue or @Transient."
    #expect(
      try messages(
        """
        struct Engine { var power: Int }
        @Storable struct Car {
          let id: String
          var engine: Engine
          var parts: [Engine]
          var spare = Engine(power: 1)
        }
        @StorableValue struct Wheel { var engine: Engine }
        """) == [
          "'value' \(text)", "'value(_:default:)' \(text)", "'set(_:_:keepsNil:)' \(text)",
          "'field' \(text)", "'computed' \(text)",
        ])
  }

  @Test func `A comparison with a value of another type is an error that contains the remedy`()
    throws
  {
    let source = """
      @Storable struct Car {
        let id: String
        var year: Int
        var price: Double
        var name: String?
        var sold: Int?
      }
      func use(_ cars: Query<Car>, _ int: Int, _ other: Int?) {
        _ = cars.where { $0.year == "2020" }
        _ = cars.where { $0.price > int }
        _ = cars.where { $0.name != 3 }
        _ = cars.where { $0.year < other }
        _ = cars.where { $0.price <= $0.year }
        _ = cars.where { "2020" == $0.year }
        _ = cars.where { int < $0.price }
        _ = cars.where { Double(int) >= $0.year }
        _ = cars.where { $0.year != $0.name }
        _ = cars.where { 2020 == $0.year && 3 < $0.price || other == $0.sold && int <= $0.sold }
        _ = cars.where { $0.year == 2020 && $0.price > 3 || $0.sold == other && $0.sold >= int }
      }
      """
    let text = "is unavailable: The types differ: convert the value to the type of the property."
    #expect(
      try messages(source) == [
        "'==' \(text)", "'>' \(text)", "'!=' \(text)", "'<' \(text)", "'<=' \(text)",
        "'>=' \(text)",
      ])
  }

  @Test func `Types named like those of the standard library do not disturb the generated code`()
    throws
  {
    let output = try MacroCompiler(
      """
      struct Decoder {}
      protocol Encoder {}
      enum CodingKey {}
      struct Index {}
      @StorableValue enum Fuel: Swift.String { case petrol }
      @StorableValue struct Engine { var power = 1 }
      @Storable struct Car { let id: Swift.String; @Indexed var year: Int; var engine = Engine() }
      @Storable final class Note { let id: Int }
      struct String {}
      """)
    #expect(output.allErrors == [])
  }

  @Test func `A stored property inside a condition is refused`() throws {
    let output = try MacroCompiler(
      """
      @Storable struct Car {
        let id: Int
        #if DEBUG
        var trace = ""
        #endif
      }
      """)
    #expect(
      output.errors == [
        "4:3: A stored property cannot be conditional: programs of both conditions share the store. Move it out "
          + "of #if."
      ])
    #expect(output.expansions == [])
  }

  @Test func `Names and attributes that contradict each other are refused`() throws {
    try refuse([
      Refusal(
        "@Storable struct Car { let id: Int; var a: Int; @Attribute(name: \"a\") var b: Int }",
        49,
        "The properties a and b are both stored as \"a\". Choose another name."),
      Refusal(
        "@Storable struct Car { let id: Int; @Attribute(name: \"\") var b: Int }", 37,
        "The stored name must be a string literal that is not empty, without interpolation."),
      Refusal(
        "@Storable struct Car { let id: Int; @Transient @Indexed var b = 0 }", 37,
        "A transient property is not stored, so @Indexed does not apply. Delete one of the two."),
      Refusal(
        "@StorableValue struct Engine { @Indexed var power: Int }", 32,
        "A value inside an object has no index. Declare it in the object's static let indexes, with "
          + "a path such as \\Car.engine.power."),
    ])
  }

  @Test func `A member that the macro generates is refused`() throws {
    let members = [
      ("init(from:)", "init(from decoder: any Decoder) throws { id = 1 }"),
      ("encode(to:)", "func encode(to encoder: any Encoder) throws {}"),
      ("CodingKeys", "enum CodingKeys: CodingKey {}"),
    ]
    try refuse(
      members.map { name, member in
        Refusal(
          "@Storable struct Car { let id: Int; \(member) }", 37,
          "The macro generates \(name), so that the stored form is known. Delete this declaration; "
            + "or delete the macro, and conform to Storable with it.")
      })
  }
}
#endif
