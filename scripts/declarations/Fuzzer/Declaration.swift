// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Random numbers that a seed repeats (SplitMix64).
struct Random: RandomNumberGenerator {
  private var state: UInt64

  init(_ parts: Int...) {
    state = 0
    for part in parts {
      state = (state ^ UInt64(bitPattern: Int64(part))) &* 0x9E37_79B9_7F4A_7C15 &+ 1
    }
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }
  mutating func chance(_ percent: Int) -> Bool { below(100) < percent }
  mutating func pick<Element>(_ list: [Element]) -> Element { list[below(list.count)] }
}

/// The type of a property.
indirect enum Shape: Hashable {
  case int, int16, double, string, bool, date, uuid, decimal, data
  /// An enumeration with texts or numbers as raw values, and the number of its cases.
  case choice(String, ofText: Bool, cases: Int)
  case nested(String, [Field])
  case list(Shape), dictionary, optional(Shape)
  /// A reference to a `Peer`, or none.
  case reference

  /// Whether it has an order.
  var isScalar: Bool {
    switch self {
    case .int, .int16, .double, .string, .date, .uuid, .decimal: true
    default: false
    }
  }

  /// Whether an index may have it.
  var isIndexable: Bool {
    switch self {
    case .decimal, .list, .dictionary, .nested, .reference: false
    case .optional(let shape): shape.isIndexable
    default: true
    }
  }

  var isOptional: Bool {
    switch self {
    case .optional, .reference: true
    default: false
    }
  }

  var required: Shape { if case .optional(let shape) = self { shape } else { self } }
  var isText: Bool {
    switch self {
    case .string, .optional(.string), .list(.string): true
    default: false
    }
  }

  var source: String {
    switch self {
    case .int: "Int"
    case .int16: "Int16"
    case .double: "Double"
    case .string: "String"
    case .bool: "Bool"
    case .date: "Date"
    case .uuid: "UUID"
    case .decimal: "Decimal"
    case .data: "Data"
    case .choice(let name, _, _), .nested(let name, _): name
    case .list(let shape): "[\(shape.source)]"
    case .dictionary: "[String: Int]"
    case .reference: "Peer?"
    case .optional(let shape): "\(shape.source)?"
    }
  }
}

/// A default in the source.
struct Fallback: Hashable {
  var value: Value
  var source: String
  var isLiteral: Bool
  /// Another value each time.
  var isVolatile = false
}

struct Field: Hashable {
  var property: String
  var stored: String
  var shape: Shape
  var fallback: Fallback?
  var isIndexed = false
  var isUnique = false
}

struct IndexDeclaration: Hashable {
  enum Kind: Hashable {
    case compound, each, text
    /// With the condition that the first property has a value.
    case partial(Value)
    /// Over a property of a value.
    case member(String)
  }
  var name: String
  var kind: Kind
  /// The stored names of the properties.
  var fields: [String]
  var isUnique = false
}

/// The change of stored objects between the versions of a type.
enum Step: Hashable {
  case rename(String, to: String)
  case add(String, Fallback)
  case remove(String)
}

struct Declaration: Hashable {
  var name: String
  var storedName: String?
  var isMacro = true
  var isPrivate = false
  var version = 1
  var fields: [Field]
  var indexes: [IndexDeclaration] = []
  var step: Step?

  func field(_ stored: String) -> Field? { fields.first { $0.stored == stored } }

  /// All indexes, with those of the properties.
  var allIndexes: [IndexDeclaration] {
    indexes
      + fields.filter { $0.isIndexed || $0.isUnique }.map {
        IndexDeclaration(
          name: $0.stored, kind: .compound, fields: [$0.stored], isUnique: $0.isUnique)
      }
  }

  /// The default that an object without the field has.
  func fallback(_ field: Field) -> Fallback? {
    isMacro && field.fallback?.value != .null ? field.fallback : nil
  }

  /// Whether every stored object must have the field.
  func requires(_ field: Field) -> Bool { !field.shape.isOptional && fallback(field) == nil }
}

/// The declarations of one type in the two programs.
struct Pair {
  var programs: [Declaration]
  /// The names of the changes.
  var changes: [String] = []
}
