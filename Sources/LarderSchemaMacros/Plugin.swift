// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The compiler finds a macro by the name of a type of this module. The tests of the macros call the compiler: a
// target that depended on this module would be built for the machine that compiles too, with all that it needs.

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
