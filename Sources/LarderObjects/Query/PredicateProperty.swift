// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

// Predicates that key paths alone cannot express use a property in a closure:
//
//     cars.where { $0.year >= 2020 && $0.model.hasPrefix("A") && $0.tags.contains("fast") }

/// The object in a closure that builds a predicate.
@dynamicMemberLookup
public struct PredicateRoot<Object: Storable>: Sendable {
  /// Creates the object that a predicate's closure gets.
  package init() {}

  /// Returns a property of the object.
  ///
  /// - Parameter path: The key path of the property.
  public subscript<Value: Sendable>(
    dynamicMember path: Path<Object, Value>
  ) -> PredicateProperty<Object, Value> { PredicateProperty(path) }

  /// Returns an optional property of the object, for optional chaining: `$0.address?.city`.
  ///
  /// - Parameter path: The key path of the property.
  @_disfavoredOverload
  public subscript<Wrapped: Sendable>(
    dynamicMember path: Path<Object, Wrapped?>
  ) -> PredicateMember<Object, Wrapped>? { PredicateMember(property: PropertyPath(path)) }
}

/// A property in a closure that builds a predicate.
@dynamicMemberLookup
public struct PredicateProperty<Object: Storable, Value: Sendable>: Sendable {
  let path: PropertyPath<Object, Value>

  /// Creates a property from a key path, for predicates outside a closure.
  ///
  /// - Parameter path: The key path of the property.
  public init(_ path: Path<Object, Value>) { self.path = PropertyPath(path) }

  init(path: PropertyPath<Object, Value>) { self.path = path }

  /// Returns a property of this property.
  ///
  /// - Parameter inner: The key path from this property.
  public subscript<Inner: Sendable>(
    dynamicMember inner: Path<Value, Inner>
  ) -> PredicateProperty<Object, Inner> {
    PredicateProperty<Object, Inner>(path: path.appending(inner))
  }

  /// Returns an optional property of this property, for optional chaining.
  ///
  /// - Parameter inner: The key path from this property.
  @_disfavoredOverload
  public subscript<Wrapped: Sendable>(
    dynamicMember inner: Path<Value, Wrapped?>
  ) -> PredicateMember<Object, Wrapped>? { PredicateMember(property: path.appending(inner)) }

  var name: String { path.name }
}

extension PredicateProperty where Value: Equatable {
  /// Returns a predicate that matches objects whose property equals a value. An index on the
  /// property serves it.
  ///
  /// - Parameters:
  ///   - property: The property.
  ///   - value: The value.
  /// - Returns: The predicate.
  public static func == (property: Self, value: Value) -> ObjectPredicate<Object> {
    .equal(property.path, value)
  }
  /// Returns a predicate that matches objects whose property differs from a value.
  ///
  /// - Parameters:
  ///   - property: The property.
  ///   - value: The value.
  /// - Returns: The predicate.
  public static func != (property: Self, value: Value) -> ObjectPredicate<Object> {
    .different(property.path, value)
  }

  /// Returns a predicate that matches objects whose property equals one of several values. An index
  /// on the property serves it.
  ///
  /// - Parameter values: The values; an empty array matches nothing.
  /// - Returns: The predicate.
  public func isIn(_ values: [Value]) -> ObjectPredicate<Object> {
    let keys = values.map { indexKey($0) }
    let path = path
    let areExact = zip(keys, values).allSatisfy { key, value in
      key.map { isExact($0, value) } ?? false
    }
    return ObjectPredicate(
      of: path,
      "\(name) in [\(values.map { ObjectPredicate<Object>.literal($0) }.joined(separator: ", "))]",
      constants: ConstantIdentity(all: values), ranges: equalities(keys),
      isExact: areExact, holds: Self.membership(in: values, areExact ? keys : []))
  }

  /// Returns the test whether a value equals one of several: by index keys, if there are many and their
  /// equality is that of the values.
  private static func membership(
    in values: [Value], _ keys: [[UInt8]?]
  ) -> @Sendable (Value) -> Bool {
    guard keys.count > 16 else { return { values.contains($0) } }
    let known = Set(keys.compactMap { $0 })
    return { value in indexKey(value).map(known.contains) ?? false }
  }
}

extension PredicateProperty where Value: Comparable {
  /// Returns a predicate that matches objects whose property is less than a value. An index on the
  /// property serves it.
  ///
  /// - Parameters:
  ///   - property: The property.
  ///   - value: The exclusive upper bound.
  /// - Returns: The predicate.
  public static func < (property: Self, value: Value) -> ObjectPredicate<Object> {
    .order(property.path, .less, value)
  }
  /// Returns a predicate that matches objects whose property is at most a value. An index on the
  /// property serves it.
  ///
  /// - Parameters:
  ///   - property: The property.
  ///   - value: The inclusive upper bound.
  /// - Returns: The predicate.
  public static func <= (property: Self, value: Value) -> ObjectPredicate<Object> {
    .order(property.path, .atMost, value)
  }
  /// Returns a predicate that matches objects whose property is greater than a value. An index on
  /// the property serves it.
  ///
  /// - Parameters:
  ///   - property: The property.
  ///   - value: The exclusive lower bound.
  /// - Returns: The predicate.
  public static func > (property: Self, value: Value) -> ObjectPredicate<Object> {
    .order(property.path, .greater, value)
  }
  /// Returns a predicate that matches objects whose property is at least a value. An index on the
  /// property serves it.
  ///
  /// - Parameters:
  ///   - property: The property.
  ///   - value: The inclusive lower bound.
  /// - Returns: The predicate.
  public static func >= (property: Self, value: Value) -> ObjectPredicate<Object> {
    .order(property.path, .atLeast, value)
  }

  /// Returns a predicate that matches objects whose property is in a closed range.
  ///
  /// - Parameter range: The range, including both bounds.
  /// - Returns: The predicate.
  public func isIn(_ range: ClosedRange<Value>) -> ObjectPredicate<Object> {
    self >= range.lowerBound && self <= range.upperBound
  }

  /// Returns a predicate that matches objects whose property is in a half-open range.
  ///
  /// - Parameter range: The range, excluding the upper bound.
  /// - Returns: The predicate.
  public func isIn(_ range: Range<Value>) -> ObjectPredicate<Object> {
    self >= range.lowerBound && self < range.upperBound
  }
}

extension PredicateProperty {
  /// Returns a predicate that matches objects whose optional property has a value less than
  /// another.
  ///
  /// - Parameters:
  ///   - property: The optional property; `nil` does not match.
  ///   - value: The exclusive upper bound.
  /// - Returns: The predicate.
  public static func < <Inner: Comparable & Sendable>(
    property: Self, value: Inner
  ) -> ObjectPredicate<Object> where Value == Inner? {
    .order(property.path, .less, value)
  }
  /// Returns a predicate that matches objects whose optional property has a value of at most
  /// another.
  ///
  /// - Parameters:
  ///   - property: The optional property; `nil` does not match.
  ///   - value: The inclusive upper bound.
  /// - Returns: The predicate.
  public static func <= <Inner: Comparable & Sendable>(
    property: Self, value: Inner
  ) -> ObjectPredicate<Object> where Value == Inner? {
    .order(property.path, .atMost, value)
  }
  /// Returns a predicate that matches objects whose optional property has a value greater than
  /// another.
  ///
  /// - Parameters:
  ///   - property: The optional property; `nil` does not match.
  ///   - value: The exclusive lower bound.
  /// - Returns: The predicate.
  public static func > <Inner: Comparable & Sendable>(
    property: Self, value: Inner
  ) -> ObjectPredicate<Object> where Value == Inner? {
    .order(property.path, .greater, value)
  }
  /// Returns a predicate that matches objects whose optional property has a value of at least
  /// another.
  ///
  /// - Parameters:
  ///   - property: The optional property; `nil` does not match.
  ///   - value: The inclusive lower bound.
  /// - Returns: The predicate.
  public static func >= <Inner: Comparable & Sendable>(
    property: Self, value: Inner
  ) -> ObjectPredicate<Object> where Value == Inner? {
    .order(property.path, .atLeast, value)
  }

  /// Returns a predicate that matches objects whose optional property is `nil`. An index on the
  /// property serves it.
  ///
  /// - Returns: The predicate.
  public func isNil<Inner>() -> ObjectPredicate<Object> where Value == Inner? {
    let path = path
    return ObjectPredicate(of: path, "\(name) == nil", ranges: [.exactly([0])]) {
      $0 == nil
    }
  }

  /// Returns a predicate that matches objects whose optional property has a value. An index on the
  /// property serves it.
  ///
  /// - Returns: The predicate.
  public func isNotNil<Inner>() -> ObjectPredicate<Object> where Value == Inner? {
    let path = path
    return ObjectPredicate(
      of: path, "\(name) != nil", ranges: [.values]
    ) { $0 != nil }
  }
}

extension PredicateProperty where Value == Bool {
  /// A predicate that matches objects whose Boolean property is `true`.
  public var isTrue: ObjectPredicate<Object> { self == true }
}

/// A string, or an optional string: `nil` matches no condition of a text.
public protocol OptionalText: Sendable {
  /// The string, or `nil`.
  var optionalText: String? { get }
}

extension String: OptionalText {
  /// The string itself.
  public var optionalText: String? { self }
}

extension Optional: OptionalText where Wrapped == String {
  /// The optional itself.
  public var optionalText: String? { self }
}

extension PredicateProperty where Value: OptionalText {
  /// Returns a predicate that matches objects whose string begins with a prefix. An index on the
  /// property serves it.
  ///
  /// - Parameter prefix: The prefix.
  /// - Returns: The predicate.
  public func hasPrefix(_ prefix: String) -> ObjectPredicate<Object> { string(.hasPrefix, prefix) }

  /// Returns a predicate that matches objects whose string ends with a suffix.
  ///
  /// - Parameter suffix: The suffix.
  /// - Returns: The predicate.
  public func hasSuffix(_ suffix: String) -> ObjectPredicate<Object> { string(.hasSuffix, suffix) }

  /// Returns a predicate that matches objects whose string contains another: complete characters,
  /// compared by canonical equivalence.
  ///
  /// - Parameter part: The string to find.
  /// - Returns: The predicate.
  public func contains(_ part: String) -> ObjectPredicate<Object> { string(.contains, part) }

  /// Returns a predicate that matches objects whose string equals another, ignoring case.
  ///
  /// - Parameter other: The string to compare with.
  /// - Returns: The predicate.
  public func equalsIgnoringCase(_ other: String) -> ObjectPredicate<Object> {
    string(.equalsIgnoringCase, other)
  }

  /// Returns a predicate that matches objects whose string contains another, ignoring case.
  ///
  /// - Parameter part: The string to find.
  /// - Returns: The predicate.
  public func containsIgnoringCase(_ part: String) -> ObjectPredicate<Object> {
    string(.containsIgnoringCase, part)
  }

  private func string(_ method: StringCondition.Method, _ argument: String) -> ObjectPredicate<
    Object
  > {
    let path = path
    let condition = StringCondition(method, argument)
    let predicate = ObjectPredicate(
      of: path, "\(path.name).\(method.rawValue)(\(argument.debugDescription))",
      ranges: condition.ranges, isExact: false, stored: StoredFieldTest(method, argument)
    ) { $0.optionalText.map(condition.holds) ?? false }
    guard let ranges = condition.rangesIgnoringCase else { return predicate }
    return predicate.served(by: path.ignoringCase, ranges)
  }

  /// Returns a predicate that matches objects whose string contains a match of a regular
  /// expression.
  ///
  /// - Parameter pattern: The regular expression in the syntax of Swift's `Regex`.
  /// - Returns: The predicate.
  /// - Throws: ``ObjectError/Code/invalidPattern`` if the pattern is not a valid regular
  ///   expression.
  public func matches(_ pattern: String) throws -> ObjectPredicate<Object> {
    let regex: Regex<AnyRegexOutput>
    do {
      regex = try Regex(pattern)
    } catch {
      throw ObjectError(
        .invalidPattern, type: Object.storedName,
        "The pattern \"\(pattern)\" is not a valid regular expression: \(error). Use the syntax of "
          + "Swift's Regex.")
    }
    let expression = Mutex(regex)
    let box = Boxed(expression)
    let path = path
    return ObjectPredicate(of: path, "\(name).matches(\(pattern.debugDescription))") { value in
      guard let text = value.optionalText else { return false }
      return box.value.withLock { text.firstMatch(of: $0) != nil }
    }
  }
}

/// A shared reference to a noncopyable value.
private final class Boxed<Value: ~Copyable & Sendable>: Sendable {
  let value: Value
  init(_ value: consuming Value) { self.value = value }
}

extension PredicateProperty where Value: Collection, Value.Element: Equatable & Sendable {
  /// Returns a predicate that matches objects whose collection contains an element. A multi-key
  /// index on the property serves it.
  ///
  /// - Parameter element: The element.
  /// - Returns: The predicate.
  public func contains(_ element: Value.Element) -> ObjectPredicate<Object> {
    let path = path
    let key = indexKey(element)
    return ObjectPredicate(
      of: path, "\(name).contains(\(ObjectPredicate<Object>.literal(element)))",
      constants: ConstantIdentity(element),
      elementRanges: key.map { [.equal($0)] },
      isExact: key.map { isExact($0, element) } ?? false
    ) { $0.contains(element) }
  }

  /// Returns a predicate that matches objects whose collection contains all of several elements.
  ///
  /// - Parameter elements: The elements; an empty array matches every object.
  /// - Returns: The predicate.
  public func contains(all elements: [Value.Element]) -> ObjectPredicate<Object> {
    elements.reduce(.all) { $0 && contains($1) }
  }

  /// Returns a predicate that matches objects whose collection contains at least one of several
  /// elements.
  ///
  /// - Parameter elements: The elements; an empty array matches nothing.
  /// - Returns: The predicate.
  public func contains(any elements: [Value.Element]) -> ObjectPredicate<Object> {
    let path = path
    let ranges = equalities(elements.map { indexKey($0) })
    return ObjectPredicate(
      of: path,
      "\(name).contains(any: [\(elements.map { ObjectPredicate<Object>.literal($0) }.joined(separator: ", "))])",
      constants: ConstantIdentity(all: elements), elementRanges: ranges, isExact: false
    ) { collection in
      elements.contains { collection.contains($0) }
    }
  }
}
