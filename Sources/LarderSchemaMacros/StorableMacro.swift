// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import SwiftSyntax
import SwiftSyntaxBuilder
import SwiftSyntaxMacros

// THE GENERATED CODE
//
// A type with `@Storable` gets its schema, `init(from:)` and `encode(to:)` from one list of its
// stored properties. So what is stored is known without running code of the type. For a structure
// everything is in an extension, so that it keeps its memberwise initialiser; a class needs
// `init(from:)` in its body. A second implementation, in the body or in an extension, is an error.
//
// The code is declared `nonisolated` and names `Swift.Decoder`, so that it compiles in a module whose default
// isolation is the main actor, and in a program whose own types are named `Decoder` or `String`.
//
// Fields are written in the order in which CBOR stores them (RFC 8949, 4.2.1): shorter names
// first, names of one length in byte order. So the encoder need not sort them. They are read in the
// same order, so that the decoder need not search them.

/// The macro `@Storable`.
struct StorableMacro {
  /// The declaration of a type, once it is found to be valid.
  struct Declaration {
    let properties: [StoredPropertyDeclaration]
    let access: String
    let isClass: Bool
  }

  /// Reads a declaration.
  ///
  /// - Parameters:
  ///   - scope: The declarations around it.
  ///   - context: Receives the errors, unless another expansion reports them.
  /// - Returns: The declaration, or `nil` if it has errors.
  static func read(
    _ declaration: some DeclGroupSyntax, _ attribute: AttributeSyntax, in scope: [Syntax],
    _ context: (any MacroExpansionContext)?
  ) -> Declaration? {
    let isClass = declaration.is(ClassDeclSyntax.self)
    guard isClass || declaration.is(StructDeclSyntax.self) else {
      context?.report(
        "kind", at: attribute,
        "@Storable applies to structures and final classes. For a value inside an object use "
          + "@StorableValue.")
      return nil
    }
    let list = StoredPropertyList(declaration.memberBlock, forObject: true, context)
    var isValid = list.isValid
    if let actor = declaration.mainActor {
      isValid = false
      context?.reportMainActor(actor)
    }
    if let type = declaration.as(ClassDeclSyntax.self),
      !type.modifiers.contains(where: {
        $0.name.tokenKind == .keyword(.final)
      })
    {
      isValid = false
      let keyword = type.classKeyword
      context?.report(
        "final", at: keyword,
        "A class with @Storable must be final, because a subclass would be stored without its own "
          + "properties.",
        fix: (
          "Make it final", old: Syntax(keyword),
          new: Syntax(
            keyword.with(\.tokenKind, .identifier("final class")))
        ))
    }
    if !list.declaresID, !declaration.memberBlock.declaresComputed("id") {
      isValid = false
      context?.report(
        "id", at: attribute,
        "A stored type needs a property id: its objects are found by it. Declare one, for example "
          + "let id: UUID.")
    }
    if !declaration.memberBlock.declares("storedName"),
      declaration.modifiers.isPrivate || scope.contains(where: \.isPrivate)
    {
      isValid = false
      context?.report(
        "name", at: attribute,
        "A private type needs a stored name, because another file may declare a private type of its name, "
          + "and they would replace each other's objects. Declare it in the body: "
          + "static let storedName = \"…\".")
    }
    guard isValid else { return nil }
    return Declaration(
      properties: list.properties, access: declaration.modifiers.accessPrefix, isClass: isClass)
  }
}

extension StorableMacro: MemberMacro {
  static func expansion(
    of node: AttributeSyntax, providingMembersOf declaration: some DeclGroupSyntax,
    conformingTo protocols: [TypeSyntax], in context: some MacroExpansionContext
  ) throws -> [DeclSyntax] {
    // The extension reports the errors.
    guard let type = read(declaration, node, in: context.lexicalContext, nil), type.isClass else {
      return []
    }
    return [GeneratedCode(type.properties, "nonisolated " + type.access).decodingInitializer]
  }
}

extension StorableMacro: ExtensionMacro {
  static func expansion(
    of node: AttributeSyntax, attachedTo declaration: some DeclGroupSyntax,
    providingExtensionsOf type: some TypeSyntaxProtocol, conformingTo protocols: [TypeSyntax],
    in context: some MacroExpansionContext
  ) throws -> [ExtensionDeclSyntax] {
    guard let known = read(declaration, node, in: context.lexicalContext, context) else {
      return []
    }
    let code = GeneratedCode(known.properties, known.access)
    var members = [code.codingKeys]
    if !known.isClass { members.append(code.decodingInitializer) }
    members.append(code.encoding)
    members.append(code.schema(of: type.trimmedDescription))
    // Those that the declaration does not name itself.
    let names = ["Storable", "DeclaresSchema"].filter { name in
      protocols.contains { $0.trimmedDescription.split(separator: ".").last == name[...] }
    }
    let clause =
      names.isEmpty
      ? "" : ": " + names.map { "LarderObjects." + $0 }.joined(separator: ", ")
    return [
      try ExtensionDeclSyntax(
        """
        nonisolated extension \(type.trimmed)\(raw: clause) {
        \(raw: members.map(\.description).joined(separator: "\n\n"))
        }
        """)
    ]
  }
}

/// The code that a list of stored properties determines.
struct GeneratedCode {
  private let properties: [StoredPropertyDeclaration]
  private let access: String

  init(_ properties: [StoredPropertyDeclaration], _ access: String) {
    self.properties = properties
    self.access = access
  }

  /// The keys, named as the properties.
  var codingKeys: DeclSyntax {
    // An enumeration without cases has no raw values.
    if properties.isEmpty { return "nonisolated private enum CodingKeys: Swift.CodingKey {}" }
    let cases = properties.map { "case \($0.identifier.text) = \(quoted($0.storedName))" }
    return """
      nonisolated private enum CodingKeys: Swift.String, Swift.CodingKey {
      \(raw: cases.joined(separator: "\n"))
      }
      """
  }

  var decodingInitializer: DeclSyntax {
    let lines = properties.sorted(by: Self.isStoredFirst).map { property in
      let fallback = property.fallback.map { ", default: \($0)" } ?? ""
      return
        "self.\(property.variableName) = try fields.value(.\(property.identifier.text)\(fallback))"
    }
    if lines.isEmpty {
      return """
        \(raw: access)init(from decoder: any Swift.Decoder) throws {
        _ = try LarderObjects.StoredFieldsDecoder(decoder, keyedBy: CodingKeys.self)
        }
        """
    }
    return """
      \(raw: access)init(from decoder: any Swift.Decoder) throws {
      let fields = try LarderObjects.StoredFieldsDecoder(decoder, keyedBy: CodingKeys.self)
      \(raw: lines.joined(separator: "\n"))
      }
      """
  }

  var encoding: DeclSyntax {
    let lines = properties.sorted(by: Self.isStoredFirst).map { property in
      let keepsNil = property.initializer != nil ? ", keepsNil: true" : ""
      return
        "try fields.set(.\(property.identifier.text), self.\(property.variableName)\(keepsNil))"
    }
    if lines.isEmpty {
      return """
        \(raw: access)func encode(to encoder: any Swift.Encoder) throws {
        _ = LarderObjects.StoredFieldsEncoder(encoder, keyedBy: CodingKeys.self)
        }
        """
    }
    return """
      \(raw: access)func encode(to encoder: any Swift.Encoder) throws {
      var fields = LarderObjects.StoredFieldsEncoder(encoder, keyedBy: CodingKeys.self)
      \(raw: lines.joined(separator: "\n"))
      }
      """
  }

  /// The properties of a value inside objects.
  var storedFields: DeclSyntax {
    let fields = properties.map { property in
      let fallback =
        property.literal.map { ", default: \(quoted($0.description))" }
        ?? (property.initializer == nil ? "" : ", isComputed: true")
      return ".init(\(quoted(property.storedName)), \(quoted(property.plainName)), "
        + "\\Self.\(property.identifier.text)\(fallback)),"
    }
    return """
      \(raw: access)static var storedFields: [LarderObjects.StorableValueField] {
      [
      \(raw: fields.joined(separator: "\n"))
      ]
      }
      """
  }

  func schema(of type: String) -> DeclSyntax {
    let fields = properties.map { property in
      if property.isReference {
        let path = "\(type).\(property.identifier.text)"
        return
          ".reference(\(quoted(property.storedName)), \\\(path), \\\(type).$\(property.plainName))"
      }
      if property.isWrapped { return ".opaque(\(quoted(property.storedName)))" }
      let fallback = property.literal.map { ", default: \($0)" } ?? ""
      let function = property.initializer != nil && property.literal == nil ? "computed" : "field"
      return
        ".\(function)(\(quoted(property.storedName)), \\\(type).\(property.identifier.text)\(fallback))"
    }
    let indexes = properties.filter { $0.isIndexed || $0.isUnique }.map { property in
      let unique = property.isUnique ? ", unique: true" : ""
      return
        "LarderObjects.Index(\(quoted(property.storedName)), \\\(type).\(property.identifier.text)\(unique))"
    }
    let observers =
      properties.contains { $0.binding.accessorBlock != nil } ? ", hasObservers: true" : ""
    return """
      \(raw: access)static var schema: LarderObjects.ObjectSchema<\(raw: type)> {
      LarderObjects.ObjectSchema(
      [
      \(raw: fields.map { $0 + "," }.joined(separator: "\n"))
      ],
      indexes: [\(raw: indexes.joined(separator: ", "))]\(raw: observers))
      }
      """
  }

  /// The order of keys in CBOR.
  private static func isStoredFirst(
    _ left: StoredPropertyDeclaration, _ right: StoredPropertyDeclaration
  ) -> Bool {
    let (first, second) = (Array(left.storedName.utf8), Array(right.storedName.utf8))
    return first.count == second.count
      ? first.lexicographicallyPrecedes(second) : first.count < second.count
  }

  private func quoted(_ text: String) -> String {
    StringLiteralExprSyntax(content: text).description
  }
}

extension DeclModifierListSyntax {
  /// The access level of members that the type's conformance needs, with a space.
  var accessPrefix: String {
    for modifier in self {
      switch modifier.name.tokenKind {
      case .keyword(.public), .keyword(.open): return "public "
      case .keyword(.package): return "package "
      case .keyword(.fileprivate), .keyword(.private): return "fileprivate "
      default: continue
      }
    }
    return ""
  }
}

extension DeclModifierListSyntax {
  /// Whether the declaration can be named in its file only.
  fileprivate var isPrivate: Bool {
    contains { modifier in
      modifier.detail == nil
        && [.keyword(.fileprivate), .keyword(.private)].contains(modifier.name.tokenKind)
    }
  }
}

extension Syntax {
  /// Whether a declaration inside of this one can be named in its file only.
  fileprivate var isPrivate: Bool {
    if let group = asProtocol((any DeclGroupSyntax).self) { return group.modifiers.isPrivate }
    return self.is(FunctionDeclSyntax.self) || self.is(ClosureExprSyntax.self)
  }
}

extension DeclGroupSyntax {
  /// The attribute that isolates a type to the main actor, or `nil` without one.
  var mainActor: AttributeSyntax? {
    for element in attributes {
      guard let attribute = element.as(AttributeSyntax.self) else { continue }
      let name = attribute.attributeName.trimmedDescription.split(separator: ".").last
      if name == "MainActor" { return attribute }
    }
    return nil
  }
}

extension MacroExpansionContext {
  /// Reports that a type is isolated to the main actor.
  func reportMainActor(_ attribute: AttributeSyntax) {
    report(
      "actor", at: attribute,
      "A store reads and writes values on other threads than that of the main actor. Delete "
        + "@MainActor.")
  }
}

extension MemberBlockSyntax {
  /// Whether the type declares a static property with a name.
  fileprivate func declares(_ name: String) -> Bool {
    members.contains { member in
      member.decl.as(VariableDeclSyntax.self)?.bindings.contains {
        $0.pattern.trimmedDescription == name
      } ?? false
    }
  }

  /// Whether the type declares a computed property with a name.
  fileprivate func declaresComputed(_ name: String) -> Bool {
    members.contains { member in
      member.decl.as(VariableDeclSyntax.self)?.bindings.contains {
        $0.pattern.trimmedDescription == name && !$0.isStored
      } ?? false
    }
  }
}

/// The macros of properties, which only mark what `@Storable` reads.
struct PropertyMarker: PeerMacro {
  static func expansion(
    of node: AttributeSyntax, providingPeersOf declaration: some DeclSyntaxProtocol,
    in context: some MacroExpansionContext
  ) throws -> [DeclSyntax] {
    guard declaration.is(VariableDeclSyntax.self) else {
      context.report(
        "marker", at: node,
        "@\(node.attributeName.trimmedDescription) applies to stored properties only.")
      return []
    }
    return []
  }
}
#endif
