// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderObjectEngine
internal import LarderSystem

// ENCODING WITHOUT A MAP
//
// The generated `encode(to:)` of a type with `@Storable` writes its fields in the order in which they
// are stored. If all of them are scalars, `StoredFieldsEncoder` writes their items one after the other,
// in code that is specialised in the program, and notes where each ends: that is the object with its
// layout. A field that is no scalar ends the attempt, and the object is encoded as a map.

/// The fields of an object while it is encoded with a layout, for generated code.
public final class StoredObjectWriter: Encoder {
  private let layout: ObjectLayout
  private var writer = CBORWriter()
  private var ends: [Int] = []
  /// Whether every field so far is a scalar of the layout, in its order.
  private(set) var isComplete = true

  init(_ layout: ObjectLayout) {
    self.layout = layout
    ends.reserveCapacity(layout.names.count)
    writer.reserve(256)
  }

  /// Begins the field of a name. Fields between it and the previous one are missing.
  @usableFromInline
  func begin(_ name: String) {
    while ends.count < layout.names.count, layout.names[ends.count] != name {
      ends.append(writer.bytes.count)
    }
    if ends.count == layout.names.count { isComplete = false }
  }

  /// Ends the field that has begun. Without a value it is missing.
  @usableFromInline
  func end() { ends.append(writer.bytes.count) }

  /// Ends the attempt.
  @usableFromInline
  func fail() { isComplete = false }

  /// Writes a value.
  func write(_ body: (inout CBORWriter) -> Void) { body(&writer) }

  /// Writes the bytes of an item.
  func write(item bytes: [UInt8]) { writer.write(item: bytes) }

  /// Writes `null`.
  @usableFromInline
  func writeNull() { writer.writeNull() }

  /// Returns the object as it is stored, or `nil` if it must be encoded as a map.
  private static let noLayout = ObjectLayout([])

  /// Returns the item of one value, empty if its field is to be missing; `nil` if it cannot be
  /// encoded.
  static func item(of value: some StoredScalar, keepsNil: Bool) -> [UInt8]? {
    let writer = StoredObjectWriter(noLayout)
    value.write(to: writer, keepsNil: keepsNil)
    return writer.isComplete ? writer.writer.bytes : nil
  }

  func packed(number: Int) -> [UInt8]? {
    guard isComplete else { return nil }
    while ends.count < layout.names.count { end() }
    guard ends.count == layout.names.count else { return nil }
    return ObjectLayout.packed(writer.bytes, ends: ends, number: number)
  }

  // MARK: Encoder

  /// The path of the object: it is empty.
  public var codingPath: [any CodingKey] { [] }

  /// Nothing.
  public var userInfo: [CodingUserInfoKey: Any] { [:] }

  /// Ends the attempt.
  ///
  /// - Parameter type: The type of the names.
  /// - Returns: A container whose contents are dropped.
  public func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    fail()
    return CBOREncoder().droppedEncoder().container(keyedBy: type)
  }

  /// Ends the attempt.
  ///
  /// - Returns: A container whose contents are dropped.
  public func unkeyedContainer() -> any UnkeyedEncodingContainer {
    fail()
    return CBOREncoder().droppedEncoder().unkeyedContainer()
  }

  /// Ends the attempt.
  ///
  /// - Returns: A container whose contents are dropped.
  public func singleValueContainer() -> any SingleValueEncodingContainer {
    fail()
    return CBOREncoder().droppedEncoder().singleValueContainer()
  }
}
