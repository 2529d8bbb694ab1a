// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderSystem

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

// WHAT A TYPE DECLARES
//
// Without reflection and without a macro, a type still says which fields it has: its `init(from:)`
// asks for them. The probe is a decoder that writes down what it is asked for and answers with
// nothing much: 0, "", false, empty collections, `nil`. What cannot be made of that (an enumeration
// of texts, say) is decoded from a real object, if one is at hand.
//
// A field is written down as "name: kind", with "?" behind it if it may be missing. The kind is what
// the value looks like in CBOR, as far as its Swift type says: Int and Int64 are one, Int and Double
// are not. What is inside of a map or an array is not looked at.
//
// A type that asks in other ways (`contains`, `allKeys`, a container that is no map) is not judged.

/// Finds out the fields of a type.
enum SchemaProbe {
  /// The fields, in alphabetical order; `nil`: they cannot be found out.
  static func fields<Object: Decodable>(
    of type: Object.Type, from object: [UInt8]?
  ) -> [String]? {
    var values: [String: [UInt8]] = [:]
    if let object, case .map(let pairs)? = try? CBORValue(parsing: object) {
      for pair in pairs {
        if case .text(let name) = pair.key { values[name] = pair.value.encoded }
      }
    }
    let record = ProbeRecord(values)
    guard (try? Object(from: ProbeDecoder(record: record))) != nil, !record.isUnclear else {
      return nil
    }
    return Set(record.fields).sorted()
  }

  static func fingerprint(_ fields: [String]) -> UInt64 {
    XXH64.hash(Array(fields.joined(separator: "\n").utf8))
  }

  /// What came and what went.
  static func difference(from old: [String], to new: [String]) -> String {
    let gone = old.filter { !new.contains($0) }.map { "stored \($0)" }
    let come = new.filter { !old.contains($0) }.map { "declared \($0)" }
    return (gone + come).joined(separator: ", ")
  }

  /// What values of a type look like.
  static func kind<Value: Decodable>(of type: Value.Type) -> String {
    switch type {
    // Before anything is decoded: types may refer to themselves.
    case is any ProbedReference.Type: return "reference"
    case is any FixedWidthInteger.Type: return "integer"
    case is any BinaryFloatingPoint.Type: return "number"
    case is Bool.Type: return "boolean"
    case is String.Type, is Character.Type: return "text"
    case is Date.Type: return "date"
    case is UUID.Type: return "uuid"
    case is Data.Type, is [UInt8].Type: return "bytes"
    case is URL.Type: return "url"
    case is Decimal.Type: return "decimal"
    case let optional as any ProbedOptional.Type: return optional.wrappedKind
    default:
      let record = ProbeRecord([:])
      _ = try? Value(from: ProbeDecoder(record: record))
      return record.form ?? "value"
    }
  }
}

/// A reference to other objects: stored as ids, and never followed here.
protocol ProbedReference { static var nothing: Any { get } }

private protocol ProbedOptional { static var wrappedKind: String { get } }
extension Optional: ProbedOptional where Wrapped: Decodable {
  fileprivate static var wrappedKind: String { SchemaProbe.kind(of: Wrapped.self) }
}

private protocol ProbedCollection { static var nothing: Any { get } }
extension Array: ProbedCollection { fileprivate static var nothing: Any { [Element]() } }
extension Set: ProbedCollection { fileprivate static var nothing: Any { Set<Element>() } }
extension Dictionary: ProbedCollection { fileprivate static var nothing: Any { [Key: Value]() } }

/// What a type asked for.
private final class ProbeRecord {
  let values: [String: [UInt8]]
  var fields: [String] = []
  /// What the type itself is stored as.
  var form: String?
  var isUnclear = false

  init(_ values: [String: [UInt8]]) { self.values = values }

  struct Unclear: Error {}

  func unclear() -> Unclear {
    isUnclear = true
    return Unclear()
  }

  /// A value of a type, of nothing or of what a field holds.
  func value<Value: Decodable>(_ type: Value.Type, of field: String? = nil) throws -> Value {
    switch type {
    case let integer as any FixedWidthInteger.Type: return integer.init() as! Value
    case let number as any BinaryFloatingPoint.Type: return number.init(0 as Int) as! Value
    case is Bool.Type: return false as! Value
    case is String.Type: return "" as! Value
    case is Date.Type: return Date(timeIntervalSince1970: 0) as! Value
    case is UUID.Type: return UUID() as! Value
    case is Data.Type: return Data() as! Value
    case is Decimal.Type: return Decimal() as! Value
    case is URL.Type: return URL(string: "a:b")! as! Value
    case let list as any ProbedCollection.Type: return list.nothing as! Value
    case let reference as any ProbedReference.Type: return reference.nothing as! Value
    default: break
    }
    if let field, let bytes = values[field] {
      return try LinkDecoder(LinkContext(store: nil)).cbor.decode(type, from: bytes)
    }
    if let cases = (type as? any CaseIterable.Type).flatMap({ Self.first($0) }) as? Value {
      return cases
    }
    return try Value(from: ProbeDecoder(record: ProbeRecord([:])))
  }

  private static func first<Cases: CaseIterable>(_ type: Cases.Type) -> Any? {
    Cases.allCases.first
  }
}

private struct ProbeDecoder: Decoder {
  let record: ProbeRecord
  var codingPath: [any CodingKey] { [] }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
    record.form = record.form ?? "map"
    return KeyedDecodingContainer(ProbeFields<Key>(record: record))
  }

  func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
    record.form = record.form ?? "array"
    throw record.unclear()
  }

  func singleValueContainer() -> any SingleValueDecodingContainer { ProbeSingle(record: record) }
}

private struct ProbeSingle: SingleValueDecodingContainer {
  let record: ProbeRecord
  var codingPath: [any CodingKey] { [] }

  func decodeNil() -> Bool {
    record.isUnclear = true
    return false
  }

  func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
    record.isUnclear = true
    record.form = record.form ?? SchemaProbe.kind(of: type)
    return try record.value(type)
  }
}

private struct ProbeFields<Key: CodingKey>: KeyedDecodingContainerProtocol {
  let record: ProbeRecord
  var codingPath: [any CodingKey] { [] }

  var allKeys: [Key] {
    record.isUnclear = true
    return []
  }

  func contains(_ key: Key) -> Bool {
    record.isUnclear = true
    return false
  }

  func decodeNil(forKey key: Key) -> Bool {
    record.isUnclear = true
    return true
  }

  func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
    record.fields.append("\(key.stringValue): \(SchemaProbe.kind(of: type))")
    return try record.value(type, of: key.stringValue)
  }

  func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) -> Value? {
    optional(key, SchemaProbe.kind(of: type))
    return nil
  }

  private func optional(_ key: Key, _ kind: String) {
    record.fields.append("\(key.stringValue): \(kind)?")
  }

  // The scalars have requirements of their own, which would end in `contains` by default.

  func decodeIfPresent(_ type: Bool.Type, forKey key: Key) -> Bool? {
    optional(key, "boolean")
    return nil
  }

  func decodeIfPresent(_ type: String.Type, forKey key: Key) -> String? {
    optional(key, "text")
    return nil
  }

  func decodeIfPresent(_ type: Double.Type, forKey key: Key) -> Double? { number(key) }
  func decodeIfPresent(_ type: Float.Type, forKey key: Key) -> Float? { number(key) }
  func decodeIfPresent(_ type: Int.Type, forKey key: Key) -> Int? { integer(key) }
  func decodeIfPresent(_ type: Int8.Type, forKey key: Key) -> Int8? { integer(key) }
  func decodeIfPresent(_ type: Int16.Type, forKey key: Key) -> Int16? { integer(key) }
  func decodeIfPresent(_ type: Int32.Type, forKey key: Key) -> Int32? { integer(key) }
  func decodeIfPresent(_ type: Int64.Type, forKey key: Key) -> Int64? { integer(key) }
  func decodeIfPresent(_ type: Int128.Type, forKey key: Key) -> Int128? { integer(key) }
  func decodeIfPresent(_ type: UInt.Type, forKey key: Key) -> UInt? { integer(key) }
  func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) -> UInt8? { integer(key) }
  func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) -> UInt16? { integer(key) }
  func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) -> UInt32? { integer(key) }
  func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) -> UInt64? { integer(key) }
  func decodeIfPresent(_ type: UInt128.Type, forKey key: Key) -> UInt128? { integer(key) }

  private func number<Value>(_ key: Key) -> Value? {
    optional(key, "number")
    return nil
  }

  private func integer<Value>(_ key: Key) -> Value? {
    optional(key, "integer")
    return nil
  }

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) throws -> KeyedDecodingContainer<Nested> { throw record.unclear() }
  func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
    throw record.unclear()
  }
  func superDecoder() throws -> any Decoder { throw record.unclear() }
  func superDecoder(forKey key: Key) throws -> any Decoder { throw record.unclear() }
}
