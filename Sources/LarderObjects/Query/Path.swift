// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjectEngine

/// A key path that can be sent between threads. Every key path literal can.
public typealias Path<Root, Value> = any (KeyPath<Root, Value> & Sendable)

/// A type-erased key path that can be compared.
// @unchecked Sendable: created from Sendable key paths and from appended Sendable key paths.
struct AnyPath: @unchecked Sendable, Hashable {
  let path: AnyKeyPath
  /// The text of the key path that the compiler would create for `$0.address?.city`, if the path
  /// was composed of its parts at run time.
  var chain: String?
  /// The form in the keys of an index.
  var form = IndexKeyForm()

  /// Returns whether two paths lead to the same property.
  ///
  /// The standard library cannot compose a key path with optional chaining from its parts, so such a
  /// path is compared by its text, which consists of the names of stored properties. A property of
  /// the object itself is never a chain: it has an offset.
  static func == (left: AnyPath, right: AnyPath) -> Bool {
    guard left.form == right.form else { return false }
    if left.chain == nil, right.chain == nil { return left.path == right.path }
    let (one, other) = (type(of: left.path), type(of: right.path))
    return one.rootType == other.rootType && one.valueType == other.valueType
      && left.text == right.text && !isAnonymous(left.text)
      && !(left.isStoredInline || right.isStoredInline)
  }

  /// Hashes the type of the value: a chain and the key path of the compiler are equal, and have nothing
  /// else in common that needs no text.
  func hash(into hasher: inout Hasher) {
    hasher.combine(ObjectIdentifier(type(of: path).valueType))
  }

  /// The property without its form.
  var property: AnyPath { AnyPath(path: path, chain: chain) }

  /// The property in descending form.
  var descending: AnyPath {
    AnyPath(
      path: path, chain: chain,
      form: IndexKeyForm(isDescending: true, ignoresCase: form.ignoresCase))
  }

  private var text: String { chain ?? "\(path)" }

  /// Returns the text after that of another path, or `nil` if the path does not begin with it.
  func rest(after other: AnyPath) -> Substring? {
    let (text, other) = (text, other.text)
    guard text.hasPrefix(other) else { return nil }
    let rest = text.dropFirst(other.count)
    return rest.isEmpty || rest.hasPrefix(".") || rest.hasPrefix("?.") ? rest : nil
  }

  private var isStoredInline: Bool {
    func hasOffset<Root>(_ root: Root.Type) -> Bool {
      (path as? PartialKeyPath<Root>).flatMap { MemoryLayout<Root>.offset(of: $0) } != nil
    }
    return chain == nil && _openExistential(type(of: path).rootType, do: hasOffset)
  }

  /// Returns the key path as it is written. A computed property has its declared name. Without one,
  /// the name is the description of its type without the address, because the address differs
  /// between processes.
  func name<Object: Storable>(in type: Object.Type) -> String { plainName(in: type) + form.suffix }

  private func plainName<Object: Storable>(in type: Object.Type) -> String {
    let text = text
    guard let dot = text.firstIndex(of: ".") else { return text }
    let name = "\\" + text[dot...]
    guard name.contains(Self.computed) else { return name }
    // The property of a reference is computed by its wrapper, and the schema has its name.
    for reference in Object.declaredReferences {
      if let rest = rest(after: reference.path) { return "\\.\(reference.name)\(rest)" }
      if let rest = rest(after: reference.projected) { return "\\.$\(reference.name)\(rest)" }
    }
    if let known = Object.computedProperties.first(where: { $0.path.path == path }) {
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
struct PropertyPath<Object: Storable, Value>: @unchecked Sendable {
  let path: KeyPath<Object, Value>
  /// See ``AnyPath/chain``.
  private var chain: String?
  /// The property of the object that a reference leads to, if the path begins with a reference.
  var related: RelatedProperty<Object, Value>?

  init(_ path: Path<Object, Value>) { self.path = path }
  init(joined path: KeyPath<Object, Value>) { self.path = path }

  /// Returns the path to a property of the value.
  func appending<Inner>(_ inner: Path<Value, Inner>) -> PropertyPath<Object, Inner> {
    let inner: KeyPath<Value, Inner> = inner
    var joined = PropertyPath<Object, Inner>(joined: path.appending(path: inner))
    joined.related = .of(self, inner, missing: nil) { $0 }
    return joined
  }

  /// Returns the path to a property of the value, with `nil` for a missing value.
  func chaining<Wrapped, Inner>(
    _ inner: Path<Wrapped, Inner>
  ) -> PropertyPath<Object, Inner?> where Value == Wrapped? {
    let inner: KeyPath<Wrapped, Inner> = inner
    var joined = chained(\Wrapped?.[larderChain: ChainedPath(inner)], inner, suffix: "?")
    joined.related = .of(self, inner, missing: .some(nil)) { $0 }
    return joined
  }

  /// Returns the path to an optional property of the value, with `nil` for a missing value.
  func chaining<Wrapped, Inner>(
    flat inner: Path<Wrapped, Inner?>
  ) -> PropertyPath<Object, Inner?> where Value == Wrapped? {
    let inner: KeyPath<Wrapped, Inner?> = inner
    var joined = chained(\Wrapped?.[larderFlatChain: ChainedPath(inner)], inner, suffix: "")
    joined.related = .of(self, inner, missing: .some(nil)) { $0 }
    return joined
  }

  private func chained<Result>(
    _ step: KeyPath<Value, Result>, _ inner: AnyKeyPath, suffix: String
  ) -> PropertyPath<Object, Result> {
    var joined = PropertyPath<Object, Result>(joined: path.appending(path: step))
    // As the compiler's text: the last "?" marks a value that the chain wraps in an optional.
    var outer = chain ?? "\(path)"
    if outer.last == "?" { outer.removeLast() } else { outer += "?" }
    joined.chain = outer + "." + Self.name(of: inner) + suffix
    return joined
  }

  /// Returns the text of a path within a value; within a related object, with the names of its references
  /// and computed properties.
  private static func name(of inner: AnyKeyPath) -> Substring {
    func name<Root: Storable>(in root: Root.Type) -> String { AnyPath(path: inner).name(in: root) }
    let root = type(of: inner).rootType as? any Storable.Type
    let text = root.map { name(in: $0) } ?? "\(inner)"
    // The name of a computed property has no root.
    guard text.hasPrefix("\\"), let dot = text.firstIndex(of: ".") else { return text[...] }
    return text[dot...].dropFirst()
  }

  var erased: AnyPath { AnyPath(path: path, chain: chain) }
  var name: String { erased.name(in: Object.self) }
  @inline(__always) func value(of object: Object) -> Value { object[keyPath: path] }
}

/// A key path as the argument of a subscript.
// @unchecked Sendable: created from Sendable key paths.
struct ChainedPath<Root, Value>: @unchecked Sendable, Hashable {
  let path: KeyPath<Root, Value>
  init(_ path: KeyPath<Root, Value>) { self.path = path }
}

extension Optional {
  /// The property of the wrapped value.
  subscript<Value>(larderChain inner: ChainedPath<Wrapped, Value>) -> Value? {
    map { $0[keyPath: inner.path] }
  }

  /// The optional property of the wrapped value.
  subscript<Value>(larderFlatChain inner: ChainedPath<Wrapped, Value?>) -> Value? {
    flatMap { $0[keyPath: inner.path] }
  }
}
