// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
  import SwiftCompilerPlugin
  import SwiftSyntaxMacros

  /// The compiler plugin with the macros that `LarderSchema` declares.
  @main
  struct SchemaPlugin: CompilerPlugin {
    let providingMacros: [any Macro.Type] = [
      StorableMacro.self, StorableValueMacro.self, PropertyMarker.self,
    ]
  }
#else
  /// Nothing without the trait Macros: the target must have an entry point.
  @main
  struct SchemaPlugin {
    static func main() {}
  }
#endif
