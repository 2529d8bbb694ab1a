// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A type's name with its module and those it is nested in, the same in every process.
///
/// For a private or local type, `String(reflecting:)` returns `App.(unknown context at
/// $55d0…).Car`: the address differs in every process, and is omitted. So two private types of one
/// name in one module have the same name here.
package func stableTypeName(_ type: Any.Type) -> String {
  // As `String(reflecting:)`, which searches all protocol conformances of the process several times.
  let name = _typeName(type)
  guard name.utf8.contains(UInt8(ascii: "(")) else { return name }
  let parts = name.split(separator: ".", omittingEmptySubsequences: false)
  return parts.filter { !$0.hasPrefix("(unknown context at ") }.joined(separator: ".")
}
