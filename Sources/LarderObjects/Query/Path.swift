// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A key path that can be sent between threads. Every key path literal can.
public typealias Path<Root, Value> = any (KeyPath<Root, Value> & Sendable)

/// A type-erased key path that can be compared.
// @unchecked Sendable: created from Sendable key paths and from appended Sendable key paths.
struct AnyPath: @unchecked Sendable, Hashable {
  let path: AnyKeyPath

  /// Returns the key path as it is written. A computed property has its declared name. Without one,
  /// the name is the description of its type without the address, because the address differs
  /// between processes.
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

  /// Returns whether a name describes only the type of a computed property.
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
/// An index over an unnamed computed property is rejected, and so is a ``PageCursor`` of a query
/// that sorts or compares by one, because the property is indistinguishable from another of its
/// type. The value must depend only on the stored object. If the values of the property change,
/// change the name: the indexes are then rebuilt.
public struct ComputedProperty<Object: Storable>: Sendable {
  /// The name of the property.
  public let name: String
  let path: AnyPath

  /// Names a computed property.
  ///
  /// - Parameters:
  ///   - name: A name that is unique among the properties of the type.
  ///   - path: The property, or a property of a property.
  public init<Value>(_ name: String, _ path: Path<Object, Value>) {
    self.name = name
    self.path = AnyPath(path: path)
  }
}

/// A typed key path from an object to a value.
// @unchecked Sendable: created from Sendable key paths and from appended Sendable key paths.
struct PropertyPath<Object, Value>: @unchecked Sendable {
  let path: KeyPath<Object, Value>

  init(_ path: Path<Object, Value>) { self.path = path }
  init(joined path: KeyPath<Object, Value>) { self.path = path }

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
