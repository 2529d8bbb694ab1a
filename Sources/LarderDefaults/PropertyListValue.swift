// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

// VALUES OF PROPERTY LISTS
//
//   property list   stored as             written back as
//   string          text                  string
//   integer         integer               integer
//   real            double                real (a Float too)
//   boolean         boolean               boolean
//   date            date                  date
//   data            bytes, or JSON (1)    data; JSON as its values
//   array, dict     CBOR                  array, dict
//
// (1) PropertyKit stores values for which `UserDefaults` has no type as data that contains JSON. With
// `dataHoldsJSON`, an import stores such data with the JSON codec, and any Codable type reads it.
//
// A UUID is written as a string and read from it again, as are all types that encode themselves as
// one string or number. Values that CBOR has and a property list lacks (null in an array, keys that
// are not strings) are errors that name the key; a field that is null is left out.

/// A value of a property list.
enum PropertyListValue: Sendable, Hashable {
  case string(String)
  case integer(Int64)
  case unsigned(UInt64)
  case real(Double)
  case boolean(Bool)
  case date(Date)
  case data(Data)
  indirect case array([PropertyListValue])
  indirect case dictionary([String: PropertyListValue])
}

extension PropertyListValue: Codable {
  private struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  init(from decoder: any Decoder) throws {
    if let object = try? decoder.container(keyedBy: Name.self) {
      var fields: [String: PropertyListValue] = [:]
      for name in object.allKeys where (try? object.decodeNil(forKey: name)) != true {
        fields[name.stringValue] = try object.decode(PropertyListValue.self, forKey: name)
      }
      self = .dictionary(fields)
    } else if var list = try? decoder.unkeyedContainer() {
      var values: [PropertyListValue] = []
      while !list.isAtEnd { values.append(try list.decode(PropertyListValue.self)) }
      self = .array(values)
    } else {
      let single = try decoder.singleValueContainer()
      if let value = try? single.decode(Bool.self) {
        self = .boolean(value)
      } else if let value = try? single.decode(Int64.self) {
        self = .integer(value)
      } else if let value = try? single.decode(UInt64.self) {
        self = .unsigned(value)
      } else if let value = try? single.decode(Double.self) {
        self = .real(value)
      } else if let value = try? single.decode(String.self) {
        self = .string(value)
      } else if let value = try? single.decode(Date.self) {
        self = .date(value)
      } else {
        self = .data(try single.decode(Data.self))
      }
    }
  }

  func encode(to encoder: any Encoder) throws {
    var single = encoder.singleValueContainer()
    switch self {
    case .string(let value): try single.encode(value)
    case .integer(let value): try single.encode(value)
    case .unsigned(let value): try single.encode(value)
    case .real(let value): try single.encode(value)
    case .boolean(let value): try single.encode(value)
    case .date(let value): try single.encode(value)
    case .data(let value): try single.encode(value)
    case .array(let values): try single.encode(values)
    case .dictionary(let fields): try single.encode(fields)
    }
  }
}

extension PropertyListValue {
  /// Returns the content to store.
  func content(key: String, dataHoldsJSON: Bool) throws -> DefaultsContent {
    switch self {
    case .string(let value): return try Self.content(value, key)
    case .integer(let value): return try Self.content(value, key)
    case .unsigned(let value): return try Self.content(value, key)
    case .real(let value): return try Self.content(value, key)
    case .boolean(let value): return try Self.content(value, key)
    case .date(let value): return try Self.content(value, key)
    case .data(let value):
      if dataHoldsJSON, (try? JSONDecoder().decode(PropertyListValue.self, from: value)) != nil {
        return DefaultsContent(codec: CodecIdentifier.json.rawValue, payload: Array(value))
      }
      return try Self.content(value, key)
    case .array, .dictionary: return try Self.content(self, key)
    }
  }

  private static func content<Value: Encodable>(
    _ value: Value, _ key: String
  ) throws -> DefaultsContent {
    guard let content = try Defaults.content(of: value, key) else {
      throw refused(key, "it is null")
    }
    return content
  }

  /// Decodes the value of an entry.
  init(_ stored: StoredValue, key: String) throws {
    let codec = CodecIdentifier(rawValue: stored.codec)
    func read<Value: Decodable>(_ type: Value.Type) throws -> Value {
      try Defaults.decode(type, stored, key)
    }
    switch codec {
    case .plainText: self = .string(try read(String.self))
    case .plainBytes: self = .data(try read(Data.self))
    case .plainBoolean: self = .boolean(try read(Bool.self))
    case .plainDate: self = .date(try read(Date.self))
    case .plainDouble: self = .real(try read(Double.self))
    case .plainFloat: self = .real(Double(try read(Float.self)))
    case .plainUUID: self = .string(try read(UUID.self).uuidString)
    case .plainInteger:
      if let value = try? read(Int64.self) {
        self = .integer(value)
      } else if let value = try? read(UInt64.self) {
        self = .unsigned(value)
      } else {
        throw Self.refused(key, "the integer has more than 64 bits")
      }
    case .cbor:
      let value: CBORValue
      do { value = try CBORValue(parsing: stored.payload) } catch {
        throw DefaultsError(
          .unreadable, key: key,
          "The value cannot be read: \(error) Set it again, or remove it.", underlyingError: error)
      }
      self = try Self(value, key: key) ?? { throw Self.refused(key, "it is null") }()
    default: self = try read(PropertyListValue.self)
    }
  }

  /// Whether it contains a date that XML has not, or a text that would be read from XML as another one.
  var isChangedByXML: Bool {
    switch self {
    // From the beginning of the year 1 to the end of the year 30,000.
    case .date(let date):
      !(-63_114_076_800..<883_594_656_000).contains(date.timeIntervalSinceReferenceDate)
    case .string(let text): Self.hasMark(text)
    case .array(let values): values.contains(where: \.isChangedByXML)
    case .dictionary(let fields):
      fields.contains { Self.hasMark($0.key) || $0.value.isChangedByXML }
    default: false
    }
  }

  /// Whether a text begins with the byte order mark, which a reader of XML takes for one.
  static func hasMark(_ text: String) -> Bool { text.unicodeScalars.first == "\u{FEFF}" }

  static func refused(_ key: String, _ reason: String) -> DefaultsError {
    DefaultsError(
      .propertyList, key: key,
      "A property list cannot hold the value: \(reason). Remove the key, or export without it.")
  }

  /// Converts a CBOR item. The result is `nil` for null.
  private init?(_ value: CBORValue, key: String) throws {
    switch value {
    case .text(let text): self = .string(text)
    case .bytes(let bytes): self = .data(Data(bytes))
    case .boolean(let value): self = .boolean(value)
    case .float(let value): self = .real(value)
    case .unsigned(let number):
      self = Int64(exactly: number).map(PropertyListValue.integer) ?? .unsigned(number)
    case .negative(let number):
      guard let number = Int64(exactly: number) else {
        throw Self.refused(key, "an integer has more than 64 bits")
      }
      self = .integer(-1 - number)
    case .null, .undefined: return nil
    case .simple: throw Self.refused(key, "it has a simple value of CBOR")
    case .array(let items):
      self = .array(
        try items.map {
          try Self($0, key: key) ?? { throw Self.refused(key, "an array contains null") }()
        })
    case .map(let pairs):
      var fields: [String: PropertyListValue] = [:]
      for pair in pairs {
        guard case .text(let name) = pair.key else {
          throw Self.refused(key, "a dictionary has keys that are not strings")
        }
        guard fields[name] == nil else {
          throw Self.refused(
            key, "two keys of a dictionary in it differ only in their form of Unicode")
        }
        fields[name] = try Self(pair.value, key: key)
      }
      self = .dictionary(fields)
    case .tagged(_, let inner):
      if let date = try? CBORDecoder().decode(Date.self, from: value.encoded) {
        self = .date(date)
      } else if let uuid = try? CBORDecoder().decode(UUID.self, from: value.encoded) {
        self = .string(uuid.uuidString)
      } else {
        guard let inner = try Self(inner, key: key) else { return nil }
        self = inner
      }
    }
  }
}
