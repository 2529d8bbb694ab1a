// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderSystem

// OBJECTS WITH A LAYOUT
//
// A type that declares its stored fields stores its objects without their names. The record of the
// type contains its layouts: lists of names, in the byte order of their CBOR keys. A layout is never
// changed or removed, and its number is its position in the list, so an object is read with the
// layout with which it was written, by every program. A program whose fields are in no layout of
// the type adds one.
//
//     0  width     u8   1, 2 or 4: the size of an end
//     1  layout    varint
//        ends      of each field of the layout: the offset after its value, from the first value
//                  on, little-endian; a missing field ends where the field before it does
//        values    CBOR items (RFC 8949)
//
// The form is the same object as the CBOR map of the fields that are not missing, in less space, and
// either is made of the other without knowledge of the Swift type. Everything except the readers of
// single fields works with the map. An object that has other fields than any layout, because a program
// of another declaration stored it, is stored as a map.
//
// A copy of the layouts is in `objects`, under sequence zero of the type: if the record of the type
// is lost, the objects keep their names.

/// The names of an object's fields, in the order in which their values are stored.
// A class: each decoded object copies a reference.
package final class ObjectLayout: Sendable {
  /// The identifier of the codec of objects with a layout.
  package static let codec: UInt16 = 4
  /// The limit of the number of layouts of a type. Objects of other shapes are stored as maps.
  static let limit = 64

  package let names: [String]
  /// The names as keys in CBOR, in ascending byte order.
  let keys: [[UInt8]]

  /// Creates the layout of fields with these names.
  package init(_ names: [String]) {
    let sorted = names.map { (name: $0, key: CBORValue.text($0).encoded) }
      .sorted { $0.key.lexicographicallyPrecedes($1.key) }
    self.names = sorted.map(\.name)
    keys = sorted.map(\.key)
  }

  // MARK: From a map

  /// Returns the stored form of an object, or `nil` if it is not a plain map of fields of this
  /// layout.
  func packed(_ object: RawSpan, number: Int) -> [UInt8]? {
    guard let map = StoredField.head(object, 0), map.major == 5, map.isShortest,
      map.argument <= UInt64(keys.count)
    else { return nil }
    var values: [Range<Int>] = []
    values.reserveCapacity(keys.count)
    var offset = map.end
    var size = 0
    for _ in 0..<map.argument {
      guard let value = StoredField.keyEnd(object, offset),
        let end = StoredField.skip(object, value)
      else { return nil }
      let key = object.slice(offset..<value)!
      // Both are in ascending order.
      while values.count < keys.count, !key.equals(keys[values.count]) { values.append(0..<0) }
      guard values.count < keys.count else { return nil }
      values.append(value..<end)
      size += end - value
      offset = end
    }
    guard offset == object.byteCount else { return nil }
    return packed(object, values, number: number, size: size)
  }

  private func packed(
    _ object: RawSpan, _ values: [Range<Int>], number: Int, size: Int
  ) -> [UInt8] {
    var items: [UInt8] = []
    items.reserveCapacity(size)
    var ends: [Int] = []
    ends.reserveCapacity(keys.count)
    for value in values {
      if !value.isEmpty { items.append(object.slice(value)!) }
      ends.append(items.count)
    }
    while ends.count < keys.count { ends.append(items.count) }
    return Self.packed(items, ends: ends, number: number)
  }

  /// Returns the stored form of an object.
  ///
  /// - Parameters:
  ///   - items: The values of the fields that are not missing.
  ///   - ends: The end of each field of the layout in `items`.
  ///   - number: The number of the layout.
  package static func packed(_ items: [UInt8], ends: [Int], number: Int) -> [UInt8] {
    let width = items.count <= 0xFF ? 1 : items.count <= 0xFFFF ? 2 : 4
    var bytes: [UInt8] = []
    bytes.reserveCapacity(4 + ends.count * width + items.count)
    bytes.append(UInt8(width))
    bytes.append(varint: UInt64(number))
    for end in ends {
      switch width {
      case 1: bytes.append(UInt8(truncatingIfNeeded: end))
      case 2: bytes.append(littleEndian: UInt16(truncatingIfNeeded: end))
      default: bytes.append(littleEndian: UInt32(truncatingIfNeeded: end))
      }
    }
    bytes += items
    return bytes
  }

  // MARK: To a map

  /// Returns the map of an object with this layout, or `nil` if the object is damaged.
  package func map(of object: RawSpan) -> [UInt8]? {
    var offset = 1
    return object.varint(at: &offset) == nil ? nil : expanded(object, offset)
  }

  /// Returns the map of an object, or `nil` if the object is damaged.
  func expanded(_ object: RawSpan, _ start: Int) -> [UInt8]? {
    guard let fields = FieldPlaces(object, start, count: keys.count) else { return nil }
    var count = 0
    var size = 9
    for position in keys.indices {
      guard let range = fields.place(position, in: object) else { return nil }
      if range.isEmpty { continue }
      count += 1
      size += keys[position].count + range.count
    }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(size)
    Self.appendMapHead(count, to: &bytes)
    for position in keys.indices {
      guard let range = fields.place(position, in: object), !range.isEmpty else { continue }
      bytes += keys[position]
      bytes.append(object.slice(range)!)
    }
    return bytes
  }

  private static func appendMapHead(_ count: Int, to bytes: inout [UInt8]) {
    if count < 24 {
      bytes.append(0xA0 | UInt8(count))
    } else if count <= 0xFF {
      bytes += [0xB8, UInt8(count)]
    } else {
      bytes.append(0xB9)
      bytes.append(littleEndian: UInt16(truncatingIfNeeded: count).byteSwapped)
    }
  }
}

/// The places of the values of an object with a layout.
package struct FieldPlaces: Sendable {
  private let width: Int
  private let ends: Int
  private let values: Int

  /// Creates the places, or returns `nil` if the object does not end with its last value.
  ///
  /// - Parameters:
  ///   - start: The offset after the number of the layout.
  ///   - count: The number of fields of the layout.
  @inline(__always)
  init?(_ object: RawSpan, _ start: Int, count: Int) {
    guard let width: UInt8 = object.integer(at: 0) else { return nil }
    self.width = Int(width)
    ends = start
    values = start + count * Int(width)
    guard width == 1 || width == 2 || width == 4,
      values + (count == 0 ? 0 : end(count - 1, in: object) ?? 0) == object.byteCount
    else { return nil }
  }

  @inline(__always)
  private func end(_ position: Int, in object: RawSpan) -> Int? {
    let offset = ends + position * width
    switch width {
    case 1: return object.integer(at: offset, as: UInt8.self).map { Int($0) }
    case 2: return object.integer(at: offset, as: UInt16.self).map { Int($0) }
    default: return object.integer(at: offset, as: UInt32.self).map { Int($0) }
    }
  }

  /// Returns the place of the value at a position, empty if the field is missing; `nil` if it is not
  /// exactly one item.
  @inline(__always)
  package func place(_ position: Int, in object: RawSpan) -> Range<Int>? {
    guard let end = end(position, in: object) else { return nil }
    let start = position == 0 ? 0 : self.end(position - 1, in: object) ?? 0
    guard start <= end, values + end <= object.byteCount else { return nil }
    let place = (values + start)..<(values + end)
    guard place.isEmpty || StoredField.skip(object, place.lowerBound) == place.upperBound else {
      return nil
    }
    return place
  }
}

/// The layouts of a type, by number.
package struct ObjectLayouts: Sendable, Hashable, Codable {
  private(set) var all: [ObjectLayout] = []

  package init() {}

  /// Creates the layouts of a type with one layout.
  package init(_ names: [String]) { all = [ObjectLayout(names)] }

  package init(from decoder: any Decoder) throws {
    all = try [[String]](from: decoder).map { ObjectLayout($0) }
  }

  package func encode(to encoder: any Encoder) throws { try all.map(\.names).encode(to: encoder) }

  package static func == (left: Self, right: Self) -> Bool {
    left.all.map(\.names) == right.all.map(\.names)
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(all.map(\.names)) }

  /// Returns the number of a layout with the same names, or `nil` if there is none.
  package func number(of layout: ObjectLayout) -> Int? {
    all.firstIndex { $0.names == layout.names }
  }

  /// Returns the number of an object's layout, or `nil` if the object has none.
  package static func number(in object: RawSpan) -> UInt64? {
    var offset = 1
    return object.varint(at: &offset)
  }

  /// Adds a layout if there is none with the same names.
  ///
  /// - Returns: Whether the layouts changed.
  package mutating func add(_ layout: ObjectLayout) -> Bool {
    guard all.count < ObjectLayout.limit, !all.contains(where: { $0.names == layout.names }) else {
      return false
    }
    all.append(layout)
    return true
  }

  /// Returns the stored form of an object, or `nil` if it is stored as a map. The newest layout that
  /// has the object's fields applies.
  package func packed(_ object: RawSpan) -> [UInt8]? {
    for number in all.indices.reversed() {
      if let bytes = all[number].packed(object, number: number) { return bytes }
    }
    return nil
  }

  /// Returns the layout of an object and the places of its values, or `nil` if it is damaged.
  package func places(in object: [UInt8]) -> (ObjectLayout, FieldPlaces)? {
    object.withRawSpan { object in
      var offset = 1
      guard let number = object.varint(at: &offset), number < UInt64(all.count),
        let places = FieldPlaces(object, offset, count: all[Int(number)].keys.count)
      else { return nil }
      return (all[Int(number)], places)
    }
  }

  /// Returns the map of an object as it is stored, or `nil` if it is a map or damaged.
  package func map(of object: RawSpan) -> [UInt8]? {
    // A map begins with a byte of major type 5.
    guard let width: UInt8 = object.integer(at: 0), width <= 4 else { return nil }
    return expanded(object)
  }

  /// Returns the map of an object with a layout, or `nil` if the object is damaged.
  package func expanded(_ object: RawSpan) -> [UInt8]? {
    var offset = 1
    guard let number = object.varint(at: &offset), number < UInt64(all.count) else { return nil }
    return all[Int(number)].expanded(object, offset)
  }
}

/// A field of a type in objects of each of its layouts, and in maps.
package struct FieldLocator: Sendable {
  /// The position of the field, negative if it is in none, and the number of fields of a layout.
  private typealias Place = (position: Int, count: Int)
  private static var unknown: Place { (-1, -1) }

  private let key: [UInt8]
  private let places: [Place]
  /// The place in the first layout, which most objects have.
  private let first: Place

  /// Creates the locator of a field.
  ///
  /// - Parameters:
  ///   - key: The name, encoded as a key in CBOR.
  ///   - layouts: The layouts of the type.
  package init(_ key: [UInt8], _ layouts: ObjectLayouts?) {
    self.key = key
    places = (layouts?.all ?? []).map { ($0.keys.firstIndex(of: key) ?? -1, $0.keys.count) }
    first = places.first ?? Self.unknown
  }

  private func place(ofLayout number: UInt64) -> Place {
    number < UInt64(places.count) ? places[Int(truncatingIfNeeded: number)] : Self.unknown
  }

  /// Returns the position of the field, and the number of fields, in objects of a layout; `nil` if the
  /// layout does not have the field.
  func place(inLayout number: UInt64) -> (position: Int, count: Int)? {
    let place = place(ofLayout: number)
    return place.position < 0 ? nil : place
  }

  /// Finds the field in a stored object.
  package func find(in object: RawSpan) -> StoredField {
    // A map begins with a byte of major type 5.
    guard let width: UInt8 = object.integer(at: 0), width <= 4 else {
      return StoredField.find(key, in: object)
    }
    var offset = 1
    guard let number = object.varint(at: &offset) else { return .unclear }
    let place = number == 0 ? first : self.place(ofLayout: number)
    if place.position < 0 { return place.count < 0 ? .unclear : .missing }
    guard let fields = FieldPlaces(object, offset, count: place.count),
      let range = fields.place(place.position, in: object)
    else { return .unclear }
    return range.isEmpty ? .missing : .found(range)
  }
}
