// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

// The full-text condition of a query becomes a list of sequence numbers, which the plan visits instead
// of a scan. The postings of a word show which objects contain it, not where: for a phrase, the
// objects that contain all its words are decoded. While the index is incomplete, all objects are.

extension QueryExecution {
  /// Returns the objects that match the full-text condition, by rank or, if the query has a sort, in
  /// the order of insertion; `nil` if the query has no such condition.
  func textHits(_ snapshot: borrowing Snapshot) throws -> [TextHit]? {
    guard let search = query.search else { return nil }
    if query.start != nil, query.sorts.isEmpty {
      throw kind.invalid(
        search,
        "The rank of an object depends on other objects, so it is not a position. Add a sort, or "
          + "use limit and offset.")
    }
    let (index, found) = try kind.searched(search)
    guard let expression = found else { return [] }
    let stored = record.indexes.first { index.isStored(as: $0) && $0.isComplete }
    let ranking =
      if let stored {
        try ranking(of: expression, index, stored.number, snapshot)
      } else {
        try scannedRanking(of: expression, index, snapshot)
      }
    let hits = ranking.hits(expression)
    return query.sorts.isEmpty ? TextRanking.ranked(hits) : hits
  }

  private func ranking(
    of expression: TextExpression, _ index: Index<Object>, _ number: UInt32,
    _ snapshot: borrowing Snapshot
  ) throws -> TextRanking {
    var ranking = TextRanking(totals: try ObjectReading.textTotals(of: number, snapshot))
    for term in expression.allTerms where ranking.postings[term] == nil {
      ranking.postings[term] = try ObjectReading.postings(
        of: term.word, isPrefix: term.isPrefix, in: number, snapshot)
    }
    for phrase in expression.phrases where ranking.phrases[phrase] == nil {
      var found: Set<UInt64> = []
      for hit in ranking.hits(.all(phrase.map { .word($0) })) {
        if try contains(phrase, index, hit.sequence, snapshot) { found.insert(hit.sequence) }
      }
      ranking.phrases[phrase] = found
    }
    return ranking
  }

  /// Returns whether an object contains a phrase. The query passes over one that is damaged, or that it
  /// cannot decode and need not.
  private func contains(
    _ phrase: [TextTerm], _ index: Index<Object>, _ sequence: UInt64, _ snapshot: borrowing Snapshot
  ) throws -> Bool {
    do {
      return try ObjectReading.withObject(
        type: record.number, sequence: sequence, in: snapshot
      ) { head, id, bytes in
        guard let decoded = try decoded(head, id, bytes) else { return false }
        let object = ObjectTypeDescriptor<Object>.object(of: decoded)
        return TextExpression.contains(phrase, in: index.words(of: object))
      } ?? false
    } catch let damage as DamagedObject {
      pass(over: kind.damaged(damage), sequence)
      return false
    }
  }

  /// Returns the ranking without the index.
  private func scannedRanking(
    of expression: TextExpression, _ index: Index<Object>, _ snapshot: borrowing Snapshot
  ) throws -> TextRanking {
    var ranking = TextRanking(totals: TextTotals())
    let (terms, phrases) = (Set(expression.allTerms), Set(expression.phrases))
    try ObjectReading.scan(type: record.number, in: snapshot) { damage in
      pass(over: kind.damaged(damage), damage.sequence)
      return true
    } _: { head, id, bytes in
      guard let decoded = try decoded(head, id, bytes) else { return true }
      let texts = index.words(of: ObjectTypeDescriptor<Object>.object(of: decoded))
      let vector = TextVector(texts.flatMap { $0 })
      if vector.length == 0 { return true }
      ranking.totals.count(vector.length)
      for term in terms {
        let occurrences = vector.words.reduce(0 as UInt64) {
          term.matches($1.bytes) ? $0 + UInt64($1.occurrences) : $0
        }
        guard occurrences > 0 else { continue }
        ranking.postings[term, default: []].append(
          Posting(
            sequence: head.sequence, occurrences: UInt32(clamping: occurrences),
            length: vector.length))
      }
      for phrase in phrases where TextExpression.contains(phrase, in: texts) {
        ranking.phrases[phrase, default: []].insert(head.sequence)
      }
      return true
    }
    return ranking
  }

  /// The description of the full-text condition.
  var searchText: String? {
    query.search.map { search in
      let name = (try? kind.searched(search).index.name) ?? search.index ?? ""
      return "search index \"\(name)\" for: \(search.text)"
        + (query.sorts.isEmpty ? ", best matches first" : "")
    }
  }
}

extension Query {
  /// Returns the result of a query without objects, after the check of its conditions.
  func checked<R>(_ empty: R, _ kind: ObjectTypeDescriptor<Object>) throws -> R {
    try predicate.validate(kind.name)
    if let search { _ = try kind.searched(search) }
    return empty
  }
}

extension ObjectTypeDescriptor {
  /// Returns the index and the condition of a search; the condition is `nil` if no object can match.
  ///
  /// - Throws: ``ObjectError/Code/invalidTextQuery``, also if no object of the type is stored.
  func searched(_ search: TextSearch) throws -> (index: Index<Object>, TextExpression?) {
    let index = try index(of: search)
    switch search.expression {
    case .success(let expression): return (index, expression)
    case .failure(let failure): throw invalid(search, failure.message)
    }
  }

  private func index(of search: TextSearch) throws -> Index<Object> {
    let indexes = declared.filter { $0.isFullText }
    if let wanted = search.index {
      if let index = indexes.first(where: { $0.name == wanted }) { return index }
      throw invalid(search, "The type declares no full-text index \"\(wanted)\".")
    }
    guard let index = indexes.first, indexes.count == 1 else {
      throw invalid(
        search,
        indexes.isEmpty
          ? "The type declares no full-text index. Add Index(_:fullText:) to its indexes."
          : "The type declares several full-text indexes. Pass the name of one of them.")
    }
    return index
  }

  fileprivate func invalid(_ search: TextSearch, _ reason: String) -> ObjectError {
    let isLong = search.text.unicodeScalars.count > 2_000
    let shown = isLong ? String(search.text.unicodeScalars.prefix(2_000)) + "…" : search.text
    return ObjectError(
      .invalidTextQuery, type: name,
      "The full-text query '\(shown)' is not valid. \(reason)", index: search.index)
  }
}
