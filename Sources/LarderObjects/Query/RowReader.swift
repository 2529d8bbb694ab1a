// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderObjectEngine
internal import LarderSystem

/// The functions that read values of a type from the bytes of a field, and without the field, and that
/// make the bytes of a value.
final class StoredFieldCoder<Value>: Sendable {
  /// Returns the value, or `nil` if the field has another form.
  let read: @Sendable (RawSpan) -> Value?
  /// Returns the value of a missing field, or `nil` if the object cannot be decoded without it.
  let readMissing: @Sendable (DeclaredField) -> Value?
  /// Returns the CBOR item of a value, empty if the field is to be missing; `nil` if the value cannot
  /// be encoded.
  let item: @Sendable (Value, DeclaredField) -> [UInt8]?

  fileprivate init(
    _ read: @escaping @Sendable (RawSpan) -> Value?,
    _ readMissing: @escaping @Sendable (DeclaredField) -> Value?,
    _ item: @escaping @Sendable (Value, DeclaredField) -> [UInt8]?
  ) {
    self.read = read
    self.readMissing = readMissing
    self.item = item
  }

  /// Returns the reader of a type, or `nil` if its values must be decoded with their object.
  static func of(_ type: Value.Type) -> StoredFieldCoder? {
    (type as? any StoredScalar.Type).flatMap { scalar($0) as? StoredFieldCoder }
  }

  private static func scalar(_ type: (some StoredScalar).Type) -> AnyObject {
    scalarReader(of: type)
  }

  /// Returns the reader of a field in objects of some layouts.
  func reader(
    of field: DeclaredField, in layouts: ObjectLayouts?
  ) -> @Sendable (RawSpan) -> Value? {
    let locator = FieldLocator(field.key, layouts)
    let (read, readMissing) = (read, readMissing)
    return { object in
      switch locator.find(in: object) {
      case .found(let range): read(object.slice(range)!)
      case .missing: readMissing(field)
      case .unclear: nil
      }
    }
  }
}

/// Returns the reader of a scalar; without generic code for the most frequent types.
@_specialize(where Scalar == Int)
@_specialize(where Scalar == Double)
@_specialize(where Scalar == String)
private func scalarReader<Scalar: StoredScalar>(of type: Scalar.Type) -> StoredFieldCoder<Scalar> {
  StoredFieldCoder<Scalar>({ Scalar.read($0) }, { $0.valueWithoutField() }) { value, field in
    StoredObjectWriter.item(of: value, keepsNil: field.fallback != nil)
  }
}

/// The reader of the properties that a query returns instead of the objects.
struct RowReader<Object: Storable, Row>: Sendable {
  /// A function that reads a row from the stored bytes; `nil` if the object must be decoded.
  typealias Reader = @Sendable (RawSpan) -> Row?

  /// Makes the reader of objects of some layouts; `nil` if the type does not declare the fields.
  let stored: (@Sendable (ObjectLayouts?) -> Reader)?
  /// Reads the row from a decoded object.
  let decoded: @Sendable (Object) -> Row

  /// Creates the reader of a property.
  init(_ property: PropertyPath<Object, Row>, _ kind: ObjectTypeDescriptor<Object>)
  where Row: Sendable {
    decoded = { property.value(of: $0) }
    if let reader = StoredFieldCoder.of(Row.self), let field = kind.fields[property.erased] {
      stored = { reader.reader(of: field, in: $0) }
    } else {
      stored = nil
    }
  }

  /// Creates the reader of several properties.
  init<each Value: Sendable>(
    _ properties: repeat PropertyPath<Object, each Value>, in kind: ObjectTypeDescriptor<Object>
  ) where Row == (repeat each Value) {
    let readers = (repeat RowReader<Object, each Value>(each properties, kind))
    decoded = { object in (repeat (each readers).decoded(object)) }
    for reader in repeat each readers {
      guard reader.stored == nil else { continue }
      stored = nil
      return
    }
    stored = { layouts in
      let read = (repeat (each readers).stored!(layouts))
      return { object in
        do {
          return (repeat try RowReader<Object, each Value>.required(each read, object))
        } catch {
          return nil
        }
      }
    }
  }

  /// A row that must be read from the decoded object.
  private struct NeedsObject: Error {}

  private static func required(_ read: Reader, _ object: RawSpan) throws(NeedsObject) -> Row {
    guard let row = read(object) else { throw NeedsObject() }
    return row
  }
}
