// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// One token of a query text.
struct QueryToken: Sendable, Hashable {
  enum Kind: Sendable, Hashable {
    case name(String)
    /// A name in backquotes, which is never a keyword.
    case quotedName(String)
    case text(String)
    case pattern(String)
    case integer(Int128)
    case real(Double)
    /// Seconds since 2001.
    case date(Double)
    case symbol(String)
    case end
  }

  let kind: Kind
  /// The column of the first character, from 1.
  let column: Int
  /// The spelling in the query text.
  let source: String

  /// The token as error messages show it.
  var shown: String { kind == .end ? "the end" : source.count > 40 ? "this" : source }

  static let keywords: Set<String> = ["true", "false", "nil", "null", "in"]
}
