// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// PAGES
//
// A page begins behind an object: behind its values of the sort's properties and, where those are
// equal, behind its sequence number. Nothing is counted, so a page costs the same wherever it begins,
// and inserts and deletions before it do not move it. A cursor is these values, encoded:
//
//     CBOR { "v": 1, "q": what tells the query from others, "s": the sequence, "k": the values }
//
// as base64 for URLs. Where an index is in the sort's order the walk begins at the index entry
// (values, sequence) itself; without a sort, at the sequence; else objects before it are left out.

/// Behind what a query's objects come.
enum QueryAnchor<Object: Storable>: Sendable {
  case object(Object)
  case cursor(PageCursor)
}

/// How the value a query sorts by is kept for later.
struct SortCoding<Object: Storable>: Sendable {
  /// A value, as a cursor has it.
  struct Value: Sendable {
    /// The order of an object relative to the value; ascending.
    let compare: @Sendable (Object) -> Int
    /// The value in an index; `nil`: none can be over it.
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
    // `Stored` is `Property`, with the conformance it was found to have.
    encode = { try CBOREncoder().encode(Wrapped(value: property.value(of: $0) as! Stored)) }
    decode = { bytes in
      let stored = try CBORDecoder().decode(Wrapped<Stored>.self, from: bytes).value
      let value = stored as! Property
      return Value(
        compare: { order(property.value(of: $0), value) }, indexKey: Self.indexKey(stored))
    }
  }

  /// So that a missing value is one, too.
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

/// A place among a query's objects.
struct KeysetPosition<Object: Storable> {
  let sequence: UInt64
  let values: [SortCoding<Object>.Value]
  let sorts: [SortKey<Object>]

  /// Whether an object comes behind it.
  func admits(_ object: Object, _ sequence: UInt64) -> Bool {
    for (sort, value) in zip(sorts, values) {
      let order = value.compare(object)
      if order != 0 { return sort.direction == .ascending ? order > 0 : order < 0 }
    }
    if Mutant.cursorSkipsEquals.isActive, !sorts.isEmpty { return false }
    return sorts.first?.direction == .descending
      ? sequence < self.sequence : sequence > self.sequence
  }

  /// The ranges of a sorted walk without what comes before the place.
  func clip(_ walk: QueryPlan.IndexScan, _ backwards: Bool) -> [KeyRange]? {
    var entry = walk.prefix
    for value in values {
      guard let key = value.indexKey else { return nil }
      entry += key
    }
    // Longer keys are cut in the index: there the order is another.
    guard !values.isEmpty, entry.count <= KeyRange.limit else { return nil }
    // Entries are a key and a sequence, and are in this order.
    let next = backwards ? sequence : sequence &+ 1
    for shift in stride(from: 56, through: 0, by: -8) {
      entry.append(UInt8(truncatingIfNeeded: next >> UInt64(shift)))
    }
    let rest =
      backwards ? KeyRange(lower: [], upper: entry) : KeyRange(lower: entry, upper: nil)
    return walk.ranges.map { $0.intersection(rest) }.filter { range in
      range.upper.map { range.lower.lexicographicallyPrecedes($0) } ?? true
    }
  }
}

extension Query {
  /// Where the query begins in a snapshot.
  func position(
    _ start: QueryAnchor<Object>, _ kind: ObjectTypeDescriptor<Object>, _ record: ObjectTypeRecord,
    _ generation: Generation, _ transaction: borrowing ReadTransaction
  ) throws -> KeysetPosition<Object> {
    switch start {
    case .cursor(let cursor): return try position(of: cursor, kind.name)
    case .object(let object):
      guard
        let sequence = try ObjectReading.sequence(
          type: record.number, id: ObjectTypeDescriptor<Object>.bytes(of: object.id),
          in: generation, transaction)
      else {
        throw ObjectError(
          .notFound, type: kind.name,
          "The object to go on behind is not stored any more. Use the cursor of a page, which needs "
            + "no object.", ids: [ObjectTypeDescriptor<Object>.text(of: object.id)])
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
