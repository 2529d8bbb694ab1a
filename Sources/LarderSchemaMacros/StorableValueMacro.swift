// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import SwiftSyntax
import SwiftSyntaxBuilder
import SwiftSyntaxMacros

/// The macro `@StorableValue`, for the values inside objects.
///
/// A structure gets the same code as a stored type, without a schema. An enumeration with raw
/// values is stored as its raw value. Any other enumeration is stored as the compiler's own
/// conformance to `Codable` stores it: a map from the name of the case to its associated values.
struct StorableValueMacro: ExtensionMacro {
  static func expansion(
    of node: AttributeSyntax, attachedTo declaration: some DeclGroupSyntax,
    providingExtensionsOf type: some TypeSyntaxProtocol, conformingTo protocols: [TypeSyntax],
    in context: some MacroExpansionContext
  ) throws -> [ExtensionDeclSyntax] {
    if let actor = declaration.mainActor {
      context.reportMainActor(actor)
      return []
    }
    if let enumeration = declaration.as(EnumDeclSyntax.self) {
      if let raw = enumeration.inheritanceClause?.inheritedTypes.first?.type,
        raw.trimmedDescription == "Character"
      {
        context.report(
          "raw", at: raw, "A Character cannot be stored. Use String as the type of the raw values.",
          fix: (
            "Use String", old: Syntax(raw),
            new: Syntax(TypeSyntax("String").with(\.trailingTrivia, raw.trailingTrivia))
          ))
        return []
      }
      return [try expansion(of: enumeration, type)]
    }
    guard declaration.is(StructDeclSyntax.self) else {
      context.report(
        "kind", at: node,
        "@StorableValue applies to structures and enumerations. For an object with an id use "
          + "@Storable.")
      return []
    }
    let list = StoredPropertyList(declaration.memberBlock, forObject: false, context)
    let indexed = list.properties.filter { $0.isIndexed || $0.isUnique }
    for property in indexed {
      context.report(
        "value-index", at: property.variable,
        "A value inside an object has no index. Declare it in the object's static let indexes, "
          + "with a path such as \\Car.engine.power.")
    }
    guard list.isValid, indexed.isEmpty else { return [] }
    let code = GeneratedCode(list.properties, declaration.modifiers.accessPrefix)
    let members = [
      code.codingKeys, code.decodingInitializer, code.encoding, code.storedFields,
    ]
    return [
      try ExtensionDeclSyntax(
        """
        nonisolated extension \(type.trimmed): LarderObjects.StorableValue {
        \(raw: members.map(\.description).joined(separator: "\n\n"))
        }
        """)
    ]
  }

  private static func expansion(
    of declaration: EnumDeclSyntax, _ type: some TypeSyntaxProtocol
  ) throws -> ExtensionDeclSyntax {
    guard declaration.hasRawValues else {
      return try ExtensionDeclSyntax(
        "nonisolated extension \(type.trimmed): LarderObjects.StorableValue {}")
    }
    let access = declaration.modifiers.accessPrefix
    return try ExtensionDeclSyntax(
      """
      nonisolated extension \(type.trimmed): LarderObjects.StorableValue, LarderObjects.StorableRawValue {
      \(raw: access)init(from decoder: any Swift.Decoder) throws {
      self = try LarderObjects.StoredFields.rawValue(Self.self, from: decoder)
      }

      \(raw: access)func encode(to encoder: any Swift.Encoder) throws {
      try LarderObjects.StoredFields.encode(rawValueOf: self, to: encoder)
      }
      }
      """)
  }
}

extension EnumDeclSyntax {
  /// Whether the cases have raw values: the first inherited type is then the type of the raw
  /// values. An enumeration whose cases have associated values has none.
  fileprivate var hasRawValues: Bool {
    let rawTypes: Set<String> = [
      "String", "Int", "Int8", "Int16", "Int32", "Int64", "UInt", "UInt8", "UInt16", "UInt32",
      "UInt64", "Double", "Float",
    ]
    guard let first = inheritanceClause?.inheritedTypes.first else { return false }
    let name = first.type.trimmedDescription
    return rawTypes.contains(name.hasPrefix("Swift.") ? String(name.dropFirst(6)) : name)
  }
}
#endif
