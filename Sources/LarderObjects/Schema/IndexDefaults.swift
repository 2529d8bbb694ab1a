// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

// DEFAULTS AS A PART OF AN INDEX
//
// An object that lacks a field has the declared default of the property, and its index keys are those
// of the default. So two programs have the same index only if the defaults agree that its keys rest on:
//
//     a stored property   its default, those of the values on the path to it, and the stored names of
//                         the properties of these values. The index of another default is another
//                         index, as is the index of another property.
//     a computed one, or  all defaults of the object: the code may read any field. Two programs may
//     a closure           differ in the fields that they have, but not in the default of one that both
//                         have.
//
// Only a literal is the same for every object and every process. The build of an index stores any other
// default (`Date()`, `UUID()`, `Fuel.petrol`) in each object that lacks the field, together with its
// keys (`ObjectTypeDescriptor+IndexBuild.swift`): from then on the value is a stored one.

/// The defaults of missing fields on which the keys of an index rest.
struct IndexDefaults: Sendable {
  /// The defaults, by the path of a stored property or the name of a field.
  private(set) var texts: [String: String] = [:]
  /// The paths whose defaults must be the same, also if there is none.
  private var exact: Set<String> = []
  /// Whether a default may be another one for each object.
  private(set) var areComputed = false

  /// No defaults.
  init() {}

  /// No defaults of a type without a schema: its `init(from:)` decides, and is not that of a declared
  /// default.
  init(ofUndeclared fields: [String]) { exact = Set(fields) }

  /// Finds the defaults of an index.
  init<Object>(of index: Index<Object>, in schema: ObjectSchema<Object>) {
    let leaves = index.condition?.node.allLeaves ?? []
    var readsAll = leaves.contains { $0.comparison.path == nil }
    for path in index.shape.paths + leaves.compactMap(\.comparison.path) {
      guard let found = schema.declaration(of: path.property) else {
        readsAll = true
        continue
      }
      let name = schema.storedName(of: path.property)
      exact.insert(name)
      add(found, name)
    }
    if readsAll {
      for field in schema.fields { add(FieldDeclaration(field), field.name) }
    }
  }

  private mutating func add(_ found: FieldDeclaration, _ name: String) {
    areComputed = areComputed || found.isComputed
    if !found.text.isEmpty { texts[name] = found.text }
  }

  /// Returns whether a stored index has the same keys.
  func agree(with stored: [String: String]?) -> Bool {
    guard let stored else { return texts.isEmpty }
    return exact.allSatisfy { stored[$0] == texts[$0] }
      && texts.allSatisfy { stored[$0.key] ?? $0.value == $0.value }
  }
}

/// The part of the value of a property that comes from the declaration of a field.
struct FieldDeclaration {
  /// The default, and for a property of a value the stored names; empty if there is nothing to compare.
  private(set) var text: String
  private(set) var isComputed: Bool

  private static let computed = "computed"

  /// The declaration of a field with everything inside of its value.
  init<Object>(_ field: ObjectSchema<Object>.Field) {
    self.init(ofDefaultOf: field)
    guard let path = field.path else { return }
    let inner = Self(whole: type(of: path.path).valueType)
    if !inner.text.isEmpty { text += "{\(inner.text)}" }
    isComputed = isComputed || inner.isComputed
  }

  /// The default of a field.
  fileprivate init<Object>(ofDefaultOf field: ObjectSchema<Object>.Field) {
    isComputed = field.fallback is ComputedFallback
    switch field.fallback {
    case nil: text = ""
    case is ComputedFallback: text = Self.computed
    case let value as any Encodable:
      let bytes = try? CBOREncoder().encode(value)
      text = bytes.map { KeyTextFormat.display(tag: .bytes, bytes: $0) } ?? "\(value)"
    case let value?: text = "\(value)"
    }
  }

  /// The declaration of a property of a value.
  fileprivate init(ofDefaultOf field: StorableValueField) {
    isComputed = field.isComputed
    text = field.isComputed ? Self.computed : field.fallback ?? ""
    if field.name != field.property { text += "@\(field.name)" }
  }

  /// The declarations of all properties of a type.
  fileprivate init(whole type: Any.Type, inside outer: Set<ObjectIdentifier> = []) {
    (text, isComputed) = ("", false)
    guard let value = Self.value(in: type), !outer.contains(ObjectIdentifier(value)) else { return }
    var parts: [String] = []
    for field in value.storedFields {
      let own = Self(ofDefaultOf: field)
      let inner = Self(whole: field.type, inside: outer.union([ObjectIdentifier(value)]))
      isComputed = isComputed || own.isComputed || inner.isComputed
      if own.text.isEmpty, inner.text.isEmpty { continue }
      parts.append("\(field.property)=\(own.text){\(inner.text)}")
    }
    text = parts.joined(separator: ",")
  }

  /// Joins the declarations along a path.
  fileprivate init(along parts: [FieldDeclaration]) {
    isComputed = parts.contains { $0.isComputed }
    let isPlain = parts.allSatisfy { $0.text.isEmpty }
    text = isPlain ? "" : parts.map(\.text).joined(separator: "/")
  }

  /// Returns the declared value that a type is or contains.
  fileprivate static func value(in type: Any.Type) -> (any StorableValue.Type)? {
    if let value = type as? any StorableValue.Type { return value }
    return (type as? any ValueContainer.Type).flatMap { value(in: $0.contained) }
  }
}

extension ObjectSchema {
  /// Returns what the declarations along a path contribute to the value there, or `nil` if the path
  /// begins with something else than a stored property.
  fileprivate func declaration(of path: AnyPath) -> FieldDeclaration? {
    var names: ArraySlice<Substring> = []
    var first = fields.first { $0.path == path }
    if first == nil {
      let text = path.name(in: Object.self)
      guard text.hasPrefix("\\."), !AnyPath.isAnonymous(text) else { return nil }
      names = text.dropFirst(2).split(separator: ".")[...]
      let name = names.popFirst().map(Self.plain) ?? ""
      first = fields.first { $0.path?.name(in: Object.self) == "\\.\(name)" }
    }
    guard let first, let start = first.path else { return nil }
    var parts = [FieldDeclaration(ofDefaultOf: first)]
    var type: Any.Type = Swift.type(of: start.path).valueType
    for name in names {
      guard let value = FieldDeclaration.value(in: type) else {
        // The rest is code of a type that the schema does not know.
        return FieldDeclaration(along: parts)
      }
      guard let field = value.storedFields.first(where: { $0.property == Self.plain(name) })
      else { break }
      parts.append(FieldDeclaration(ofDefaultOf: field))
      type = field.type
    }
    parts.append(FieldDeclaration(whole: type))
    return FieldDeclaration(along: parts)
  }

  /// Returns a part of a path without the mark of an optional value.
  private static func plain(_ name: Substring) -> Substring {
    name.hasSuffix("?") || name.hasSuffix("!") ? name.dropLast() : name
  }
}

/// A type whose values contain values of another.
private protocol ValueContainer {
  static var contained: Any.Type { get }
}

extension Optional: ValueContainer {
  fileprivate static var contained: Any.Type { Wrapped.self }
}

extension Array: ValueContainer {
  fileprivate static var contained: Any.Type { Element.self }
}

extension Set: ValueContainer {
  fileprivate static var contained: Any.Type { Element.self }
}

extension Dictionary: ValueContainer {
  fileprivate static var contained: Any.Type { Value.self }
}
