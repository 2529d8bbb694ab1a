// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

/// The full-text condition of a query.
struct TextSearch: Sendable {
  /// The name of the index, or `nil` for the only full-text index of the type.
  let index: String?
  let text: String
  /// The condition, or `nil` if no object can match.
  let expression: Result<TextExpression?, TextQueryParser.Failure>

  /// Returns the search for the objects that match this one and another.
  func and(_ other: TextSearch) -> TextSearch {
    let text = "(\(text)) AND (\(other.text))"
    if let index, let otherIndex = other.index, index != otherIndex {
      let message =
        "It searches the indexes \"\(index)\" and \"\(otherIndex)\". Search one of them."
      return TextSearch(index: index, text: text, expression: .failure(.init(message: message)))
    }
    if case .failure = expression { return self }
    let both = expression.flatMap { first in
      other.expression.flatMap { second -> Result<TextExpression?, TextQueryParser.Failure> in
        guard let first, let second else { return .success(nil) }
        return Result { () throws(TextQueryParser.Failure) -> TextExpression? in
          try TextQueryParser.both(first, second)
        }
      }
    }
    return TextSearch(index: index ?? other.index, text: text, expression: both)
  }
}

extension Query {
  /// Returns the query restricted to the objects whose texts match a full-text query.
  ///
  /// ```swift
  /// static let indexes = [Index<Article>("body", fullText: \.title, \.body)]
  ///
  /// let articles = try store.objects(Article.self)
  ///   .where(\.year >= 2020)
  ///   .matching("swift concurren* \"data race\" NOT java")
  ///   .limit(20)
  ///   .fetch()
  /// ```
  ///
  /// The words must all match. A word ends with `*` if other words may begin with it; words in
  /// quotation marks must follow each other in one text; `OR`, `AND`, `NOT` and parentheses combine
  /// conditions, and `OR` binds weakest. Case and diacritical marks make no difference. See
  /// <doc:FullText>.
  ///
  /// Without a sort, the objects are in the order of their rank: the best match is first. An object
  /// that any process has saved before the query is found, also while its index is being built; the
  /// query then decodes all objects.
  ///
  /// The query throws ``ObjectError/Code/invalidTextQuery`` if the text is no query, or
  /// if the type has no such index. For what a user has typed, prefer ``matching(words:in:)``.
  ///
  /// - Parameters:
  ///   - text: The full-text query.
  ///   - index: The name of the full-text index; needed if the type has several.
  /// - Returns: The restricted query. The objects must match all searches of a query, which search one
  ///   index.
  /// - Complexity: When it runs, O(*k* log *k*) in the objects that contain a word of the query.
  public func matching(_ text: String, in index: String? = nil) -> Query {
    let expression = Result<TextExpression?, TextQueryParser.Failure> {
      () throws(TextQueryParser.Failure) in try TextQueryParser.parse(text)
    }
    return searching(TextSearch(index: index, text: text, expression: expression))
  }

  /// Returns the query restricted to the objects that contain all words of a text, whatever characters
  /// the text contains.
  ///
  /// Nothing in the text is an operator, so it can be what a user has typed. If it contains no word,
  /// no object matches. In all else the query is as with ``matching(_:in:)``.
  ///
  /// - Parameters:
  ///   - words: The text; at most 200 words of it count.
  ///   - index: The name of the full-text index; needed if the type has several.
  /// - Returns: The restricted query. The objects must match all searches of a query, which search one
  ///   index.
  public func matching(words: String, in index: String? = nil) -> Query {
    let expression = TextQueryParser.words(in: words)
    return searching(TextSearch(index: index, text: words, expression: .success(expression)))
  }

  /// Returns the matching objects with their rank.
  ///
  /// - Returns: The objects in the query's order. Without ``matching(_:in:)``, all scores are 0.
  /// - Throws: ``ObjectError/Code/invalidTextQuery``; the errors of `fetch()`.
  public func matches() throws -> [TextMatch<Object>] {
    let terms = (try? search?.expression.get())?.terms ?? []
    return try run("query", empty: []) { run, snapshot in
      var run = run
      let hits = try run.textHits(snapshot)
      run.plan.sequences = hits?.map(\.sequence)
      let scores = Dictionary(
        (hits ?? []).map { ($0.sequence, $0.score) }, uniquingKeysWith: { first, _ in first })
      let found = try run.foundWithChildren(snapshot)
      if run.record.isBounded == true {
        run.kind.noteUse(of: found.map { $0.object() }, run.record.number, snapshot.view)
      }
      return found.map {
        TextMatch(object: $0.object(), score: scores[$0.sequence] ?? 0, terms: terms)
      }
    }
  }

  /// Returns the matching objects with their rank, without blocking a thread of the cooperative pool.
  ///
  /// - Returns: The objects in the query's order.
  /// - Throws: The errors of the synchronous overload.
  public func matches() async throws -> [TextMatch<Object>] {
    try await BackgroundExecutor.shared.run { try self.matches() }
  }
}

/// An object that matches a full-text query.
public struct TextMatch<Object: Storable>: Sendable {
  /// The object.
  public let object: Object
  /// The rank: the greater, the better. Scores of one query are comparable; those of different queries
  /// are not.
  public let score: Double
  let terms: [TextTerm]

  /// Returns the part of a text with the most words of the query.
  ///
  /// ```swift
  /// for match in try store.objects(Article.self).matching("data race").matches() {
  ///   print(match.snippet(of: match.object.body) { "[\($0)]" })   // … a [data] [race] is …
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - text: The text, usually a property of the object.
  ///   - count: The maximum number of words in the snippet.
  ///   - mark: Returns a word of the query as it is to be shown, for example in bold type.
  /// - Returns: The snippet. An ellipsis shows that the text begins earlier or continues.
  public func snippet(
    of text: String, words count: Int = 16, _ mark: (String) -> String = { $0 }
  ) -> String {
    TextSnippet(text, terms: terms).text(words: Swift.max(count, 1), mark)
  }
}
