// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import SwiftDiagnostics
import SwiftSyntax
import SwiftSyntaxMacros

/// An error in a declaration, with an optional change that corrects it.
struct SchemaDiagnostic: DiagnosticMessage {
  let message: String
  let id: String

  var severity: DiagnosticSeverity { .error }
  var diagnosticID: MessageID { MessageID(domain: "LarderSchema", id: id) }
}

/// The description of a change that corrects an error.
struct SchemaFix: FixItMessage {
  let message: String
  let id: String

  var fixItID: MessageID { MessageID(domain: "LarderSchema", id: id) }
}

extension MacroExpansionContext {
  /// Reports an error at a node.
  ///
  /// - Parameters:
  ///   - id: The identifier of the kind of error.
  ///   - node: The node in the source.
  ///   - message: A sentence that names the cause and the remedy.
  ///   - fix: A change of the source that corrects the error: its description, the node and the
  ///     node to put in its place.
  func report(
    _ id: String, at node: some SyntaxProtocol, _ message: String,
    fix: (String, old: Syntax, new: Syntax)? = nil
  ) {
    let fixes = fix.map { fix in
      [
        FixIt(
          message: SchemaFix(message: fix.0, id: id),
          changes: [.replace(oldNode: fix.old, newNode: fix.new)])
      ]
    }
    diagnose(
      Diagnostic(
        node: node, message: SchemaDiagnostic(message: message, id: id), fixIts: fixes ?? []))
  }
}
#endif
