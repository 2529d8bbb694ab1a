// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A conversion between bytes and values.
struct DataTransform<Value: Sendable>: Sendable {
  let encode: @Sendable (Value) throws -> Data
  let decode: @Sendable (Data) throws -> Value

  init(
    _ form: String, encode: @escaping @Sendable (Value) throws -> Data,
    decode: @escaping @Sendable (Data) throws -> Value
  ) {
    self.encode = encode
    self.decode = { data in
      do { return try decode(data) } catch {
        throw StorageError(
          .undecodable, during: "value",
          "The \(data.count) bytes stored are no \(Value.self) as \(form): \(error). Set the key again, "
            + "or treat it as a miss with recovering(.readErrorsAsMisses).",
          underlying: error)
      }
    }
  }
}

extension DataTransform where Value: Codable {
  static func json(_ decoder: JSONDecoder, _ encoder: JSONEncoder) -> DataTransform {
    DataTransform("JSON") { value in
      let data = try encoder.encode(value)
      if JSONNotANumber.isInvalid(Array(data), decoder) {
        throw StorageError(
          .unsupported, during: "set",
          "JSON has no number that is not one (NaN). Nothing was stored. Use mapPlistObject().")
      }
      return data
    } decode: {
      try decoder.decode(Value.self, from: $0)
    }
  }

  static func plist(_ decoder: PropertyListDecoder, _ encoder: PropertyListEncoder) -> DataTransform
  {
    DataTransform("a property list") { value in
      let data = try encoder.encode(value)
      if PropertyListNull.isInBytes(data), try PropertyListNull.isText(in: value) {
        throw StorageError(
          .unsupported, during: "set",
          "A property list cannot hold the text \"$null\" of a value: it is read as nil. Nothing was stored. "
            + "Use mapJSONObject().")
      }
      if let reason = PropertyListDepthLimit.rejectionReason(writing: Array(data)) {
        throw StorageError(
          .unsupported, during: "set",
          "The property list \(reason), so it could not be read. Nothing was stored. Store its parts under "
            + "separate keys.")
      }
      return data
    } decode: { data in
      if let rejectionReason = PropertyListDepthLimit.rejectionReason(to: Array(data)) {
        throw UnreadableShape(description: "it \(rejectionReason)")
      }
      return try decoder.decode(Value.self, from: data)
    }
  }
}

extension DataTransform<String> {
  static func text(_ encoding: String.Encoding) -> DataTransform {
    DataTransform("text") { text in
      guard let data = text.data(using: encoding) else {
        throw StorageError(
          .unsupported, during: "set",
          "The text cannot be written in the encoding \(encoding). Choose .utf8.")
      }
      return data
    } decode: { data in
      guard let text = String(data: data, encoding: encoding) else { throw UndecodableText() }
      return text
    }
  }
}

struct UndecodableText: Error {}

struct UnreadableShape: Error, CustomStringConvertible {
  let description: String
}

/// The form in which a storage writes property lists. Both forms are read.
public enum PropertyListFormat: Sendable, Hashable {
  /// Text in XML, larger, readable by people.
  case xml
  /// The binary form.
  case binary

  fileprivate var encoder: PropertyListEncoder {
    let encoder = PropertyListEncoder()
    encoder.outputFormat = self == .xml ? .xml : .binary
    return encoder
  }
}

extension StorageProtocol where Value == Data {
  private func coded<Other>(_ coding: DataTransform<Other>) -> Storage<Key, Other> {
    asStorage().mapped { $0.mapValues(in: coding.encode, out: coding.decode) }
  }

  /// The storage with values in JSON.
  public func mapJSONObject<Other: Codable & Sendable>(
    _ type: Other.Type = Other.self, decoder: JSONDecoder = JSONDecoder(),
    encoder: JSONEncoder = JSONEncoder()
  ) -> Storage<Key, Other> {
    coded(.json(decoder, encoder))
  }

  /// The storage with values that are JSON documents.
  public func mapJSON() -> Storage<Key, DocumentValue> {
    mapJSONObject()
  }

  /// The storage with objects of JSON, by the names of their fields.
  public func mapJSONDictionary() -> Storage<Key, [String: DocumentValue]> {
    mapJSONObject()
  }

  /// The storage with values in property lists, in the binary format by default.
  public func mapPlistObject<Other: Codable & Sendable>(
    _ type: Other.Type = Other.self, decoder: PropertyListDecoder = PropertyListDecoder(),
    encoder: PropertyListEncoder? = nil
  ) -> Storage<Key, Other> {
    coded(.plist(decoder, encoder ?? PropertyListFormat.binary.encoder))
  }

  /// The storage with values that are property lists. Both formats are read.
  public func mapPlist(format: PropertyListFormat = .binary) -> Storage<Key, DocumentValue> {
    mapPlistObject(encoder: format.encoder)
  }

  /// The storage with the dictionaries of property lists. Both formats are read.
  public func mapPlistDictionary(
    format: PropertyListFormat = .binary
  ) -> Storage<Key, [String: DocumentValue]> {
    mapPlistObject(encoder: format.encoder)
  }

  /// The storage with strings.
  public func mapString(
    withEncoding encoding: String.Encoding = .utf8
  ) -> Storage<Key, String> {
    coded(.text(encoding))
  }
}

extension ReadOnlyStorageProtocol where Value == Data {
  private func coded<Other>(_ coding: DataTransform<Other>) -> ReadOnlyStorage<Key, Other> {
    asReadOnlyStorage().mapped { $0.mapValues(in: coding.encode, out: coding.decode) }
  }

  /// The storage with values in JSON.
  public func mapJSONObject<Other: Codable & Sendable>(
    _ type: Other.Type = Other.self, decoder: JSONDecoder = JSONDecoder(),
    encoder: JSONEncoder = JSONEncoder()
  ) -> ReadOnlyStorage<Key, Other> {
    coded(.json(decoder, encoder))
  }

  /// The storage with values that are JSON documents.
  public func mapJSON() -> ReadOnlyStorage<Key, DocumentValue> {
    mapJSONObject()
  }

  /// The storage with objects of JSON, by the names of their fields.
  public func mapJSONDictionary() -> ReadOnlyStorage<Key, [String: DocumentValue]> {
    mapJSONObject()
  }

  /// The storage with values in property lists, in the binary format by default.
  public func mapPlistObject<Other: Codable & Sendable>(
    _ type: Other.Type = Other.self, decoder: PropertyListDecoder = PropertyListDecoder(),
    encoder: PropertyListEncoder? = nil
  ) -> ReadOnlyStorage<Key, Other> {
    coded(.plist(decoder, encoder ?? PropertyListFormat.binary.encoder))
  }

  /// The storage with values that are property lists. Both formats are read, so `format` has no effect.
  public func mapPlist(format: PropertyListFormat = .binary) -> ReadOnlyStorage<Key, DocumentValue>
  {
    mapPlistObject(encoder: format.encoder)
  }

  /// The storage with the dictionaries of property lists. Both formats are read, so `format` has no effect.
  public func mapPlistDictionary(
    format: PropertyListFormat = .binary
  ) -> ReadOnlyStorage<Key, [String: DocumentValue]> {
    mapPlistObject(encoder: format.encoder)
  }

  /// The storage with strings.
  public func mapString(
    withEncoding encoding: String.Encoding = .utf8
  ) -> ReadOnlyStorage<Key, String> {
    coded(.text(encoding))
  }
}

extension WriteOnlyStorageProtocol where Value == Data {
  private func coded<Other>(_ coding: DataTransform<Other>) -> WriteOnlyStorage<Key, Other> {
    asWriteOnlyStorage().mapped { $0.mapValues(in: coding.encode, out: coding.decode) }
  }

  /// The storage with values in JSON.
  public func mapJSONObject<Other: Codable & Sendable>(
    _ type: Other.Type = Other.self, decoder: JSONDecoder = JSONDecoder(),
    encoder: JSONEncoder = JSONEncoder()
  ) -> WriteOnlyStorage<Key, Other> {
    coded(.json(decoder, encoder))
  }

  /// The storage with values that are JSON documents.
  public func mapJSON() -> WriteOnlyStorage<Key, DocumentValue> {
    mapJSONObject()
  }

  /// The storage with objects of JSON, by the names of their fields.
  public func mapJSONDictionary() -> WriteOnlyStorage<Key, [String: DocumentValue]> {
    mapJSONObject()
  }

  /// The storage with values in property lists, in the binary format by default.
  public func mapPlistObject<Other: Codable & Sendable>(
    _ type: Other.Type = Other.self, decoder: PropertyListDecoder = PropertyListDecoder(),
    encoder: PropertyListEncoder? = nil
  ) -> WriteOnlyStorage<Key, Other> {
    coded(.plist(decoder, encoder ?? PropertyListFormat.binary.encoder))
  }

  /// The storage with values that are property lists. Both formats are read.
  public func mapPlist(format: PropertyListFormat = .binary) -> WriteOnlyStorage<Key, DocumentValue>
  {
    mapPlistObject(encoder: format.encoder)
  }

  /// The storage with the dictionaries of property lists. Both formats are read.
  public func mapPlistDictionary(
    format: PropertyListFormat = .binary
  ) -> WriteOnlyStorage<Key, [String: DocumentValue]> {
    mapPlistObject(encoder: format.encoder)
  }

  /// The storage with strings.
  public func mapString(
    withEncoding encoding: String.Encoding = .utf8
  ) -> WriteOnlyStorage<Key, String> {
    coded(.text(encoding))
  }
}
