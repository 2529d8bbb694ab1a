// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderObjectEngine

/// A property of an index with a direction, or without regard to case.
///
/// An index is read in both directions. So a property in descending form is for sorts in several
/// directions; for a sort in one direction, and for conditions, use the ascending form.
public struct IndexPart<Object: Storable>: Sendable {
  /// The property and its form in the keys.
  private(set) var path: AnyPath
  /// The name of the property's type.
  let type: String
  /// Returns the element of an object, in ascending order.
  let element: @Sendable (Object) -> [UInt8]

  private init(
    _ path: AnyPath, _ type: Any.Type, _ form: IndexKeyForm,
    _ element: @escaping @Sendable (Object) -> [UInt8]
  ) {
    self.path = path
    self.path.form = form
    self.type = IndexedTypeName.of(type)
    self.element = element
  }

  /// Returns a property from the least to the greatest value.
  ///
  /// - Parameter path: The property.
  /// - Returns: The part.
  public static func ascending<Value: IndexValue>(_ path: Path<Object, Value>) -> IndexPart {
    let property = PropertyPath(path)
    return IndexPart(property.erased, Value.self, IndexKeyForm()) {
      property.value(of: $0).indexKey
    }
  }

  /// Returns a property from the greatest to the least value.
  ///
  /// - Parameter path: The property.
  /// - Returns: The part.
  public static func descending<Value: IndexValue>(_ path: Path<Object, Value>) -> IndexPart {
    let property = PropertyPath(path)
    return IndexPart(property.erased, Value.self, IndexKeyForm(isDescending: true)) {
      property.value(of: $0).indexKey
    }
  }

  /// Returns a string property whose keys are its lowercase strings. The index serves
  /// ``PredicateProperty/equalsIgnoringCase(_:)`` and ``Query/sorted(ignoringCase:_:)``.
  ///
  /// - Parameters:
  ///   - path: The property: a string or an optional string.
  ///   - direction: The direction.
  /// - Returns: The part.
  public static func ignoringCase<Text: OptionalText>(
    _ path: Path<Object, Text>, _ direction: SortDirection = .ascending
  ) -> IndexPart {
    let property = PropertyPath(path)
    let form = IndexKeyForm(isDescending: direction == .descending, ignoresCase: true)
    return IndexPart(property.erased, Text.self, form) {
      property.value(of: $0).larderLowercase.indexKey
    }
  }

  /// Returns the parts with the first one ascending: a scan in the other direction has their order.
  static func beginningAscending(_ parts: [IndexPart]) -> [IndexPart] {
    guard parts.first?.path.form.isDescending == true else { return parts }
    return parts.map { part in
      var part = part
      part.path.form.isDescending.toggle()
      return part
    }
  }
}

extension OptionalText {
  /// The lowercase string, or `nil`.
  var larderLowercase: String? { optionalText?.lowercased() }
}

extension PropertyPath where Value: OptionalText {
  /// The property without regard to case.
  var ignoringCase: AnyPath {
    AnyPath(path: path, chain: erased.chain, form: IndexKeyForm(ignoresCase: true))
  }

  /// The lowercase string of the property.
  var lowercase: PropertyPath<Object, String?> {
    PropertyPath<Object, String?>(joined: path.appending(path: \Value.larderLowercase))
  }
}

extension Query {
  /// Returns the query sorted by a string property without regard to case. Replaces an earlier order.
  ///
  /// An index with ``IndexPart/ignoringCase(_:_:)`` has the order.
  ///
  /// - Parameters:
  ///   - path: The property: a string or an optional string; `nil` sorts first.
  ///   - direction: The direction.
  /// - Returns: The sorted query.
  public func sorted<Text: OptionalText>(
    ignoringCase path: Path<Object, Text>, _ direction: SortDirection = .ascending
  ) -> Query { unsorted().then(ignoringCase: path, direction) }

  /// Returns the query with a string property, without regard to case, as another sort key for objects
  /// that are equal in all earlier keys.
  ///
  /// - Parameters:
  ///   - path: The property: a string or an optional string; `nil` sorts first.
  ///   - direction: The direction.
  /// - Returns: The sorted query.
  public func then<Text: OptionalText>(
    ignoringCase path: Path<Object, Text>, _ direction: SortDirection = .ascending
  ) -> Query {
    let property = PropertyPath(path)
    return then(by: property.lowercase, direction, as: property.ignoringCase)
  }
}
