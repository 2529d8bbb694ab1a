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

/// A place in a query's result, to go on from: in another process, after a restart, after changes.
///
/// Its text is opaque, of letters, digits, `-` and `_`, and contains the values the query sorts by.
///
/// A query refuses the cursor of another with ``ObjectError/Code/invalidCursor``. What it knows queries
/// by is the type, the predicate with its constants, and the sort. A closure (``Query/filter(_:fileID:line:column:)``)
/// it knows by the place in the source where it stands; a computed property by its
/// ``ComputedProperty``, and there is no cursor without one; a reference by the object it leads to. So a cursor is refused by another closure, and
/// once the source around a closure has changed; but one closure with other *captured* values is the
/// same to it. Go on with a cursor only under the values it was made with, or use comparisons.
public struct PageCursor: Sendable, Hashable, Codable, LosslessStringConvertible {
  /// The text.
  public let description: String

  /// A cursor from its text. Whether it is one of a query, the query says.
  public init(_ description: String) { self.description = description }

  /// Decodes the text.
  public init(from decoder: any Decoder) throws {
    description = try decoder.singleValueContainer().decode(String.self)
  }

  /// Encodes the text.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(description)
  }

  init(_ content: Content) throws {
    let text = Data(try CBOREncoder().encode(content)).base64EncodedString()
    description = String(
      text.compactMap { $0 == "=" ? nil : $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
  }

  /// What the text says; `nil`: it is damaged.
  var content: Content? {
    var text = String(description.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 })
    text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
    guard let data = Data(base64Encoded: text) else { return nil }
    return try? CBORDecoder().decode(Content.self, from: Array(data))
  }

  /// What is in the text.
  struct Content: Codable {
    var v = 1
    /// What tells the query from others.
    let q: UInt64
    let s: UInt64
    let k: [[UInt8]]
  }
}

/// Some objects of a query, and where to go on.
public struct ObjectPage<Object: Storable>: Sendable {
  /// The objects, in the query's order.
  public let objects: [Object]
  /// Where the next page begins; `nil`: there was nothing behind this one.
  public let next: PageCursor?
}

extension Query {
  /// Only objects that come behind another in the query's order.
  ///
  /// ```swift
  /// let more = try store.objects(Car.self).sorted(by: \.year).after(last).limit(20).fetch()
  /// ```
  ///
  /// Objects with equal sort values come in the order they were first saved in, or in the opposite
  /// one where the first key is descending, so none is given twice and none is left out. The place is that of the object as it is passed, not as it is
  /// stored.
  ///
  /// - Throws: When run: ``ObjectError/Code/notFound`` when there is no object of its id any more.
  /// - Complexity: With an index in the order asked for, and without a sort, O(log *n*) and the
  ///   objects read; else as without it.
  public func after(_ object: Object) -> Query { starting(.object(object)) }

  /// Only objects that come behind a page.
  ///
  /// - Throws: When run: ``ObjectError/Code/invalidCursor`` when the cursor is another query's.
  public func after(_ cursor: PageCursor) -> Query { starting(.cursor(cursor)) }

  /// The next objects of the query, and where to go on.
  ///
  /// ```swift
  /// var page = try query.page(size: 20)
  /// while let next = page.next {
  ///   page = try query.page(after: next, size: 20)
  /// }
  /// ```
  ///
  /// Objects that are inserted, changed or deleted between two pages move nothing: each object that
  /// was there all the time with the same sort values is in exactly one page. A page costs the same
  /// wherever it begins, unlike an offset. The size stands in place of the query's own limit; an
  /// offset counts for the first page.
  ///
  /// - Parameters:
  ///   - cursor: The `next` of the page before; `nil`: from the beginning.
  ///   - size: The most objects of the page, at least one.
  /// - Throws: ``ObjectError/Code/invalidCursor`` when the cursor is damaged, or of a query with
  ///   another type, predicate or sort, or when the query sorts by a property that is not `Codable`.
  public func page(after cursor: PageCursor? = nil, size: Int) throws -> ObjectPage<Object> {
    var query = self
    if let cursor { query = query.starting(.cursor(cursor)).offset(0) }
    let size = Swift.min(Swift.max(size, 1), .max - 1)
    query = query.limit(size + 1)
    let found = try query.found("page")
    let objects = found.prefix(size).map(\.object)
    guard found.count > size else { return ObjectPage(objects: objects, next: nil) }
    return ObjectPage(objects: objects, next: try self.cursor(behind: found[size - 1]))
  }

  // MARK: Cursors

  /// What tells the query from others, the same in every process: without limits.
  private var fingerprint: UInt64 {
    let text = ([Object.storedName, predicate.identity(withOrigins: true)] + sorts.map(\.text))
      .joined(separator: "\n")
    return XXH64.hash(Array(text.utf8))
  }

  /// The comparisons and sorts that cannot be told from others of their type.
  private var anonymous: String? {
    sorts.map(\.text).first(where: AnyPath.isAnonymous)
      ?? predicate.node.allComparisons.first {
        // References are found by an index of their own, and mostly have no name.
        $0.path != nil && $0.path != AnyPath(path: \Object.larderReferences)
          && AnyPath.isAnonymous($0.text)
      }?.text
  }

  func cursor(behind found: QueryExecution<Object>.Found) throws -> PageCursor {
    if let anonymous {
      throw ObjectError(
        .invalidCursor, type: Object.storedName,
        "The query uses a computed property without a name (\(anonymous)), which a cursor cannot tell "
          + "from another of its type. Name it in computedProperties, or use after(_:) with an object."
      )
    }
    let values = try sorts.map { sort in
      guard let coding = sort.coding else {
        throw ObjectError(
          .invalidCursor, type: Object.storedName,
          "The query sorts by \(sort.text), which is not Codable, so no cursor can hold it. Use "
            + "after(_:) with an object.")
      }
      return try coding.encode(found.object)
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
