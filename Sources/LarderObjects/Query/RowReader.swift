// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderSystem

/// A function that reads a value from a record. Unlike a closure, it can be cast once instead of
/// its results.
private final class TypedReader<Value>: Sendable {
  let read: @Sendable (RawSpan) -> Value?
  init(_ read: @escaping @Sendable (RawSpan) -> Value?) { self.read = read }
}

/// Returns the reader of a field; without generic code for the most frequent types.
@_specialize(where Scalar == Int)
@_specialize(where Scalar == Double)
@_specialize(where Scalar == String)
private func scalarReader<Scalar: StoredScalar>(
  of type: Scalar.Type, _ field: DeclaredField
) -> TypedReader<Scalar> {
  TypedReader<Scalar> { object in
    switch StoredField.find(field.key, in: object) {
    case .found(let range): Scalar.read(object.slice(range)!)
    case .missing: field.valueWithoutField()
    case .unclear: nil
    }
  }
}

/// The reader of the properties that a query returns instead of the objects.
struct RowReader<Object: Storable, Row>: Sendable {
  /// Reads the row from the stored bytes; `nil` if the object must be decoded.
  ///
  /// The reader itself has no such function if the type does not declare the fields.
  let stored: (@Sendable (RawSpan) -> Row?)?
  /// Reads the row from a decoded object.
  let decoded: @Sendable (Object) -> Row

  /// Creates the reader of a property.
  init(_ property: PropertyPath<Object, Row>, _ kind: ObjectTypeDescriptor<Object>)
  where Row: Sendable {
    decoded = { property.value(of: $0) }
    stored = (Row.self as? any StoredScalar.Type).flatMap { type in
      kind.fields[property.erased].flatMap {
        (Self.reader(of: type, $0) as? TypedReader<Row>)?.read
      }
    }
  }

  /// Returns the reader of a field.
  private static func reader<Scalar: StoredScalar>(
    of type: Scalar.Type, _ field: DeclaredField
  ) -> AnyObject { scalarReader(of: type, field) }

  private init(
    stored: (@Sendable (RawSpan) -> Row?)?, decoded: @escaping @Sendable (Object) -> Row
  ) {
    self.stored = stored
    self.decoded = decoded
  }

  /// Returns a reader of the row and a row of another reader.
  func with<Other>(_ other: RowReader<Object, Other>) -> RowReader<Object, (Row, Other)> {
    let (decoded, otherDecoded) = (decoded, other.decoded)
    var both: (@Sendable (RawSpan) -> (Row, Other)?)?
    if let stored, let otherStored = other.stored {
      both = { object in
        guard let row = stored(object), let other = otherStored(object) else { return nil }
        return (row, other)
      }
    }
    return RowReader<Object, (Row, Other)>(
      stored: both, decoded: { (decoded($0), otherDecoded($0)) })
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
    stored = { object in
      do {
        return (repeat try RowReader<Object, each Value>.required((each readers).stored, object))
      } catch {
        return nil
      }
    }
  }

  /// A row that must be read from the decoded object.
  private struct NeedsObject: Error {}

  private static func required(
    _ stored: (@Sendable (RawSpan) -> Row?)?, _ object: RawSpan
  ) throws(NeedsObject) -> Row {
    guard let row = stored?(object) else { throw NeedsObject() }
    return row
  }
}
