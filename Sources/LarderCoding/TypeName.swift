// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A type's name with its module and those it is nested in, the same in every process.
///
/// For a private or local type, `String(reflecting:)` returns `App.(unknown context at
/// $55d0…).Car`: the address differs in every process, and is omitted. So two private types of one
/// name in one module have the same name here; ``privateContext(of:)`` distinguishes them.
package func stableTypeName(_ type: Any.Type) -> String {
  // As `String(reflecting:)`, which searches all protocol conformances of the process several times.
  let name = _typeName(type)
  guard name.utf8.contains(UInt8(ascii: "(")) else { return name }
  let parts = name.split(separator: ".", omittingEmptySubsequences: false)
  return parts.filter { !$0.hasPrefix(anonymous) }.joined(separator: ".")
}

/// Returns the address of the context of a private or local type in this process, or `nil` if the type
/// can be named in its whole module. Another declaration of the name has another context.
package func privateContext(of type: Any.Type) -> UInt? {
  guard let start = _typeName(type).rest(behind: anonymous) else { return nil }
  return UInt(start.prefix { $0.isHexDigit }, radix: 16)
}

private let anonymous = "(unknown context at "

extension String {
  /// Returns the rest behind a part and the sign of an address, or `nil` without the part.
  fileprivate func rest(behind part: String) -> Substring? {
    guard utf8.contains(UInt8(ascii: "(")), let range = firstRange(of: part) else { return nil }
    let rest = self[range.upperBound...]
    return rest.hasPrefix("$") ? rest.dropFirst() : rest
  }
}
