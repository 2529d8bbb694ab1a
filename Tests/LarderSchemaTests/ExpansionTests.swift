// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
  import LarderSchemaExpansion
  import SwiftSyntax
  import SwiftSyntaxBuilder
  import SwiftSyntaxMacroExpansion
  import SwiftSyntaxMacros
  import SwiftSyntaxMacrosGenericTestSupport
  import Testing

  /// The code that the macros generate, and the errors they report.
  @Suite struct ExpansionTests {
    private static let macros: [String: MacroSpec] = [
      "Storable": MacroSpec(
        type: StorableExpansion.self, conformances: ["Storable", "DeclaresSchema"]),
      "StorableValue": MacroSpec(
        type: StorableValueExpansion.self, conformances: ["StorableValue"]),
      "Attribute": MacroSpec(type: MarkerExpansion.self),
      "Indexed": MacroSpec(type: MarkerExpansion.self),
      "Unique": MacroSpec(type: MarkerExpansion.self),
      "Transient": MacroSpec(type: MarkerExpansion.self),
    ]

    private func expand(
      _ source: String, _ expansion: String, _ diagnostics: [DiagnosticSpec] = [],
      fixed: String? = nil, location: Testing.SourceLocation = #_sourceLocation
    ) {
      assertMacroExpansion(
        source, expandedSource: expansion, diagnostics: diagnostics, macroSpecs: Self.macros,
        applyFixIts: nil, fixedSource: fixed, indentationWidth: .spaces(2)
      ) { failure in
        Issue.record(Comment(rawValue: failure.message), sourceLocation: location)
      }
    }

    /// Verifies that a declaration is refused and that the macro generates nothing.
    private func refuse(
      _ source: String, _ message: String, line: Int, column: Int, fixIt: String? = nil,
      fixed: String? = nil, location: Testing.SourceLocation = #_sourceLocation
    ) {
      var plain = source
      for attribute in ["@StorableValue ", "@Storable ", "@Indexed ", "@Unique ", "@Transient "] {
        plain = plain.replacing(attribute, with: "")
      }
      plain = plain.replacing(#/@Attribute\(name: [^)]*\) /#, with: "")
      // The expansion moves the last brace to a line.
      plain = plain.dropLast(2) + " \n}"
      expand(
        source, plain,
        [
          DiagnosticSpec(
            message: message, line: line, column: column,
            fixIts: fixIt.map { [FixItSpec(message: $0)] } ?? [])
        ], fixed: fixed, location: location)
    }

    @Test func `A structure gets its code in an extension, with fields in stored order`() {
      expand(
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
        """
        public struct Car {
          public let id: String
          var model: String = "S"
          var price: Double?
          var plate: String?
          var made = Date()
          var isSelected = false
          var isNew: Bool { true }
        }

        extension Car: LarderObjects.Storable, LarderObjects.DeclaresSchema {
          private enum CodingKeys: String, CodingKey {
            case id = "id"
            case model = "model"
            case price = "price"
            case plate = "no"
            case made = "made"
          }

          public init(from decoder: any Decoder) throws {
            let fields = try LarderObjects.StoredFieldsDecoder(decoder, keyedBy: CodingKeys.self)
            self.id = try fields.value(.id)
            self.plate = try fields.value(.plate)
            self.made = try fields.value(.made, default: Date())
            self.model = try fields.value(.model, default: "S")
            self.price = try fields.value(.price)
          }

          public func encode(to encoder: any Encoder) throws {
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
        """)
    }

    @Test func `A class gets its initialiser in its body`() {
      expand(
        """
        @Storable final class Note {
          let id: Int
        }
        """,
        """
        final class Note {
          let id: Int

          init(from decoder: any Decoder) throws {
            let fields = try LarderObjects.StoredFieldsDecoder(decoder, keyedBy: CodingKeys.self)
            self.id = try fields.value(.id)
          }
        }

        extension Note: LarderObjects.Storable, LarderObjects.DeclaresSchema {
          private enum CodingKeys: String, CodingKey {
            case id = "id"
          }

          func encode(to encoder: any Encoder) throws {
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
        """)
    }

    @Test func `An enumeration with raw values is stored as its raw value`() {
      expand(
        """
        @StorableValue enum Fuel: String { case petrol }
        """,
        """
        enum Fuel: String { case petrol\u{20}
        }

        extension Fuel: LarderObjects.StorableValue, LarderObjects.StorableRawValue {
          init(from decoder: any Decoder) throws {
            self = try LarderObjects.StoredFields.rawValue(Self.self, from: decoder)
          }

          func encode(to encoder: any Encoder) throws {
            try LarderObjects.StoredFields.encode(rawValueOf: self, to: encoder)
          }
        }
        """)
    }

    @Test func `A type that cannot be stored is refused`() {
      refuse(
        "@Storable enum Fuel { case petrol }",
        "@Storable applies to structures and final classes. For a value inside an object use "
          + "@StorableValue.", line: 1, column: 1)
      refuse(
        "@StorableValue final class Engine { let power: Int }",
        "@StorableValue applies to structures and enumerations. For an object with an id use "
          + "@Storable.", line: 1, column: 1)
      refuse(
        "@Storable struct Car { var model: String }",
        "A stored type needs a property id: its objects are found by it. Declare one, for example "
          + "let id: UUID.", line: 1, column: 1)
      refuse(
        "@Storable class Car { let id: Int }",
        "A class with @Storable must be final, because a subclass would be stored without its own "
          + "properties.", line: 1, column: 11, fixIt: "Make it final",
        fixed: "@Storable final class Car { let id: Int }")
    }

    @Test func `A property that cannot be stored is refused`() {
      refuse(
        "@Storable struct Car { let id: Int; let year = 2020 }",
        "The constant year has a value already, so the stored one cannot be loaded. Declare it with "
          + "var, or mark it @Transient.", line: 1, column: 37, fixIt: "Declare it with var",
        fixed: "@Storable struct Car { let id: Int; var year = 2020 }")
      refuse(
        "@Storable struct Car { let id: Int; var act: (@Sendable () -> Void)? }",
        "A function cannot be stored. Mark the property @Transient, with a default.", line: 1,
        column: 41)
      refuse(
        "@Storable struct Car { let id: Int; var (a, b) = (1, 2) }",
        "A tuple of properties cannot be stored. Declare each property by itself.", line: 1,
        column: 41)
      refuse(
        "@Storable final class Car { let id: Int; lazy var size = 3 }",
        "A lazy property cannot be stored. Make it a computed property.", line: 1, column: 42)
      refuse(
        "@Storable final class Car { let id: Int; weak var owner: Person? }",
        "A weak or unowned reference cannot be stored. Use @HasOne, or mark it @Transient with a "
          + "default.", line: 1, column: 42)
      refuse(
        "@Storable struct Car { let id: Int; @Transient var size: Int }",
        "A transient property is not stored, so a loaded object needs a value for it. Give it a "
          + "default.", line: 1, column: 52)
      refuse(
        "@Storable struct Car { let id: Int; @Indexed var isNew: Bool { true } }",
        "A computed property is not stored. Index it in static let indexes, with a name in "
          + "computedProperties.", line: 1, column: 37)
    }

    @Test func `A stored property inside a condition is refused`() {
      expand(
        """
        @Storable struct Car {
          let id: Int
          #if DEBUG
          var trace = ""
          #endif
        }
        """,
        """
        struct Car {
          let id: Int
          #if DEBUG
          var trace = ""
          #endif
        }
        """,
        [
          DiagnosticSpec(
            message:
              "A stored property cannot be conditional: programs of both conditions share the "
              + "store. Move it out of #if.", line: 4, column: 3)
        ])
    }

    @Test func `Names and attributes that contradict each other are refused`() {
      refuse(
        "@Storable struct Car { let id: Int; var a: Int; @Attribute(name: \"a\") var b: Int }",
        "The properties a and b are both stored as \"a\". Choose another name.", line: 1, column: 49
      )
      refuse(
        "@Storable struct Car { let id: Int; @Attribute(name: \"\") var b: Int }",
        "The stored name must be a string literal that is not empty, without interpolation.",
        line: 1, column: 37)
      refuse(
        "@Storable struct Car { let id: Int; @Transient @Indexed var b = 0 }",
        "A transient property is not stored, so @Indexed does not apply. Delete one of the two.",
        line: 1, column: 37)
      refuse(
        "@StorableValue struct Engine { @Indexed var power: Int }",
        "A value inside an object has no index. Declare it in the object's static let indexes, with "
          + "a path such as \\Car.engine.power.", line: 1, column: 32)
    }

    @Test func `A member that the macro generates is refused`() {
      for member in [
        "init(from decoder: any Decoder) throws { id = 1 }",
        "func encode(to encoder: any Encoder) throws {}", "enum CodingKeys: CodingKey {}",
      ] {
        let name =
          member.hasPrefix("init")
          ? "init(from:)" : member.hasPrefix("func") ? "encode(to:)" : "CodingKeys"
        refuse(
          "@Storable struct Car { let id: Int; \(member) }",
          "The macro generates \(name), so that the stored form is known. Delete this declaration; "
            + "or delete the macro, and conform to Storable with it.", line: 1, column: 37)
      }
    }
  }
#endif
