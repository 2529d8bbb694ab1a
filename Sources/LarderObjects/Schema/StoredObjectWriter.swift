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
  /// The values so far. One property, because each access of one is checked for exclusivity.
  private struct State {
    var writer = CBORWriter()
    var ends: [Int] = []
    var isComplete = true

    mutating func begin(_ name: String, _ names: [String]) {
      while ends.count < names.count, names[ends.count] != name { end() }
      if ends.count == names.count { isComplete = false }
    }

    mutating func end() { ends.append(writer.bytes.count) }

    /// Returns the object with its layout, or `nil` if a field is in none.
    mutating func packed(_ count: Int, number: Int) -> [UInt8]? {
      guard isComplete, ends.count <= count else { return nil }
      while ends.count < count { end() }
      return ObjectLayout.packed(writer.bytes, ends: ends, number: number)
    }
  }

  private let layout: ObjectLayout
  private var state: State
  /// Whether every field so far is a scalar of the layout, in its order.
  var isComplete: Bool { state.isComplete }

  init(_ layout: ObjectLayout, reserving bytes: Int = 256) {
    self.layout = layout
    var state = State()
    state.ends.reserveCapacity(layout.names.count)
    state.writer.reserve(bytes)
    self.state = state
  }

  /// Begins the field of a name. Fields between it and the previous one are missing.
  @usableFromInline
  func begin(_ name: String) { state.begin(name, layout.names) }

  /// Ends the field that has begun. Without a value it is missing.
  @usableFromInline
  func end() { state.end() }

  /// Ends the attempt.
  @usableFromInline
  func fail() { state.isComplete = false }

  /// Writes a value.
  func write(_ body: (inout CBORWriter) -> Void) { body(&state.writer) }

  /// Writes the bytes of an item.
  func write(item bytes: [UInt8]) { state.writer.write(item: bytes) }

  /// Writes `null`.
  @usableFromInline
  func writeNull() { state.writer.writeNull() }

  private static let noLayout = ObjectLayout([])

  /// Returns the item of one value, empty if its field is to be missing; `nil` if it cannot be
  /// encoded.
  static func item(of value: some StoredScalar, keepsNil: Bool) -> [UInt8]? {
    let writer = StoredObjectWriter(noLayout, reserving: 16)
    value.write(to: writer, keepsNil: keepsNil)
    return writer.isComplete ? writer.state.writer.bytes : nil
  }

  /// Returns the object as it is stored, or `nil` if it must be encoded as a map.
  func packed(number: Int) -> [UInt8]? { state.packed(layout.names.count, number: number) }

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
