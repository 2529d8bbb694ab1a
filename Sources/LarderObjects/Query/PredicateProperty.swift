// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import Synchronization

// What key paths cannot say by themselves is said of a property in a closure:
//
//     cars.where { $0.year >= 2020 && $0.model.hasPrefix("A") && $0.tags.contains("fast") }

/// The object in a closure that builds a predicate.
@dynamicMemberLookup
public struct PredicateRoot<Object: Storable>: Sendable {
  init() {}

  /// A property.
  public subscript<Value: Sendable>(
    dynamicMember path: Path<Object, Value>
  ) -> PredicateProperty<Object, Value> { PredicateProperty(path) }
}

/// A property in a closure that builds a predicate.
@dynamicMemberLookup
public struct PredicateProperty<Object: Storable, Value: Sendable>: Sendable {
  let path: PropertyPath<Object, Value>

  /// The property at a key path, for predicates outside of a closure.
  public init(_ path: Path<Object, Value>) { self.path = PropertyPath(path) }

  init(path: PropertyPath<Object, Value>) { self.path = path }

  /// A property of this property.
  public subscript<Inner: Sendable>(
    dynamicMember inner: Path<Value, Inner>
  ) -> PredicateProperty<Object, Inner> {
    PredicateProperty<Object, Inner>(path: path.appending(inner))
  }

  var name: String { path.name }
}

extension PredicateProperty where Value: Equatable {
  /// Whether the property has this value.
  public static func == (property: Self, value: Value) -> Predicate<Object> {
    .compare(property.path, "==", value, KeyRange.equal) { $0 == value }
  }
  /// Whether the property has another value.
  public static func != (property: Self, value: Value) -> Predicate<Object> {
    .different(property.path, value)
  }

  /// Whether the value is one of these.
  public func isIn(_ values: [Value]) -> Predicate<Object> {
    let keys = values.map { indexKey($0) }
    let ranges = keys.allSatisfy { $0 != nil } ? keys.map { KeyRange.equal($0!) } : nil
    let path = path
    return Predicate(
      of: path,
      "\(name) in [\(values.map { Predicate<Object>.literal($0) }.joined(separator: ", "))]",
      constants: ConstantIdentity(all: values),
      ranges: ranges,
      isExact: zip(keys, values).allSatisfy { key, value in
        key.map { KeyRange.isExact($0, value) } ?? false
      }
    ) { values.contains($0) }
  }
}

extension PredicateProperty where Value: Comparable {
  /// Whether the property is below a value.
  public static func < (property: Self, value: Value) -> Predicate<Object> {
    .compare(property.path, "<", value, KeyRange.below) { SortOrdering.isBelow($0, value) }
  }
  /// Whether the property is a value or below it.
  public static func <= (property: Self, value: Value) -> Predicate<Object> {
    .compare(property.path, "<=", value, KeyRange.upTo) { SortOrdering.isAtMost($0, value) }
  }
  /// Whether the property is above a value.
  public static func > (property: Self, value: Value) -> Predicate<Object> {
    .compare(property.path, ">", value, KeyRange.above) { SortOrdering.isBelow(value, $0) }
  }
  /// Whether the property is a value or above it.
  public static func >= (property: Self, value: Value) -> Predicate<Object> {
    .compare(property.path, ">=", value, KeyRange.from) { SortOrdering.isAtMost(value, $0) }
  }

  /// Whether the value lies in a range that includes its end.
  public func isIn(_ range: ClosedRange<Value>) -> Predicate<Object> {
    self >= range.lowerBound && self <= range.upperBound
  }

  /// Whether the value lies in a range that does not include its end.
  public func isIn(_ range: Range<Value>) -> Predicate<Object> {
    self >= range.lowerBound && self < range.upperBound
  }
}

extension PredicateProperty {
  /// Whether there is a value, and it is below another.
  public static func < <Inner: Comparable & Sendable>(
    property: Self, value: Inner
  ) -> Predicate<Object> where Value == Inner? {
    .compare(property.path, "<", value, KeyRange.below) {
      $0.map { SortOrdering.isBelow($0, value) } ?? false
    }
  }
  /// Whether there is a value, and it is another or below it.
  public static func <= <Inner: Comparable & Sendable>(
    property: Self, value: Inner
  ) -> Predicate<Object> where Value == Inner? {
    .compare(property.path, "<=", value, KeyRange.upTo) {
      $0.map { SortOrdering.isAtMost($0, value) } ?? false
    }
  }
  /// Whether there is a value, and it is above another.
  public static func > <Inner: Comparable & Sendable>(
    property: Self, value: Inner
  ) -> Predicate<Object> where Value == Inner? {
    .compare(property.path, ">", value, KeyRange.above) {
      $0.map { SortOrdering.isBelow(value, $0) } ?? false
    }
  }
  /// Whether there is a value, and it is another or above it.
  public static func >= <Inner: Comparable & Sendable>(
    property: Self, value: Inner
  ) -> Predicate<Object> where Value == Inner? {
    .compare(property.path, ">=", value, KeyRange.from) {
      $0.map { SortOrdering.isAtMost(value, $0) } ?? false
    }
  }

  /// Whether there is no value.
  public func isNil<Inner>() -> Predicate<Object> where Value == Inner? {
    let path = path
    return Predicate(of: path, "\(name) == nil", ranges: [.exactly([0])]) {
      $0 == nil
    }
  }

  /// Whether there is a value.
  public func isNotNil<Inner>() -> Predicate<Object> where Value == Inner? {
    let path = path
    return Predicate(
      of: path, "\(name) != nil", ranges: [KeyRange(lower: KeyRange.firstValue, upper: nil)]
    ) { $0 != nil }
  }
}

extension PredicateProperty where Value == Bool {
  /// The property itself, as a predicate.
  public var isTrue: Predicate<Object> { self == true }
}

extension PredicateProperty where Value == String {
  /// Whether the text begins with another.
  public func hasPrefix(_ prefix: String) -> Predicate<Object> {
    var encoder = IndexKeyEncoder()
    encoder.append(prefix)
    let key = KeyRange.bound(encoder.bytes.dropLast())
    let path = path
    return Predicate(
      of: path, "\(name).hasPrefix(\(prefix.debugDescription))",
      ranges: [KeyRange(lower: key, upper: KeyRange.after(key))], isExact: false
    ) { $0.hasPrefix(prefix) }
  }

  /// Whether the text ends with another.
  public func hasSuffix(_ suffix: String) -> Predicate<Object> {
    let path = path
    return Predicate(of: path, "\(name).hasSuffix(\(suffix.debugDescription))") {
      $0.hasSuffix(suffix)
    }
  }

  /// Whether another text is part of the text: whole characters of it, however they are composed.
  public func contains(_ part: String) -> Predicate<Object> {
    let path = path
    return Predicate(of: path, "\(name).contains(\(part.debugDescription))") {
      part.isEmpty || $0.contains(part)
    }
  }

  /// Whether the text equals another, upper and lower case apart.
  public func equalsIgnoringCase(_ other: String) -> Predicate<Object> {
    let path = path
    let lower = other.lowercased()
    return Predicate(of: path, "\(name).equalsIgnoringCase(\(other.debugDescription))") {
      $0.lowercased() == lower
    }
  }

  /// Whether another text is part of the text, upper and lower case apart.
  public func containsIgnoringCase(_ part: String) -> Predicate<Object> {
    let path = path
    let lower = part.lowercased()
    return Predicate(of: path, "\(name).containsIgnoringCase(\(part.debugDescription))") {
      lower.isEmpty || $0.lowercased().contains(lower)
    }
  }

  /// Whether a regular expression matches somewhere in the text.
  ///
  /// - Throws: ``ObjectError/Code/invalidPattern`` for a pattern that is none.
  public func matches(_ pattern: String) throws -> Predicate<Object> {
    let regex: Regex<AnyRegexOutput>
    do {
      regex = try Regex(pattern)
    } catch {
      throw ObjectError(
        .invalidPattern, type: Object.storedName,
        "\"\(pattern)\" is not a regular expression: \(error). Write it as Swift's Regex wants it.")
    }
    let expression = Mutex(regex)
    let box = Boxed(expression)
    let path = path
    return Predicate(of: path, "\(name).matches(\(pattern.debugDescription))") { text in
      box.value.withLock { text.firstMatch(of: $0) != nil }
    }
  }
}

/// A reference to something that cannot be copied.
private final class Boxed<Value: ~Copyable & Sendable>: Sendable {
  let value: Value
  init(_ value: consuming Value) { self.value = value }
}

extension PredicateProperty where Value: Collection, Value.Element: Equatable & Sendable {
  /// Whether an element is in the collection.
  public func contains(_ element: Value.Element) -> Predicate<Object> {
    let path = path
    let key = indexKey(element)
    return Predicate(
      of: path, "\(name).contains(\(Predicate<Object>.literal(element)))",
      constants: ConstantIdentity(element),
      elementRanges: key.map { [.equal($0)] },
      isExact: key.map { KeyRange.isExact($0, element) } ?? false
    ) { $0.contains(element) }
  }

  /// Whether every one of these elements is in the collection.
  public func contains(all elements: [Value.Element]) -> Predicate<Object> {
    elements.reduce(.all) { $0 && contains($1) }
  }

  /// Whether at least one of these elements is in the collection.
  public func contains(any elements: [Value.Element]) -> Predicate<Object> {
    let path = path
    let keys = elements.map { indexKey($0) }
    let ranges = keys.allSatisfy { $0 != nil } ? keys.map { KeyRange.equal($0!) } : nil
    return Predicate(
      of: path,
      "\(name).contains(any: [\(elements.map { Predicate<Object>.literal($0) }.joined(separator: ", "))])",
      constants: ConstantIdentity(all: elements), elementRanges: ranges, isExact: false
    ) { collection in
      elements.contains { collection.contains($0) }
    }
  }
}
