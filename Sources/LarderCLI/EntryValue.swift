// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderCoding

/// The value of an entry, decoded without its Swift type.
enum EntryValue {
  /// A stored string.
  case text(String)
  /// Bytes of an unknown codec, or stored as bytes.
  case bytes([UInt8])
  /// A number, a UUID or a date as text. `json` is its form in JSON.
  case plain(String, json: CBORValue)
  /// JSON as it was stored.
  case json(String, CBORValue)
  /// A structured value.
  case structure(CBORValue)

  /// Decodes a payload with the codec that wrote it. The payload of a custom codec becomes bytes.
  ///
  /// - Throws: `CodecError` if the payload is not valid for its codec.
  init(codec: CodecIdentifier, payload: [UInt8]) throws {
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
      try StandardCoding.decode(type, identifier: codec, bytes: payload, codec: CBORCodec())
    }
    switch codec {
    case .plainText: self = .text(try decode(String.self))
    case .plainInteger:
      let number: String
      if let small = try? decode(Int128.self) {
        number = String(small)
      } else {
        number = String(try decode(UInt128.self))
      }
      // Readers of JSON truncate numbers that exceed 64 bits, so these are quoted.
      let json = Int(number).map { CBORValue($0) } ?? UInt64(number).map(CBORValue.unsigned)
      self = .plain(number, json: json ?? .text(number))
    case .plainDouble: self.init(number: try decode(Double.self))
    case .plainFloat:
      let number = try decode(Float.self)
      self = .plain("\(number)", json: .float(Double("\(number)") ?? Double(number)))
    case .plainBoolean:
      let value = try decode(Bool.self)
      self = .plain("\(value)", json: .boolean(value))
    case .plainUUID: self.init(text: try decode(UUID.self).uuidString)
    case .plainDate: self.init(text: Self.text(try decode(Date.self)))
    case .json:
      let value = try decode(AnyValue.self).value
      self = .json(String(decoding: payload, as: UTF8.self), value)
    case .propertyList: self = .structure(try decode(AnyValue.self).value)
    case .cbor: self = .structure(try CBORValue(parsing: payload))
    default: self = .bytes(payload)
    }
  }

  private init(number: Double) { self = .plain("\(number)", json: .float(number)) }
  private init(text: String) { self = .plain(text, json: .text(text)) }

  /// The value in a JSON answer; bytes as base64url.
  var jsonValue: CBORValue {
    switch self {
    case .text(let text): .text(text)
    case .bytes(let bytes): .bytes(bytes)
    case .plain(_, let json): json
    case .json(_, let value): value
    case .structure(let value): value
    }
  }

  /// Returns the name of a codec in answers.
  static func name(of codec: CodecIdentifier) -> String {
    switch codec {
    case .cbor: "cbor"
    case .json: "json"
    case .propertyList: "plist"
    case .plainBytes: "bytes"
    case .plainText: "text"
    case .plainInteger: "integer"
    case .plainDouble: "double"
    case .plainFloat: "float"
    case .plainBoolean: "boolean"
    case .plainUUID: "uuid"
    case .plainDate: "date"
    default: "codec \(codec.rawValue)"
    }
  }

  /// Returns a date with milliseconds, in UTC.
  static func text(_ date: Date) -> String {
    date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
  }
}

/// Any value of a self-describing format, as a CBOR item.
struct AnyValue: Decodable {
  let value: CBORValue

  private struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init?(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  init(from decoder: any Decoder) throws {
    if let object = try? decoder.container(keyedBy: Name.self) {
      let names = object.allKeys.sorted { $0.stringValue < $1.stringValue }
      value = .map(
        try names.map {
          .init(.text($0.stringValue), try object.decode(AnyValue.self, forKey: $0).value)
        })
      return
    }
    if var array = try? decoder.unkeyedContainer() {
      var values: [CBORValue] = []
      while !array.isAtEnd { values.append(try array.decode(AnyValue.self).value) }
      value = .array(values)
      return
    }
    let single = try decoder.singleValueContainer()
    if single.decodeNil() {
      value = .null
    } else if let boolean = try? single.decode(Bool.self) {
      value = .boolean(boolean)
    } else if let number = try? single.decode(Int.self) {
      value = CBORValue(number)
    } else if let number = try? single.decode(UInt64.self) {
      value = .unsigned(number)
    } else if let number = try? single.decode(Double.self) {
      value = .float(number)
    } else if let date = try? single.decode(Date.self) {
      value = .text(EntryValue.text(date))
    } else if let data = try? single.decode(Data.self) {
      value = .bytes(Array(data))
    } else {
      value = .text(try single.decode(String.self))
    }
  }
}
#endif
