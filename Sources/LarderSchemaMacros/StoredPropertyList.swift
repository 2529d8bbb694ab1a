// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import SwiftSyntax
import SwiftSyntaxMacros

/// A stored property of a declaration.
struct StoredPropertyDeclaration {
  /// The name as it is written, with backticks.
  let identifier: TokenSyntax
  /// The name under which the property is stored.
  let storedName: String
  let binding: PatternBindingSyntax
  let variable: VariableDeclSyntax
  /// Whether a property wrapper stores the value.
  let isWrapped: Bool
  /// Whether the wrapper is a reference to other objects.
  let isReference: Bool
  /// The arguments that are written after the wrapper's name.
  let wrapperArguments: String
  let isIndexed: Bool
  let isUnique: Bool

  /// The initial value, or `nil` without one. The literal `nil` does not count: an optional
  /// property has this value in any case if its field is missing.
  var initializer: ExprSyntax? {
    guard let value = binding.initializer?.value.trimmed, !value.is(NilLiteralExprSyntax.self)
    else { return nil }
    return value
  }

  /// The value of the stored variable if its field is missing: the initial value, in its wrapper if there is one, or
  /// in the declared type. Without that, the value of a generic call would be that of the expression, which is not
  /// optional where only the property is.
  var fallback: String? {
    guard let initializer else { return nil }
    if isWrapped {
      let arguments = wrapperArguments.isEmpty ? "" : ", " + wrapperArguments
      return ".init(wrappedValue: \(initializer)\(arguments))"
    }
    guard let type = binding.typeAnnotation?.type else { return "\(initializer)" }
    let optional = type.as(ImplicitlyUnwrappedOptionalTypeSyntax.self)
    let name = optional.map { "\($0.wrappedType.trimmed)?" } ?? "\(type.trimmed)"
    return "(\(initializer)) as \(name)"
  }

  /// The name of the stored variable: that of the wrapper, if there is one.
  var variableName: String { isWrapped ? "_\(plainName)" : identifier.text }

  var plainName: String { identifier.text.trimmingBackticks }

  /// The literal that initialises the property. Other expressions may give another value each
  /// time, so the value of a missing field is unknown to queries.
  var literal: ExprSyntax? { initializer.flatMap { $0.isConstantLiteral ? $0 : nil } }
}

extension String {
  var trimmingBackticks: String {
    count > 2 && hasPrefix("`") && hasSuffix("`") ? String(dropFirst().dropLast()) : self
  }
}

extension ExprSyntax {
  /// Whether the expression is a literal without parts that are computed.
  fileprivate var isConstantLiteral: Bool {
    if let text = self.as(StringLiteralExprSyntax.self) {
      return text.segments.allSatisfy { $0.is(StringSegmentSyntax.self) }
    }
    if let prefix = self.as(PrefixOperatorExprSyntax.self) {
      return prefix.operator.text == "-"
        && (prefix.expression.is(IntegerLiteralExprSyntax.self)
          || prefix.expression.is(FloatLiteralExprSyntax.self))
    }
    if let array = self.as(ArrayExprSyntax.self) { return array.elements.isEmpty }
    return self.is(IntegerLiteralExprSyntax.self) || self.is(FloatLiteralExprSyntax.self)
      || self.is(BooleanLiteralExprSyntax.self)
  }
}

/// The stored properties of a declaration, and the errors in it.
struct StoredPropertyList {
  private(set) var properties: [StoredPropertyDeclaration] = []
  private(set) var isValid = true
  /// Whether a property `id` is declared, stored or not.
  private(set) var declaresID = false

  /// Whether the type is that of an object, which is found by its `id`.
  private let forObject: Bool

  /// Reads the members of a type.
  ///
  /// - Parameters:
  ///   - members: The members of the declaration.
  ///   - forObject: Whether the type is that of an object, with an `id`, or of a value in one.
  ///   - context: Receives the errors, or `nil` to report none.
  init(
    _ members: MemberBlockSyntax, forObject: Bool, _ context: (any MacroExpansionContext)?
  ) {
    self.forObject = forObject
    for member in members.members {
      guard let variable = member.decl.as(VariableDeclSyntax.self) else {
        requireGenerated(member.decl, context)
        continue
      }
      if !variable.isStatic { add(variable, context) }
    }
    requireUniqueNames(context)
  }

  private mutating func fail(
    _ context: (any MacroExpansionContext)?, _ id: String, at node: some SyntaxProtocol,
    _ message: String, fix: (String, old: Syntax, new: Syntax)? = nil
  ) {
    isValid = false
    context?.report(id, at: node, message, fix: fix)
  }

  /// Reports a member that the macro generates.
  private mutating func requireGenerated(
    _ member: DeclSyntax, _ context: (any MacroExpansionContext)?
  ) {
    var name: String?
    if let initializer = member.as(InitializerDeclSyntax.self) {
      let labels = initializer.signature.parameterClause.parameters.map(\.firstName.text)
      if labels == ["from"] { name = "init(from:)" }
    } else if let function = member.as(FunctionDeclSyntax.self) {
      let labels = function.signature.parameterClause.parameters.map(\.firstName.text)
      if function.name.text == "encode", labels == ["to"] { name = "encode(to:)" }
    } else if let conditional = member.as(IfConfigDeclSyntax.self) {
      requireUnconditional(conditional, context)
    } else if let keys = member.as(EnumDeclSyntax.self), keys.name.text == "CodingKeys" {
      name = "CodingKeys"
    }
    guard let name else { return }
    fail(
      context, "generated", at: member,
      "The macro generates \(name), so that the stored form is known. Delete this declaration; "
        + "or delete the macro, and conform to \(forObject ? "Storable" : "Codable & Sendable") with it."
    )
  }

  /// Reports a stored property inside `#if`: the macro sees it, whatever the condition is.
  private mutating func requireUnconditional(
    _ conditional: IfConfigDeclSyntax, _ context: (any MacroExpansionContext)?
  ) {
    for clause in conditional.clauses {
      guard case .decls(let members) = clause.elements else { continue }
      for member in members {
        guard let variable = member.decl.as(VariableDeclSyntax.self),
          variable.bindings.contains(where: \.isStored), !variable.isStatic
        else { continue }
        fail(
          context, "conditional", at: variable,
          "A stored property cannot be conditional: programs of both conditions share the store. "
            + "Move it out of #if.")
      }
    }
  }

  private mutating func add(
    _ variable: VariableDeclSyntax, _ context: (any MacroExpansionContext)?
  ) {
    let attributes = PropertyAttributes(variable)
    for binding in variable.bindings where binding.isStored {
      guard let pattern = binding.pattern.as(IdentifierPatternSyntax.self) else {
        fail(
          context, "pattern", at: binding,
          "A tuple of properties cannot be stored. Declare each property by itself.")
        continue
      }
      let isID = pattern.identifier.text.trimmingBackticks == "id"
      declaresID = declaresID || isID
      if attributes.isTransient {
        requireTransient(binding, attributes, variable, isID: isID, context)
        continue
      }
      guard isStorable(variable, binding, pattern, context) else { continue }
      let name = attributes.storedName(pattern.identifier.text.trimmingBackticks)
      guard let name, !name.isEmpty else {
        fail(
          context, "name", at: variable,
          "The stored name must be a string literal that is not empty, without interpolation.")
        continue
      }
      properties.append(
        StoredPropertyDeclaration(
          identifier: pattern.identifier.trimmed, storedName: name, binding: binding,
          variable: variable, isWrapped: attributes.isWrapped,
          isReference: attributes.isReference, wrapperArguments: attributes.wrapperArguments,
          isIndexed: attributes.isIndexed, isUnique: attributes.isUnique))
    }
    if !attributes.marks.isEmpty, !variable.bindings.contains(where: \.isStored) {
      fail(
        context, "computed", at: variable,
        "A computed property is not stored. Index it in static let indexes, with a name in "
          + "computedProperties.")
    }
  }

  private mutating func requireTransient(
    _ binding: PatternBindingSyntax, _ attributes: PropertyAttributes,
    _ variable: VariableDeclSyntax, isID: Bool, _ context: (any MacroExpansionContext)?
  ) {
    if isID, forObject {
      fail(
        context, "transient-id", at: variable,
        "An object is stored under its id, so @Transient does not apply. Delete @Transient.")
      return
    }
    if let mark = attributes.marks.first(where: { $0 != "Transient" }) {
      fail(
        context, "transient-mark", at: variable,
        "A transient property is not stored, so @\(mark) does not apply. Delete one of the two.")
    }
    let isOptional = binding.isOptional && variable.bindingSpecifier.tokenKind == .keyword(.var)
    if binding.initializer == nil, !isOptional {
      fail(
        context, "transient-default", at: binding,
        "A transient property is not stored, so a loaded object needs a value for it. Give it a "
          + "default.")
    }
  }

  private mutating func isStorable(
    _ variable: VariableDeclSyntax, _ binding: PatternBindingSyntax,
    _ pattern: IdentifierPatternSyntax, _ context: (any MacroExpansionContext)?
  ) -> Bool {
    if variable.modifiers.contains(where: { $0.name.tokenKind == .keyword(.lazy) }) {
      fail(
        context, "lazy", at: variable,
        "A lazy property cannot be stored. Make it a computed property.")
      return false
    }
    if variable.modifiers.contains(where: {
      [.keyword(.weak), .keyword(.unowned)].contains($0.name.tokenKind)
    }) {
      fail(
        context, "weak", at: variable,
        "A weak or unowned reference cannot be stored. Use @HasOne, or mark it @Transient with a "
          + "default.")
      return false
    }
    if Self.reserved.contains(pattern.identifier.text.trimmingBackticks) {
      fail(
        context, "reserved", at: variable,
        "A key path cannot lead to a property named \(pattern.identifier.text.trimmingBackticks). Choose another "
          + "name, and keep the stored one with @Attribute(name:).")
      return false
    }
    if let type = binding.typeAnnotation?.type, type.isFunction {
      fail(
        context, "function", at: binding,
        "A function cannot be stored. Mark the property @Transient, with a default.")
      return false
    }
    let isConstant = variable.bindingSpecifier.tokenKind == .keyword(.let)
    if isConstant, forObject, pattern.identifier.text == "id", binding.initializer != nil {
      fail(
        context, "constant-id", at: variable,
        "The constant id has a value already, so all objects would have the same id. Declare its type "
          + "only, for example let id: String.")
      return false
    }
    if isConstant, binding.initializer != nil {
      let specifier = variable.bindingSpecifier
      fail(
        context, "constant", at: variable,
        "The constant \(pattern.identifier.text) has a value already, so the stored one cannot be "
          + "loaded. Declare it with var, or mark it @Transient.",
        fix: (
          "Declare it with var", old: Syntax(specifier),
          new: Syntax(specifier.with(\.tokenKind, .keyword(.var)))
        ))
      return false
    }
    return true
  }

  /// The names that the compiler takes for a metatype in a key path.
  private static let reserved: Set<String> = ["Type", "Protocol"]

  private mutating func requireUniqueNames(_ context: (any MacroExpansionContext)?) {
    var seen: [String: String] = [:]
    for property in properties {
      if let other = seen.updateValue(property.plainName, forKey: property.storedName) {
        fail(
          context, "duplicate", at: property.variable,
          "The properties \(other) and \(property.plainName) are both stored as "
            + "\"\(property.storedName)\". Choose another name.")
      }
    }
  }
}

extension VariableDeclSyntax {
  fileprivate var isStatic: Bool {
    modifiers.contains {
      $0.name.tokenKind == .keyword(.static) || $0.name.tokenKind == .keyword(.class)
    }
  }
}

extension PatternBindingSyntax {
  /// Whether the binding stores a value: it has no accessors, or observers only.
  var isStored: Bool {
    guard let accessors = accessorBlock?.accessors else { return true }
    guard case .accessors(let list) = accessors else { return false }
    return list.allSatisfy {
      [.keyword(.willSet), .keyword(.didSet)].contains($0.accessorSpecifier.tokenKind)
    }
  }

  /// Whether the declared type is written as an optional.
  var isOptional: Bool {
    guard let type = typeAnnotation?.type else { return false }
    return type.is(OptionalTypeSyntax.self)
      || type.is(ImplicitlyUnwrappedOptionalTypeSyntax.self)
      || type.as(IdentifierTypeSyntax.self)?.name.text == "Optional"
  }
}

extension TypeSyntax {
  fileprivate var isFunction: Bool {
    if self.is(FunctionTypeSyntax.self) { return true }
    if let attributed = self.as(AttributedTypeSyntax.self) {
      return attributed.baseType.isFunction
    }
    if let optional = self.as(OptionalTypeSyntax.self) { return optional.wrappedType.isFunction }
    guard let tuple = self.as(TupleTypeSyntax.self), tuple.elements.count == 1 else {
      return false
    }
    return tuple.elements.first!.type.isFunction
  }
}

/// The attributes of a property that concern its storage.
struct PropertyAttributes {
  /// The attributes of this library on the property.
  private(set) var marks: [String] = []
  private(set) var isWrapped = false
  private(set) var isReference = false
  private(set) var wrapperArguments = ""
  private var name: String??

  var isIndexed: Bool { marks.contains("Indexed") }
  var isUnique: Bool { marks.contains("Unique") }
  var isTransient: Bool { marks.contains("Transient") }

  init(_ variable: VariableDeclSyntax) {
    for element in variable.attributes {
      guard let attribute = element.as(AttributeSyntax.self) else { continue }
      let name = attribute.attributeName.trimmedDescription.split(separator: ".").last ?? ""
      switch name.prefix(while: { $0 != "<" }) {
      case "Attribute":
        marks.append("Attribute")
        self.name = .some(attribute.nameArgument)
      case "Indexed", "Unique", "Transient": marks.append(String(name))
      case "HasOne", "HasMany": (isWrapped, isReference) = (true, true)
      case "available", "usableFromInline", "inlinable", "MainActor": break
      default:
        guard name.first?.isUppercase == true else { continue }
        isWrapped = true
        if case .argumentList(let arguments) = attribute.arguments {
          wrapperArguments = arguments.trimmedDescription
        }
      }
    }
  }

  /// Returns the stored name of a property, or `nil` if the declared name is not a string literal.
  func storedName(_ property: String) -> String? { name ?? property }
}

extension AttributeSyntax {
  /// The value of the argument `name`, if it is a literal.
  fileprivate var nameArgument: String? {
    guard case .argumentList(let arguments) = arguments,
      let argument = arguments.first(where: { $0.label?.text == "name" }),
      let text = argument.expression.as(StringLiteralExprSyntax.self)
    else { return nil }
    let segments = text.segments.compactMap { $0.as(StringSegmentSyntax.self)?.content.text }
    let name = segments.joined()
    return segments.count == text.segments.count && !name.contains("\\") ? name : nil
  }
}
#endif
