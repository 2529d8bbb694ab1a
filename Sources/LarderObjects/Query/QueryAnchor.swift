// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

// PAGES
//
// A page begins after an object: after its values of the sort's properties and, where those are
// equal, after its sequence number (keyset pagination). No entries are counted, so the cost of a
// page does not depend on its position, and inserts and deletions before it do not move it. A
// cursor is the encoding of these values:
//
//     CBOR { "v": 1, "q": fingerprint of the query, "s": the sequence number, "k": the values }
//
// and four bytes of their hash, in base64 for URLs. If an index has the sort's order, the scan begins at the index entry (values,
// sequence number); without a sort, at the sequence number; otherwise the query skips the objects
// before the position.

/// The position after which a query's objects begin.
enum QueryAnchor<Object: Storable>: Sendable {
  case object(Object)
  case cursor(PageCursor)
}

/// The encoding of a sort value in a page cursor.
struct SortCoding<Object: Storable>: Sendable {
  /// One sort value of a cursor.
  struct Value: Sendable {
    /// Compares an object with the value, in ascending order.
    let compare: @Sendable (Object) -> Int
    /// The index key of the value, or `nil` if an index cannot contain the type.
    let indexKey: [UInt8]?
  }

  let encode: @Sendable (Object) throws -> [UInt8]
  let decode: @Sendable ([UInt8]) throws -> Value

  init?<Property: Sendable>(
    _ property: PropertyPath<Object, Property>,
    _ order: @escaping @Sendable (Property, Property) -> Int
  ) {
    guard let type = Property.self as? any (Codable & Sendable).Type else { return nil }
    self.init(type, property, order)
  }

  private init<Stored: Codable & Sendable, Property: Sendable>(
    _ type: Stored.Type, _ property: PropertyPath<Object, Property>,
    _ order: @escaping @Sendable (Property, Property) -> Int
  ) {
    // `Stored` is `Property` with its dynamically found conformance.
    encode = { try CBOREncoder().encode(Wrapped(value: property.value(of: $0) as! Stored)) }
    decode = { bytes in
      let stored = try CBORDecoder().decode(Wrapped<Stored>.self, from: bytes).value
      let value = stored as! Property
      return Value(
        compare: { order(property.value(of: $0), value) }, indexKey: Self.indexKey(stored))
    }
  }

  /// A wrapper that makes `nil` encodable.
  private struct Wrapped<Stored: Codable>: Codable {
    let value: Stored

    init(value: Stored) { self.value = value }
    init(from decoder: any Decoder) throws {
      var container = try decoder.unkeyedContainer()
      value = try container.decode(Stored.self)
    }
    func encode(to encoder: any Encoder) throws {
      var container = encoder.unkeyedContainer()
      try container.encode(value)
    }
  }

  private static func indexKey<Stored>(_ value: Stored) -> [UInt8]? {
    func key<Indexed: IndexValue>(_ type: Indexed.Type) -> [UInt8] { (value as! Indexed).indexKey }
    guard let type = Stored.self as? any IndexValue.Type else { return nil }
    return key(type)
  }
}

/// A position among the objects of a query.
struct KeysetPosition<Object: Storable> {
  let sequence: UInt64
  let values: [SortCoding<Object>.Value]
  let sorts: [SortKey<Object>]

  /// Returns whether an object is after the position.
  func admits(_ object: Object, _ sequence: UInt64) -> Bool {
    for (sort, value) in zip(sorts, values) {
      let order = value.compare(object)
      if order != 0 { return sort.direction == .ascending ? order > 0 : order < 0 }
    }
    if Mutant.cursorSkipsEquals.isActive, !sorts.isEmpty { return false }
    return sorts.first?.direction == .descending
      ? sequence < self.sequence : sequence > self.sequence
  }

  /// The index keys of the values, or `nil` if an index cannot contain one of them.
  var keys: [[UInt8]]? {
    let keys = values.compactMap(\.indexKey)
    return keys.count == values.count ? keys : nil
  }
}

extension Query {
  /// Returns the position where the query begins in a snapshot.
  ///
  /// - Throws: ``ObjectError/Code/notFound`` if the object of the position does not exist;
  ///   ``ObjectError/Code/invalidCursor`` if the cursor belongs to another query.
  func position(
    _ start: QueryAnchor<Object>, _ kind: ObjectTypeDescriptor<Object>, _ record: ObjectTypeRecord,
    _ snapshot: borrowing Snapshot
  ) throws -> KeysetPosition<Object> {
    switch start {
    case .cursor(let cursor): return try position(of: cursor, kind.name)
    case .object(let object):
      guard
        let sequence = try ObjectReading.sequence(
          type: record.number, id: ObjectTypeDescriptor<Object>.bytes(of: object.id),
          in: snapshot)
      else {
        throw ObjectError(
          .notFound, type: kind.name,
          "after(_:) failed: the object was deleted. Use a PageCursor instead of an object.",
          ids: [ObjectTypeDescriptor<Object>.text(of: object.id)])
      }
      let values = try sorts.map { sort in
        SortCoding<Object>.Value(
          compare: { sort.compare($0, object) },
          indexKey: try sort.coding.flatMap { try $0.decode($0.encode(object)).indexKey })
      }
      return KeysetPosition(sequence: sequence, values: values, sorts: sorts)
    }
  }
}
