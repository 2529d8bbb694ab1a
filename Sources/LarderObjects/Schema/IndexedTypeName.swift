// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The name of a property's type in the definition of an index.
///
/// The key of an enumeration is that of its raw value, and another program may give the same enumeration raw
/// values of another type. So the name of such a type contains that of its raw values: `Fuel: String`.
enum IndexedTypeName {
  /// Returns the name of a type.
  static func of(_ type: Any.Type) -> String {
    if let optional = type as? any WrappingOptional.Type {
      return "Optional<\(of(optional.wrapped))>"
    }
    if let type = type as? any RawRepresentable.Type { return "\(type): \(rawName(type))" }
    return "\(type)"
  }

  private static func rawName<Value: RawRepresentable>(_ type: Value.Type) -> String {
    of(Value.RawValue.self)
  }
}

private protocol WrappingOptional {
  static var wrapped: Any.Type { get }
}

extension Optional: WrappingOptional {
  fileprivate static var wrapped: Any.Type { Wrapped.self }
}
