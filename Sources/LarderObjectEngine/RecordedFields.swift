// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE LINES OF A SCHEMA
//
//     name: kind     with "?" after the kind if the field may be missing: "owner: text?"
//     path: kind     a field inside of another: "address.city: text"; [] is an element of an array,
//                    * a value of a dictionary: "tags.[]: text", "prices.*: decimal"
//
// A point or backslash in a name has a backslash before it. Fields inside of others are those of the
// objects that were saved first by each process: an enumeration may have more cases, and what is
// below a field that was nil in all of them is unknown.
//
// The kinds are those of `CBORFieldLog`. Kinds of one family are stored in one form: two programs may
// declare them for one field.

/// The fields in the record of a type, as programs wrote them.
package struct RecordedFields: Sendable, Hashable {
  package struct Field: Sendable, Hashable {
    package var kind: String
    package var isOptional: Bool

    package init(kind: String, isOptional: Bool) {
      self.kind = kind
      self.isOptional = isOptional
    }

    package var text: String { kind + (isOptional ? "?" : "") }

    /// The form in which values of the kind are stored.
    package var family: String { Self.family(kind) }

    package static func family(_ kind: String) -> String {
      if kind.hasPrefix("enum("), kind.hasSuffix(")") {
        return family(String(kind.dropFirst(5).dropLast()))
      }
      if kind.hasPrefix("int") || kind.hasPrefix("uint") { return "integer" }
      return kind == "float" ? "number" : kind == "character" ? "text" : kind
    }

    /// The kind of a field that two programs wrote, or "value" for kinds of two families.
    package static func merged(_ one: String, _ other: String) -> String {
      if one == other { return one }
      let family = family(one)
      return family == Self.family(other) ? family : "value"
    }
  }

  private static let limit = 256

  package var fields: [String: Field] = [:]
  /// The fields inside of others, by their path.
  package var nested: [[String]: Field] = [:]

  package init(fields: [String: Field], nested: [[String]: Field] = [:]) {
    self.fields = fields
    self.nested = nested
  }

  /// Creates the fields from the lines of a record.
  package init(_ lines: [String]) {
    for line in lines {
      guard let end = line.lastIndex(of: ":") else { continue }
      let kind = line[end...].dropFirst(2)
      let field = Field(
        kind: String(kind.hasSuffix("?") ? kind.dropLast() : kind), isOptional: kind.hasSuffix("?"))
      let path = Self.names(line[..<end])
      if path.count == 1 { fields[path[0]] = field } else { nested[path] = field }
    }
  }

  /// The lines in alphabetical order, empty if there are so many fields that the names are data.
  package var lines: [String] {
    if fields.count > Self.limit { return [] }
    let top = fields.map { "\(Self.text([$0.key])): \($0.value.text)" }
    // Without them, what is inside of the fields is unknown.
    if nested.count > Self.limit { return top.sorted() }
    return (top + nested.map { "\(Self.text($0.key)): \($0.value.text)" }).sorted()
  }

  /// Adds the fields inside of others that an object was written with.
  package mutating func merge(nested other: [[String]: Field]) {
    let parents = Set(other.keys.map { $0.dropLast() })
    for (path, field) in other {
      guard let known = nested[path] else {
        // Stored objects may have what is around the field, without it.
        let isNew = nested.keys.contains {
          $0.count == path.count && $0.dropLast() == path.dropLast()
        }
        nested[path] = Field(kind: field.kind, isOptional: field.isOptional || isNew)
        continue
      }
      nested[path] = Field(
        kind: Field.merged(known.kind, field.kind),
        isOptional: known.isOptional || field.isOptional)
    }
    for path in nested.keys where other[path] == nil && parents.contains(path.dropLast()) {
      nested[path]?.isOptional = true
    }
  }

  // MARK: Paths

  private static func text(_ path: [String]) -> String {
    path.map { name in
      name.contains { $0 == "." || $0 == "\\" }
        ? String(name.flatMap { $0 == "." || $0 == "\\" ? ["\\", $0] : [$0] }) : name
    }.joined(separator: ".")
  }

  private static func names(_ text: Substring) -> [String] {
    guard text.contains(where: { $0 == "." || $0 == "\\" }) else { return [String(text)] }
    var names: [String] = []
    var name = ""
    var rest = text
    while let character = rest.popFirst() {
      switch character {
      case "\\": if let next = rest.popFirst() { name.append(next) }
      case ".":
        names.append(name)
        name = ""
      default: name.append(character)
      }
    }
    return names + [name]
  }
}
