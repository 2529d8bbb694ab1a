// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// One word of a query's text.
struct QueryToken: Sendable, Hashable {
  enum Kind: Sendable, Hashable {
    case name(String)
    /// A name in backquotes, which is never a keyword.
    case quotedName(String)
    case text(String)
    case pattern(String)
    case integer(Int128)
    case real(Double)
    /// Seconds since 1970.
    /// Seconds since 2001.
    case date(Double)
    case symbol(String)
    case end
  }

  let kind: Kind
  /// Where it begins, in characters from 1.
  let column: Int
  /// What stands in the text.
  let source: String

  /// What an error calls it.
  var shown: String { kind == .end ? "the end" : source.count > 40 ? "this" : source }

  static let keywords: Set<String> = ["true", "false", "nil", "null", "in"]
}
