// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A key path that may go from one thread to another; every literal one may.
public typealias Path<Root, Value> = any (KeyPath<Root, Value> & Sendable)

/// A key path without its types, to compare with others.
// Sound: made from paths that are Sendable, and from such paths one behind the other.
struct AnyPath: @unchecked Sendable, Hashable {
  let path: AnyKeyPath

  /// A key path as it is written. A computed property has the name it is declared with; without one
  /// it is described by its type, without the address, which is another in every process.
  func name<Object: Storable>(in type: Object.Type) -> String {
    let text = "\(path)"
    guard let dot = text.firstIndex(of: ".") else { return text }
    let name = "\\" + text[dot...]
    guard name.contains(Self.computed) else { return name }
    if let known = Object.computedProperties.first(where: { $0.path == self }) {
      return "computed \(known.name)"
    }
    return name.split(separator: " ", omittingEmptySubsequences: false)
      .filter { !$0.hasPrefix("0x") }.joined(separator: " ")
  }

  /// Whether a name says no more of a computed property than its type.
  static func isAnonymous(_ name: String) -> Bool { name.contains(computed) }

  private static let computed = "<computed"
}

/// The name of a computed property, which a key path does not contain.
///
/// ```swift
/// struct Person: Storable {
///   let id: UUID
///   var first: String, last: String
///   var sortName: String { "\(last), \(first)" }
///   static let computedProperties = [ComputedProperty("sortName", \Person.sortName)]
///   static let indexes = [Index("by name", \Person.sortName)]
/// }
/// ```
///
/// An index over a computed property without a name is refused, and so is a ``PageCursor`` of a query
/// that sorts or compares by one: one property could not be told from another of its type. Its value
/// must follow from what is stored of the object alone. Change the name when the property's values
/// change: then indexes are built again.
public struct ComputedProperty<Object: Storable>: Sendable {
  /// The name.
  public let name: String
  let path: AnyPath

  /// Names a computed property.
  ///
  /// - Parameters:
  ///   - name: The name, which no other property of the type has.
  ///   - path: The property, or a property of a property.
  public init<Value>(_ name: String, _ path: Path<Object, Value>) {
    self.name = name
    self.path = AnyPath(path: path)
  }
}

/// A key path from an object to a value.
// Sound: made from paths that are Sendable, and from such paths one behind the other.
struct PropertyPath<Object, Value>: @unchecked Sendable {
  let path: KeyPath<Object, Value>

  init(_ path: Path<Object, Value>) { self.path = path }
  private init(joined path: KeyPath<Object, Value>) { self.path = path }

  func appending<Inner>(_ inner: Path<Value, Inner>) -> PropertyPath<Object, Inner> {
    let inner: KeyPath<Value, Inner> = inner
    return PropertyPath<Object, Inner>(joined: path.appending(path: inner))
  }

  var erased: AnyPath { AnyPath(path: path) }
  @inline(__always) func value(of object: Object) -> Value { object[keyPath: path] }
}

extension PropertyPath where Object: Storable {
  var name: String { erased.name(in: Object.self) }
}
