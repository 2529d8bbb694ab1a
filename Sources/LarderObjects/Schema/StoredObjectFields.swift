// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderObjectEngine
internal import LarderSystem

// DECODING WITHOUT A MAP
//
// The generated `init(from:)` of a type with `@Storable` reads its fields in the order in which they
// are stored. If the object is stored with a layout, `StoredFieldsDecoder` reads a scalar where the
// layout says: no map is made, no name is searched, and the code is specialised in the program. What
// such a read does not decide (a value that is no scalar, or one of another type) is decoded from the
// map of the same object, with the same result and the same errors as everywhere else.

/// The fields of an object that is stored with a layout, for generated code.
public final class StoredObjectFields: Decoder {
  private let object: [UInt8]
  private let layout: ObjectLayout
  private let fields: FieldPlaces
  private let cbor: CBORDecoder
  /// The decoder of the map of the object, once it was needed.
  private var map: (any Decoder)?
  /// The position of the field that is probably requested next.
  private var next = 0

  /// Creates the fields, or returns `nil` if the object is damaged.
  init?(_ object: [UInt8], _ layouts: ObjectLayouts, _ cbor: CBORDecoder) {
    guard let (layout, fields) = layouts.places(in: object) else { return nil }
    self.object = object
    self.layout = layout
    self.fields = fields
    self.cbor = cbor
  }

  /// Returns the place of a field's value, empty if the field is missing, or `nil` if the map must be
  /// asked.
  @usableFromInline
  func place(of name: String) -> Range<Int>? {
    let names = layout.names
    var position = next
    if position >= names.count || names[position] != name {
      guard let found = names.firstIndex(of: name) else { return 0..<0 }
      position = found
    }
    next = position + 1
    return object.withRawSpan { fields.place(position, in: $0) }
  }

  /// Returns whether the value at a place is `null` or `undefined`.
  @usableFromInline
  func isNull(_ place: Range<Int>) -> Bool {
    place.count == 1 && object[place.lowerBound] & 0xfe == 0xf6
  }

  /// Reads the value at a place.
  @inline(__always)
  func read<Value>(_ place: Range<Int>, _ body: (RawSpan) -> Value?) -> Value? {
    object.withRawSpan { body($0.slice(place)!) }
  }

  // MARK: Decoder

  /// A decoder of the map of the object.
  @usableFromInline
  func decoder() throws -> any Decoder {
    if let map { return map }
    guard let bytes = object.withRawSpan({ layout.map(of: $0) }) else {
      throw DecodingError.dataCorrupted(
        DecodingError.Context(codingPath: [], debugDescription: "The object is damaged."))
    }
    let decoder = try cbor.decoder(of: bytes)
    map = decoder
    return decoder
  }

  /// The path of the object: it is empty.
  public var codingPath: [any CodingKey] { [] }

  /// The values that the store passes to the decoded types.
  public var userInfo: [CodingUserInfoKey: Any] { cbor.userInfo }

  /// Returns the fields of the map of the object.
  ///
  /// - Parameter type: The type of the names.
  /// - Returns: The fields.
  /// - Throws: `DecodingError` if the object is damaged.
  public func container<Key: CodingKey>(
    keyedBy type: Key.Type
  ) throws -> KeyedDecodingContainer<Key> {
    try decoder().container(keyedBy: type)
  }

  /// Throws, because an object is a map.
  ///
  /// - Returns: Nothing.
  /// - Throws: `DecodingError`.
  public func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
    try decoder().unkeyedContainer()
  }

  /// Returns the map of the object as a value.
  ///
  /// - Returns: The value.
  /// - Throws: `DecodingError` if the object is damaged.
  public func singleValueContainer() throws -> any SingleValueDecodingContainer {
    try decoder().singleValueContainer()
  }
}
