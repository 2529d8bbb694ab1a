// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A plugin runs on the machine that compiles. A test that depended on it would be built for that
// machine too, and with it a second copy of every module; so what can be tested is the library
// LarderSchemaExpansion. The compiler finds a macro by the name of a type of this module.

#if Macros
  import LarderSchemaExpansion
  import SwiftCompilerPlugin
  import SwiftSyntax
  import SwiftSyntaxMacros

  /// The compiler plugin with the macros that `LarderSchema` declares.
  @main
  struct SchemaPlugin: CompilerPlugin {
    let providingMacros: [any Macro.Type] = [
      StorableMacro.self, StorableValueMacro.self, PropertyMarker.self,
    ]
  }

  /// The macro `@Storable`.
  struct StorableMacro: MemberMacro, ExtensionMacro {
    static func expansion(
      of node: AttributeSyntax, providingMembersOf declaration: some DeclGroupSyntax,
      conformingTo protocols: [TypeSyntax], in context: some MacroExpansionContext
    ) throws -> [DeclSyntax] {
      try StorableExpansion.expansion(
        of: node, providingMembersOf: declaration, conformingTo: protocols, in: context)
    }

    static func expansion(
      of node: AttributeSyntax, attachedTo declaration: some DeclGroupSyntax,
      providingExtensionsOf type: some TypeSyntaxProtocol, conformingTo protocols: [TypeSyntax],
      in context: some MacroExpansionContext
    ) throws -> [ExtensionDeclSyntax] {
      try StorableExpansion.expansion(
        of: node, attachedTo: declaration, providingExtensionsOf: type, conformingTo: protocols,
        in: context)
    }
  }

  /// The macro `@StorableValue`.
  struct StorableValueMacro: ExtensionMacro {
    static func expansion(
      of node: AttributeSyntax, attachedTo declaration: some DeclGroupSyntax,
      providingExtensionsOf type: some TypeSyntaxProtocol, conformingTo protocols: [TypeSyntax],
      in context: some MacroExpansionContext
    ) throws -> [ExtensionDeclSyntax] {
      try StorableValueExpansion.expansion(
        of: node, attachedTo: declaration, providingExtensionsOf: type, conformingTo: protocols,
        in: context)
    }
  }

  /// The macros of properties.
  struct PropertyMarker: PeerMacro {
    static func expansion(
      of node: AttributeSyntax, providingPeersOf declaration: some DeclSyntaxProtocol,
      in context: some MacroExpansionContext
    ) throws -> [DeclSyntax] {
      try MarkerExpansion.expansion(of: node, providingPeersOf: declaration, in: context)
    }
  }
#else
  /// Nothing without the trait Macros: the target must have an entry point.
  @main
  struct SchemaPlugin {
    static func main() {}
  }
#endif
