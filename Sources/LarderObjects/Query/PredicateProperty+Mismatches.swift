// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Comparisons of a property with a value of another type, which do not compile. Without them the compiler takes
// the operators of optional chains for what is meant, and says that another property is expected. A comparison
// that compiles never uses them: an unavailable candidate is the last.

extension PredicateProperty {
  /// Not available: the property and the value have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func == <Other>(property: Self, value: Other) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the property and the value have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func != <Other>(property: Self, value: Other) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the property and the value have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func < <Other>(property: Self, value: Other) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the property and the value have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func <= <Other>(property: Self, value: Other) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the property and the value have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func > <Other>(property: Self, value: Other) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the property and the value have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func >= <Other>(property: Self, value: Other) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the value and the property have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func == <Other>(value: Other, property: Self) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the properties have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func == <Other>(
    left: Self, right: PredicateProperty<Object, Other>
  ) -> ObjectPredicate<Object> { .noObject }

  /// Not available: the value and the property have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func != <Other>(value: Other, property: Self) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the properties have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func != <Other>(
    left: Self, right: PredicateProperty<Object, Other>
  ) -> ObjectPredicate<Object> { .noObject }

  /// Not available: the value and the property have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func < <Other>(value: Other, property: Self) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the properties have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func < <Other>(
    left: Self, right: PredicateProperty<Object, Other>
  ) -> ObjectPredicate<Object> { .noObject }

  /// Not available: the value and the property have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func <= <Other>(value: Other, property: Self) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the properties have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func <= <Other>(
    left: Self, right: PredicateProperty<Object, Other>
  ) -> ObjectPredicate<Object> { .noObject }

  /// Not available: the value and the property have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func > <Other>(value: Other, property: Self) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the properties have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func > <Other>(
    left: Self, right: PredicateProperty<Object, Other>
  ) -> ObjectPredicate<Object> { .noObject }

  /// Not available: the value and the property have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func >= <Other>(value: Other, property: Self) -> ObjectPredicate<Object> {
    .noObject
  }

  /// Not available: the properties have different types.
  @available(
    *, unavailable, message: "The types differ: convert the value to the type of the property."
  )
  @_disfavoredOverload
  public static func >= <Other>(
    left: Self, right: PredicateProperty<Object, Other>
  ) -> ObjectPredicate<Object> { .noObject }
}
