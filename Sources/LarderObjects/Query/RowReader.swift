// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderObjectEngine
internal import LarderSystem

/// A function that returns the reader of a field for a type's layouts. Unlike a closure, it can be cast
/// once instead of its results.
private final class TypedReader<Value>: Sendable {
  let make: @Sendable (ObjectLayouts?) -> @Sendable (RawSpan) -> Value?
  init(_ make: @escaping @Sendable (ObjectLayouts?) -> @Sendable (RawSpan) -> Value?) {
    self.make = make
  }
}

/// Returns the reader of a field; without generic code for the most frequent types.
@_specialize(where Scalar == Int)
@_specialize(where Scalar == Double)
@_specialize(where Scalar == String)
private func scalarReader<Scalar: StoredScalar>(
  of type: Scalar.Type, _ field: DeclaredField
) -> TypedReader<Scalar> {
  TypedReader<Scalar> { layouts in
    let locator = FieldLocator(field.key, layouts)
    return { object in
      switch locator.find(in: object) {
      case .found(let range): Scalar.read(object.slice(range)!)
      case .missing: field.valueWithoutField()
      case .unclear: nil
      }
    }
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
    stored = (Row.self as? any StoredScalar.Type).flatMap { type in
      kind.fields[property.erased].flatMap {
        (Self.reader(of: type, $0) as? TypedReader<Row>)?.make
      }
    }
  }

  /// Returns the reader of a field.
  private static func reader<Scalar: StoredScalar>(
    of type: Scalar.Type, _ field: DeclaredField
  ) -> AnyObject { scalarReader(of: type, field) }

  private init(
    stored: (@Sendable (ObjectLayouts?) -> Reader)?,
    decoded: @escaping @Sendable (Object) -> Row
  ) {
    self.stored = stored
    self.decoded = decoded
  }

  /// Returns a reader of the row and a row of another reader.
  func with<Other>(_ other: RowReader<Object, Other>) -> RowReader<Object, (Row, Other)> {
    let (decoded, otherDecoded) = (decoded, other.decoded)
    var both: (@Sendable (ObjectLayouts?) -> RowReader<Object, (Row, Other)>.Reader)?
    if let stored, let otherStored = other.stored {
      both = { layouts in
        let (read, readOther) = (stored(layouts), otherStored(layouts))
        return { object in
          guard let row = read(object), let other = readOther(object) else { return nil }
          return (row, other)
        }
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
