// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The Swift source of a declaration, with the conformance that the program needs to work with any type.

extension Declaration {
  /// The declaration alone.
  var text: String {
    let access = isPrivate ? "private " : ""
    var lines = fields.flatMap { $0.shape.declarations(access, isMacro: isMacro) }
    lines.append(
      isMacro ? "@Storable \(access)struct \(name) {" : "\(access)struct \(name): Storable {")
    lines.append("  let id: Int")
    for field in fields { lines.append("  " + field.line(inMacro: isMacro)) }
    if let storedName { lines.append("  static let storedName = \"\(storedName)\"") }
    if version > 1 { lines.append("  static let schemaVersion = \(version)") }
    if !indexes.isEmpty {
      lines.append("  static let indexes: [Index<\(name)>] = [")
      for index in indexes { lines.append("    \(source(of: index)),") }
      lines.append("  ]")
    }
    if !isMacro {
      lines.append("  enum CodingKeys: String, CodingKey {\n    case id")
      for field in fields { lines.append("    case \(field.property) = \"\(field.stored)\"") }
      lines.append("  }")
    }
    lines.append("  init(_ id: Int, _ values: [String: Value]) {\n    self.id = id")
    for field in fields {
      let value = "values[\"\(field.stored)\"]!"
      if field.shape == .reference {
        lines.append("    _\(field.property) = HasOne(id: Int?(\(value)))")
      } else {
        lines.append("    \(field.property) = \(field.shape.initializer)(\(value))")
      }
    }
    lines.append("  }\n}")
    return lines.joined(separator: "\n")
  }

  /// A source file of a program.
  func file(_ number: Int) -> String {
    let access = isPrivate ? "private " : ""
    var lines = ["import Foundation", "import LarderSchema", "", text, ""]
    lines.append("extension \(name): Subject {")
    lines.append("  \(isPrivate ? "fileprivate " : "")var view: [String: Value] {")
    let values = fields.map { field in
      field.shape == .reference
        ? "\"\(field.stored)\": $\(field.property).id.flatMap { Int($0) }.wire"
        : "\"\(field.stored)\": \(field.property).wire"
    }
    lines.append("    [\(values.joined(separator: ", "))]\n  }")
    lines.append(
      "  \(isPrivate ? "fileprivate " : "")static var properties: [Property<\(name)>] {\n    [")
    for field in fields { lines += property(field).map { "      \($0)," } }
    for index in indexes where index.kind == .text {
      let texts = index.fields.map { stored -> String in
        let field = field(stored)!
        return switch field.shape {
        case .list: "$0.\(field.property)"
        case .optional: "[$0.\(field.property) ?? \"\"]"
        default: "[$0.\(field.property)]"
        }
      }
      lines.append("      .text(\"\(index.name)\") { \(texts.joined(separator: " + ")) },")
    }
    lines.append("    ]\n  }")
    if let step, let storedName {
      let call =
        switch step {
        case .rename(let old, let new): "renameField(\"\(old)\", to: \"\(new)\""
        case .add(let name, let value): "addField(\"\(name)\", default: \(value.source)"
        case .remove(let name): "removeField(\"\(name)\""
        }
      lines.append("  \(isPrivate ? "fileprivate " : "")static var migrations: [ObjectMigration] {")
      lines.append("    [.\(call), in: \"\(storedName)\", toVersion: \(version))]\n  }")
    }
    lines.append("}\n")
    for shape in fields.map(\.shape) { lines += shape.conformances(access) }
    lines.append("func handler\(number)() -> any Handler { TypeHandler<\(name)>() }")
    return lines.joined(separator: "\n") + "\n"
  }

  private func property(_ field: Field) -> [String] {
    let path = "\\\(name).\(field.property)"
    let name = "\"\(field.stored)\", \(path)"
    switch field.shape {
    case .reference:
      return [
        ".reference(\"\(field.stored)\", \\\(self.name).$\(field.property)) { $0._\(field.property) = "
          + "HasOne(id: Int?($1)) }"
      ]
    case .string: return [".string(\(name)).writable(\(path))"]
    case .optional(let shape) where shape.isScalar: return [".optional(\(name)).writable(\(path))"]
    case .list(.int), .list(.string): return [".list(\(name)).writable(\(path))"]
    case .nested(_, let members):
      return [".value(\(name)).writable(\(path))"]
        + members.compactMap { member(path, $0, of: field, isOptional: false) }
    case .optional(.nested(_, let members)):
      return [".value(\(name)).writable(\(path))"]
        + members.compactMap { member(path + "?", $0, of: field, isOptional: true) }
    case let shape where shape.isScalar: return [".scalar(\(name)).writable(\(path))"]
    default: return [".value(\(name)).writable(\(path))"]
    }
  }

  /// Returns a property of a value, for conditions only.
  private func member(
    _ path: String, _ member: Field, of field: Field, isOptional: Bool
  ) -> String? {
    guard member.shape.required.isScalar else { return nil }
    let function = isOptional || member.shape.isOptional ? "optional" : "scalar"
    return ".\(function)(\"\(field.stored).\(member.stored)\", \(path).\(member.property))"
  }

  private func source(of index: IndexDeclaration) -> String {
    let fields = index.fields.map { field($0)! }
    let paths = fields.map { "\\\(name).\($0.property)" }
    let start = "Index<\(name)>(\"\(index.name)\", "
    switch index.kind {
    case .compound:
      return start + paths.joined(separator: ", ") + (index.isUnique ? ", unique: true)" : ")")
    case .each: return start + "each: \(paths[0]))"
    case .text: return start + "fullText: \(paths.joined(separator: ", ")))"
    case .partial(let value):
      let constant = if case .int(let number) = value { "\(number)" } else { value.quoted }
      return start + "\(paths[1]), where: \(paths[0]) == \(constant))"
    case .member(let stored):
      guard case .nested(_, let members) = fields[0].shape.required else { fatalError() }
      let mark = fields[0].shape.isOptional ? "?" : ""
      return start + "\(paths[0])\(mark).\(members.first { $0.stored == stored }!.property))"
    }
  }
}

extension Value {
  fileprivate var quoted: String { if case .text(let text) = self { "\"\(text)\"" } else { "" } }
}

extension Field {
  fileprivate func line(inMacro: Bool) -> String {
    var line = ""
    if inMacro {
      if stored != property { line += "@Attribute(name: \"\(stored)\") " }
      if isUnique { line += "@Unique " } else if isIndexed { line += "@Indexed " }
    }
    if shape == .reference { line += "@HasOne " }
    line += "var \(property): \(shape.source)"
    if let fallback { line += " = \(fallback.source)" }
    return line
  }
}

extension Shape {
  /// The beginning of a call that makes a value.
  fileprivate var initializer: String {
    switch self {
    case .optional(let shape): "Optional<\(shape.source)>"
    case .list(let shape): "Array<\(shape.source)>"
    case .dictionary: "Dictionary<String, Int>"
    default: source
    }
  }

  /// The enumerations and structures that it consists of.
  fileprivate func declarations(_ access: String, isMacro: Bool) -> [String] {
    switch self {
    case .optional(let shape), .list(let shape):
      return shape.declarations(access, isMacro: isMacro)
    case .choice(let name, let ofText, let cases):
      let list = (0..<cases).map { ofText ? "c\($0)" : "c\($0) = \($0)" }.joined(separator: ", ")
      return ["@StorableValue \(access)enum \(name): \(ofText ? "String" : "Int") { case \(list) }"]
    case .nested(let name, let fields):
      let inner = fields.flatMap { $0.shape.declarations(access, isMacro: isMacro) }
      let lines = fields.map { "  " + $0.line(inMacro: true) }
      let values = fields.map { field in
        "    \(field.property) = \(field.shape.initializer)(values[\"\(field.stored)\"]!)"
      }
      return inner
        + ["@StorableValue \(access)struct \(name): Hashable {"] + lines
        + [
          "  init(_ value: Value) {",
          "    guard case .map(let values) = value else { fatalError() }",
        ]
        + values + ["  }\n}"]
    default: return []
    }
  }

  fileprivate func conformances(_ access: String) -> [String] {
    let modifier = access.isEmpty ? "" : "fileprivate "
    switch self {
    case .optional(let shape), .list(let shape): return shape.conformances(access)
    case .choice(let name, _, _): return ["extension \(name): Wire {}"]
    case .nested(let name, let fields):
      let values = fields.map { "\"\($0.stored)\": \($0.property).wire" }
      return fields.flatMap { $0.shape.conformances(access) } + [
        "extension \(name): Wire {",
        "  \(modifier)var wire: Value { .map([\(values.joined(separator: ", "))]) }", "}",
      ]
    default: return []
    }
  }
}
