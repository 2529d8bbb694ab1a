// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderSystem

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

/// A position in a query's result from which another query continues: in another process, after a
/// restart, after changes.
///
/// The string is opaque. It consists of letters, digits, `-` and `_`, and contains the values that
/// the query sorts by.
///
/// A query rejects the cursor of another query with ``ObjectError/Code/invalidCursor``. A query is
/// identified by its type, its predicate with the constants, and its sort. A closure
/// (``Query/filter(_:fileID:line:column:)``) is identified by its location in the source; a
/// computed property by its ``ComputedProperty``, without which the query has no cursors; a
/// reference by the target object. A cursor is therefore rejected by another closure, and after a
/// change of the source around the closure. A closure with other *captured* values has the same
/// identity: continue with a cursor only under the same values, or use comparisons.
public struct PageCursor: Sendable, Hashable, Codable, LosslessStringConvertible {
  /// The cursor as a string.
  public let description: String

  /// Creates a cursor from its string. The query that uses the cursor validates it.
  ///
  /// - Parameter description: The string of a cursor.
  public init(_ description: String) { self.description = description }

  /// Decodes the string of a cursor.
  ///
  /// - Parameter decoder: The decoder.
  /// - Throws: `DecodingError` if the value is not a string.
  public init(from decoder: any Decoder) throws {
    description = try decoder.singleValueContainer().decode(String.self)
  }

  /// Encodes the string of the cursor.
  ///
  /// - Parameter encoder: The encoder.
  /// - Throws: The errors of the encoder.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(description)
  }

  init(_ content: Content) throws {
    let bytes = try CBOREncoder().encode(content)
    self.init(bytes: bytes + Self.check(of: bytes))
  }

  private init(bytes: [UInt8]) {
    description = String(
      Data(bytes).base64EncodedString().compactMap {
        $0 == "=" ? nil : $0 == "+" ? "-" : $0 == "/" ? "_" : $0
      })
  }

  /// The decoded content, or `nil` if the string is damaged: if it was cut, or has another character.
  var content: Content? {
    var text = String(description.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 })
    text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
    guard let data = Data(base64Encoded: text), data.count > Self.checkSize else { return nil }
    let bytes = Array(data.dropLast(Self.checkSize))
    // One position has one string: the last character has bits that the bytes do not need.
    guard Self.check(of: bytes) == Array(data.suffix(Self.checkSize)),
      PageCursor(bytes: Array(data)).description.utf8.elementsEqual(description.utf8)
    else { return nil }
    return try? CBORDecoder().decode(Content.self, from: bytes)
  }

  private static let checkSize = 4

  private static func check(of bytes: [UInt8]) -> [UInt8] {
    let hash = XXH64.hash(bytes)
    return (0..<checkSize).map { UInt8(truncatingIfNeeded: hash >> (8 * UInt64($0))) }
  }

  /// The content of a cursor's string.
  struct Content: Codable {
    var v = 1
    /// The fingerprint of the query.
    let q: UInt64
    let s: UInt64
    let k: [[UInt8]]
  }
}

/// One page of a query's result and the position of the next page.
public struct ObjectPage<Object: Storable>: Sendable {
  /// The objects, in the query's order.
  public let objects: [Object]
  /// The position of the next page, or `nil` after the last page.
  public let next: PageCursor?
}

extension Query {
  /// Returns the query restricted to the objects after another object in the query's order.
  ///
  /// ```swift
  /// let more = try store.objects(Car.self).sorted(by: \.year).after(last).limit(20).fetch()
  /// ```
  ///
  /// Objects with equal sort values are in the order of their first save, or in the reverse order
  /// if the first key is descending. So consecutive pages neither repeat nor omit an object. The
  /// position follows from the values of the passed object, not from those of the stored one.
  ///
  /// The query throws ``ObjectError/Code/notFound`` on each run if no object with this id is
  /// stored.
  ///
  /// - Parameter object: The last object of the previous page.
  /// - Returns: The restricted query.
  /// - Complexity: When the query runs, O(log *n*) plus the objects read if an index has the
  ///   requested order or if the query has no sort; otherwise as without the restriction.
  public func after(_ object: Object) -> Query { starting(.object(object)) }

  /// Returns the query restricted to the objects after a page.
  ///
  /// The query throws ``ObjectError/Code/invalidCursor`` on each run if the cursor belongs to
  /// another query.
  ///
  /// - Parameter cursor: The ``ObjectPage/next`` of the previous page.
  /// - Returns: The restricted query.
  public func after(_ cursor: PageCursor) -> Query { starting(.cursor(cursor)) }

  /// Returns the next page of the query.
  ///
  /// ```swift
  /// var page = try query.page(size: 20)
  /// while let next = page.next {
  ///   page = try query.page(after: next, size: 20)
  /// }
  /// ```
  ///
  /// Inserts, changes and deletions between two pages do not move other objects: an object that
  /// exists throughout with the same sort values is in exactly one page. Unlike with an offset, the
  /// cost of a page does not depend on its position. The size replaces the query's limit; the
  /// query's offset applies to the first page.
  ///
  /// - Parameters:
  ///   - cursor: The `next` of the previous page, or `nil` for the first page.
  ///   - size: The maximum number of objects of the page, at least one.
  /// - Returns: The page.
  /// - Throws: ``ObjectError/Code/invalidCursor`` if the cursor is damaged, if it belongs to a
  ///   query with another type, predicate or sort, or if the query sorts by a property that is not
  ///   `Codable`; the errors of `Query.fetch()`.
  /// - Complexity: O(*k* log *n*) for *k* objects of the page if an index has the requested order;
  ///   otherwise as `Query.explain()` reports.
  public func page(after cursor: PageCursor? = nil, size: Int) throws -> ObjectPage<Object> {
    var query = self
    if let cursor { query = query.starting(.cursor(cursor)).offset(0) }
    let size = Swift.min(Swift.max(size, 1), .max - 1)
    query = query.limit(size + 1)
    let found = try query.found("page")
    let objects = found.prefix(size).map { $0.object(as: Object.self) }
    guard found.count > size else { return ObjectPage(objects: objects, next: nil) }
    return ObjectPage(objects: objects, next: try self.cursor(behind: found[size - 1]))
  }

  // MARK: Cursors

  /// The identity of the query without its limits, equal in every process.
  private var fingerprint: UInt64 {
    let condition = search.map { ["\($0.index ?? ""): \($0.text)"] } ?? []
    let text =
      ([Object.storedName, (original ?? predicate).identity(withOrigins: true)] + condition
      + sorts.map(\.text))
      .joined(separator: "\n")
    return XXH64.hash(Array(text.utf8))
  }

  /// The text of a comparison or sort that is indistinguishable from another one of its type, or
  /// `nil`.
  private var anonymous: String? {
    sorts.map(\.text).first(where: AnyPath.isAnonymous)
      ?? predicate.node.allComparisons.first {
        // References use an index of their type and most of them have no name.
        $0.path != nil && $0.path != AnyPath(path: \Object.larderReferences)
          && AnyPath.isAnonymous($0.text)
      }?.text
  }

  func cursor(behind found: FoundObject) throws -> PageCursor {
    if sorts.contains(where: \.isOpaque) {
      throw ObjectError(
        .invalidCursor, type: Object.storedName,
        "The query sorts by a comparator, whose values a cursor cannot store. Sort by a property, or "
          + "use after(_:) with an object.")
    }
    if let anonymous {
      throw ObjectError(
        .invalidCursor, type: Object.storedName,
        "The query uses a computed property without a name (\(anonymous)), which a cursor cannot "
          + "identify. Name it in computedProperties, or use after(_:) with an object."
      )
    }
    let values = try sorts.map { sort in
      guard let coding = sort.coding else {
        throw ObjectError(
          .invalidCursor, type: Object.storedName,
          "The query sorts by \(sort.text), which is not Codable, so a cursor cannot store it. "
            + "Use after(_:) with an object.")
      }
      return try coding.encode(found.object())
    }
    let content = PageCursor.Content(q: fingerprint, s: found.sequence, k: values)
    return try PageCursor(content)
  }

  func position(of cursor: PageCursor, _ type: String) throws -> KeysetPosition<Object> {
    func refuse(_ reason: String) -> ObjectError {
      ObjectError(.invalidCursor, type: type, "The cursor \(reason). Begin with the first page.")
    }
    guard let content = cursor.content else { throw refuse("is damaged") }
    guard content.v == 1 else { throw refuse("was made by a newer version") }
    guard content.q == fingerprint, content.k.count == sorts.count else {
      throw refuse("belongs to a query with another type, predicate or sort")
    }
    let values = try zip(sorts, content.k).map { sort, bytes in
      guard let value = try? sort.coding?.decode(bytes) else { throw refuse("is damaged") }
      return value
    }
    return KeysetPosition(sequence: content.s, values: values, sorts: sorts)
  }
}
